#!/bin/bash
# What a mount says was changed of a file since somebody began to copy it (common/fs/exchange.h, EXCHANGE_WATCH): by whichever mount, in which column;
# nothing where a write of its own came to nothing, for who copied has perhaps read that; to nobody but root and the owner; and never to nonsense.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin watched "$1"
own_disk iod1 160M
own_disk iod2 160M
start_cluster 2
start_mount a allow_other
a=$mnt
start_mount b
b=$mnt
mkdir "$a/files"
policy "$a/files" replicas=1 stripe_width=2 stripe_size=1

cat >"$work/watched.py" <<'PY'
import errno, fcntl, os, struct, sys
a, b, part = sys.argv[1:4]
MIB, GRAIN, ALL = 1 << 20, 64 << 10, (1 << 64) - 1
FORMAT = "<QQQQII"
SIZE = struct.calcsize(FORMAT) + 500 * 16
WATCH = 3 << 30 | SIZE << 16 | ord("M") << 8 | 5

def watch(fd, begin=0, since=0, offset=0):
    """Stretches of one answer, and where to go on."""
    buffer = bytearray(struct.pack(FORMAT, begin, since, offset, 0, 0, 0).ljust(SIZE, b"\0"))
    fcntl.ioctl(fd, WATCH, buffer)
    _, _, _, following, count, _ = struct.unpack_from(FORMAT, buffer)
    return [struct.unpack_from("<QQ", buffer, struct.calcsize(FORMAT) + 16 * i) for i in range(count)], following

def refused(error, *arguments, **more):
    try:
        watch(*arguments, **more)
    except OSError as e:
        assert e.errno == error, f"{os.strerror(e.errno)} instead of {os.strerror(error)}"
        return
    raise AssertionError(f"not refused: {os.strerror(error)} was to come")

fd = os.open(f"{a}/files/one", os.O_RDONLY)
if part == "stranger":
    os.setresuid(4242, 4242, 4242)
    refused(errno.EPERM, fd, begin=1)
elif part == "changes":
    other = os.open(f"{b}/files/one", os.O_RDWR)
    refused(errno.EINVAL, fd)
    refused(errno.EINVAL, fd, begin=1, offset=1 << 63)
    refused(errno.ENODATA, fd, since=7)
    assert watch(fd, begin=7) == ([], ALL)
    assert watch(fd, since=7) == ([], ALL)
    for at in (5 * MIB + 100, 2 * MIB, 2 * MIB + GRAIN - 1, 9 * MIB - 1): # In both columns, on borders.
        os.pwrite(other, b"xy", at)
    expected = [(2 * MIB, 2 * MIB + 2 * GRAIN), (5 * MIB, 5 * MIB + GRAIN), (9 * MIB - GRAIN, 9 * MIB + GRAIN)]
    assert watch(fd, begin=8, since=7) == (expected, ALL), watch(fd, since=7)
    assert watch(fd, since=7, offset=3 * MIB)[0] == expected[1:]
    assert watch(fd, since=8) == ([], ALL)
    refused(errno.ENODATA, fd, since=9)
    for i in range(600): # More than one answer has room for.
        os.pwrite(other, b"z", 2 * i * GRAIN)
    stretches, at, answers = [], 0, 0
    while at != ALL:
        more, at = watch(fd, since=8, offset=at)
        stretches, answers = stretches + more, answers + 1
    assert answers > 1 and stretches == [(2 * i * GRAIN, (2 * i + 1) * GRAIN) for i in range(600)], stretches
    os.ftruncate(other, 10 * MIB) # What is cut off was changed.
    assert watch(fd, since=8, offset=10 * MIB)[0][0][0] == 10 * MIB
    os.close(other)
elif part == "failed": # It is open on no other mount, so what is written goes to the disks later.
    mine = os.open(f"{a}/files/one", os.O_RDWR)
    assert watch(fd, begin=20) == ([], ALL)
    filler, error = os.open(f"{a}/files/filler", os.O_RDWR | os.O_CREAT), 0
    try:
        while True:
            os.write(filler, bytes(8 * MIB))
            os.fsync(filler)
    except OSError as e:
        error = e.errno
    assert error == errno.ENOSPC, os.strerror(error)
    assert watch(fd, since=20) == ([], ALL)
    try: # Reserved nowhere: the file ends long before.
        os.pwrite(mine, b"lost" * MIB, 64 * MIB)
        os.fsync(mine)
        error = 0
    except OSError as e:
        error = e.errno
    assert error == errno.ENOSPC, os.strerror(error)
    refused(errno.ENODATA, fd, since=20)
    assert watch(fd, begin=21) == ([], ALL)
    assert watch(fd, since=21) == ([], ALL)
PY
head -c 80M /dev/urandom >"$a/files/one"
sync "$a/files/one"
python3 "$work/watched.py" "$a" "$b" changes
python3 "$work/watched.py" "$a" "$b" stranger
python3 "$work/watched.py" "$a" "$b" failed
rm "$a/files/filler"
fsck_clean
cluster_end
