#!/bin/bash
# morsel recopy: files that are there get the number of copies that their directory asks for now, while programs use them through this mount and
# another one, and while the command, the manager and storage servers are killed at drawn moments. No byte is lost or older than it was, whoever has
# a file open writes to the right objects afterwards, those of before go, and each server alone shows everything in the end.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin recopy "$1"
start_cluster 2 --lease-time 2s
start_mount a
a=$mnt
start_mount b
b=$mnt

# recopy [OPTIONS] PATH...: what it says, as JSON, in $said; its exit code.
recopy() {
    said=$(timeout 120 "$bin/morsel" recopy --json --manager="$manager" "$@" 2>"$work/recopy.err")
}

said() {
    jq -r "$1" <<<"$said"
}

expect_said() {
    [ "$(said "$1")" = "$2" ] || fail "expected $1 = $2: $said $(cat "$work/recopy.err")"
}

# all_have COPIES DIRECTORY: each file of it.
all_have() {
    local wrong
    wrong=$(find "$2" -type f -exec getfattr --absolute-names --only-values -n user.morsel.layout {} \; | grep -o 'replicas=[0-9]' | grep -vc "replicas=$1") || true
    [ "$wrong" = 0 ] || fail "$wrong files of $2 do not have $1 copies"
}

nothing_to_delete() {
    [ "$(morsel status --json | jq .garbage)" = 0 ]
}

objects_of_server() {
    find "$work/iod$1/objects" -type f | wc -l
}

# What a file is but for where it lies, and when that was changed.
looks() {
    (cd "$1" && find . -type f -printf '%P %i %m %n %U %s %T@ ' -exec sha256sum {} \; | sort)
}

# ---- Files of all shapes, and nobody at them ----

mkdir "$a/tree"
policy "$a/tree" replicas=1 stripe_width=2
cat >"$work/make.py" <<'PY'
import os, random, sys
top, MIB = sys.argv[1], 1 << 20
chance = random.Random(3)
for i, size in enumerate((0, 1, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1, 3 * MIB + 5, 9 * MIB)):
    directory = f"{top}/d{i % 3}/with space"
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/f{i}", "wb") as f:
        f.write(chance.randbytes(size))
with open(f"{top}/line\nbreak", "w") as f:
    f.write("a name in two lines")
fd = os.open(f"{top}/holes", os.O_RDWR | os.O_CREAT, 0o444)
os.pwrite(fd, chance.randbytes(100000), 5 * MIB + 77)
os.ftruncate(fd, 64 * MIB + 3)
os.close(fd)
os.link(f"{top}/holes", f"{top}/d0/holes too")
os.symlink("holes", f"{top}/link")
os.mkfifo(f"{top}/fifo")
os.setxattr(f"{top}/d1", "user.mine", b"1")
PY
python3 "$work/make.py" "$a/tree"
looks "$a/tree" >"$work/before"
spent=$(stat -c %b "$a/tree/holes")
policy "$a/tree" replicas=2
seen_well
recopy --dry-run "$a/tree" || fail "dry run: $said"
expect_said .files_wanted 13
expect_said .files_done 0
all_have 1 "$a/tree"
objects=$(objects_of_server 1)
recopy "$a/tree" || fail "recopy: $said $(cat "$work/recopy.err")"
expect_said '.left | length' 0
all_have 2 "$a/tree"
looks "$a/tree" | cmp - "$work/before" || fail "files are not what they were"
looks "$b/tree" | cmp - "$work/before" || fail "files are not what they were, through another mount"
[ "$(stat -c %b "$a/tree/holes")" -le $((spent * 2 + 64)) ] || fail "the holes were filled: $(stat -c %b "$a/tree/holes") blocks of 512 bytes, before $spent"
wait_for 30 "what the files had before is deleted" nothing_to_delete
fsck_clean
recopy "$a/tree" || fail "recopy once more: $said"
expect_said .files_wanted 0
for away in 1 2; do
    seen_well
    crash "iod$away"
    drop_caches
    looks "$b/tree" | cmp - "$work/before" || fail "files are not what they were without server $away"
    start_iod "$away"
done
seen_well
note "each file has two copies, and is what it was"

# Back to fewer; a file with two names is not taken from: another directory may want its copies.
policy "$a/tree" replicas=1
recopy "$a/tree" || fail "back to one copy: $said"
expect_said .files_done 11
looks "$b/tree" | cmp - "$work/before" || fail "files are not what they were with one copy again"
rm "$a/tree/d0/holes too"
recopy "$a/tree" || fail "the one that had two names: $said"
expect_said .files_done 1
all_have 1 "$a/tree"
wait_for 30 "what the files had before is deleted" nothing_to_delete
[ "$(objects_of_server 1)" = "$objects" ] || fail "server 1 has $(objects_of_server 1) objects, at first it had $objects"
fsck_clean

# ---- Who has it open ----

# On another mount, to write: it stays as it is, and is named. (Who reads there is in recopy_readers.)
policy "$a/tree" replicas=2
exec 7<>"$b/tree/d0/with space/f9"
if recopy --no-pause "$a/tree/d0/with space/f9"; then fail "copied although another mount has it open for writing: $said"; fi
expect_said '.left[0].busy' true
exec 7<&-
recopy "$a/tree/d0/with space/f9" || fail "nobody has it open any more: $said"
expect_said .files_done 1

# On this mount, with a mapping and a lock: they go on, and what they write lands where it is looked for.
cat >"$work/holder.py" <<'PY'
import fcntl, mmap, os, sys
path = sys.argv[1]
fd = os.open(path, os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX, 100, 0)
mapped = mmap.mmap(fd, 1 << 20)
mapped[5] = 1
deleted = os.open(path, os.O_RDWR)
print("ready", flush=True)
sys.stdin.readline()
assert mapped[5] == 1
mapped[6] = 2
mapped.flush()
os.pwrite(fd, b"three", 2 << 20)
os.fsync(fd)
os.ftruncate(fd, (2 << 20) + 100)
os.pwrite(deleted, b"end", (2 << 20) + 97)
os.fsync(deleted)
print("written", flush=True)
sys.stdin.readline()
PY
cp "$a/tree/d2/with space/f8" "$work/bytes"
mkfifo "$work/run/say" "$work/run/hear"
python3 "$work/holder.py" "$a/tree/d2/with space/f8" <"$work/run/say" >"$work/run/hear" &
holder=$!
children+=("$holder")
exec 8>"$work/run/say" 9<"$work/run/hear"
read -r -t 30 word <&9
recopy "$a/tree/d2" || fail "a file that is open and mapped here: $said"
all_have 2 "$a/tree/d2"
expect_error "Resource temporarily unavailable" python3 -c 'import fcntl, os, sys
fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 50)' "$b/tree/d2/with space/f8"
echo >&8
read -r -t 30 word <&9
[ "$word" = written ] || fail "the program that has it open: $word"
python3 - "$work/bytes" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b"\1\2", 5)
os.pwrite(fd, b"three", 2 << 20)
os.ftruncate(fd, (2 << 20) + 100)
os.pwrite(fd, b"end", (2 << 20) + 97)
PY
cmp "$work/bytes" "$b/tree/d2/with space/f8" || fail "what was written through a handle and a mapping of before is not there"
exec 8>&- 9<&-
wait "$holder" || fail "the program that had it open ended badly"
for away in 1 2; do
    seen_well
    crash "iod$away"
    drop_caches
    cmp "$work/bytes" "$b/tree/d2/with space/f8" || fail "the same without server $away"
    start_iod "$away"
done
seen_well
fsck_clean
note "who has a file open goes on with it"

# ---- When it must not be done ----

cat >"$work/must_not.py" <<'PY'
"""The two requests themselves (src/common/fs/exchange.h), with a copy of other bytes: whoever sees them, it was done when it must not be."""
import ctypes, errno, fcntl, mmap, os, struct, sys, time
a, b = sys.argv[1:3]
BEGIN, COMMIT = 2 << 30 | 16 << 16 | ord("M") << 8 | 1, 1 << 30 | 24 << 16 | ord("M") << 8 | 2
SIZE = 300000
libc = ctypes.CDLL(None, use_errno=True)

def overwrite(path):
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"A", 7)
    os.close(fd)

def by_mapping(fd):
    with mmap.mmap(fd, SIZE) as mapped:
        mapped[9] = ord("A")

def cut_and_grown(fd):
    os.ftruncate(fd, 5)
    os.ftruncate(fd, SIZE)

def punched(fd):
    assert libc.fallocate(fd, 3, ctypes.c_long(4096), ctypes.c_long(8192)) == 0

def begin(fd):
    for _ in range(200): # The other mount has closed it, and the manager is about to hear of that.
        try:
            return fcntl.ioctl(fd, BEGIN, bytes(16))
        except OSError as error:
            assert error.errno == errno.EBUSY, error
        time.sleep(0.1)
    raise AssertionError("nobody has it open on another mount, and it is busy")

kept = []
cases = (
    ("nothing", lambda fd: None, {0}),
    ("a write through the same handle", lambda fd: os.pwrite(fd, b"A", 5), {errno.EAGAIN}),
    ("a write that is synced", lambda fd: (os.pwrite(fd, b"A", 5), os.fsync(fd)), {errno.EAGAIN}),
    ("a write through another handle", lambda fd: overwrite(f"{a}/f"), {errno.EAGAIN}),
    ("a write through a mapping", by_mapping, {errno.EAGAIN}),
    ("a truncation", cut_and_grown, {errno.EAGAIN}),
    ("a hole", punched, {errno.EAGAIN}),
    ("another length", lambda fd: os.ftruncate(fd, SIZE + 1), {errno.EAGAIN}),
    ("a write on another mount", lambda fd: overwrite(f"{b}/f"), {errno.EAGAIN, errno.EBUSY}),
    ("a reader on another mount", lambda fd: kept.append(os.open(f"{b}/f", os.O_RDONLY)), {errno.EBUSY}),
    ("a writer on another mount", lambda fd: kept.append(os.open(f"{b}/f", os.O_WRONLY)), {errno.EBUSY}),
    ("a file with a name", lambda fd: None, {errno.EINVAL}),
    ("a file of somebody else", lambda fd: os.seteuid(12345), {errno.EPERM, errno.EACCES}),
)
for what, happens, expected in cases:
    with open(f"{a}/f", "wb") as f:
        f.write(b"a" * SIZE)
    fd = os.open(f"{a}/f", os.O_RDWR)
    copy = os.open(a, os.O_TMPFILE | os.O_RDWR, 0o600)
    if what == "a file with a name":
        copy = os.open(f"{a}/named", os.O_RDWR | os.O_CREAT)
    os.pwrite(copy, b"c" * SIZE, 0)
    state = begin(fd)
    happens(fd)
    got = 0
    try:
        fcntl.ioctl(fd, COMMIT, state + struct.pack("Q", os.fstat(copy).st_ino))
    except OSError as error:
        got = error.errno
    os.seteuid(0)
    assert got in expected, f"{what}: {errno.errorcode.get(got, got)}"
    for mount in (a, b):
        with open(f"{mount}/f", "rb") as f:
            data = f.read()
        assert (b"c" in data) == (got == 0), f"{what}: {mount} shows {set(data)}"
        assert got == 0 or what in ("nothing", "another length") or data.count(b"a") < SIZE or got != errno.EAGAIN, f"{what}: it is lost"
    for handle in kept + [fd, copy]:
        os.close(handle)
    kept.clear()
    print(f"{what}: {errno.errorcode.get(got, 'done')}")
PY
mkdir "$a/must_not" && chmod 777 "$a/must_not"
python3 "$work/must_not.py" "$a/must_not" "$b/must_not" || fail "see above"
start_mount lax nocache
policy "$a/must_not" replicas=2
if recopy "$mnt/must_not/f"; then fail "a mount that keeps nothing copied: $said"; fi
expect_said '.left[0].busy' false
stop_mount lax
recopy "$a/must_not" || fail "recopy: $said"

# What began before and has not come to its end: a copy that is made now may have the bytes of before (what the kernel has read stays until the hole is
# made), and when it is looked at again that is over.
cat >"$work/begun.py" <<'PY'
import ctypes, errno, fcntl, os, signal, struct, sys, threading, time
path = sys.argv[1]
BEGIN, COMMIT = 2 << 30 | 16 << 16 | ord("M") << 8 | 1, 1 << 30 | 24 << 16 | ord("M") << 8 | 2
SIZE, HOLE = 300000, 200704
libc = ctypes.CDLL(None)

def servers(what):
    for pid in sys.argv[2:]:
        os.kill(int(pid), what)

def waits(thread):
    with open(f"/proc/self/task/{thread.native_id}/wchan") as f:
        return "request_wait_answer" in f.read()

def begin(fd):
    while True:
        try:
            return fcntl.ioctl(fd, BEGIN, bytes(16))
        except OSError as error:
            assert error.errno in (errno.EAGAIN, errno.EBUSY), error
            refused.set()
            servers(signal.SIGCONT)
        time.sleep(0.01)

refused = threading.Event()
fd, copy = os.open(path, os.O_RDWR | os.O_CREAT), os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR, 0o600)
os.pwrite(fd, b"a" * SIZE, 0)
os.fsync(fd)
assert os.pread(fd, SIZE, 0) == b"a" * SIZE
punch = threading.Thread(target=lambda: libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(HOLE)))
servers(signal.SIGSTOP)
late = threading.Timer(20, servers, (signal.SIGCONT,)) # If it were not refused but waited.
punch.start()
while not waits(punch):
    time.sleep(0.01)
late.start()
state = begin(fd)
data = os.pread(fd, SIZE, 0)
servers(signal.SIGCONT)
late.cancel()
punch.join()
os.fsync(fd)
os.pwrite(copy, data, 0)
word = errno.EBUSY
while word == errno.EBUSY:
    word = 0
    try:
        fcntl.ioctl(fd, COMMIT, state + struct.pack("Q", os.fstat(copy).st_ino))
    except OSError as error:
        word = error.errno
assert word in (0, errno.EAGAIN), os.strerror(word)
assert os.pread(fd, SIZE, 0) == bytes(HOLE) + b"a" * (SIZE - HOLE), "a hole has the bytes of before"
assert refused.is_set(), "an exchange began while a hole was being punched"
PY
timeout 60 python3 "$work/begun.py" "$a/must_not/begun" "${pid_of[iod1]}" "${pid_of[iod2]}" || fail "see above"

# A copy of which something was lost on its way is none.
policy "$a/must_not" replicas=1
start_mount soon io_timeout=1s
cat >"$work/lost.py" <<'PY'
import errno, fcntl, os, struct, sys, time
directory = sys.argv[1]
BEGIN, COMMIT = 2 << 30 | 16 << 16 | ord("M") << 8 | 1, 1 << 30 | 24 << 16 | ord("M") << 8 | 2
with open(f"{directory}/lost", "wb") as f:
    f.write(b"a" * 100000)
fd = os.open(f"{directory}/lost", os.O_RDWR)
copy = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
state = fcntl.ioctl(fd, BEGIN, bytes(16))
print("ready", flush=True)
sys.stdin.readline()
os.pwrite(copy, b"a" * 100000, 0)
print("written", flush=True)
sys.stdin.readline()
word = "busy"
while word == "busy": # While it may still land.
    try:
        fcntl.ioctl(fd, COMMIT, state + struct.pack("Q", os.fstat(copy).st_ino))
        word = "done"
    except OSError as error:
        word = "busy" if error.errno == errno.EBUSY else error.strerror
        time.sleep(0.1)
print(word, flush=True)
PY
mkfifo "$work/run/say2" "$work/run/hear2"
python3 "$work/lost.py" "$mnt/must_not" <"$work/run/say2" >"$work/run/hear2" &
holder=$!
children+=("$holder")
exec 8>"$work/run/say2" 9<"$work/run/hear2"
read -r -t 30 word <&9
crash iod1
crash iod2
echo >&8
read -r -t 30 word <&9
is_lost() {
    grep -q "were not written to server" "$work/log/mount-soon"
}
wait_for 30 "what was written to the copy is lost" is_lost
start_iod 1
start_iod 2
seen_well
echo >&8
read -r -t 30 word <&9
[ "$word" != "done" ] || fail "a file was given the place of a copy that had lost its bytes"
exec 8>&- 9<&-
wait "$holder" || fail "the program that copied ended badly"
[ "$(tr -d a <"$b/must_not/lost" | wc -c) $(stat -c %s "$b/must_not/lost")" = "0 100000" ] || fail "bytes are lost"
note "a copy of which bytes were lost: $word"
stop_mount soon
fsck_clean
note "what changed meanwhile is not replaced"

[ -z "${ONLY:-}" ] || { cluster_end; exit; }
# ---- Writers, readers, and everything killed ----

cat >"$work/work.py" <<'PY'
"""Writers on one mount, readers on it and on another; each read is no older than what was acknowledged or read before."""
import json, mmap, os, random, signal, struct, sys, threading, time
a, b, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
BLOCK, BLOCKS, FILES = 32 << 10, 40, 6
HEAD = struct.Struct("<QQ")
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
lock = threading.Lock()
acked, tried, seen = ([[0] * BLOCKS for _ in range(FILES)] for _ in range(3))
counts, wrong, errors = {"write": 0, "here": 0, "there": 0}, [], []

def content(block, version):
    return HEAD.pack(block, version) * (BLOCK // HEAD.size)

def write(chance):
    kept = [os.open(f"{a}/w{i}", os.O_RDWR) for i in range(3)] # Others are opened for each write.
    maps = [mmap.mmap(kept[0], BLOCK * BLOCKS)]
    while not stop.is_set():
        i, block = chance.randrange(FILES), chance.randrange(BLOCKS)
        with lock:
            version = tried[i][block] = tried[i][block] + 1
        fd = kept[i] if i < 3 else -1
        try:
            if i == 0 and chance.random() < 0.5:
                maps[0][block * BLOCK:(block + 1) * BLOCK] = content(block, version)
                maps[0].flush(block * BLOCK, BLOCK)
            else:
                fd = fd if fd >= 0 else os.open(f"{a}/w{i}", os.O_RDWR)
                os.pwrite(fd, content(block, version), block * BLOCK)
                if chance.random() < 0.3:
                    os.fsync(fd)
            with lock:
                acked[i][block] = version
                counts["write"] += 1
        except OSError as error:
            errors.append(str(error))
        if i >= 3 and fd >= 0:
            try:
                os.close(fd)
            except OSError as error:
                errors.append(str(error))
        stop.wait(chance.choice((0.002, 0.05, 0.5)))

def check(where, i, block, data, least):
    versions = {HEAD.unpack_from(data, at) for at in range(0, BLOCK, HEAD.size)}
    with lock:
        newest = tried[i][block]
        for of, version in versions:
            if of != block or not least <= version <= newest:
                wrong.append(f"{where}: file {i}, block {block} has {of} of version {version}; it is at least {least}, at most {newest}")
        seen[i][block] = max([seen[i][block]] + ([min(v for _, v in versions)] if not wrong else []))
        counts[where] += 1

def read(where, directory, chance, pause):
    kept = os.open(f"{directory}/w1", os.O_RDONLY) if where == "here" else -1
    while not stop.is_set():
        i, block = chance.randrange(FILES), chance.randrange(BLOCKS)
        with lock:
            least = max(acked[i][block], seen[i][block])
        fd = kept if i == 1 and kept >= 0 else -1
        try:
            fd = fd if fd >= 0 else os.open(f"{directory}/w{i}", os.O_RDONLY)
            data = os.pread(fd, BLOCK, block * BLOCK)
            check(where, i, block, data, least)
        except OSError as error:
            errors.append(str(error))
        if fd >= 0 and fd != kept:
            os.close(fd)
        stop.wait(chance.random() * pause)

for i in range(FILES):
    with open(f"{a}/w{i}", "wb") as f:
        f.write(b"".join(content(block, 0) for block in range(BLOCKS)))
print("ready", flush=True)
threads = [threading.Thread(target=write, args=(random.Random(seed),)),
           threading.Thread(target=read, args=("here", a, random.Random(seed + 1), 0.02)),
           threading.Thread(target=read, args=("there", b, random.Random(seed + 2), 0.4))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for directory in (a, b):
    for i in range(FILES):
        with open(f"{directory}/w{i}", "rb") as f:
            for block in range(BLOCKS):
                check("here", i, block, f.read(BLOCK), max(acked[i][block], seen[i][block]))
print(json.dumps({"counts": counts, "errors": len(errors), "wrong": wrong[:5]}))
sys.exit(1 if wrong or min(counts.values()) < 50 else 0)
PY
mkdir "$a/busy"
policy "$a/busy" replicas=1
mkfifo "$work/run/works"
python3 "$work/work.py" "$a/busy" "$b/busy" "$test_seed" >"$work/run/works" &
works=$!
children+=("$works")
exec 8<"$work/run/works"
read -r -t 30 word <&8
done_files=0
# round COPIES VICTIM: what is killed at a drawn moment while files get that many copies.
round() {
    local pid now victim=$2
    policy "$a/busy" "replicas=$1"
    "$bin/morsel" recopy --rate 16M --json --manager="$manager" "$a/busy" >"$work/round.json" 2>"$work/recopy.err" &
    pid=$!
    sleep "0.$((RANDOM % 10))$((RANDOM % 10))" # A moment that the seed draws: nothing is waited for.
    case $victim in
    nobody) ;;
    twin) # Several files exchange at once.
        find "$a/busy" -type f | shuf | xargs "$bin/morsel" recopy --manager="$manager" >/dev/null 2>&1 || true
        ;;
    command) kill -KILL "$pid" 2>/dev/null || true ;;
    meta)
        crash meta
        start_meta
        ;;
    iod*)
        crash "$victim"
        start_iod "${victim#iod}"
        ;;
    esac
    wait "$pid" || true
    now=$(jq .files_done "$work/round.json") # Nothing of one that was killed.
    done_files=$((done_files + ${now:-0}))
    kill -0 "$works" || fail "the programs have ended: $(cat <&8)"
}
for victim in nobody twin command meta twin nobody command iod1 command meta iod2 nobody; do
    round 2 "$victim"
    seen_well
    round 1 nobody
done
kill -TERM "$works"
result=$(cat <&8)
exec 8<&-
wait "$works" || fail "$result"
note "$done_files files were copied meanwhile: $result"
[ "$done_files" -ge 20 ] || fail "only $done_files files were copied while programs wrote and things were killed"

# And now nobody is in the way.
policy "$a/busy" replicas=2
seen_well
recopy "$a/busy" || fail "in the end: $said"
all_have 2 "$a/busy"
(cd "$a/busy" && sha256sum ./*) >"$work/sums"
for away in 1 2; do
    seen_well
    crash "iod$away"
    drop_caches
    (cd "$b/busy" && sha256sum --quiet -c "$work/sums") || fail "files are not what they were without server $away"
    start_iod "$away"
done
seen_well
copies_are_equal
wait_for 60 "what the files had before is deleted" nothing_to_delete
fsck_clean
cluster_end
