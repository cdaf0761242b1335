#!/bin/bash
# The disk of an I/O daemon is full: ENOSPC, what was acknowledged stays readable, and removing files helps.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin fulldisk "$1"
[ "$(id -u)" = 0 ] || skip "needs root for loop devices"
loop_mount "$work/small" 96M
start_meta
mkdir "$work/small/data"
ln -s "$work/small/data" "$work/iod1"
start_iod 1
wait_for 60 "the server is up" servers_up 1
start_mount a

dd if=/dev/urandom of="$work/before" bs=1M count=20 status=none
cp "$work/before" "$mnt/before"
sync "$mnt/before"
expect_error "No space left on device" dd if=/dev/zero of="$mnt/large" bs=1M count=200 conv=fsync
kept=$(stat -c %s "$mnt/large")
drop_caches
cmp "$work/before" "$mnt/before" || fail "a file from before the disk was full is damaged"
# Overwriting needs no new space; names are the manager's.
dd if="$work/before" of="$mnt/before" bs=1M conv=notrunc,fsync status=none || fail "overwriting on a full disk"
touch "$mnt/name" || fail "a name cannot be made on a full disk"
for i in 1 2 3; do
    dd if="$work/before" of="$mnt/more$i" bs=100k count=150 conv=fsync status=none 2>/dev/null || true
done
note "full: $kept bytes of the large file were taken"
crash iod1
start_iod 1
wait_for 60 "the server is up again" servers_up 1
drop_caches
cmp "$work/before" "$mnt/before" || fail "damaged after a crash on a full disk"

rm "$mnt/large" "$mnt"/more*
wait_for 60 "space is given back" bash -c "dd if='$work/before' of='$mnt/after' bs=1M conv=fsync status=none"
cmp "$work/before" "$mnt/after" || fail "a file written after space came back is wrong"
fsck_clean

# What a write is told may not reach its program: where the kernel has cut it in several, and its first part was taken, it hears how far it got. So the
# close tells it, too, once, and the fsync of somebody who did not close.
dd if=/dev/zero of="$work/small/filler" bs=64k conv=fsync status=none 2>/dev/null || true
python3 - "$mnt/told" "$work/log/mount-a" "$work/small/filler" <<'PYTHON' || fail "an error that a write was told is not told by close"
import errno, os, sys, time

def number_of(call):
    try:
        call()
    except OSError as error:
        return error.errno
    return 0

path, log, filler = sys.argv[1:]
fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
twin = os.dup(fd)
inode, until = os.fstat(fd).st_ino, time.monotonic() + 60
# One request, of which the kernel makes two where a page of ours is not in memory just then. The second one may be told already: then we hear how far it got.
whole = os.write(fd, b"x" * (1 << 19)) == 1 << 19
while "inode %d: " % inode not in open(log).read():
    assert time.monotonic() < until, "the disk is not full"
    time.sleep(0.05)
told = [number_of(lambda: os.write(fd, b"more")) if whole else errno.ENOSPC]
os.unlink(filler)
told += [number_of(lambda: os.close(twin)), number_of(lambda: os.fsync(fd)), number_of(lambda: os.close(fd))]
if told != [errno.ENOSPC] * 3 + [0]:
    sys.exit("a write, a close, an fsync and a close behind bytes that found no room say %s" % told)
PYTHON
rm "$mnt/told"

# What was taken from a program, and then found no room, is in the kernel's pages. It is not read right behind an fsync that tells of it, and soon not
# where nobody has been told. Here all of it was to lie in a hole.
for name in synced left; do
    truncate -s 1M "$mnt/$name"
    sync "$mnt/$name"
done
dd if=/dev/zero of="$work/small/filler" bs=64k conv=fsync status=none 2>/dev/null || true
# The server goes by how much room there was until it has been asked for all of that.
for bytes in 1M 4k; do # Behind a large write that found no room there may be some for a small one.
    wait_for 60 "the server finds its disk full" bash -c "! dd if=/dev/zero of='$mnt/probe' bs=$bytes count=1 oflag=append conv=notrunc,fsync status=none 2>/dev/null"
done
python3 - "$mnt/synced" "$mnt/left" "$work/log/mount-a" <<'PYTHON' || fail "bytes that found no room are read"
import errno, os, sys, time

def take(path):
    fd = os.open(path, os.O_RDWR)
    assert os.pread(fd, 1 << 20, 0) == bytes(1 << 20)
    assert os.pwrite(fd, b"x" * 8192, 0) == 8192
    return fd

def lost(fd):
    return os.pread(fd, 1 << 20, 0).count(b"x")

synced, left, log = sys.argv[1:]
fd, until = take(synced), time.monotonic() + 60
try:
    os.fsync(fd)
    sys.exit("the disk is not full")
except OSError as error:
    assert error.errno == errno.ENOSPC, error
if lost(fd):
    sys.exit("%d bytes are read right behind the fsync that has said that there is no room" % lost(fd))
word = "inode %d: " % os.stat(left).st_ino
fd = take(left) # From here on no stat: behind one the kernel may drop its pages by itself.
while word not in open(log).read() or lost(fd):
    if time.monotonic() > until:
        sys.exit("%d bytes are still read that no server has" % lost(fd))
    time.sleep(0.05)
PYTHON
rm "$work/small/filler" "$mnt/synced" "$mnt/left" "$mnt/probe"

# Space that could not be reserved leaves nothing behind, on any server.
start_iod 2
wait_for 60 "both servers are up" servers_up 2
mkdir "$mnt/wide"
policy "$mnt/wide" stripe_width=2
expect_error "No space left on device" fallocate -l 1G "$mnt/wide/reserved"
[ "$(stat -c %s "$mnt/wide/reserved")" = 0 ] || fail "a reservation that failed changed the size"
# While the manager takes it for open its deletion finds every object anyhow, and shows nothing: so it is let hear of the close first.
wait_for 60 "the manager knows that it is closed" counter_is open_files 0
rm "$mnt/wide/reserved"
fsck_clean

# A copy of which one server had no space: what the other one has copied is found when the file is deleted, and never seen as bytes of the file.
own_disk iod3 512M
start_iod 3
wait_for 60 "three servers are up" servers_up 3
mkdir "$mnt/copied"
policy "$mnt/copied" stripe_width=3
dd if=/dev/urandom of="$mnt/copied/source" bs=1M count=24 conv=fsync status=none
touch "$mnt/copied/deleted" "$mnt/copied/grown" # Nothing new lies on a disk that is nearly full.
morsel layout --json "$mnt/copied/source" | jq -e '[.[0].columns[].server] | contains([2, 3])' >/dev/null || fail "the source lies elsewhere"
dd if=/dev/zero of="$work/disk-iod3/filler" bs=64k conv=fsync status=none 2>/dev/null || true
for name in deleted grown; do
    if python3 - "$mnt/copied/source" "$mnt/copied/$name" <<'PYTHON'; then fail "a copy to a full disk was made"; fi
import os, sys
source, target = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY, 0o644)
try:
    while os.copy_file_range(source, target, 24 << 20) > 0:
        pass
except OSError as error:
    sys.exit(error.errno)
PYTHON
done
[ "$(find "$work/iod2/objects" -type f -name "$(printf %016x "$(stat -c %i "$mnt/copied/grown")").*" | wc -l)" -gt 0 ] || fail "the other server has copied nothing"
rm "$work/disk-iod3/filler" "$mnt/copied/deleted"
truncate -s 24M "$mnt/copied/grown"
drop_caches
cmp -n $((24 << 20)) "$mnt/copied/grown" /dev/zero || fail "what a copy that failed has left is seen as bytes of the file"
wait_for 60 "the manager knows that they are closed" counter_is open_files 0
fsck_clean
cluster_end
