#!/bin/bash
# Sessions on real mounts: what two mounts see of each other, and a mount that was away for longer than its session.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin session "$1"
start_cluster 2 --session-time 2s

sessions() {
    morsel status --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["sessions"])'
}
sessions_are() {
    [ "$(sessions)" = "$1" ]
}

start_mount a
a=$mnt
echo one >"$a/f"
start_mount b
b=$mnt

# Names and attributes: nothing that one mount does may be hidden from the other, not even for a moment.
python3 - "$a" "$b" <<'PY'
import os, sys
a, b = sys.argv[1:]
for i in range(300):
    x, y = (a, b) if i % 2 else (b, a)
    assert not os.path.exists(f"{y}/n{i}")
    open(f"{x}/n{i}", "w").write("x" * i)
    assert os.stat(f"{y}/n{i}").st_size == i, i
    assert open(f"{y}/n{i}").read() == "x" * i, i
    os.chmod(f"{y}/n{i}", 0o600 + i % 64)
    assert os.stat(f"{x}/n{i}").st_mode & 0o777 == 0o600 + i % 64, i
    open(f"{y}/n{i}", "a").write("y")
    assert open(f"{x}/n{i}").read() == "x" * i + "y", i
    os.rename(f"{x}/n{i}", f"{x}/m{i}")
    assert not os.path.exists(f"{y}/n{i}") and os.path.exists(f"{y}/m{i}")
    assert f"m{i}" in os.listdir(y)
    os.unlink(f"{y}/m{i}")
    assert not os.path.exists(f"{x}/m{i}")
PY
note "two mounts agree"

# What is closed the manager hears of, also where it was opened again in the mount alone before the word of the close went out (every 0.1 s), and
# closed before the word of that opening did (every second).
wait_for 60 "the manager hears of every close" counter_is open_files 0
python3 - "$a" <<'PY'
import os, sys, time
a = sys.argv[1]
for i in range(10):
    os.close(os.open(f"{a}/again{i}", os.O_CREAT | os.O_WRONLY))
    fd = os.open(f"{a}/again{i}", os.O_RDONLY)
    time.sleep(0.25)
    os.close(fd)
    os.unlink(f"{a}/again{i}")
PY
wait_for 60 "the manager hears of every close behind an opening that it was not told" counter_is open_files 0
note "what is closed is closed"

# A file that one mount holds open lives on when the other deletes it.
exec 5<"$a/f"
rm "$b/f"
[ "$(cat <&5)" = one ] || fail "a file that was open on another mount is gone"
exec 5<&-
fsck_clean

# Nor does an opening that its process does not wait for stay behind: killed while the manager waits for a lease of a mount that stands still.
opens_waiting() {
    morsel stats | awk '$1 == "requests_held_up" { exit $2 == 0 }'
}
for what in held made; do
    [ -e "$b/held" ] || printf held >"$b/held"
    cat "$a/held" "$b/held" >"$work/read" # A lease of each: who opens it to write waits for the other's.
    ls "$a" "$b" >"$work/list"            # Likewise who makes a name.
    wait_for 60 "nothing is open" counter_is open_files 0
    kill -STOP "${pid_of[mount-b]}"
    python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)' "$a/$what" 2>"$work/opener" &
    opener=$!
    wait_for 60 "the opening waits for a lease" opens_waiting
    kill -KILL "$opener"
    wait "$opener" && fail "who was to be killed has opened $what"
    sleep 0.3 # A word of the close that went out before the answer (every 0.1 s) would come too early.
    kill -CONT "${pid_of[mount-b]}"
    wait_for 60 "what nobody waited for is closed: $what" counter_is open_files 0
done
note "an opening that is given up stays behind nowhere"

# A call waits through any number of restarts of the manager, each over before it serves anybody, for it waits for a mount
# that stands still. (The kernel asks again itself, once, when such a call ends too early.)
ls "$b" >"$work/list"
kill -STOP "${pid_of[mount-b]}"
crash meta
mkdir "$a/patient" 2>"$work/waiting" &
waiting=$!
for restart in {1..10}; do
    start_meta
    wait_for 60 "the call is with the manager, start $restart" opens_waiting
    crash meta
done
start_meta
kill -CONT "${pid_of[mount-b]}"
wait "$waiting" || fail "a call that waited through ten restarts of the manager: $(cat "$work/waiting")"
[ -d "$b/patient" ] || fail "what was made behind ten restarts is not there"
note "a call waits through restarts of the manager"
stop_mount b

# The mount freezes until its session has run out, and comes back by itself. (The file is held by a process of its own: closing a
# copy of the descriptor asks the mount.)
mkfifo "$work/go"
python3 - "$a/g" "$work/go" "$work/held" <<'PY' &
import os, sys
with open(sys.argv[1], "w") as f:
    f.write("kept\n")
    f.flush()
    os.fsync(f.fileno())  # What has not left the mount is lost with its lease, when it freezes for that long.
    open(sys.argv[3], "w").close()
    open(sys.argv[2]).read()
    f.write("more\n")
PY
holder=$!
wait_for 60 "the file that is held open" test -e "$work/held"
kill -STOP "${pid_of[mount-a]}"
wait_for 60 "the end of the session" sessions_are 0
kill -CONT "${pid_of[mount-a]}"
: >"$work/go"
wait "$holder" || fail "the holder of the file met an error"
[ "$(cat "$a/g")" = "kept
more" ] || fail "a mount that lost its session did not find back"
mkdir "$a/d"
sessions_are 1 || fail "the mount has no session again"
note "a lost session is made anew"
fsck_clean
cluster_end
