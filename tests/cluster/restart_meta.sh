#!/bin/bash
# The manager is killed under load, and away for a while: nothing acknowledged is lost, open files go on, and calls work
# again within a second of its return.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin restart_meta "$1"
start_cluster 4
start_mount a

mkdir "$mnt/load"
"$bin/ackload" write "$mnt/load" "$work/journal" 60 >"$work/ackload" 2>&1 &
load=$!
for round in 1 2 3 4 5; do
    sleep 1.$round # The moment of the blow varies; there is no event to wait for.
    crash meta
    start_meta
done
kill -TERM "$load"
wait "$load" || fail "the load ended badly"
cat "$work/ackload"
grep -q ' 0 failed' "$work/ackload" || fail "changes failed although the manager came back in time"
"$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after five kills of the manager"
fsck_clean
note "kill and restart under load"

# Down: an open file can be read and written, also where nothing is cached.
dd if=/dev/urandom of="$work/bytes" bs=1M count=24 status=none
cp "$work/bytes" "$mnt/open"
exec 5<>"$mnt/open"
crash meta
drop_caches
cmp "$work/bytes" /dev/fd/5 2>/dev/null || timeout 20 cmp "$work/bytes" <(cat <&5) || fail "an open file cannot be read without the manager"
timeout 20 dd if=/dev/zero bs=1M count=8 status=none >&5 || fail "an open file cannot be written without the manager"
note "open files go on without the manager"

(stat "$mnt/load" >/dev/null && now_ms >"$work/answered") &
waiting=$!
sleep 0.5
kill -0 "$waiting" 2>/dev/null || [ -s "$work/answered" ] || fail "a call failed at once instead of waiting for the manager"
start_meta
back=$(now_ms)
wait "$waiting" || fail "a call that waited for the manager failed"
late=$(($(cat "$work/answered") - back))
[ "$late" -le 1500 ] || fail "the first call worked $late ms after the manager's return"
touch "$mnt/new" || fail "a file cannot be made after the manager's return"
late=$(($(now_ms) - back))
[ "$late" -le 2500 ] || fail "calls worked $late ms after the manager's return only"
exec 5>&-
[ "$(stat -c %s "$mnt/open")" -ge $((24 << 20)) ] || fail "the size of a file written without the manager is lost"
note "calls work $late ms after the manager's return"

# Down for longer than io_timeout: an error, no hang.
start_mount short io_timeout=2s
ls "$mnt" >/dev/null
crash meta
before=$(now_ms)
if timeout 30 stat "$mnt/something" >"$work/out" 2>&1; then fail "stat without a manager succeeded"; fi
took=$(($(now_ms) - before))
grep -qE 'Input/output error|timed out' "$work/out" || fail "stat without a manager: $(cat "$work/out")"
[ "$took" -ge 1000 ] && [ "$took" -le 10000 ] || fail "the error came after $took ms; io_timeout is 2 s"
start_meta
wait_for 5 "calls work again" stat "$mnt/new"
note "an error after $took ms"
fsck_clean
cluster_end
