#!/bin/bash
# Space is evened out: three servers are full of files with two and three copies, and a fourth one joins. Under steady writers and readers, while its
# server and the manager are killed, copies move to it as the dry run said; no group has fewer than two complete ones; and in the end disks are as full
# as was promised, all copies are equal, and everything reads as it should with any server away.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin rebalance "$1"

# start_server N RATE: of recovery.
start_server() {
    own_disk "iod$1" 512M
    start_iod "$1" --recovery-rate "$2"
}

start_meta --lease-time 2s --heartbeat 300ms
for i in 1 2 3; do
    start_server "$i" 12M
done
wait_for 60 "3 servers are up" servers_up 3
start_mount a
mkdir "$mnt/two" "$mnt/three" "$mnt/one"
policy "$mnt/two" replicas=2 stripe_width=1
policy "$mnt/three" replicas=3 stripe_width=1
policy "$mnt/one" replicas=1
start_mount b
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well

mkdir "$work/reference" "$work/reference/two" "$work/reference/three"
for i in {1..144}; do
    head -c "$((1000000 + RANDOM * 20))" /dev/urandom >"$work/reference/two/$i"
done
for i in {1..24}; do
    head -c "$((1000000 + RANDOM * 20))" /dev/urandom >"$work/reference/three/$i"
done
cp -r "$work/reference/two" "$two/kept"
cp -r "$work/reference/three" "$mnt/three/kept"
head -c 5000000 /dev/urandom >"$work/reference/one"
cp "$work/reference/one" "$mnt/one/kept"
find "$two/kept" "$mnt/three/kept" "$mnt/one/kept" -type f -exec sync {} +
start_steady "$two" "$beside"

rebalance() {
    morsel rebalance --json "$@"
}

# used_of SERVER: per mille of its disk.
used_of() {
    morsel status --json | jq ".servers[] | select(.id == $1) | (.bytes_total - .bytes_free) * 1000 / .bytes_total | floor"
}

[ "$(rebalance --dry-run | jq '.moves | length')" = 0 ] || fail "three servers that are alike are to be evened out: $(rebalance --dry-run)"
[ "$(rebalance --status | jq .moves)" = 0 ] || fail "something has been evened out"
morsel rebalance --stop >"$work/out" 2>&1 && fail "there was something to be stopped"
start_server 4 4M
wait_for 60 "4 servers are up" servers_up 4
seen_well

# A dry run says it all, and changes nothing.
rebalance --dry-run >"$work/plan"
note "planned: $(jq -c '[.moves[] | [.group, .from, .to, .bytes]]' "$work/plan")"
moves=$(jq '.moves | length' "$work/plan")
[ "$moves" -ge 2 ] || fail "too few copies are to move to the new server: $(cat "$work/plan")"
[ "$(jq '[.moves[].to] | unique == [4]' "$work/plan")" = true ] || fail "copies are to go elsewhere: $(cat "$work/plan")"
[ "$(jq '[.one_copy[].bytes] | add >= 5000000' "$work/plan")" = true ] || fail "files with one copy are not named: $(cat "$work/plan")"
grep -q 'recopy' <<<"$(morsel rebalance --dry-run)" || fail "what to do about files with one copy is not said"
morsel rebalance <<<no >"$work/out" 2>&1 && fail "it was done although nobody said yes"
grep -q 'nothing was changed' "$work/out" || fail "said when nobody says yes: $(cat "$work/out")"
rebalance >"$work/out" 2>&1 && fail "it was done without being asked"
[ "$(rebalance --status | jq .moves)" = 0 ] || fail "something moves although it was only looked at"
full=$(used_of 1)

# At no moment that can be seen has a group fewer than two complete copies. A manager that has just started knows nothing of servers that live.
watch_copies 'select(.move != null and all(.copies[]; .state != "unknown" or .server == 4))'

# has_come PART: so many hundredths of the bytes have come.
has_come() {
    [ "$(rebalance --status | jq ".bytes_left * 100 < .bytes * (100 - $1)")" = true ]
}

[ "$(rebalance --yes | jq .begun)" = true ] || fail "it was not begun"
rebalance --dry-run >"$work/out" 2>&1 && fail "another plan was made while one is carried out"
grep -q 'are being moved already' "$work/out" || fail "said of another plan: $(cat "$work/out")"
# Server 4, which is slow so far, is killed long before it has any copy, for with one it would be missed; and the manager before and behind that.
wait_for 120 "some of it has come" has_come 3
morsel rebalance --status
[ "$(rebalance --status | jq '.bytes_left * 100 > .bytes * 30')" = true ] || fail "most of it has come at once: $(rebalance --status)"
crash meta
start_meta
goes_on 100
crash iod4
goes_on 100
start_iod 4 --recovery-rate 12M
crash meta
start_meta
timeout 300 "$bin/morsel" rebalance --status --wait --json --manager "$manager" --timeout 60s >"$work/out" || fail "waited for: $(cat "$work/out")"
[ "$(jq "[.running, .moved, .given_up] == [false, $moves, 0]" "$work/out")" = true ] || fail "not all have moved: $(cat "$work/out")"
seen_well
copies_watched
goes_on 200
end_steady "evened out"

# It came to what was said, but for what was written meanwhile; and nothing else would help.
for i in 1 2 3 4; do
    want=$(jq ".servers[] | select(.server == $i) | .used_then * 1000 / .total | floor" "$work/plan")
    is=$(used_of "$i")
    note "server $i: $is of 1000 are used, $want were to be"
    [ $((is - want)) -lt 60 ] && [ $((want - is)) -lt 60 ] || fail "server $i is not as full as was said"
    [ "$is" -le $((full + 20)) ] || fail "server $i is fuller than any was"
done
[ "$(used_of 4)" -ge $((full / 3)) ] || fail "the new server has not got its share"
[ "$(rebalance --dry-run | jq '.moves | length')" = 0 ] || fail "something is left to be moved: $(rebalance --dry-run)"

copies_are_equal
for away in 1 2 3 4; do
    crash "iod$away"
    drop_caches
    diff -r "$work/reference/two" "$two/kept" || fail "files with two copies are different without server $away"
    diff -r "$work/reference/three" "$mnt/three/kept" || fail "files with three copies are different without server $away"
    start_iod "$away"
    seen_well
done
cmp "$work/reference/one" "$mnt/one/kept"
cluster_end
