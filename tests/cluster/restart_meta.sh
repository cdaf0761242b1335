#!/bin/bash
# The manager is killed under load, and away for a while: nothing acknowledged is lost, open files go on, and calls work
# again within a second of its return.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin restart_meta "$1"
start_cluster 4 --lease-time 15s # What is read and written while the manager is down has time, on any machine.
start_mount a

mkdir "$mnt/load"
"$bin/ackload" write "$mnt/load" "$work/journal" 600 >"$work/ackload" 2>&1 &
load=$!
acknowledged() {
    [ "$(grep -cE '^(there|gone) ' "$work/journal")" -ge "$1" ]
}
for round in 1 2 3 4 5; do
    sleep 1.$round # The moment of the blow varies; there is no event to wait for.
    wait_for 60 "changes between the kills" acknowledged $((20 * round))
    crash meta
    start_meta
done
kill -TERM "$load"
wait "$load" || fail "the load ended badly"
cat "$work/ackload"
[ "$(sed -nE 's/.* ([0-9]+) changes acknowledged.*/\1/p' "$work/ackload")" -ge 100 ] || fail "too few changes between the kills to show anything"
grep -q ' 0 failed' "$work/ackload" || fail "changes failed although the manager came back in time"
"$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after five kills of the manager"
fsck_clean
note "kill and restart under load"

# Down: an open file can be read and written, also where nothing is cached.
coproc keep { "$bin/ackload" keep "$mnt/open" 12; }
# ask WORD SEED: have the holder of the open file do it.
ask() {
    local answer
    echo "$1 $2" >&"${keep[1]}"
    read -r -t 60 answer <&"${keep[0]}" || fail "$1 of an open file: no answer"
    [[ $answer = good* ]] || fail "$1 of an open file: $answer"
    note "$1 of an open file without the manager: $answer ms"
}
ask write 1
crash meta
drop_caches
ask read 1
ask write 2
ask read 2
drop_caches
ask read 2

# A machine that is busy is late now and then: one return of three must be in time.
for try in 1 2 3; do
    [ -z "${pid_of[meta]:-}" ] || crash meta
    rm -f "$work/answered"
    (mkdir "$mnt/waits$try" && now_ms >"$work/answered") &
    waiting=$!
    sleep 0.5
    kill -0 "$waiting" 2>/dev/null || fail "a call did not wait for the manager"
    start_meta
    back=$(now_ms)
    wait "$waiting" || fail "a call that waited for the manager failed"
    first=$(($(cat "$work/answered") - back))
    touch "$mnt/new$try" || fail "a file cannot be made after the manager's return"
    late=$(($(now_ms) - back))
    note "after the manager's return the first call worked in $first ms, and a file was made in $late ms"
    [ "$first" -gt 1500 ] || [ "$late" -gt 2500 ] || break
    [ "$try" -lt 3 ] || fail "calls worked $first and $late ms after the manager's return only"
done
ask read 2
eval "exec ${keep[1]}>&-" # Its end of input.
# shellcheck disable=SC2154 # coproc sets it
wait "$keep_PID" || fail "closing a file that was written without the manager failed"
[ "$(stat -c %s "$mnt/open")" = $((12 << 20)) ] || fail "the size of a file written without the manager is lost"
note "calls work $late ms after the manager's return"

# Down for longer than a lease period: space is reserved, and bytes are copied, when it is back, as with writes.
coproc space { python3 -c '
import os, sys
def told(call):
    try:
        call()
        return "good"
    except OSError as e:
        return e.strerror
fd, copy = (os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:])
os.write(fd, b"x" * 1048576)
os.fsync(fd)
print("ready", flush=True)
sys.stdin.readline()
print(told(lambda: os.posix_fallocate(fd, 0, 8 << 20)), flush=True)
print(told(lambda: os.copy_file_range(fd, copy, 1 << 20)), flush=True)
' "$mnt/space" "$mnt/copy"; }
read -r -t 60 answer <&"${space[0]}" && [ "$answer" = ready ] || fail "no file to reserve space for"
crash meta
terms_over() {
    grep -c 'nothing is cached, and nothing written' "$work/log/mount-a" || true
}
over=$(terms_over)
term_is_over() {
    [ "$(terms_over)" -gt "$over" ]
}
wait_for 60 "the end of the lease period" term_is_over
echo go >&"${space[1]}"
if read -r -t 0.5 answer <&"${space[0]}"; then fail "fallocate without a lease period did not wait: $answer"; fi
start_meta
for what in fallocate copy_file_range; do
    read -r -t 60 answer <&"${space[0]}" || fail "$what: no answer"
    [ "$answer" = good ] || fail "$what while the manager was away for longer than a lease period: $answer"
done
note "what reserves space waits for the manager"

# Down for longer than io_timeout: an error, no hang.
start_mount short io_timeout=2s
ls "$mnt" >/dev/null
crash meta
before=$(now_ms)
if timeout 30 mkdir "$mnt/something" >"$work/out" 2>&1; then fail "mkdir without a manager succeeded"; fi
took=$(($(now_ms) - before))
grep -qE 'Input/output error|timed out' "$work/out" || fail "mkdir without a manager: $(cat "$work/out")"
[ "$took" -ge 1000 ] && [ "$took" -le 10000 ] || fail "the error came after $took ms; io_timeout is 2 s"
start_meta
wait_for 60 "calls work again" stat "$mnt/new1"
note "an error after $took ms"
fsck_clean
cluster_end
