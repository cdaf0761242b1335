#!/bin/bash
# Files with copies are copied by their servers, each of which copies its own bytes: no byte of it comes to the mount, the copy is right on every
# server alone, also when servers are killed in the middle and return, and damaged bytes are repaired before they are copied.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_copy "$1"
start_cluster 3 --lease-time 2s
start_mount a
mkdir "$mnt/two" "$mnt/three"
policy "$mnt/two" replicas=2
policy "$mnt/three" replicas=3
a=$mnt
start_mount b
b=$mnt
seen_well

cat >"$work/copier.py" <<'PY'
import os, random, sys
MIB = 1 << 20

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

class Counted:
    """What the mount has asked servers for since."""

    def __init__(self, mount):
        self.mount, self.before = mount, self.now(mount)

    @staticmethod
    def now(mount):
        lines = os.getxattr(mount, "user.morsel.statistics").decode().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines) if value.isdigit()}

    def since(self, name):
        return self.now(self.mount).get(name, 0) - self.before.get(name, 0)
PY

cat >"$work/exact.py" <<'PY'
import os, random, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from copier import MIB, Counted, copy, opened
a, b = sys.argv[1:3]

def expect(path, content):
    for mount in (a, b):
        with open(f"{mount}/{path}", "rb") as f:
            assert f.read() == content, f"{mount}/{path} is not what was copied"

def groups(path):
    return [word for word in os.getxattr(f"{a}/{path}", "user.morsel.layout").decode().split() if word.startswith("groups=")]

for directory, size in (("two", 64 * MIB + 777), ("three", 9 * MIB + 5)):
    source = random.Random(size).randbytes(size)
    with open(f"{a}/{directory}/source", "wb") as f:
        f.write(source)
        os.fsync(f.fileno())
    fd = opened(f"{a}/{directory}/source")

    # A new file is laid on the groups of the source; the source is dirty again.
    os.pwrite(fd, b"dirty", 5)
    source = source[:5] + b"dirty" + source[10:]
    os.fsync(fd)
    counted = Counted(a)
    out = opened(f"{a}/{directory}/new")
    assert copy(fd, out, 1 << 40) == size
    assert counted.since("copy.called") > 0, "nothing was copied on the servers"
    for name in ("read.called", "write.called"):
        assert counted.since(name) == 0, f"{counted.since(name)} of {name}: bytes went through the mount"
    assert groups(f"{directory}/new") == groups(f"{directory}/source") != [], "the copy lies on other groups"
    os.fsync(out)
    expect(f"{directory}/new", source)

    # Within the file, over what is there, as far as stripes allow; and elsewhere.
    mirror = bytearray(source)
    for at_in, at_out, count in ((0, 4 * MIB, 3 * MIB + 5), (5, 8 * MIB + 5, MIB), (17, 3, 99999), (MIB, 9 * MIB, 8 * MIB)):
        got = copy(fd, out, count, at_in, at_out)
        piece = source[at_in:at_in + count]
        assert got == len(piece), f"{got} of {len(piece)} bytes"
        mirror[len(mirror):] = bytes(max(0, at_out + got - len(mirror)))
        mirror[at_out:at_out + got] = piece
        expect(f"{directory}/new", bytes(mirror))
    os.close(out)

    # Holes are zeros, whatever was there.
    hole = opened(f"{a}/{directory}/holes")
    os.ftruncate(hole, 9 * MIB)
    os.pwrite(hole, b"end", 9 * MIB - 3)
    out = opened(f"{a}/{directory}/new")
    copy(hole, out, 9 * MIB)
    os.close(out)
    expect(f"{directory}/new", bytes(9 * MIB - 3) + b"end" + bytes(mirror[9 * MIB:]))

# Another number of copies: never laid so, and right.
with open(f"{a}/one", "wb") as f:
    f.write(source)
for path_in, path_out in (("one", "two/of_one"), ("three/source", "two/of_three"), ("two/source", "of_two")):
    fd, out = opened(f"{a}/{path_in}"), opened(f"{a}/{path_out}")
    before = groups(path_out)
    copy(fd, out, 1 << 40)
    assert groups(path_out) == before, f"{path_out} was laid elsewhere"
    os.close(out)
    with open(f"{a}/{path_in}", "rb") as f:
        expect(path_out, f.read())
PY
python3 "$work/exact.py" "$a" "$b" || fail "see above"
note "copies are right, and no byte came to the mount"

# Each server alone with the others of its groups, and all copies equal.
cp "$a/two/source" "$work/bytes"
cp --reflink=never "$a/two/source" "$a/two/by_cp"
sync "$a/two/by_cp"
copies_are_equal
for away in 1 2 3; do
    crash "iod$away"
    drop_caches
    cmp "$work/bytes" "$b/two/by_cp" || fail "another file without server $away"
    start_iod "$away"
    seen_well
done

# Copies go on while one server after the other is killed and returns: what is copied is what the source was just before, and nothing fails.
cat >"$work/steady.py" <<'PY'
import os, random, signal, sys
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from copier import MIB, Counted, copy, opened
a, b, progress = sys.argv[1:4]
SIZE = 12 * MIB + 99
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
content = bytearray(random.Random(1).randbytes(SIZE))
fd = opened(f"{a}/steady")
os.pwrite(fd, content, 0)
counted, done, chance = Counted(os.path.dirname(a)), 0, random.Random(2)
while not ended:
    at = chance.randrange(SIZE - 5000)
    word = chance.randbytes(5000)
    content[at:at + 5000] = word
    os.pwrite(fd, word, at)
    path = f"copied{done % 3}"
    out = opened(f"{a}/{path}")
    assert copy(fd, out, 1 << 40) == SIZE
    if done % 2:
        os.fsync(out)
    os.close(out)
    with open(f"{b}/{path}", "rb") as f:
        assert f.read() == content, f"{path}, copy {done}: other bytes"
    done += 1
    with open(progress, "a") as f:
        print(done, file=f)
assert counted.since("copy.called") >= 10 * done, f"{counted.since('copy.called')} requests for {done} copies"
print(f"{done} copies of {SIZE} bytes, in {counted.since('copy.called')} requests")
PY
: >"$work/progress"
python3 "$work/steady.py" "$a/two" "$b/two" "$work/progress" >"$work/steady.json" &
steady=$!
children+=("$steady")
goes_on 2
for victim in 1 2 3 1; do
    crash "iod$victim"
    goes_on 3
    start_iod "$victim"
    seen_well
    goes_on 1
done
end_steady "servers killed and back"
copies_are_equal

# What is damaged of the source on one server is repaired, and copied well; on both it is an error.
mended=$(counter blocks_mended "${address_of[iod1]}")
sync "$a/two/source"
cp "$a/two/source" "$work/bytes"
flip "$(object_file 1 "$a/two/source" | head -n 1)" 20
drop_caches
cp "$a/two/source" "$a/two/of_damage"
sync "$a/two/of_damage"
drop_caches
cmp "$work/bytes" "$b/two/of_damage" || fail "damaged bytes were copied"
[ "$(counter blocks_mended "${address_of[iod1]}")" -gt "${mended:-0}" ] || fail "what was damaged on server 1 was not repaired before it was copied"
for object in "$work"/iod?/objects/*/"$(printf '%016x' "$(stat -c %i "$a/two/source")")".*; do
    flip "$object" 40
done
drop_caches
expect_error "Input/output error" cp "$a/two/source" "$a/two/of_loss"
seen_well
[ "$(groups .well | jq all)" = true ] || fail "a copy was closed for bytes that are lost"
fsck_clean
cluster_end
