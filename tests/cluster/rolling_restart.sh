#!/bin/bash
# Each I/O daemon is restarted in an orderly way, one behind the other, while writers, verifying readers and fsync go on: no call fails, and nobody
# waits for long. Two daemons, then three, with two copies of each file. In between `morsel recover status --wait` says when the next one may go.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin rolling_restart "$1"

PAUSE_MS=2000 # What is meant is 150 ms, which a machine that has time keeps to; a busy one, with sanitizers, is late.

start_cluster 2
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
start_mount b
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well

# roll COUNT: it leaves in $took how long the longest call took.
roll() {
    local i
    start_steady "$two" "$beside"
    for ((i = 1; i <= $1; i++)); do
        stop "iod$i"
        goes_on 50
        start_iod "$i"
        complete
        goes_on 50
    done
    end_steady "$1 servers restarted"
    took=$(jq '[.longest_ms[]] | max' "$work/steady.json")
}

complete() {
    morsel recover status --wait --timeout=60s >"$work/complete" || fail "not complete within a minute: $(cat "$work/complete")"
}

in_time $PAUSE_MS "the longest call while two servers were restarted" roll 2
! grep -h "no other server has everything" "$work"/log/iod* || fail "a server was stopped that others needed"

# A server that is alone says so, and ends at once. Who waits for the copies meanwhile is told that they are not there.
stop iod2
! morsel recover status --wait --timeout=100ms >"$work/out" || fail "complete without a server: $(cat "$work/out")"
begun=$(now_ms)
stop iod1
[ $(($(now_ms) - begun)) -lt 3000 ] || fail "a server that is alone took $(($(now_ms) - begun)) ms to stop"
grep -q "no other server has everything" "$work/log/iod1" || fail "server 1 was alone, and did not say so"
start_iod 1
start_iod 2
complete

start_iod 3
wait_for 60 "3 servers are up" servers_up 3
mkdir "$work/mnt/a/three"
policy "$work/mnt/a/three" replicas=2
two=$work/mnt/a/three beside=$work/mnt/b/three
complete
in_time $PAUSE_MS "the longest call while three servers were restarted" roll 3

# All at once: nobody waits for another one.
begun=$(now_ms)
for i in 1 2 3; do
    kill -TERM "${pid_of[iod$i]}"
done
for i in 1 2 3; do
    ends_well "iod$i"
done
note "all at once: $(($(now_ms) - begun)) ms"
[ $(($(now_ms) - begun)) -lt 6000 ] || fail "three servers took $(($(now_ms) - begun)) ms to stop together"

# A second signal ends it at once, although the other one could take over soon.
for i in 1 2 3; do
    start_iod "$i"
done
complete
kill -STOP "${pid_of[iod2]}" "${pid_of[iod3]}"
kill -TERM "${pid_of[iod1]}"
wait_for 60 "server 1 has heard the signal" grep -q "stopping" "$work/log/iod1"
kill -TERM "${pid_of[iod1]}"
ends_well iod1
kill -CONT "${pid_of[iod2]}" "${pid_of[iod3]}"
start_iod 1
complete
fsck_clean
cluster_end
