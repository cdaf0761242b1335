#!/bin/bash
# copy_file_range is done by the servers where both files are one mount's alone, and gives what reading and writing would give; what is
# shared is read fresh; damaged bytes are not copied.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin copy "$1"
start_cluster 4
start_mount a
a=$mnt
start_mount b
b=$mnt

python3 - "$a" "$b" <<'PY' || fail "see above"
import os, random, sys
a, b = sys.argv[1:3]
MIB = 1 << 20
source = random.Random(7).randbytes(13 * MIB + 777)

def counted(name):
    lines = os.getxattr(a, "user.morsel.statistics").decode().splitlines()
    return int(dict(line.split() for line in lines).get(name, 0))

def opened(path, flags=os.O_RDWR | os.O_CREAT):
    return os.open(path, flags, 0o644)

def copy(fd_in, fd_out, count, at_in=0, at_out=0):
    done = 0
    while done < count:
        n = os.copy_file_range(fd_in, fd_out, count - done, at_in + done, at_out + done)
        if n == 0:
            break
        done += n
    return done

def expect(path, content):
    for mount in (a, b):
        with open(f"{mount}/{path}", "rb") as f:
            assert f.read() == content, f"{mount}/{path} is not what was copied"

def on_servers(work):
    before = counted("copy.called")
    work()
    return counted("copy.called") > before

with open(f"{a}/source", "wb") as f:
    f.write(source)
fd = opened(f"{a}/source")

# New files, which are laid on the servers of the source; more than is there; the source still dirty.
for i in range(4):
    out = opened(f"{a}/new{i}")
    os.pwrite(fd, b"dirty", i)
    source = source[:i] + b"dirty" + source[i + 5:]
    assert on_servers(lambda: copy(fd, out, 1 << 40)), "a new file was not copied on the servers"
    assert os.fstat(out).st_size == len(source)
    os.close(out)
    expect(f"new{i}", source)

# Within the file, over what is there, as far as stripes allow; and elsewhere.
mirror = bytearray(source)
out = opened(f"{a}/new3")
for at_in, at_out, count in ((0, 4 * MIB, 3 * MIB + 5), (5, 8 * MIB + 5, MIB), (17, 3, 99999), (MIB, 12 * MIB, 8 * MIB)):
    got = copy(fd, out, count, at_in, at_out)
    piece = source[at_in:at_in + count]
    assert got == len(piece), f"{got} of {len(piece)} bytes"
    mirror[len(mirror):] = bytes(max(0, at_out + got - len(mirror)))
    mirror[at_out:at_out + got] = piece
    expect("new3", bytes(mirror))
os.close(out)

# Holes are zeros, whatever was there.
hole = opened(f"{a}/holes")
os.ftruncate(hole, 9 * MIB)
os.pwrite(hole, b"end", 9 * MIB - 3)
out = opened(f"{a}/new1")
copy(hole, out, 9 * MIB)
os.close(out)
expect("new1", bytes(9 * MIB - 3) + b"end" + source[9 * MIB:])

# Another mount changes the source, through whatever handles.
there = opened(f"{b}/source")
for i in range(20):
    word = b"%8d" % i
    os.pwrite(there, word, 100)
    out = opened(f"{a}/new2")
    copy(fd, out, MIB)
    os.close(out)
    with open(f"{b}/new2", "rb") as f:
        f.seek(100)
        assert f.read(8) == word, "an old byte was copied"
os.close(there)
PY
note "copies are right"

sync "$a/source"
drop_caches
for object in "$work"/iod1/objects/*/*; do
    [ ! -f "$object" ] || printf 'damage' | dd of="$object" bs=1 seek=100000 conv=notrunc status=none
done
expect_error "Input/output error" cp "$a/source" "$a/of_damage"
note "damage is not copied"
cluster_end
