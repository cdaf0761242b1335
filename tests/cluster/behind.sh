#!/bin/bash
# What a mount answers at once and tells the manager later: it is never refused, never lost without a word, and one message for many calls.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin behind "$1"
start_cluster 2 --lease-time 15s # What is done under a lease that nobody extends has time, on any machine.
start_mount a io_timeout=6s
a=$mnt
start_mount b
b=$mnt

# One process that sets attributes as fast as it can, beside others that change names; nobody is refused.
python3 - "$a" <<'PY'
import multiprocessing, os, sys, time
mount = sys.argv[1]
os.mkdir(mount + "/names")
def attributes(n):
    fd = os.open("%s/loop%d" % (mount, n), os.O_CREAT | os.O_RDWR, 0o600)
    for i in range(15000):
        os.fchmod(fd, 0o600 | i % 64)
        os.futimens(fd, ns=(i, i)) if hasattr(os, "futimens") else os.utime(fd, ns=(i, i))
        os.fchown(fd, i % 100, -1)
    st = os.fstat(fd)
    assert (st.st_mode & 0o777, st.st_uid, st.st_mtime_ns) == (0o600 | i % 64, i % 100, i), st
def names(n):
    for i in range(1500):
        path = "%s/names/%d-%d" % (mount, n, i)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        os.unlink(path)
workers = [multiprocessing.Process(target=f, args=(n,)) for n in range(2) for f in (attributes, names)]
for w in workers: w.start()
for w in workers: w.join()
assert all(w.exitcode == 0 for w in workers), [w.exitcode for w in workers]
os.rmdir(mount + "/names")
PY
for n in 0 1; do
    [ "$(stat -c '%a %u %Y' "$b/loop$n")" = "$(stat -c '%a %u %Y' "$a/loop$n")" ] || fail "the other mount sees other attributes"
    [ "$(stat -c '%u' "$b/loop$n")" = 99 ] || fail "the last owner is not there: $(stat "$b/loop$n")"
done
merged=$(mount_counter "$a" attributes_merged)
[ "$merged" -ge 80000 ] || fail "only $merged of 90,000 changes of two files were merged"
note "90,000 changes of attributes beside 6,000 of names"

# More than the manager may be asked at once.
mkdir "$a/many"
(cd "$a/many" && seq 4000 | xargs touch) || fail "files cannot be made"
(cd "$a/many" && seq 4000 | xargs -P 4 -n 500 touch -d '2001-02-03 04:05:06 UTC') || fail "a time was refused"
(cd "$a/many" && seq 4000 | xargs -P 4 -n 500 chmod 640) || fail "a mode was refused"
[ "$(cd "$b/many" && stat -c '%a %Y' -- * | sort | uniq -c | awk '{ print $1, $2, $3 }')" = '4000 640 981173106' ] ||
    fail "the other mount does not see what was set: $(cd "$b/many" && stat -c '%a %Y' -- * | sort | uniq -c | head)"
note "4,000 files"

# One change that takes long (somebody who holds what it needs is stopped) and five hundred behind it.
echo old >"$b/held"
mkdir "$a/fresh" # Of this one the other mount knows nothing.
python3 - "$b/held" >"$work/holder" <<'PY' &
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
os.write(fd, b"x")
print("held", flush=True)
time.sleep(600)
PY
holder=$!
children+=("$holder")
wait_for 60 "the holder" grep -q held "$work/holder"
kill -STOP "${pid_of[mount-b]}"
timeout 120 chmod 600 "$a/held" &
slow=$!
python3 - "$a" <<'PY'
import os, sys, time
began = time.monotonic()
for i in range(500):
    os.close(os.open("%s/fresh/new%d" % (sys.argv[1], i), os.O_CREAT | os.O_WRONLY))
print("500 changes beside a slow one took %.1f s" % (time.monotonic() - began))
PY
kill -0 "$slow" 2>/dev/null || fail "500 changes waited for a slow one, or nothing was slow and this has tested nothing"
wait "$slow" || fail "the slow change failed"
kill -CONT "${pid_of[mount-b]}"
kill "$holder" 2>/dev/null || true
wait_for 60 "the other mount is back" test -e "$b/fresh/new499"
note "500 changes beside one that takes long"

# The manager is away for longer than the time-out: what was closed and set before keeps its size, mode and time.
warnings() {
    [ "$(grep -c 'still wait' "$work/log/mount-a")" = "$1" ]
}
# Nothing of this asks the manager. Whatever waited for it would take as long as io_timeout, and none takes longer than half of that.
cat >"$work/change.py" <<'PY'
import os, sys, time
print("ready", flush=True)
sys.stdin.readline()
longest = 0
def timed(call, *arguments, **named):
    global longest
    began = time.monotonic()
    result = call(*arguments, **named)
    longest = max(longest, time.monotonic() - began)
    return result
for i in range(40):
    path = "%s/%s%d" % (sys.argv[1], sys.argv[2], i)
    fd = timed(os.open, path, os.O_WRONLY | os.O_APPEND)
    timed(os.write, fd, b"-second")
    timed(os.close, fd)
    timed(os.chmod, path, 0o640)
    timed(os.utime, path, ns=(10**18, 10**18))
print(round(longest * 1000), flush=True)
PY
rounds=0
for round in stop kill; do
    python3 - "$a" "$round" <<'PY'
import os, sys
for i in range(40):
    fd = os.open("%s/%s%d" % (sys.argv[1], sys.argv[2], i), os.O_CREAT | os.O_RDWR, 0o600)
    os.write(fd, b"first")
    os.close(fd)
PY
    sync -f "$a"
    coproc change { python3 "$work/change.py" "$a" "$round"; }
    read -r -t 60 answer <&"${change[0]}" && [ "$answer" = ready ] || fail "nobody changes anything"
    if [ "$round" = stop ]; then kill -STOP "${pid_of[meta]}"; else crash meta; fi
    echo go >&"${change[1]}"
    read -r -t 120 longest <&"${change[0]}" || fail "closing behind the manager failed"
    # shellcheck disable=SC2154 # coproc sets it
    wait "$change_PID" || true
    [ "$longest" -lt 3000 ] || fail "a change waited $longest ms for a manager that is away"
    rounds=$((rounds + 1))
    wait_for 60 "the log says what waits" warnings "$rounds"
    if [ "$round" = stop ]; then kill -CONT "${pid_of[meta]}"; else start_meta; fi
    for ((i = 0; i < 40; i++)); do
        [ "$(timeout 60 stat -c '%s %a %Y' "$b/$round$i")" = '12 640 1000000000' ] ||
            fail "$round$i lost what was closed: $(stat "$b/$round$i")"
        [ "$(cat "$b/$round$i")" = first-second ] || fail "$round$i lost its bytes"
    done
    note "manager away ($round): the longest change took $longest ms"
done

# Unmounting waits for what is behind.
for ((i = 0; i < 50; i++)); do
    echo x >"$a/last$i"
    chmod 604 "$a/last$i"
done
stop_mount a
for ((i = 0; i < 50; i++)); do
    [ "$(stat -c '%s %a' "$b/last$i")" = '2 604' ] || fail "lost at unmounting: $(stat "$b/last$i")"
done
fsck_clean
cluster_end
