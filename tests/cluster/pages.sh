#!/bin/bash
# What the kernel's pages and its idea of a file's size have to do with what is read (tests/posix/pages.c).
#
#   pages.sh BUILD [ROUNDS]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin pages "$1"
rounds=${2:-100}
start_cluster 2
start_mount a
a=$mnt
start_mount b
b=$mnt
for kind in kept beside direct; do
    mkdir "$a/$kind"
    said=$(timeout 6000 "$bin/pages" "$kind" "$rounds" "$a/$kind" "$b/$kind") || fail "$kind: $said"
    note "$kind: $said"
done

# A file that another mount has made shorter, read through a handle with pages while a process of the reader's mount writes all the time: never
# what was cut off. (Zeros instead of the end are a known limit, and rare.)
printf x >"$a/cut"
said=$(timeout 600 python3 - "$a/cut" "$b/cut" 2>&1 <<'PY'
import os, subprocess, sys, time
b = os.open(sys.argv[2], os.O_RDWR)
a = os.open(sys.argv[1], os.O_RDWR)
writer = subprocess.Popen([sys.executable, "-c", """if True:
    import os, sys
    fd = os.open(sys.argv[1], os.O_RDWR)
    while True:
        os.pwrite(fd, b'12345678', 0)
        print(flush=True)
""", sys.argv[2]], stdout=subprocess.PIPE)
writer.stdout.readline()
until = time.monotonic() + 5
rounds = zeros = writes = 0
while time.monotonic() < until:
    rounds += 1
    value = b"%08d" % rounds
    os.pwrite(a, value, 24)
    got = os.pread(b, 8, 24)
    assert got == value, f"{got} was read, {value} was written on the other mount"
    os.ftruncate(a, 8)
    got = os.pread(b, 8, 24)
    assert got in (b"", bytes(8)), f"{got} was read behind the end of a file that was cut on the other mount"
    zeros += got != b""
    writes += len(os.read(writer.stdout.fileno(), 65536))
writer.kill()
print(f"{rounds} rounds beside {writes} writes, {zeros} times zeros instead of the end")
assert rounds >= 50 and writes >= rounds / 4 and zeros <= rounds / 4, "too little happened, or too many zeros"
PY
) || fail "cut elsewhere: $said"
note "cut elsewhere: $said"
fsck_clean
cluster_end
