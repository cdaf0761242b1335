#!/bin/bash
# A cluster of one I/O daemon, which has lost its votes, or is gone for good: its vote is taken out, others vote in its place, and files with two
# copies go on without one more server; what comes back of it is never let in.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin iod_gone "$1"

voters() {
    morsel status --json | jq -r ".voters | $1"
}
voters_are() {
    [ "$(voters '.change == null and all(.members[]; .state == "votes")')" = true ] &&
        [ "$(voters '[.members[].server] | map(tostring) | join(" ")')" = "$1" ]
}
become() {
    wait_for 60 "the voters are $1" voters_are "$1"
}
id_of() {
    voters ".members[] | select(.server == $1) | .id"
}
voter_is_not() {
    [ "$(id_of "$1")" != "$2" ]
}
is_down() {
    [ "$(morsel iod list --json | jq ".servers[] | select(.id == $1) | .up")" = false ]
}

# ---- One of two voters has lost its votes: the server's, and then the manager's.

start_meta
start_iod 1
become "0 1"
for who in 1 0; do
    lost=$(id_of $who)
    if [ $who = 1 ]; then
        stop iod1
        rm "$work/iod1/votes"
        start_iod 1
    else
        stop meta
        rm "$work/meta/votes"
        start_meta
    fi
    wait_for 60 "the vote of $who is replaced" voter_is_not $who "$lost"
    become "0 1"
done
note "lost votes of one of two are replaced"

# ---- It is gone for good.

start_mount a io_timeout=5s
echo lost >"$mnt/lost"
sync "$mnt/lost"
crash iod1
mv "$work/iod1" "$work/saved"
wait_for 60 "server 1 is down" is_down 1
version=$(voters .version) || [ "$version" -ge 2 ] || fail "no version of the voters" # The exit code says that a server is down.
start_iod 2
start_iod 3
waits_for_it() {
    grep -q "waits for server 1$" <<<"$(morsel status)"
}
wait_for 60 "the new ones wait for its vote" waits_for_it
[ "$(voters .version)" = "$version" ] || fail "the set changed without a majority"
morsel iod remove --lost 1 >"$work/out" || fail "it is not removed: $(cat "$work/out")"
become "0 2 3"
expect_error "Input/output error" cat "$mnt/lost"
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
for i in {1..8}; do
    echo "$i" >"$mnt/two/$i"
done
sync "$mnt"/two/*
crash iod3
for i in {1..8}; do
    echo more >>"$mnt/two/$i"
    [ "$(cat "$mnt/two/$i")" = "$i"$'\n'more ] || fail "file $i without server 3"
done
sync "$mnt"/two/*
start_iod 3
note "two copies, without one server"

# ---- What comes back of it is refused, and ends; it never votes nor serves.

mv "$work/saved" "$work/iod1"
code=0
timeout 60 "$bin/morsel-iod" --data-dir "$work/iod1" --listen 127.0.0.1:0 --manager "$manager" --reserve 0 >"$work/out" 2>&1 || code=$?
[ "$code" != 0 ] && [ "$code" != 124 ] || fail "the removed server ended with $code: $(cat "$work/out")"
grep -q "was removed from this cluster" "$work/out" || fail "it does not say why: $(cat "$work/out")"
become "0 2 3"
stop_mount a
cluster_end
