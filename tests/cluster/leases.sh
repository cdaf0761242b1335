#!/bin/bash
# What two mounts see of each other while each keeps what its leases allow: at once, in milliseconds, also when one of them is stopped
# or killed, or the manager starts anew.
#
#   leases.sh BUILD      (STORM_SECONDS=N: how long each storm is; default: 8)
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin leases "$1"
start_cluster 4 --lease-time 2s
start_mount a
a=$mnt
start_mount b
b=$mnt
start_mount c
c=$mnt

# Directed meetings: names, absences, attributes, bytes, both ways; a working directory below what is dropped.
"$bin/coherence" "$a" "$b" || fail "the mounts do not agree"
note "the mounts agree at once"

# Two processes on two mounts, as fast as they can: names in one directory, renamed over each other; registers in one file.
# storm WHAT MOUNT...: nobody is held up in it. On a busy machine somebody may be, but not three times.
storm() {
    local try code
    for try in 1 2 3; do
        code=0
        "$bin/coherence" "--$1" "${STORM_SECONDS:-8}" "${@:2}" || code=$?
        rm -r "${a:?}/$1"
        [ "$code" = 3 ] || break
        note "held up, try $try"
    done
    [ "$code" = 0 ] || fail "a storm ($1) on $(($# - 1)) mounts"
}
storm storm "$a" "$b"
note "a storm on two mounts ends well"
storm names "$a" "$b" "$c"
note "a storm on names ends well"
stop_mount c

# What the kernel was told ends a moment later than we count, for it counts from when whoever asked runs again: a change elsewhere is seen at that
# moment too. (1.8 s is what is left of a lease period right behind an answer.)
python3 - "$a" "$b" <<'PY'
import os, sys, time
a, b = sys.argv[1:]
COUNT = 400
for i in range(COUNT):
    os.mkdir(f"{a}/late{i}")
    open(f"{a}/late{i}/name", "w").close()
time.sleep(1.2)  # Right behind changes nothing is granted.
asked = []
for i in range(COUNT):
    os.stat(f"{b}/late{i}/name")
    asked.append(time.monotonic())
    time.sleep(0.003)
for i in range(COUNT):
    while time.monotonic() < asked[i] + 1.8 + (i % 12 - 2) / 1000:
        pass
    if i % 2:
        os.truncate(f"{a}/late{i}/name", 1 + i)
        assert os.stat(f"{b}/late{i}/name").st_size == 1 + i, "an old size"
    os.unlink(f"{a}/late{i}/name")
    assert not os.path.exists(f"{b}/late{i}/name"), "a name that is gone"
    os.rmdir(f"{b}/late{i}")
PY
note "at the end of the kernel's time-outs"

# What a kernel that does not know a file may yet be told is waited for, one second; but not where it has forgotten it, also right behind an open.
python3 - "$a" "$b" <<'PY'
import os, sys, time
a, b = sys.argv[1:]
slow = []
for i in range(8):
    open(f"{a}/forgotten{i}", "w").close()
    open(f"{a}/forgotten{i}").close()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("2")
    before = time.monotonic()
    os.truncate(f"{b}/forgotten{i}", 1)
    slow.append(time.monotonic() - before)
print("a change of a file that the other mount's kernel has forgotten:", *(f"{1000 * t:.0f}" for t in slow), "ms")
assert sorted(slow)[3] < 0.3, "a change waits for a kernel that has forgotten the file"
PY
note "what is forgotten is not waited for"

# A holder that is stopped is waited out; when it goes on it sees what happened meanwhile.
a_holder_is_stopped() {
    local before
    echo before >"$a/held"
    [ "$(cat "$a/held")" = before ] || fail "a file that was just written reads otherwise"
    [ "$(stat -c %s "$a/held")" = 7 ] || fail "a file that was just written has another size"
    ls "$a" >/dev/null
    kill -STOP "${pid_of[mount-a]}"
    before=$(now_ms)
    timeout 30 bash -c 'echo afterwards >"$1/held" && mkdir "$1/made-meanwhile"' - "$b" || fail "a stopped holder holds up another mount"
    took=$(($(now_ms) - before))
    kill -CONT "${pid_of[mount-a]}"
    [ "$(cat "$a/held")" = afterwards ] || fail "a holder that was stopped reads old bytes"
    [ "$(stat -c %s "$a/held")" = 11 ] || fail "a holder that was stopped sees an old size"
    [ -d "$a/made-meanwhile" ] || fail "a holder that was stopped does not see a new name"
    rmdir "$a/made-meanwhile"
}
in_time 4500 "a stopped holder" a_holder_is_stopped
note "a stopped holder cost $took ms"

# A killed one likewise.
a_holder_is_killed() {
    local before
    [ -n "${pid_of[mount-a]:-}" ] || start_mount a
    echo before >"$a/held"
    ls "$a" >/dev/null
    crash mount-a
    before=$(now_ms)
    timeout 30 bash -c 'echo again >"$1/held" && mkdir "$1/made" && rmdir "$1/made"' - "$b" || fail "a dead holder holds up another mount"
    took=$(($(now_ms) - before))
    umount -l "$a" 2>/dev/null || true
}
in_time 4500 "a dead holder" a_holder_is_killed
note "a dead holder cost $took ms"

# The manager starts anew while two mounts hold leases: both say what they hold, and go on.
start_mount c
c=$mnt
the_manager_starts_anew() {
    local before
    echo one >"$b/both"
    [ "$(cat "$c/both")" = one ] || fail "another mount reads an old byte"
    before=$(now_ms)
    crash meta
    start_meta
    echo two >"$c/both"
    [ "$(cat "$b/both")" = two ] || fail "an old byte after a restart of the manager"
    took=$(($(now_ms) - before))
}
in_time 5000 "a restart of the manager" the_manager_starts_anew
note "a restart of the manager cost $took ms"

fsck_clean
cluster_end
