#!/bin/bash
# Waiting for servers that do not answer: an interrupt ends the waiting of one process and nothing of the others; who closes or syncs waits
# for what was written before, not for what others write meanwhile.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin interrupt "$1"
start_host far
listen_for_host
start_cluster 2
start_mount a hard
a=$mnt
start_mount b
b=$mnt

iods() {
    local i
    for i in 1 2; do kill "-$1" "${pid_of[iod$i]}"; done
}

# Does the process wait for an answer of the mount?
waits() {
    grep -q request_wait_answer "/proc/$1/wchan"
}

# All of them wait, and not only for a moment.
all_wait() {
    local pid
    for pid in "$@"; do waits "$pid" || return 1; done
    sleep 0.2
    for pid in "$@"; do waits "$pid" || return 1; done
}

# interrupted PID FILE: its system call, of which it says in FILE that it begins, ends soon, while the servers still do not answer; it says so there.
interrupted() {
    wait_for 60 "the call of $1 begins" grep -q begins "$2"
    wait_for 60 "$1 waits for the servers" all_wait "$1"
    kill -INT "$1"
    wait_for 60 "a process that was interrupted goes on" grep -q interrupted "$2"
}

# ---- Closing and syncing beside somebody who never stops writing, over a link that he can fill.
"${on_host[@]}" tc qdisc add dev "mfs${$}fari" root tbf rate 200mbit burst 256k latency 400ms || skip "tc cannot shape a link here; install iproute2"
inject=("${on_host[@]}")
start_mount far
inject=()
far=$mnt
cat >"$work/saturate.py" <<'PY'
import os, sys, threading, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
piece = b"w" * (1 << 20)
until = time.monotonic() + 120
def write(n):
    i = 0
    while time.monotonic() < until and not os.path.exists(sys.argv[2]):
        os.pwrite(fd, piece, (n * 16 + i % 16) << 20)
        i += 1
threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
sys.exit(time.monotonic() >= until) # Nobody has said that it is enough.
PY
python3 "$work/saturate.py" "$far/busy" "$work/enough" &
writer=$!
children+=("$writer")
wait_for 60 "the writer" test -s "$far/busy"
python3 - "$far/busy" <<'PY'
import os, sys, time
def longest():
    return max(close_beside(i) for i in range(6))
def close_beside(i):
    fd = os.open(sys.argv[1], os.O_RDWR)
    os.pwrite(fd, b"mine", (200 << 20) + i * 4096)
    began = time.monotonic()
    if i % 2:
        os.fsync(fd)
    os.close(fd)
    return time.monotonic() - began
for attempt in range(3): # A busy machine is late now and then.
    took = longest()
    print("longest: %.2f s" % took)
    if took < 4:
        break
else:
    sys.exit("close or fsync took %.1f s beside a writer" % took)
PY
touch "$work/enough"
wait "$writer" || fail "closing waited until nothing was written any more"
stop_mount far
note "closed and synced beside a writer"

# ---- Two write to one file; one is interrupted while it waits.
cat >"$work/one.py" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b"A" * 65536, 0)
print("written", flush=True)
sys.stdin.readline()
os.fsync(fd)
os.close(fd)
print("synced", flush=True)
PY
cat >"$work/other.py" <<'PY'
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler) # The shell has it ignored.
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b"B" * 4096, 1 << 20)
try:
    print("begins", flush=True)
    if sys.argv[2] == "fsync":
        os.fsync(fd)
    elif sys.argv[2] == "truncate":
        os.ftruncate(fd, 4 << 20)
    elif sys.argv[2] == "fallocate":
        os.posix_fallocate(fd, 0, 4 << 20)
    elif sys.argv[2] == "copy":
        to = os.open(sys.argv[1] + ".copy", os.O_RDWR | os.O_CREAT)
        os.copy_file_range(fd, to, 65536, 0, 0)
    os.close(fd)
except (KeyboardInterrupt, InterruptedError):
    print("interrupted", flush=True)
PY
mkfifo "$work/go"
for what in fsync close truncate fallocate copy; do
    file=two-$what
    head -c $((2 << 20)) /dev/zero >"$a/$file"
    sync "$a/$file"
    iods STOP
    python3 "$work/one.py" "$a/$file" <"$work/go" >"$work/one" 2>&1 &
    one=$!
    exec 8>"$work/go"
    children+=("$one")
    wait_for 60 "the first writer" grep -q written "$work/one"
    python3 "$work/other.py" "$a/$file" "$what" >"$work/other" 2>&1 &
    other=$!
    children+=("$other")
    interrupted "$other" "$work/other"
    iods CONT
    wait "$other" || fail "who was interrupted did not end well: $(cat "$work/other")"
    echo >&8
    exec 8>&-
    wait "$one" || fail "who was not interrupted lost what was written ($what): $(cat "$work/one")"
    grep -q synced "$work/one" || fail "not synced: $(cat "$work/one")"
    [ "$(head -c 65536 "$b/$file" | tr -d A | wc -c)" = 0 ] || fail "the bytes of who was not interrupted are not there ($what)"
    [ "$(dd if="$b/$file" bs=4096 skip=256 count=1 status=none | tr -d B | wc -c)" = 0 ] ||
        fail "bytes whose writer only stopped waiting are not there ($what)"
    note "interrupted: $what"
done

# ---- Two read the same bytes; one is interrupted.
cat >"$work/read.py" <<'PY'
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND) # Each read of such a handle is a request.
try:
    print("begins", flush=True)
    assert os.pread(fd, 65536, 0) == b"A" * 65536
except (KeyboardInterrupt, InterruptedError):
    print("interrupted", flush=True)
PY
iods STOP
python3 "$work/read.py" "$a/two-fsync" &
one=$!
python3 "$work/read.py" "$a/two-fsync" >"$work/other" 2>&1 &
other=$!
children+=("$one" "$other")
wait_for 60 "both read" all_wait "$one" "$other"
interrupted "$other" "$work/other"
iods CONT
wait "$one" || fail "a reader failed because another one was interrupted"
note "interrupted: one of two readers"
cluster_end
