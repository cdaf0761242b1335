#!/bin/bash
# Files with two copies while one server's disk is slow, or hangs: the server is alive, and answers whatever needs no disk. Case 12 of
# docs/replication.md: it is left behind, and named; no call waits for long; when its disk is fast again it takes part again, after a pause.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_slow "$1"
limit_ms=2000
pause_ms=$((limit_ms + 3500)) # Behind the limit, a vote and the end of a mirror lease, as when a host falls silent.

# disk VICTIM READ_MS SYNC_MS: how long its disk takes from now on.
disk() {
    echo "$2 $3" >"$work/ms$1"
}
start_slow_iod() {
    inject=(env LD_PRELOAD="$bin/slow_sync.so" SLOW_SYNC_FILE="$work/ms$1" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0")
    start_iod "$1"
    inject=()
}
start_meta
for i in 1 2; do
    disk "$i" 0 0
    start_slow_iod "$i"
done
wait_for 60 "both servers are up" servers_up 2
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
start_mount b
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well

names_culprit() {
    local status
    status=$(morsel status)
    [[ $status == *"goes on without server $1, which held up changes for more than $limit_ms ms: look at its disk"* ]]
}

# forget_pauses VICTIM: the other one begins anew.
forget_pauses() {
    stop "iod$((3 - $1))"
    start_slow_iod $((3 - $1))
    seen_well
}

# slow_under_work VICTIM READ_MS SYNC_MS WHAT: in one try of three no call takes longer than that, for a busy machine is late now and then.
slow_under_work() {
    local try longest victim=$1 read=$2 sync=$3 what=$4
    for try in 1 2 3; do
        start_steady "$two" "$beside"
        disk "$victim" "$read" "$sync"
        seen_alone "$victim"
        wait_for 60 "status names server $victim" names_culprit "$victim"
        goes_on 300
        grep -qE "storage server $victim,? holds up changes, for more than $limit_ms ms" "$work"/log/iod* || fail "$what: no log names server $victim"
        disk "$victim" 0 0
        seen_well
        goes_on 100
        end_steady "$what"
        forget_pauses "$victim"
        longest=$(jq '[.longest_ms[]] | max' "$work/steady.json")
        [ "$longest" -gt "$pause_ms" ] || return 0
        note "$what: a call took $longest ms, try $try"
    done
    fail "$what: a call took $longest ms, and must not take more than $pause_ms"
}

for victim in 2 1; do
    slow_under_work "$victim" 0 600000 "the disk of server $victim hangs"
    slow_under_work "$victim" 100 1500 "the disk of server $victim is slow"
done

# Who is alone stays, however slow.
start_steady "$two" "$beside"
crash iod2
seen_alone 2
disk 1 0 2500
wait_for 60 "the log says that all wait for server 1" grep -q "storage server 1, holds up changes.* no other one is there" "$work/log/iod1"
disk 1 0 0
goes_on 100
start_slow_iod 2
seen_well
end_steady "slow and alone"

# What the servers have is the same.
head -c 5M /dev/urandom >"$work/random"
cp "$work/random" "$two/random"
sync "$two/random"
for away in 1 2; do
    seen_well
    crash "iod$away"
    drop_caches
    cmp "$two/random" "$work/random" || fail "it is another file without server $away"
    start_slow_iod "$away"
done
seen_well
fsck_clean
cluster_end
