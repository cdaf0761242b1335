#!/bin/bash
# Records of several MiB, each appended with one write(2), lie in one piece, whoever else appends through which mount.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin appends "$1"
new_copies= # What users get who say nothing.
start_cluster 4
start_mount a
a=$mnt
start_mount b
b=$mnt

cat >"$work/append.py" <<'PY'
import multiprocessing, os, sys, time
paths, kind = sys.argv[1:3], sys.argv[3]
RECORDS = 12
LENGTHS = [3 << 20, (2 << 20) + 77, 3 << 20, 1 << 20, (4 << 20) - 4096]

def length(writer, i):
    if kind == "late" and writer == 0 and i == 0:
        return 48 << 20 # Time enough to open it meanwhile.
    return LENGTHS[(i + writer) % len(LENGTHS)]

def append(writer, gate):
    if kind == "late" and writer > 0: # The first has begun alone, and is in the middle of it.
        gate.wait()
        time.sleep(0.0005 * writer)
    fd = os.open(paths[writer % 2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    if kind != "late" or writer == 0:
        gate.wait()
    for i in range(RECORDS):
        record = bytes([1 + writer * RECORDS + i]) * length(writer, i)
        assert os.write(fd, record) == len(record)
    os.close(fd)

writers = 4
gate = multiprocessing.Barrier(writers)
processes = [multiprocessing.Process(target=append, args=(w, gate)) for w in range(writers)]
for p in processes: p.start()
for p in processes: p.join()
assert all(p.exitcode == 0 for p in processes), [p.exitcode for p in processes]
with open(paths[1], "rb") as f:
    got = f.read()
at, seen, changes, last = 0, set(), 0, None
while at < len(got):
    number = got[at] - 1
    assert number >= 0, "a hole at %d" % at
    writer, i = divmod(number, RECORDS)
    want = length(writer, i)
    have = len(got[at:at + want]) - len(got[at:at + want].lstrip(got[at:at + 1]))
    assert have == want, "record %d of writer %d ends after %d of %d bytes" % (i, writer, have, want)
    assert number not in seen, "record %d of writer %d is there twice" % (i, writer)
    seen.add(number)
    changes += last is not None and writer % 2 != last
    last = writer % 2
    at += want
assert len(seen) == writers * RECORDS, len(seen)
print(changes)
PY

for kind in together late; do
    for ((round = 1; round <= 3; round++)); do
        changes=$(timeout 600 python3 "$work/append.py" "$a/$kind$round" "$b/$kind$round" "$kind") || fail "$kind, round $round"
        [ "$changes" -ge 3 ] || fail "$kind, round $round: the mounts have hardly met ($changes times)"
        rm "$a/$kind$round"
        note "$kind: 48 records, the mounts changed $changes times"
    done
done

# Whoever appends whole MiBs without a pause is not alone in the world, nor is who has stopped in the middle of nothing.
python3 - "$a/fair" "$b/fair" <<'PY'
import os, sys, threading, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
other = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
os.write(fd, b"x" * (1 << 20))
began = time.monotonic()
os.write(other, b"y")
took = time.monotonic() - began
assert took < 2, "one byte behind a whole MiB took %.1f s" % took
PY
fsck_clean
cluster_end
