#!/bin/bash
# A mount that dies leaves bytes at the servers that it never reported. Whatever grows the file over them later, they do not come to light.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin holes "$1"
new_copies= # What users get who say nothing.
start_cluster 4 --lease-time 1s
start_mount b
b=$mnt
start_mount c
c=$mnt
ways=(write truncate ftruncate fallocate zero copy shared sharedzero twice)

landed() {
    [ "$(mount_counter "$a" dirty_bytes)" = 0 ]
}

# leave TRY: each file is 100 bytes long, and has 300 KiB behind that at its servers, of which the manager does not know.
leave() {
    local way
    start_mount "a$1" io_timeout=3
    a=$mnt
    for way in "${ways[@]}"; do
        head -c 100 /dev/zero | tr '\0' h >"$a/$way"
    done
    python3 - "$a" "${ways[@]}" >"$work/writer" <<'PY' &
import os, sys, time
for way in sys.argv[2:]:
    fd = os.open(sys.argv[1] + "/" + way, os.O_RDWR)
    os.pwrite(fd, b"x" * (300 << 10), 100)
print("written", flush=True)
time.sleep(60)
PY
    writer=$!
    children+=("$writer")
    wait_for 60 "the writer" grep -q written "$work/writer"
    wait_for 60 "its bytes are with the servers" landed
    crash "mount-a$1"
    umount -l "$a"
    kill "$writer" 2>/dev/null || true
}

left=0
for ((try = 1; try <= 10 && left < ${#ways[@]}; try++)); do
    rm -f "$b"/*
    leave "$try"
    left=0
    for way in "${ways[@]}"; do
        [ "$(stat -c %s "$b/$way")" != 100 ] || left=$((left + 1))
    done
    note "$left of ${#ways[@]} files whose servers know more than the manager"
done
[ "$left" = ${#ways[@]} ] || fail "the mount always had time to report what it wrote"

python3 - "$b" "$c" <<'PY'
import ctypes, os, sys
b, c = sys.argv[1:3]
FAR = 3 << 20

def opened(way):
    return os.open(b + "/" + way, os.O_RDWR)

os.pwrite(opened("write"), b"new", FAR)
os.truncate(b + "/truncate", FAR + 3)
os.ftruncate(opened("ftruncate"), FAR + 3)
os.posix_fallocate(opened("fallocate"), FAR, 3)
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
assert libc.fallocate(opened("zero"), 0x10, FAR, 3) == 0, os.strerror(ctypes.get_errno())
source = os.open(b + "/source", os.O_CREAT | os.O_RDWR)
os.pwrite(source, b"y" * (FAR + 3), 0)
os.copy_file_range(source, opened("copy"), 3, FAR, FAR)
other = os.open(c + "/shared", os.O_RDWR)
os.pwrite(other, b"h", 0)
os.pwrite(opened("shared"), b"new", FAR)
another = os.open(c + "/sharedzero", os.O_RDWR)
os.pwrite(another, b"h", 0)
assert libc.fallocate(opened("sharedzero"), 0x10, FAR, 3) == 0, os.strerror(ctypes.get_errno())
twice = opened("twice") # It is cut once, and not again when it is long since written by who lives.
os.pwrite(twice, b"new", FAR)
os.pwrite(twice, b"z" * 1000, 200)
os.fsync(twice)
os.close(twice)
os.pwrite(os.open(c + "/twice", os.O_RDWR), b"more", 2 * FAR)
bad = []
for mount in (c, b):
    for way in ("write", "truncate", "ftruncate", "fallocate", "zero", "copy", "shared", "sharedzero", "twice"):
        with open(mount + "/" + way, "rb") as f:
            got = f.read()
        if b"x" in got:
            bad.append("%s, mount %s: %d bytes" % (way, mount[-1], got.count(b"x")))
        assert len(got) >= FAR + 3, (way, len(got))
        assert got[:100] == b"h" * 100, (way, got[:100])
        if way == "twice":
            assert got[200:1200] == b"z" * 1000 and got[FAR:FAR + 3] == b"new" and got[-4:] == b"more", "lost"
assert not bad, "old bytes came to light: %s" % bad
PY
fsck_clean
cluster_end
