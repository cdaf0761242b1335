#!/bin/bash
# umount flushes; a busy mount says so; a killed mount can be cleared and made again; SIGUSR1 prints statistics.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin unmount "$1"
start_cluster 4

start_mount a
for i in 1 2 3 4 5; do
    dd if=/dev/urandom of="$work/f$i" bs=300k count=$((i * 7)) status=none
    cp "$work/f$i" "$mnt/f$i"
    stop_mount a # At once: what was buffered must get out.
    start_mount a
    cmp "$work/f$i" "$mnt/f$i" || fail "round $i: umount lost something"
done
note "umount flushes"

exec 5>"$mnt/held"
! umount "$mnt" 2>/dev/null || fail "a busy mount was unmounted"
echo still here >&5
exec 5>&-
[ "$(cat "$mnt/held")" = "still here" ] || fail "a refused umount did damage"

# The process is told to end: it flushes as well.
cp "$work/f5" "$mnt/terminated"
kill -TERM "${pid_of[mount-a]}"
ends_well mount-a
! mountpoint -q "$mnt" 2>/dev/null || fail "the mount point is left behind after SIGTERM"
start_mount a
cmp "$work/f5" "$mnt/terminated" || fail "SIGTERM lost something"

lines=$(wc -l <"$work/log/mount-a")
kill -USR1 "${pid_of[mount-a]}"
wait_for 60 "statistics of the mount" bash -c "[ \$(wc -l <'$work/log/mount-a') -gt $lines ]"
for name in meta iod1; do
    lines=$(wc -l <"$work/log/$name")
    kill -USR1 "${pid_of[$name]}"
    wait_for 60 "statistics of $name" bash -c "[ \$(wc -l <'$work/log/$name') -gt $lines ]"
done
cat "$mnt/f1" >/dev/null || fail "the mount broke over SIGUSR1"
note "statistics"

# Killed: what was synced stays; a new mount at the same place works.
cp "$work/f3" "$mnt/synced"
sync "$mnt/synced"
crash mount-a
! ls "$mnt" >/dev/null 2>&1 || fail "a mount without its process answers"
umount -l "$mnt" 2>/dev/null || true
start_mount a
cmp "$work/f3" "$mnt/synced" || fail "a killed mount lost what was synced"
fsck_clean
note "killed and mounted again"

# The manager, which stood still, asks for a lease before it reads that the mount leaves: the mount has gone, and ends well.
start_mount b
asks_the_manager() {
    [ "$(cat "/proc/$1/wchan")" = request_wait_answer ]
}
has_left_the_kernel() {
    ! grep -q /dev/fuse <<<"$(readlink "/proc/$1/fd/"*)"
}
for round in 1 2 3; do
    cat "$mnt/f1" >/dev/null
    kill -STOP "${pid_of[meta]}"
    chmod "60$round" "$work/mnt/b/f1" &
    child=$!
    children+=("$child")
    wait_for 60 "the other mount asks the manager" asks_the_manager "$child"
    kill -TERM "${pid_of[mount-a]}"
    wait_for 60 "the mount leaves the kernel" has_left_the_kernel "${pid_of[mount-a]}"
    kill -CONT "${pid_of[meta]}"
    ends_well mount-a
    wait "$child" || fail "the other mount's change"
    start_mount a
done
note "asked for a lease while it leaves"

# Read-only.
start_mount ro ro
cmp "$work/f2" "$mnt/f2" || fail "a read-only mount reads otherwise"
expect_error "Read-only file system" touch "$mnt/new"
cluster_end
