#!/bin/bash
# What a yes of fsync is worth while the mount lives on: servers lose their power, and everything that was fsynced before is there, whoever
# wrote it, through whichever handle and mount.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
own_mounts "$@"
cluster_begin durable "$1"

# The machines of both I/O daemons lose their power, and come back.
iods_lose_power() {
    lose_power iod1
    lose_power iod2
    start_iod 1
    start_iod 2
    wait_for 60 "the I/O daemons are back" servers_up 2
}

own_disk meta 256M
own_disk iod1 1G
own_disk iod2 1G
start_cluster 2
start_mount a io_timeout=3s
a=$mnt
start_mount b io_timeout=3s
b=$mnt
head -c 6000000 /dev/urandom >"$work/bytes"

fsync_path() {
    python3 -c 'import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd)' "$1"
}

# ---- Another handle, after close, another mount ----

cp "$work/bytes" "$a/sync-file"
sync "$a/sync-file"
cp "$work/bytes" "$a/open-fsync"
fsync_path "$a/open-fsync"
cp "$work/bytes" "$a/other-mount"
fsync_path "$b/other-mount"
cp "$work/bytes" "$a/other-writes"
printf X | dd of="$b/other-writes" bs=1 seek=3000000 conv=notrunc status=none
fsync_path "$a/other-writes"
cp "$work/bytes" "$a/cut"
fsync_path "$a/cut"
truncate -s 4000000 "$a/cut"
fsync_path "$a/cut"
cp "$work/bytes" "$a/held-open"
python3 - "$a/held-open" "$b/held-open" <<'PY'
import os, sys
here, there = (os.open(p, os.O_RDWR) for p in sys.argv[1:])
for i in range(4): # Of two mounts that have it open, one writes and the other one syncs.
    os.pwrite(here, b"Y" * 100, i << 20)
os.fsync(there)
PY
iods_lose_power
drop_caches
for name in sync-file open-fsync other-mount; do
    cmp "$work/bytes" "$a/$name" || fail "$name: bytes that were fsynced are gone"
done
cp "$work/bytes" "$work/expected"
printf X | dd of="$work/expected" bs=1 seek=3000000 conv=notrunc status=none
cmp "$work/expected" "$a/other-writes" || fail "bytes of another mount that were fsynced are gone"
cmp <(head -c 4000000 "$work/bytes") "$a/cut" || fail "bytes that were fsynced before a cut are gone"
cp "$work/bytes" "$work/expected"
for i in 0 1 2 3; do
    head -c 100 /dev/zero | tr '\0' Y | dd of="$work/expected" bs=1 seek=$((i << 20)) conv=notrunc status=none
done
cmp "$work/expected" "$a/held-open" || fail "bytes of a file that two mounts have open are gone, although one of them fsynced it"
note "fsync covers what others wrote"

# ---- Two at a time, and one that fails ----

python3 - "$a/failing" "${pid_of[iod1]}" "${pid_of[iod2]}" <<'PY' || fail "a failed fsync is not remembered"
import os, signal, sys, threading
path, *pids = sys.argv[1:]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
for i in range(8):
    os.pwrite(fd, b"Z" * (1 << 20), i << 20)
os.close(os.dup(fd)) # Everything is with the servers, and nothing is synced.
for pid in pids:
    os.kill(int(pid), signal.SIGSTOP)
said = []
def sync():
    mine = os.open(path, os.O_RDONLY)
    try:
        os.fsync(mine)
        said.append(0)
    except OSError as e:
        said.append(e.errno)
both = [threading.Thread(target=sync) for _ in range(2)]
for t in both: t.start()
for t in both: t.join()
sync() # Nobody has written since.
for pid in pids:
    os.kill(int(pid), signal.SIGCONT)
print("fsync while the servers stand still:", said)
if 0 in said:
    sys.exit(1)
os.fsync(os.open(path, os.O_RDONLY))
PY
iods_lose_power
drop_caches
[ "$(tr -d Z <"$a/failing" | wc -c)" = 0 ] || fail "bytes are gone although the fsync after a failed one said yes"
note "a failed fsync is remembered"

# ---- Bytes that were acknowledged are gone ----

# A program that has a file open before and after: "write", "kept" and so on come through its pipe.
cat >"$work/holder.py" <<'PY'
import os, sys
def said(f):
    try:
        f()
        return "0"
    except OSError as e:
        return str(e.errno)
path, out = sys.argv[1:]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
second = os.open(path, os.O_RDONLY)
answers = open(out, "w")
for word in sys.stdin:
    word = word.strip()
    if word == "write":
        for i in range(4):
            os.pwrite(fd, b"W" * (1 << 20), i << 20)
        os.close(os.dup(fd)) # The servers have it.
        answers.write("written\n")
    elif word == "fsync":
        answers.write(said(lambda: os.fsync(fd)) + "\n")
    elif word == "fsync-second":
        answers.write(said(lambda: os.fsync(second)) + "\n")
    elif word == "count":
        answers.write(str(os.pread(fd, 8 << 20, 0).count(b"W")) + "\n")
    answers.flush()
PY
hold() { # NAME PATH
    mkfifo "$work/run/$1.in" "$work/run/$1.out"
    python3 "$work/holder.py" "$2" "$work/run/$1.out" <"$work/run/$1.in" &
    children+=("$!")
    exec 5>"$work/run/$1.in" 6<"$work/run/$1.out"
}
tell() { # WORD: what the program answers.
    local answer
    echo "$1" >&5
    read -r -t 60 answer <&6 || fail "no answer to $1"
    echo "$answer"
}
expect() { # WORD ANSWER WHEN
    local answer
    answer=$(tell "$1")
    [ "$answer" = "$2" ] || fail "$1 $3: $answer, not $2"
}

hold lost "$a/lost"
expect write written "at the beginning"
iods_lose_power 5>&- 6<&-
expect fsync 5 "after the servers lost their power"
expect fsync 0 "once it was told"
expect fsync-second 5 "through another handle"
expect fsync-second 0 "once it was told, through another handle"
[ "$(tell count)" != 4194304 ] || fail "the test is worth nothing: the bytes are there"
expect write written "again"
expect fsync 0 "of what was written again"
iods_lose_power 5>&- 6<&-
expect fsync 0 "when nothing was written since the last one"
expect count 4194304 "after a loss of power behind fsync"
expect write written "a third time"
for number in 1 2; do
    crash "iod$number" 5>&- 6<&-
    start_iod "$number" 5>&- 6<&-
done
wait_for 60 "the I/O daemons are back" servers_up 2
expect fsync 0 "after a killed daemon of the same boot, which loses nothing"
expect write written "a fourth time"
for number in 1 2; do
    stop "iod$number" 5>&- 6<&-
    new_boot "iod$number"
    start_iod "$number" 5>&- 6<&-
done
wait_for 60 "the I/O daemons are back" servers_up 2
expect fsync 0 "after an orderly end and another boot"
exec 5>&- 6<&-
note "who wrote hears of a loss once"

# The same through a mount that never saw the old verifier, and after the last close.
said() { # PATH: what fsync says of it.
    python3 -c '
import os, sys
try:
    os.fsync(os.open(sys.argv[1], os.O_RDONLY))
    print(0)
except OSError as e:
    print(e.errno)' "$1"
}
for name in reopened elsewhere synced-elsewhere; do
    cp "$work/bytes" "$a/$name"
done
[ "$(said "$b/synced-elsewhere")" = 0 ] || fail "fsync through another mount"
cp "$work/bytes" "$b/elsewhere2"
ls -l "$b" >"$work/out" # The sizes of all of them have been reported.
iods_lose_power
[ "$(said "$a/reopened")" = 5 ] || fail "fsync of a file that was closed says yes although its bytes are gone"
[ "$(said "$a/reopened")" = 0 ] || fail "fsync of a file that was closed says no twice"
[ "$(said "$b/elsewhere")" = 5 ] || fail "fsync through another mount says yes although the bytes are gone"
[ "$(said "$a/elsewhere")" = 0 ] || fail "fsync through the first mount says no again"
[ "$(said "$a/elsewhere2")" = 5 ] || fail "fsync through a mount that never saw the file says yes although its bytes are gone"
[ "$(said "$a/synced-elsewhere")" = 0 ] || fail "fsync says no although another mount had synced the file"
[ "$(said "$b/synced-elsewhere")" = 0 ] || fail "fsync says no although this mount had synced the file"
cmp "$work/bytes" "$a/synced-elsewhere" || fail "bytes that were fsynced are gone"
note "a loss is told through a mount that never saw the old verifier"

# ---- Names that were acknowledged are gone ----

# Makes names and cuts the manager's disk off at once; then, when there is a word on its standard input, says what fsync said: of the directory
# through the handle that was open (twice), through another one that was, and of a file made last; and how many names are there.
cat >"$work/names.py" <<'PY'
import os, subprocess, sys
def said(fd):
    try:
        os.fsync(fd)
        return "0"
    except OSError as e:
        return str(e.errno)
path, powercut, disk, count = sys.argv[1:]
os.makedirs(path)
kept = os.open(path, os.O_RDONLY)
os.close(os.open(path + "/before", os.O_CREAT | os.O_WRONLY))
os.fsync(kept)
parent = os.open(os.path.dirname(path), os.O_RDONLY)
os.fsync(parent)
other = os.open(path, os.O_RDONLY)
made = [path + "/%d" % i for i in range(int(count))]
for name in made:
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
if disk:
    subprocess.check_call([powercut, disk])
print("cut", flush=True)
sys.stdin.readline()
there = sum(os.path.exists(name) for name in made)
first = [said(kept), said(kept), said(other), said(other)]
fresh = os.open(path, os.O_RDONLY) # Opened when it was told.
print(*first, said(fresh), said(parent), os.path.exists(path + "/before"), len(made) - there, flush=True)
PY
names() { # ROUND DISK COUNT: begins
    rm -f "$work/run/names."*
    mkfifo "$work/run/names.in" "$work/run/names.out"
    python3 "$work/names.py" "$a/names$1" "$bin/powercut" "$2" "$3" <"$work/run/names.in" >"$work/run/names.out" &
    children+=("$!")
    exec 5>"$work/run/names.in" 6<"$work/run/names.out"
    read -r -t 60 _ <&6 || fail "no names could be made"
}
told=0
# On a busy machine the manager has synced all of it before the power goes: then it is tried again.
for ((round = 1; round <= 3 || (told == 0 && round <= 20); round++)); do
    names "$round" "$work/disk-meta" 200
    lose_power meta 5>&- 6<&-
    start_meta 5>&- 6<&-
    wait_for 60 "the I/O daemons are back" servers_up 2
    echo go >&5
    read -r -t 60 kept again other other_again fresh parent before gone <&6 || fail "no word of fsync"
    note "the manager lost its power: $gone of 200 names are gone, fsync said $kept $again"
    [ "$before" = True ] || fail "a name that was fsynced is gone"
    [ "$again$other_again$fresh$parent" = 0000 ] || fail "fsync says no more than once, or of what lost nothing: $again $other_again $fresh $parent"
    if [ "$gone" -gt 0 ]; then
        [ "$kept$other" = 55 ] || fail "$gone names are gone, and fsync says $kept, and $other through another handle"
        told=$((told + 1))
    fi
    exec 5>&- 6<&-
done
[ "$told" -gt 0 ] || fail "the test is worth nothing: no name was lost"
names killed '' 200
crash meta 5>&- 6<&-
start_meta 5>&- 6<&-
echo go >&5
read -r -t 60 kept again other other_again fresh parent before gone <&6 || fail "no word of fsync"
[ "$kept$other$fresh$parent$gone" = 00000 ] || fail "a killed manager loses nothing, and fsync says $kept $other $fresh $parent; $gone names are gone"
exec 5>&- 6<&-
names stopped '' 200
stop meta 5>&- 6<&-
new_boot meta
start_meta 5>&- 6<&-
echo go >&5
read -r -t 60 kept again other other_again fresh parent before gone <&6 || fail "no word of fsync"
[ "$kept$other$fresh$parent$gone" = 00000 ] || fail "an orderly end loses nothing, and fsync says $kept $other $fresh $parent; $gone names are gone"
exec 5>&- 6<&-
note "who made names hears of a loss once"
cluster_end
