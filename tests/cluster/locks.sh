#!/bin/bash
# Locks across mounts: what two processes on one local disk would see, and what becomes of locks whose holder's machine dies, or whose
# manager does.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin locks "$1"
mkfifo "$work/never"
start_cluster 2 --lease-time 1s
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
    wait_for 10 "a lock on $2" grep -q held "$work/held.$2"
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
wait_for 10 "the lock for who waited through a restart" grep -q held "$work/second"
kill "$second"
wait_for 5 "a lock of the dead" "$bin/locks" --try "$a/first"
note "locks survive a restart of the manager"

# A mount that caches nothing holds locks for as long as it lives, too.
hold "$c" third
read -r -t 2 <>"$work/never" || true # Longer than a term.
! "$bin/locks" --try "$a/third" || fail "a lock of a mount that keeps nothing ended with a term"
crash meta
start_meta
! "$bin/locks" --try "$a/third" || fail "a lock of a mount that keeps nothing did not survive the manager"
note "also without a cache"

# A mount that dies: its locks go with its term.
hold "$b" fourth
crash mount-b
before=$(now_ms)
wait_for 10 "a lock of a dead mount" "$bin/locks" --try "$a/fourth"
took=$(($(now_ms) - before))
[ "$took" -lt 3000 ] || fail "a lock of a dead mount was held for $took ms"
umount -l "$b" 2>/dev/null || true
note "a dead mount's lock was free after $took ms"

# A mount that is stopped loses its locks, is told so when it comes back, and locks again.
hold "$a" fifth
kill -STOP "${pid_of[mount-a]}"
wait_for 10 "a lock of a stopped mount" "$bin/locks" --try "$c/fifth"
kill -CONT "${pid_of[mount-a]}"
wait_for 10 "a line about lost locks" grep -q "locks were lost" "$work/log/mount-a"
wait_for 10 "a lock on the mount that was stopped" "$bin/locks" --try "$a/sixth"
note "a stopped mount lost its locks, and was told"

"$bin/locks" --rate "$a/seventh"
kill -KILL "${children[@]}" 2>/dev/null || true
wait "${children[@]}" 2>/dev/null || true
children=()
cluster_end
