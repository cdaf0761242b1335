#!/bin/bash
# I/O daemons are killed under load, away, and frozen.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin restart_iod "$1"
start_cluster 4
start_mount a

mkdir "$mnt/load"
"$bin/ackload" write "$mnt/load" "$work/journal" 60 >"$work/ackload" 2>&1 &
load=$!
for number in 1 2 3 4 2; do
    sleep 1.$number # The moment of the blow varies; there is no event to wait for.
    crash "iod$number"
    start_iod "$number"
done
kill -TERM "$load"
wait "$load" || fail "the load ended badly"
cat "$work/ackload"
grep -q ' 0 failed' "$work/ackload" || fail "changes failed although each daemon came back in time"
drop_caches
"$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after five kills of I/O daemons"
fsck_clean
note "kill and restart under load"

# One is away: its morsels give an error after io_timeout, everything else goes on.
start_mount soft io_timeout=2s
for number in 1 2 3 4; do # One file on one server each; which is which shows in its reads.
    mkdir "$mnt/d$number"
    policy "$mnt/d$number" stripe_width=1
    dd if=/dev/urandom of="$mnt/d$number/f" bs=1M count=3 status=none conv=fsync
    sha256sum <"$mnt/d$number/f" >"$work/sum$number"
done
dd if=/dev/urandom of="$mnt/wide" bs=1M count=16 status=none conv=fsync
sha256sum <"$mnt/wide" >"$work/sumwide"

# broken NAME: which of the files cannot be read now; each answer within the time-out and some.
broken() {
    local number before took list=
    drop_caches
    for number in 1 2 3 4; do
        before=$(now_ms)
        timeout 60 sha256sum <"$mnt/d$number/f" >"$work/sum" 2>"$work/out" || list+=" $number"
        took=$(($(now_ms) - before))
        [ "$took" -le 12000 ] || fail "reading took $took ms; io_timeout is 2 s"
        [[ " $list " = *" $number "* ]] || cmp -s "$work/sum" "$work/sum$number" || fail "wrong bytes in file $number"
        [[ " $list " != *" $number "* ]] || grep -qE 'Input/output error|timed out' "$work/out" || fail "$(cat "$work/out")"
    done
    echo $list
}

crash iod3
gone=$(broken)
if timeout 60 cat "$mnt/wide" >/dev/null 2>&1; then fail "a file over all servers was read without one of them"; fi
[ "$(wc -w <<<"$gone")" -le 3 ] || fail "all files are broken without one of four servers"
echo x >"$mnt/new-name" 2>/dev/null || true
ls "$mnt" >/dev/null || fail "names cannot be listed without one of four servers"
grep -qiE 'iod|server|127\.0\.0\.1' "$work/log/mount-soft" || fail "the mount's log says nothing of the dead server"
start_iod 3
wait_for 10 "the file over all servers is readable again" cat "$mnt/wide"
[ -z "$(broken)" ] || fail "files are still broken after the server's return"
cmp -s <(sha256sum <"$mnt/wide") "$work/sumwide" || fail "wrong bytes after the server's return"
note "away: files$gone of 1 2 3 4 were broken, and whole after its return"

kill -STOP "${pid_of[iod3]}"
gone=$(broken)
if timeout 60 cat "$mnt/wide" >/dev/null 2>&1; then fail "a file over all servers was read with one of them frozen"; fi
kill -CONT "${pid_of[iod3]}"
wait_for 10 "the file over all servers is readable again" cat "$mnt/wide"
[ -z "$(broken)" ] || fail "files are still broken after the server woke up"
note "frozen: files$gone of 1 2 3 4 were broken, and whole after it woke up"

# Hard: it waits for ever, and lets itself be interrupted.
start_mount hard hard
for number in 1 2 3 4; do
    kill -STOP "${pid_of[iod$number]}"
done
drop_caches
cat "$mnt/wide" >/dev/null 2>"$work/out" &
reader=$!
sleep 3
kill -0 "$reader" 2>/dev/null || fail "a hard mount gave up: $(cat "$work/out")"
kill -TERM "$reader"
before=$(now_ms)
wait "$reader" 2>/dev/null && fail "the reader ended well without its servers"
took=$(($(now_ms) - before))
[ "$took" -le 5000 ] || fail "a signal took $took ms to end a waiting reader"
timeout 60 sha256sum <"$mnt/wide" >"$work/sum" &
reader=$!
sleep 1
for number in 1 2 3 4; do
    kill -CONT "${pid_of[iod$number]}"
done
wait "$reader" || fail "a hard read did not go on when the servers came back"
cmp -s "$work/sum" "$work/sumwide" || fail "wrong bytes"
note "hard: interrupted after $took ms, and goes on by itself"
fsck_clean
cluster_end
