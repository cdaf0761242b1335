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

# A file that another mount has made shorter, read through a handle with pages beside a process of the reader's mount that writes all the time
# (busy), or now and then while the reader is slow to run (late): never what was cut off. (Zeros instead of the end are a known limit, and rare.)
printf x >"$a/cut"
cut_elsewhere() {
    timeout 600 python3 - "$a/cut" "$b/cut" "$1" 2>&1 <<'PY'
import os, subprocess, sys, time
b = os.open(sys.argv[2], os.O_RDWR)
a = os.open(sys.argv[1], os.O_RDWR)
late = sys.argv[3] == "late"
writer = subprocess.Popen([sys.executable, "-c", """if True:
    import os, random, sys, time
    fd = os.open(sys.argv[1], os.O_RDWR)
    pause = float(sys.argv[2])
    while True:
        os.pwrite(fd, b'12345678', 0)
        print(flush=True)
        if pause > 0:
            time.sleep(random.random() * pause)
""", sys.argv[2], "0.1" if late else "0"], stdout=subprocess.PIPE)
busy = []
if late: # Whoever has asked takes in the answer when there is nothing else to do, and there is.
    spin = "import time; until = time.monotonic() + 30\nwhile time.monotonic() < until: pass"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    busy = [subprocess.Popen([sys.executable, "-c", spin], **quiet) for _ in range(os.cpu_count())]
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
try:
    writer.stdout.readline()
    until = time.monotonic() + 5
    rounds = zeros = writes = 0
    while time.monotonic() < until or rounds < (20 if late else 50):
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
finally:
    for process in [writer, *busy]:
        process.kill()
print(f"{rounds} rounds beside {writes} writes, {zeros} times zeros instead of the end")
assert late or (writes >= rounds / 4 and zeros <= rounds / 4), "too little happened, or too many zeros"
PY
}
for how in busy late; do
    said=$(cut_elsewhere $how) || fail "cut elsewhere, $how: $said"
    note "cut elsewhere, $how: $said"
done
fsck_clean
cluster_end
