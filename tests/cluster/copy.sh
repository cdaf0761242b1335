#!/bin/bash
# copy_file_range is done by the servers where both files are one mount's alone, and gives what reading and writing would give; what is
# shared is read fresh; who looks at a file that is being copied to waits; damaged bytes are not copied.
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

# Somebody else looks at the file while the servers, which stand still, copy into it: he waits for the copy, which succeeds.
python3 - "$a" "$b" "$bin/morsel" "$manager" "${pid_of[iod1]}" "${pid_of[iod2]}" "${pid_of[iod3]}" "${pid_of[iod4]}" <<'PY' || fail "see above"
import os, signal, subprocess, sys, threading, time
a, b, morsel, manager = sys.argv[1:5]
MIB = 1 << 20

def until(what, good):
    end = time.monotonic() + 60
    while not good():
        assert time.monotonic() < end, f"not within the time: {what}"
        time.sleep(0.01)

def recalled():
    lines = subprocess.run([morsel, "stats", "--manager", manager], check=True, capture_output=True, text=True).stdout.splitlines()
    return int(dict(line.split()[:2] for line in lines if line.startswith("leases_recalled"))["leases_recalled"])

class Call(threading.Thread):
    def __init__(self, call):
        super().__init__()
        self.call, self.answer = call, None
        self.start()
    def run(self):
        try:
            self.answer = self.call()
        except OSError as error:
            self.answer = error
    def waits(self):
        with open(f"/proc/self/task/{self.native_id}/wchan") as f:
            return "request_wait_answer" in f.read()

def servers(what):
    for pid in sys.argv[5:]:
        os.kill(int(pid), what)

fd, out = (os.open(f"{a}/{name}", os.O_RDWR | os.O_CREAT) for name in ("wanted", "wanted.copy"))
os.pwrite(fd, os.urandom(2 * MIB), 0)
assert os.copy_file_range(fd, out, MIB, 0, 0) == MIB  # Now it lies as the other one does.
os.fsync(out)
before = recalled()
servers(signal.SIGSTOP)
try:
    copy = Call(lambda: os.copy_file_range(fd, out, MIB, MIB, MIB))
    until("the servers are asked to copy", copy.waits)
    look = Call(lambda: os.stat(f"{b}/wanted.copy").st_size)
    until("the lease is recalled", lambda: recalled() > before)
finally:
    servers(signal.SIGCONT)
for call in copy, look:
    call.join(60)
assert copy.answer == MIB, f"the copy says {copy.answer}"
assert look.answer == 2 * MIB, f"who looked sees {look.answer} bytes"
with open(f"{a}/wanted", "rb") as f, open(f"{b}/wanted.copy", "rb") as g:
    assert f.read() == g.read(), "what was copied is not what is there"
PY
note "a copy that somebody waits for"

sync "$a/source"
drop_caches
for object in "$work"/iod1/objects/*/*; do
    [ ! -f "$object" ] || printf 'damage' | dd of="$object" bs=1 seek=100000 conv=notrunc status=none
done
expect_error "Input/output error" cp "$a/source" "$a/of_damage"
note "damage is not copied"
cluster_end
