#!/bin/bash
# Files with two copies, under steady writers: a server is lost for good and replaced by itself; another one on command; a third one is drained
# without a copy less at any moment. Each time everything reads as it should with any single one of the others away.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin rebuild "$1"

start_cluster 4 --lease-time 2s --heartbeat 300ms --rebuild-after 3s
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
start_mount b
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well

# What must not change, on all groups.
mkdir "$work/reference"
for i in {1..24}; do
    head -c "$((RANDOM * 20 + 1))" /dev/urandom >"$work/reference/$i"
done
cp -r "$work/reference" "$two/kept"
sync -f "$two"

# What the manager says of one server: .places, .has_left ...
server() {
    morsel status --json | jq ".servers[] | select(.id == $1) | $2"
}

# It holds no place, and all copies are complete.
is_out() {
    [ "$(server "$1" .places)" = 0 ] && groups_are_well
}

has_left() {
    [ "$(server "$1" .has_left)" = true ]
}

seen_out() {
    wait_for 120 "server $1 holds no copy, and all are complete" is_out "$1"
}

# all_is_there SERVER...: with each of them away, one after the other, everything reads as it should.
all_is_there() {
    local away
    for away in "$@"; do
        crash "iod$away"
        drop_caches
        diff -r "$work/reference" "$two/kept" || fail "what was kept is different without server $away"
        start_iod "$away"
        seen_well
    done
}

# Server 2 is lost for good. Nobody says a word.
start_steady "$two" "$beside"
crash iod2
rm -rf "$work/iod2"
goes_on 200
seen_out 2
goes_on 200
end_steady "replaced by itself"
all_is_there 1 3 4
note "server 2 was replaced by itself"

# Server 3 as well, while that is paused: on command, by a new one where that has none.
morsel recover pause >/dev/null
start_iod 5
start_iod 6 # What is lost stays a voter: so there is a majority still with another one away.
seen_well
start_steady "$two" "$beside"
crash iod3
rm -rf "$work/iod3"
seen_alone 3
goes_on 100
[ "$(server 3 '.places > 0')" = true ] || fail "server 3 was replaced although that is paused"
morsel recover replace 3 5
seen_out 3
goes_on 200
end_steady "replaced on command"
all_is_there 1 4 5 6

# Server 1 is drained under load. No group has a copy less than two, at no moment that can be seen.
start_steady "$two" "$beside"
watch_copies . 30
morsel iod drain 1
seen_out 1
copies_watched
goes_on 200
end_steady "drained"
all_is_there 4 5 6
[ -z "$(find "$work/iod1/objects" -type f)" ] || fail "server 1 still has objects: $(find "$work/iod1/objects" -type f | head -n 3)"
wait_for 60 "server 1 has left, and says so" has_left 1
crash iod1
drop_caches
diff -r "$work/reference" "$two/kept" || fail "what was kept is different without server 1"
cluster_end
