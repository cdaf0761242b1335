#!/bin/bash
# Locks across mounts: what two processes on one local disk would see, and what becomes of locks whose holder's machine dies, or whose
# manager does.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin locks "$1"
mkfifo "$work/never"
start_cluster 2 --lease-time 2s
start_mount a
a=$mnt
start_mount b
b=$mnt
start_mount c nocache
c=$mnt

"$bin/locks" "$a" "$b" || fail "locks between two mounts that cache"
"$bin/locks" "$b" "$c" || fail "locks between a mount that caches and one that keeps nothing"
note "two mounts lock as one disk"

# hold MOUNT FILE: a process that holds it; its pid in $holder.
hold() {
    "$bin/locks" --hold "$1/$2" >"$work/held.$2" &
    holder=$!
    children+=("$holder")
    wait_for 60 "a lock on $2" grep -q held "$work/held.$2"
}

# The manager starts anew: what was held is held, who waited waits, and gets it.
hold "$a" first
first=$holder
"$bin/locks" --hold "$b/first" >"$work/second" &
second=$!
children+=("$second")
crash meta
start_meta
! "$bin/locks" --try "$b/first" || fail "a lock did not survive the manager"
! grep -q held "$work/second" || fail "who waited has what another one holds"
kill "$first"
wait_for 60 "the lock for who waited through a restart" grep -q held "$work/second"
kill "$second"
wait_for 60 "a lock of the dead" "$bin/locks" --try "$a/first"
note "locks survive a restart of the manager"

# Who waits to share more than he holds alone still holds that alone, also through a restart of the manager, and shares it when he has the rest.
cat >"$work/ranged.py" <<'PY'
import fcntl, signal, sys
f = open(sys.argv[1] + "/ranged", "a+")
def lock(type, first, count, how=0):
    fcntl.lockf(f, type | how, count, first)
def try_lock(type, first, count):
    try:
        lock(type, first, count, fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
EX, SH = fcntl.LOCK_EX, fcntl.LOCK_SH
exec(sys.argv[2])
PY
python3 -u "$work/ranged.py" "$b" 'lock(EX, 20, 1); print("held"); signal.pause()' >"$work/held.last" &
last=$!
wait_for 60 "a lock on the last byte" grep -q held "$work/held.last"
python3 -u "$work/ranged.py" "$a" 'lock(EX, 0, 10); print("held"); lock(SH, 0, 30); print("shared"); signal.pause()' >"$work/held.more" &
children+=("$last" "$!")
wait_for 60 "a lock on the first bytes" grep -q held "$work/held.more"
crash meta
start_meta
python3 "$work/ranged.py" "$c" 'sys.exit(try_lock(SH, 5, 1))' || fail "who waits to share more was let down"
! grep -q shared "$work/held.more" || fail "who waited to share more has what another one holds"
kill "$last"
wait_for 60 "the lock over more" grep -q shared "$work/held.more"
python3 "$work/ranged.py" "$c" 'sys.exit(not try_lock(SH, 0, 30))' || fail "a lock that was shared is not"
python3 "$work/ranged.py" "$c" 'sys.exit(try_lock(EX, 5, 1))' || fail "a lock that was shared is gone"
note "a step down over more waits through a restart of the manager"

# Who converts a flock has given up the old one when somebody has come between: through a restart of the manager nobody names what excludes
# another one's, in either direction, and no mount loses its locks.
cat >"$work/converts.py" <<'PY'
import fcntl, os, signal, sys
EX, SH = fcntl.LOCK_EX, fcntl.LOCK_SH
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def wait_for_word():
    signal.sigwait([signal.SIGUSR1])
def lock(name, how):
    f = open(f"{sys.argv[1]}/{name}", "a+")
    fcntl.flock(f, how)
    print("held")
    return f
def write(f):
    f.write("a")
    f.flush()
    os.fsync(f.fileno())
    f.close()
    print("kept")
exec(sys.argv[2])
PY
declare -A converts
# converting NAME MOUNT CODE: a process, converts[NAME]; it goes on with SIGUSR1, and what it says is in says.NAME.
converting() {
    python3 -u "$work/converts.py" "$2" "$3" >"$work/says.$1" 2>&1 &
    converts[$1]=$!
    children+=("$!")
}
says() {
    wait_for 60 "$1 says $2" grep -q "$2" "$work/says.$1"
}
locks_wait() {
    grep -qE "^locks_waiting +$1\$" <<<"$(morsel stats)"
}
for way in "EX SH" "SH EX"; do
    read -r from to <<<"$way"
    converting other "$a" "f = lock('other$from', EX); wait_for_word(); write(f)"
    converting first "$a" "f = lock('first$from', $from); wait_for_word(); fcntl.flock(f, $to); print('converted'); write(f)"
    says other held
    says first held
    converting second "$b" "f = lock('first$from', EX); wait_for_word(); write(f)"
    wait_for 60 "a wait for a flock" locks_wait 1
    kill -USR1 "${converts[first]}"
    says second held
    wait_for 60 "a wait for the other half" locks_wait 1
    crash meta
    start_meta
    kill -USR1 "${converts[other]}"
    says other kept
    ! grep -q "has lost its locks" "$work/log/meta" || fail "a conversion ($way) cost a mount its locks"
    ! grep -q converted "$work/says.first" || fail "two have what excludes each other"
    kill -USR1 "${converts[second]}"
    says second kept
    says first kept
done
note "a flock is converted through a restart of the manager"

# A mount that caches nothing holds locks for as long as it lives, too.
hold "$c" third
read -r -t 4 <>"$work/never" || true # Longer than a lease period.
! "$bin/locks" --try "$a/third" || fail "a lock of a mount that keeps nothing ended with a lease period"
crash meta
start_meta
! "$bin/locks" --try "$a/third" || fail "a lock of a mount that keeps nothing did not survive the manager"
note "also without a cache"

# A lock of an open file ends with its last close for other mounts, too: flock, open file descriptions, by turns; also what F_GETLK says. And
# what is still held stays so.
python3 - "$a" "$b" <<'PY' || fail "a lock outlives its file, or is not seen"
import fcntl, os, struct, sys
F_OFD_GETLK, F_OFD_SETLK = 36, 37
mounts = sys.argv[1:]
def flock64(type):
    return struct.pack("hhqqi4x", type, os.SEEK_SET, 0, 0, 0)
def take(fd, kind):
    if kind == "flock":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.fcntl(fd, F_OFD_SETLK, flock64(fcntl.F_WRLCK))
open(f"{mounts[0]}/closed", "w").close()
refused = told = 0
for i in range(400):
    kind = "flock" if i % 2 else "ofd"
    here, there = mounts[i // 2 % 2], mounts[1 - i // 2 % 2]
    held = os.open(f"{here}/closed", os.O_RDWR)
    other = os.open(f"{there}/closed", os.O_RDWR)
    take(held, kind)
    if i % 20 < 2:
        try:
            take(other, kind)
            raise SystemExit("two have the lock")
        except BlockingIOError:
            told += 1
    again = os.dup(held)
    os.close(held)
    if i % 20 < 2:
        try:
            take(other, kind)
            raise SystemExit("a file that is still open lost its lock")
        except BlockingIOError:
            told += 1
    os.close(again)
    try:
        if i % 3 == 0 and kind == "ofd":
            if struct.unpack("hhqqi4x", fcntl.fcntl(other, F_OFD_GETLK, flock64(fcntl.F_WRLCK)))[0] != fcntl.F_UNLCK:
                raise BlockingIOError
        take(other, kind)
    except BlockingIOError:
        refused += 1
    os.close(other)
print(f"{refused} of 400 refused, {told} times told that it is held")
sys.exit(refused != 0 or told != 80)
PY
note "a lock ends with its file for other mounts"

# A mount that dies: its locks go with its lease period.
a_mount_dies() {
    [ -n "${pid_of[mount-b]:-}" ] || start_mount b
    hold "$b" fourth
    crash mount-b
    local before
    before=$(now_ms)
    wait_for 60 "a lock of a dead mount" "$bin/locks" --try "$a/fourth"
    took=$(($(now_ms) - before))
    umount -l "$b" 2>/dev/null || true
}
in_time 4000 "a dead mount's lock" a_mount_dies
note "a dead mount's lock was free after $took ms"

# A mount that is stopped loses its locks, is told so when it comes back, and locks again.
hold "$a" fifth
kill -STOP "${pid_of[mount-a]}"
wait_for 60 "a lock of a stopped mount" "$bin/locks" --try "$c/fifth"
kill -CONT "${pid_of[mount-a]}"
wait_for 60 "a line about lost locks" grep -q "locks were lost" "$work/log/mount-a"
wait_for 60 "a lock on the mount that was stopped" "$bin/locks" --try "$a/sixth"
note "a stopped mount lost its locks, and was told"

"$bin/locks" --rate "$a/seventh"
kill_ours KILL "${children[@]}"
wait "${children[@]}" 2>/dev/null || true
children=()
cluster_end
