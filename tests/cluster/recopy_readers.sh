#!/bin/bash
# morsel recopy of files that another mount has open to read: they move, again and again, and whoever reads them there, in each of the ways in which
# one can, sees the bytes of the file and no error; also a read that was on its way when they moved, and whose answer comes when what it asks for is
# deleted. What another mount may write to does not move.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin recopy_readers "$1"
start_host far
listen_for_host
address_of[iod3]=$host_address:0
start_cluster 3 --lease-time 1s --session-time 2s
start_near_and_far
start_mount beside
beside=$mnt
start_mount lax nocache
# shellcheck disable=SC2034 # by its name, as the others
lax=$mnt
recopy() { # PATH...
    timeout 120 "$bin/morsel" recopy --json --manager="$manager" "$@" >"$work/said" 2>"$work/recopy.err"
}
expect_said() {
    [ "$(jq -r "$1" "$work/said")" = "$2" ] || fail "expected $1 = $2: $(cat "$work/said" "$work/recopy.err")"
}
nothing_to_delete() {
    [ "$(morsel status --json | jq .garbage)" = 0 ]
}
sessions_are() {
    [ "$(morsel status --json | jq .sessions)" = "$1" ]
}
mkdir "$near/files"
policy "$near/files" replicas=2
seen_well
policy "$near/files" replicas=1 stripe_width=1

# ---- What may be done, and what not ----

cat >"$work/may.py" <<'PY'
"""The two requests themselves (src/common/fs/exchange.h) through a handle that only reads, with a copy of other bytes: whoever sees them, it was done."""
import errno, fcntl, os, struct, sys, time
a, b = sys.argv[1:3]
BEGIN, COMMIT = 2 << 30 | 16 << 16 | ord("M") << 8 | 1, 1 << 30 | 24 << 16 | ord("M") << 8 | 2
SIZE = 300000
kept = []

def keep(path, flags):
    kept.append(os.open(path, flags))

def overwrite(path):
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"A", 7)
    os.close(fd)

def begin(fd):
    for _ in range(200): # The other mount has closed it, and the manager is about to hear of that.
        try:
            return fcntl.ioctl(fd, BEGIN, bytes(16))
        except OSError as error:
            assert error.errno == errno.EBUSY, error
        time.sleep(0.1)
    raise AssertionError("nobody writes on another mount, and it is busy")

NO = {errno.EAGAIN, errno.EBUSY}
cases = (
    ("nothing", lambda: None, lambda: None, {0}),
    ("a reader on another mount before", lambda: keep(f"{b}/{case}", os.O_RDONLY), lambda: None, {0}),
    ("a reader on another mount", lambda: None, lambda: keep(f"{b}/{case}", os.O_RDONLY), {0}),
    ("a write on this mount", lambda: None, lambda: overwrite(f"{a}/{case}"), NO),
    ("a write on another mount", lambda: None, lambda: overwrite(f"{b}/{case}"), NO),
    ("a truncation on another mount", lambda: None, lambda: (os.truncate(f"{b}/{case}", 5), os.truncate(f"{b}/{case}", SIZE)), NO),
    ("a writer on another mount", lambda: None, lambda: keep(f"{b}/{case}", os.O_WRONLY), NO),
    ("a reader on another mount, and a writer here", lambda: keep(f"{b}/{case}", os.O_RDONLY), lambda: keep(f"{a}/{case}", os.O_WRONLY), NO),
)
for case, (what, before, happens, expected) in enumerate(cases):
    with open(f"{a}/{case}", "wb") as f:
        f.write(b"a" * SIZE)
    before()
    fd = os.open(f"{a}/{case}", os.O_RDONLY)
    copy = os.open(a, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.pwrite(copy, b"c" * SIZE, 0)
    state = begin(fd)
    happens()
    got = 0
    try:
        fcntl.ioctl(fd, COMMIT, state + struct.pack("Q", os.fstat(copy).st_ino))
    except OSError as error:
        got = error.errno
    assert got in expected, f"{what}: {errno.errorcode.get(got, got)}"
    for mount in (a, b):
        with open(f"{mount}/{case}", "rb") as f:
            data = f.read()
        assert (b"c" in data) == (got == 0), f"{what}: {mount} shows {set(data)}"
    for handle in kept + [fd, copy]:
        os.close(handle)
    kept.clear()
    print(f"{what}: {errno.errorcode.get(got, 'done')}", flush=True)
PY
python3 "$work/may.py" "$near/files" "$beside/files" || fail "see above"
rm "$near/files"/?

# ---- Readers, while it moves ----

cat >"$work/read.py" <<'PY'
"""Reads a directory in all ways, and compares with what it had at first. Ends with SIGTERM."""
import json, mmap, os, random, signal, sys, threading
top, stop, wrong, counts = sys.argv[1], threading.Event(), [], {}
signal.signal(signal.SIGTERM, lambda *_: stop.set())
names = sorted(os.listdir(top))
had = {}
for name in names:
    with open(f"{top}/{name}", "rb") as f:
        had[name] = f.read()

def plain(name, chance, state):
    fd = state.setdefault(name, None) or os.open(f"{top}/{name}", os.O_RDONLY)
    state[name] = fd
    at = chance.randrange(len(had[name]))
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED) # So that it comes to the mount.
    return os.pread(fd, 70000, at), had[name][at:at + 70000]

def direct(name, chance, state):
    fd = state.setdefault(name, None) or os.open(f"{top}/{name}", os.O_RDONLY | os.O_DIRECT)
    state[name] = fd
    room, at = state.setdefault("room", mmap.mmap(-1, 1 << 16)), chance.randrange(len(had[name])) // 4096 * 4096
    count = os.preadv(fd, [room], at)
    return room[:count], had[name][at:at + (1 << 16)]

def mapped(name, chance, state):
    if name not in state:
        fd = os.open(f"{top}/{name}", os.O_RDONLY)
        state[name] = mmap.mmap(fd, len(had[name]), prot=mmap.PROT_READ)
    at = chance.randrange(len(had[name]))
    state[name].madvise(mmap.MADV_DONTNEED)
    return state[name][at:at + 5000], had[name][at:at + 5000]

def sequence(name, chance, state):
    with open(f"{top}/{name}", "rb") as f:
        return f.read(), had[name]

def seek(name, chance, state):
    fd = state.setdefault(name, None) or os.open(f"{top}/{name}", os.O_RDONLY)
    state[name] = fd
    return (os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE)), (len(had[name]), 0, len(had[name]))

def work(how, seed):
    chance, state = random.Random(seed), {}
    while not stop.is_set() and len(wrong) < 5:
        name = chance.choice(names)
        try:
            got, expected = how(name, chance, state)
        except OSError as error:
            wrong.append(f"{how.__name__} of {name}: {error}")
            continue
        if got != expected:
            what = f"{got} instead of {expected}" if isinstance(got, tuple) else f"{len(got)} bytes instead of {len(expected)}, {bytes(got).count(0)} zeros"
            wrong.append(f"{how.__name__} of {name}: {what}")
        counts[how.__name__] = counts.get(how.__name__, 0) + 1
        stop.wait(0.002)

threads = [threading.Thread(target=work, args=(how, i)) for i, how in enumerate((plain, direct, mapped, sequence, seek))]
for thread in threads:
    thread.start()
print("ready", flush=True)
for thread in threads:
    thread.join()
print(json.dumps({"counts": counts, "wrong": wrong}), flush=True)
sys.exit(bool(wrong) or min(counts.get(how, 0) for how in ("plain", "direct", "mapped", "sequence", "seek")) < 20)
PY
for i in {1..5}; do
    head -c "$((i * 700000 + 13))" /dev/urandom >"$near/files/$i"
done
cp "$(command -v sleep)" "$near/files/program"
sync "$near/files"/*
sha256sum "$near/files"/* >"$work/sums"
"$beside/files/program" 600 & # One that runs there,
programs=("$!")
"$near/files/program" 600 & # and one here.
programs+=("$!")
children+=("${programs[@]}")
declare -A reader=()
for where in beside near far lax; do
    mkfifo "$work/run/$where"
    python3 "$work/read.py" "${!where}/files" >"$work/run/$where" &
    reader[$where]=$!
    children+=($!)
    exec {heard}<"$work/run/$where"
    read -r -t 60 word <&"$heard"
    [ "$word" = ready ] || fail "the reader on $where: $word"
    declare "heard_$where=$heard"
done
moved=0
for i in {1..6}; do
    case $((i % 3)) in
    0) policy "$near/files" replicas=1 stripe_width=1 morsel_size=1M ;;
    1) policy "$near/files" replicas=2 stripe_width=1 morsel_size=1M ;;
    2) policy "$near/files" replicas=1 stripe_width=3 morsel_size=64K ;;
    esac
    recopy "$near/files" || fail "round $i: $(cat "$work/said" "$work/recopy.err")"
    expect_said .files_done 6
    moved=$((moved + 6))
    for where in beside near far lax; do
        kill -0 "${reader[$where]}" || fail "the reader on $where has ended"
    done
done
for where in beside near far lax; do
    kill -TERM "${reader[$where]}"
    heard=heard_$where
    read -r -t 60 word <&"${!heard}" || true
    wait "${reader[$where]}" || fail "the reader on $where: $word"
    note "$where: $word"
done
sha256sum --quiet -c "$work/sums" || fail "files are not what they were"
note "$moved times a file moved that was read on four mounts"

# Two that want the same: one of them has to let the other one go first, and nobody is given up.
for i in {1..3}; do
    policy "$near/files" replicas=$((i % 2 + 1)) stripe_width=1 morsel_size=1M
    timeout 120 "$bin/morsel" recopy --json --manager="$manager" "$beside/files" >"$work/said2" 2>&1 &
    other=$!
    children+=("$other")
    recopy "$near/files" || true
    wait "$other" || true
    recopy "$near/files" || fail "after two at once: $(cat "$work/said" "$work/recopy.err")"
done
! grep -q "did not give back a lease" "$work/log/meta" || fail "a mount was given up: $(grep 'did not give back' "$work/log/meta")"
sha256sum --quiet -c "$work/sums" || fail "files are not what they were behind two at once"
fsck_clean
note "two at once"

# ---- Who writes behind that ----

# The mount has heard nothing of the move yet when a program there opens the file to write: a reader has it open.
policy "$near/files" replicas=1 stripe_width=1 morsel_size=1M
mkdir "$near/changes"
policy "$near/changes" replicas=1 stripe_width=1 morsel_size=1M
python3 - "$beside/changes" "$near/changes" "$near/files/5" "$bin/morsel" "$manager" <<'PY' || fail "a change of a mount that has the file open to read, behind its move"
import ctypes, os, shutil, subprocess, sys
beside, near, source, morsel, manager = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)

def written(fd):
    assert os.pwrite(fd, b"w" * 65536, 0) == 65536

def appended(fd):
    more = os.open(path, os.O_WRONLY | os.O_APPEND)
    assert os.write(more, b"a" * 5000) == 5000
    os.close(more)

def punched(fd):
    assert libc.fallocate(fd, 3, ctypes.c_long(4096), ctypes.c_long(8192)) == 0, os.strerror(ctypes.get_errno())

def allocated(fd):
    os.posix_fallocate(fd, os.fstat(fd).st_size, 4096)

def copied(fd):
    with open(source, "rb") as other:
        assert os.copy_file_range(other.fileno(), fd, 65536, 0, 131072) == 65536

changes = {
    "written": written,
    "synced": lambda fd: (written(fd), os.fsync(fd)),
    "appended": appended,
    "cut": lambda fd: os.ftruncate(fd, 70000),
    "cut by name": lambda fd: os.truncate(path, 60000),
    "made longer": lambda fd: os.ftruncate(fd, 900000),
    "punched": punched,
    "allocated": allocated,
    "copied": copied,
}
subprocess.run([morsel, "setpolicy", near, "replicas=1"], check=True)
for name in changes:
    shutil.copy(source, f"{near}/{name}")
subprocess.run([morsel, "setpolicy", near, "replicas=2"], check=True)
for what, change in changes.items():
    path = f"{beside}/{what}"
    reader = os.open(path, os.O_RDONLY)
    os.pread(reader, 65536, 0)
    done = subprocess.run([morsel, "recopy", "--wait=60s", f"--manager={manager}", f"{near}/{what}"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"before it was {what}: {done.stdout}{done.stderr}")
    writer = os.open(path, os.O_RDWR)
    try:
        change(writer)
    except OSError as error:
        sys.exit(f"{what}: {error}")
    with open(path, "rb") as here, open(f"{near}/{what}", "rb") as there:
        assert here.read() == there.read(), f"{what}: two mounts read two things"
    os.close(writer)
    os.close(reader)
PY
rm -r "$near/changes"
note "changes behind a move"

# ---- A read that is on its way ----

# The mount is cut off with its question; when it is answered the server has nothing there any more.
policy "$near/files" replicas=1 stripe_width=1 morsel_size=1M
recopy "$near/files" || fail "recopy: $(cat "$work/said" "$work/recopy.err")"
mkfifo "$work/run/say" "$work/run/hear"
cat >"$work/late.py" <<'PY'
import mmap, os, sys, threading
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT) # Else the kernel asks for attributes before, and waits for those.
room = mmap.mmap(-1, 1 << 17)
other = os.open(sys.argv[2], os.O_RDONLY)
found = []
seeker = threading.Thread(target=lambda: found.append(os.lseek(other, 0, os.SEEK_DATA)))
print("open", flush=True)
sys.stdin.readline()
seeker.start()
data = room[:os.preadv(fd, [room], 200704)]
seeker.join()
assert found == [0], f"looked for data: {found}"
with open(sys.argv[3], "wb") as f:
    f.write(data)
PY
drop_caches
wait_for 30 "the lease on what is read" opens_alone "$far" files/3 O_RDONLY
wait_for 30 "the lease on what is looked through" opens_alone "$far" files/4 O_RDONLY
python3 "$work/late.py" "$far/files/3" "$far/files/4" "$work/late" <"$work/run/say" >"$work/run/hear" 2>"$work/late.err" &
late=$!
children+=("$late")
exec 8>"$work/run/say" 9<"$work/run/hear"
read -r -t 30 _ <&9
cut_link far
echo >&8
exec 8>&- 9<&-
wait_for 60 "the end of the session" sessions_are 3
policy "$near/files" replicas=2
recopy "$near/files" || fail "recopy: $(cat "$work/said" "$work/recopy.err")"
wait_for 60 "what the files had before is deleted" nothing_to_delete
kill -0 "$late" || fail "the read has ended before its answer: $(cat "$work/late.err")"
mend_link far
wait "$late" || fail "a read that was on its way: $(cat "$work/late.err")"
cmp "$work/late" <(tail -c +200705 "$near/files/3" | head -c 131072) || fail "a read that was on its way has other bytes: $(tr -d '\0' <"$work/late" | wc -c) that are no zeros"
note "a read that was on its way"
kill -0 "${programs[@]}" || fail "a program that ran from a file which moved has ended"
kill -KILL "${programs[@]}"
wait "${programs[@]}" || true
fsck_clean
cluster_end
