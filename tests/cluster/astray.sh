#!/bin/bash
# Where the bytes of a file lie changes (morsel recopy, and a copy into a new file), and a mount that has the file open does not hear of it: because it
# was away for longer than its session, or because the answer is lost. It never shows other bytes than those of the file, and what it writes is where
# everybody finds it, or it says that it is not. Nobody waits for that word for longer than io_timeout.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin astray "$1"
start_cluster 3 --lease-time 1s --session-time 2s
start_host far
start_relay far --lose-layout "$work/lose" --lose-exchange "$work/lose"
start_near_and_far io_timeout=1s

sessions_are() {
    [ "$(morsel status --json | jq .sessions)" = "$1" ]
}

nothing_to_delete() {
    [ "$(morsel status --json | jq .garbage)" = 0 ]
}

# ---- The answer is lost ----

mkdir "$near/one"
policy "$near/one" replicas=1 stripe_width=1
cat >"$work/copy.py" <<'PY'
import os, sys, time
source, target = (os.open(path, flags) for path, flags in ((sys.argv[1], os.O_RDONLY), (sys.argv[2], os.O_WRONLY)))
begun = time.monotonic()
try:
    while os.copy_file_range(source, target, 1 << 20):
        pass
    os.close(target)
finally:
    print(f"took {int((time.monotonic() - begun) * 1000)}", file=sys.stderr)
PY
head -c 300000 /dev/urandom >"$near/one/source"
python3 - "$far/one" <<'PY'
import os, sys
for i in range(8): # One of them, at least, lies on another server than the source.
    os.close(os.open(f"{sys.argv[1]}/copy{i}", os.O_CREAT | os.O_WRONLY))
PY
lost=0
for i in {0..7}; do
    : >"$work/lose"
    code=0
    timeout 20 python3 "$work/copy.py" "$far/one/source" "$far/one/copy$i" 2>"$work/copier" || code=$?
    took=$(sed -n 's/^took //p' "$work/copier") # Of the calls alone: a busy machine is slow to start a program.
    if [ -s "$work/lose" ]; then
        lost=$((lost + 1))
        grep -q 'Errno 5]' "$work/copier" || fail "nobody said where copy $i lies, and who copied was told: $code, $(cat "$work/copier")"
        [ "${took:-20000}" -lt 4000 ] || fail "who copied waited for $took ms"
        # What is written now would be where nobody finds it.
        ! printf word 2>"$work/writer" | dd of="$far/one/copy$i" conv=notrunc oflag=sync status=none 2>>"$work/writer" || fail "written although nobody knows where to"
    else
        [ "$code" = 0 ] || fail "copy $i failed although no answer was lost: $(cat "$work/copier")"
    fi
    rm "$work/lose"
    wait_for 30 "copy $i, now that the manager says where it lies" python3 "$work/copy.py" "$far/one/source" "$far/one/copy$i" 2>"$work/copier"
    cmp "$near/one/source" "$near/one/copy$i" || fail "copy $i is not what was copied, and nobody was told"
done
[ "$lost" -ge 2 ] || fail "only $lost answers were lost"
note "$lost answers were lost, and no byte"
fsck_clean

# ---- Nobody says whether files have exchanged their bytes ----

cat >"$work/asker.py" <<'PY'
"""Past the kernel's pages: how each call ends, and that it does."""
import errno, mmap, os, sys, time
path, block = sys.argv[1], mmap.mmap(-1, 4096)
fd = os.open(path, os.O_RDWR | os.O_DIRECT)
kept = bytes(mmap.mmap(os.open(sys.argv[2], os.O_RDONLY), 0, prot=mmap.PROT_READ))
print("open", flush=True)
sys.stdin.readline()
for what, call in (("read", lambda: os.preadv(fd, [block], 0)), ("write", lambda: os.pwritev(fd, [block], 4096)), ("cut", lambda: os.ftruncate(fd, 5000)),
                   ("allocate", lambda: os.posix_fallocate(fd, 1 << 20, 4096)), ("sync", lambda: os.fsync(fd)), ("stat", lambda: os.stat(path))):
    begun = time.monotonic()
    try:
        call()
        end = 0
    except OSError as error:
        end = error.errno
    took = time.monotonic() - begun
    print(f"{what}: {errno.errorcode.get(end, 'done')} after {took:.1f} s", file=sys.stderr, flush=True)
    assert took < 4, f"{what} took {took:.1f} s"
    assert end == errno.EIO or what in ("sync", "stat"), f"{what}: {errno.errorcode.get(end, 'done')}"
print("asked", flush=True)
sys.stdin.readline()
begun = time.monotonic()
while True:
    try:
        os.preadv(fd, [block], 0)
        break
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ESTALE) and time.monotonic() < begun + 30, error
    time.sleep(0.02)
assert block[:] == kept[:4096], "other bytes are read"
block[:4] = b"word"
while True:
    try:
        os.pwritev(fd, [block], 4096)
        os.fsync(fd)
        break
    except OSError as error:
        assert error.errno in (errno.EIO, errno.ESTALE) and time.monotonic() < begun + 30, error
    time.sleep(0.02)
print("written", flush=True)
PY
mkfifo "$work/run/say" "$work/run/hear"

# exchanged HOW: files of a program exchange theirs, and the answer is lost.
exchanged() {
    local how=$1 top=one/exchanged_$1 asker recopy
    mkdir "$near/$top"
    head -c 200000 /dev/urandom >"$near/$top/file"
    cp "$near/$top/file" "$work/file"
    policy "$near/$top" replicas=2
    seen_well
    python3 "$work/asker.py" "$far/$top/file" "$work/file" <"$work/run/say" >"$work/run/hear" 2>"$work/asker" &
    asker=$!
    children+=("$asker")
    exec 8>"$work/run/say" 9<"$work/run/hear"
    read -r -t 30 _ <&9 || fail "$how: $(cat "$work/asker")"
    : >"$work/lose"
    timeout 100 "$bin/morsel" recopy --manager="$manager" "$far/$top" >"$work/recopied" 2>&1 8>&- 9<&- &
    recopy=$!
    children+=("$recopy")
    wait_for 60 "$how: an exchange of which nobody hears" test -s "$work/lose"
    [ "$how" != stopped ] || kill -STOP "${pid_of[meta]}"
    echo >&8
    read -r -t 60 _ <&9 || fail "$how: $(cat "$work/asker")"
    kill -0 "$recopy" 2>/dev/null || [ "$how" = stopped ] || ! wait "$recopy" || fail "$how: nobody said so, and it was done: $(cat "$work/recopied")"
    [ "$how" != stopped ] || kill -CONT "${pid_of[meta]}"
    rm "$work/lose"
    echo >&8
    read -r -t 60 _ <&9 || fail "$how: $(cat "$work/asker")"
    wait "$asker" || fail "$how: $(cat "$work/asker")"
    exec 8>&- 9<&-
    wait "$recopy" || true
    python3 - "$work/file" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    first = f.read(4096)
    f.write(b"word" + first[4:])
PY
    cmp "$work/file" "$near/$top/file" || fail "$how: the file is not what it was, and what was written to it"
    wait_for 60 "$how: what the file had before is deleted" nothing_to_delete
}
exchanged lost
exchanged stopped
note "who asks about a file is told within io_timeout that nobody knows where it lies"
fsck_clean

# ---- Away for too long ----

# The programs of the mount that is away: each file is open to read and to write.
cat >"$work/holder.py" <<'PY'
import errno, os, sys, threading, time
top, size = sys.argv[1], int(sys.argv[2])
files = {name: os.open(f"{top}/{name}", os.O_RDWR) for name in ("read", "write", "append", "empty", "synced")}

def until_found(what, call):
    """ESTALE: it lies elsewhere, and is being looked for."""
    begun = time.monotonic()
    while True:
        try:
            return call()
        except OSError as error:
            assert error.errno == errno.ESTALE and time.monotonic() < begun + 30, f"{what}: {error}"
        time.sleep(0.02)

before = os.pread(files["read"], size, 0)
os.pwrite(files["synced"], b"word", 1000)
os.fsync(files["synced"])
synced = []

def sync():
    """Nothing was lost, and nothing of this program is on its way to where the file lay: no error."""
    try:
        os.fsync(files["synced"])
        synced.append("done")
    except OSError as error:
        synced.append(errno.errorcode[error.errno])

first = threading.Thread(target=sync) # Before the mount hears anything.
print("open", flush=True)
sys.stdin.readline()
first.start()
after = until_found("read", lambda: os.pread(files["read"], size, 0))
assert after == before, f"other bytes are read: {len(after)}, first {after[:8]}"
until_found("write", lambda: os.pwrite(files["write"], b"word", 1000))
until_found("append", lambda: os.pwrite(files["append"], b"more", size))
until_found("empty", lambda: os.pwrite(files["empty"], b"word", 1000))
for name in ("write", "append", "empty"):
    until_found("sync", lambda: os.fsync(files[name]))
first.join()
assert synced == ["done"], f"a sync of what was synced: {synced}"
print("written", flush=True)
sys.stdin.readline()
PY
# away HOW: while the mount is, all its files move. Each time with a holder of its own.
away() {
    local how=$1 top=one/$1 name holder
    mkdir "$near/$top"
    for name in read write append synced; do
        head -c 200000 /dev/urandom >"$near/$top/$name"
    done
    : >"$near/$top/empty"
    head -c 300000 /dev/urandom >"$near/$top/source"
    cp "$near/$top/write" "$work/write"
    cp "$near/$top/append" "$work/append"
    cp "$near/$top/source" "$work/empty"
    python3 "$work/holder.py" "$far/$top" 200000 <"$work/run/say" >"$work/run/hear" 2>"$work/holder" &
    holder=$!
    children+=("$holder")
    exec 8>"$work/run/say" 9<"$work/run/hear"
    read -r -t 30 _ <&9 || fail "$how: $(cat "$work/holder")"
    kill -STOP "${pid_of[mount-far]}"
    [ "$how" != restarted ] || { crash meta && start_meta 8>&- 9<&-; } # It does not know who has what open.
    wait_for 60 "$how: the end of the session" sessions_are 1
    wait_for 60 "the servers are with the manager" running_are_up
    python3 "$work/copy.py" "$near/$top/source" "$near/$top/empty"
    policy "$near/$top" replicas=2
    seen_well
    timeout 60 "$bin/morsel" recopy --manager="$manager" "$near/$top" >"$work/recopied" || fail "$how: $(cat "$work/recopied")"
    wait_for 60 "$how: what the files had before is deleted" nothing_to_delete
    # What is not synced, and is known under the verifier of where the file lies now.
    printf more | dd of="$near/$top/synced" bs=1 seek=2000 conv=notrunc status=none
    echo >&8 # The first calls are there when the mount goes on.
    kill -CONT "${pid_of[mount-far]}"
    read -r -t 60 _ <&9 || fail "$how: $(cat "$work/holder")"
    printf word | dd of="$work/write" bs=1 seek=1000 conv=notrunc status=none
    printf word | dd of="$work/empty" bs=1 seek=1000 conv=notrunc status=none
    printf more >>"$work/append"
    for name in write append empty; do
        cmp "$work/$name" "$near/$top/$name" || fail "$how: what was written to $name, and synced, is not there"
    done
    exec 8>&- 9<&-
    wait "$holder" || fail "$how: $(cat "$work/holder")"
}
away frozen
note "a mount that was away finds its files again"
away restarted
note "also when the manager was started again meanwhile"
wait_for 60 "nothing is left to delete" nothing_to_delete
fsck_clean
cluster_end
