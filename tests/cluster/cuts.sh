#!/bin/bash
# Truncations that are set behind: what others see at once, what fsync covers, what a mount that dies in between leaves, and errors.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin cuts "$1"
start_cluster 4 --lease-time 1s
start_mount a io_timeout=3
a=$mnt
start_mount b
b=$mnt

crash_mount() {
    crash "mount-$1"
    umount -l "$work/mnt/$1"
}

# Most of them are never made: what is cut again goes no further.
python3 - "$a/often" "$b/often" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b"x" * (4 << 20), 0)
os.fsync(fd)
for i in range(1000):
    os.ftruncate(fd, 1000 + (i * 7919) % (4 << 20))
os.ftruncate(fd, 100)
os.pwrite(fd, b"new", 3 << 20)
want = b"x" * 100 + bytes((3 << 20) - 100) + b"new"
assert os.stat(sys.argv[2]).st_size == len(want), os.stat(sys.argv[2])
os.ftruncate(fd, 5 << 20)
want += bytes((5 << 20) - len(want))
assert os.fstat(fd).st_size == len(want), os.fstat(fd)
with open(sys.argv[2], "rb") as f:
    assert f.read() == want, "the other mount reads something else"
PY
sent=$(mount_counter "$a" truncate.called)
[ "$sent" -lt 1000 ] || fail "$sent requests for 1,000 truncations"
note "1,000 truncations, $sent requests"

# What fsync covers outlives the mount.
python3 - "$a/synced" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b"x" * (8 << 20), 0)
os.fsync(fd)
os.ftruncate(fd, 1000)
os.pwrite(fd, b"new", 6 << 20)
os.fsync(fd)
PY
crash_mount a
python3 - "$b/synced" <<'PY'
import sys
with open(sys.argv[1], "rb") as f:
    got = f.read()
assert got == b"x" * 1000 + bytes((6 << 20) - 1000) + b"new", (len(got), got[1000:].count(b"x"))
PY
note "fsync"

# A mount that dies while a server has not cut yet: the old length, or the new one without old bytes.
for ((round = 1; round <= 2; round++)); do
    start_mount "c$round"
    python3 - "$mnt/dies$round" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 0)
os.pwrite(fd, b"x" * (8 << 20), 0)
os.fsync(fd)
PY
    kill -STOP "${pid_of[iod2]}"
    python3 - "$mnt/dies$round" "$round" >"$work/cutter" 2>&1 <<'PY' &
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.ftruncate(fd, 1000)
os.pwrite(fd, b"new", 6 << 20)
print("cut", flush=True)
if sys.argv[2] == "2":
    os.fsync(fd)
os.read(0, 1)
PY
    cutter=$!
    children+=("$cutter")
    wait_for 60 "the truncation" grep -q cut "$work/cutter"
    sleep 1.5 # A report of what was written would go out after one second.
    crash_mount "c$round"
    kill "$cutter" 2>/dev/null || true
    sleep 2 # What the server has not read of it comes too late now.
    kill -CONT "${pid_of[iod2]}"
    python3 - "$b/dies$round" <<'PY'
import sys
with open(sys.argv[1], "rb") as f:
    got = f.read()
assert len(got) in (8 << 20, 1000, (6 << 20) + 3), len(got)
assert got[:1000] == b"x" * 1000
if len(got) < 8 << 20:
    assert got[1000:6 << 20].strip(b"\0") == b"", "old bytes in a file that was cut"
    assert got[6 << 20:] in (b"", b"new")
PY
    note "a mount died, round $round"
done

# A server that does not cut: whoever has it open is told, once, and of what was written behind the cut at the same time; the file is as long as it was.
start_mount d io_timeout=6s
python3 - "$mnt/fails" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b"x" * (8 << 20), 0)
os.fsync(fd)
PY
crash iod3
python3 - "$mnt/fails" <<'PY'
import errno, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
began = time.monotonic()
os.ftruncate(fd, 1000)
for i in range(1, 8):
    os.pwrite(fd, b"new", i << 20)
try:
    os.fsync(fd)
    sys.exit("fsync knows of no error")
except OSError as e:
    took = time.monotonic() - began
    print("fsync said", e, "after %.1f s" % took)
assert 4.5 < took < 9.6, "io_timeout is 6 s"
PY
start_iod 3
wait_for 60 "the server is back" servers_up 4
python3 - "$mnt/fails" "$b/fails" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.ftruncate(fd, 1000)
os.ftruncate(fd, 8 << 20)
os.fsync(fd)
with open(sys.argv[2], "rb") as f:
    assert f.read() == b"x" * 1000 + bytes((8 << 20) - 1000), "not cut after the server was back"
PY
stop_mount d
fsck_clean
cluster_end
