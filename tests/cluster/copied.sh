#!/bin/bash
# A data directory that was copied: one of the two goes on, the other one is refused for good, and a server without a copy always comes back.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin copied "$1"
start_cluster 2
start_mount a
dd if=/dev/urandom of="$mnt/file" bs=1M count=8 status=none conv=fsync
sum=$(sha256sum <"$mnt/file")

readable() {
    drop_caches
    [ "$(timeout 120 sha256sum <"$mnt/file")" = "$sum" ] || fail "$1: the file is not what was written"
}

# kept DIRECTORY KEY: what its identity says.
kept() {
    sed -nE "s/^$2 = //p" "$work/$1/identity"
}

# let_in DIRECTORY COUNT: its start with that number was let in.
let_in() {
    [ "$(kept "$1" start)" = "$2" ]
}

# start_raw NAME DIRECTORY: nobody waits for it.
start_raw() {
    "$bin/morsel-iod" --data-dir "$work/$2" --listen 127.0.0.1:0 --manager "$manager" --reserve 0 >>"$work/log/$1" 2>&1 </dev/null &
    pid_of[$1]=$!
}

gone() {
    ! kill -0 "${pid_of[$1]}" 2>/dev/null
}

# refused NAME DIRECTORY: it ends, and has said why and what to do; its start was not counted.
refused() {
    local code=0
    wait_for 60 "$1 is refused" gone "$1"
    wait "${pid_of[$1]}" || code=$?
    unset "pid_of[$1]"
    [ "$code" = 1 ] || fail "$1 ended with $code"
    grep -q "this data directory is an old copy of that of server $(kept "$2" node), and another one was let in since, at .*: remove .*$2; or never start the other one again" \
        "$work/log/$1" || fail "$1 does not say what happened, and what to do: $(tail -n 3 "$work/log/$1")"
}

wait_for 60 "the first start is counted" let_in iod1 1
stop iod1
cp -a "$work/iod1" "$work/copy"
start_iod 1
wait_for 60 "the second start is counted" let_in iod1 2
start_raw copied copy
refused copied copy
crash iod1
start_raw copied copy
refused copied copy
let_in copy 1 || fail "a start that was refused was counted"
start_iod 1
wait_for 60 "the original is let in" let_in iod1 3
readable "after two starts of the copy"
note "a copy is refused for good, and the original goes on"

# Both at the same moment: whichever it is, it goes on for good.
for round in 1 2 3; do
    stop iod1
    rm -rf "$work/copy"
    cp -a "$work/iod1" "$work/copy"
    before=$(kept iod1 start)
    start_raw one iod1
    start_raw two copy
    one_is_gone() {
        gone one || gone two
    }
    wait_for 60 "one of the two is refused" one_is_gone
    lost=two lost_in=copy won=one won_in=iod1
    gone two || { lost=one lost_in=iod1 won=two won_in=copy; }
    refused "$lost" "$lost_in"
    wait_for 60 "the other one is let in" let_in "$won_in" $((before + 1))
    let_in "$lost_in" "$before" || fail "the start of the one that was refused was counted"
    crash "$won"
    start_raw "$lost" "$lost_in"
    refused "$lost" "$lost_in"
    if [ "$won_in" = copy ]; then # Then that is the directory.
        rm -rf "$work/iod1"
        mv "$work/copy" "$work/iod1"
    fi
    start_iod 1
    wait_for 60 "it is let in again" let_in iod1 $((before + 2))
    readable "round $round"
    note "of two that start together one goes on: $won_in"
done

# No copy: it is let in again whatever died, wherever between the steps. The moment of the blow varies; there is no event to wait for.
for delay in 0 .002 .004 .006 .008 .01 .013 .016 .02 .025 .03 .04 .05 .07 .1; do
    crash iod1
    start_raw iod1 iod1
    sleep "$delay"
done
crash iod1
start_iod 1
before=$(kept iod1 start)
for delay in .01 .02 .03 .05 .08; do
    crash iod1
    crash meta
    start_raw iod1 iod1
    start_meta
    sleep "$delay"
    crash meta
    start_meta
    wait_for 60 "all are with the manager" servers_up 2
done
crash iod1
start_iod 1
wait_for 60 "all are with the manager" servers_up 2
[ "$(kept iod1 start)" -gt "$before" ] || fail "no start was counted"
nothing_pending() {
    [ "$(kept iod1 pending)" = 0000000000000000 ]
}
wait_for 60 "nothing is pending" nothing_pending
readable "after the kills"
fsck_clean
note "kills between the steps"

cluster_end
