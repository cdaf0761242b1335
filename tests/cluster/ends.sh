#!/bin/bash
# Who reads, through the kernel's pages, a file that another mount makes shorter gets what was there or the end, never zeros (tests/posix/ends.c);
# also where his mount is stopped again and again for so long that what the kernel asks of it comes together with what it does of itself.
#
#   ends.sh BUILD [SECONDS]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin ends "$1"
seconds=${2:-10}
mkfifo "$work/never"
start_cluster 2
start_mount a kernel=6.1
a=$mnt
start_mount b kernel=6.1
b=$mnt
mkdir "$a/peace" "$a/stops"
said=$("$bin/ends" "$seconds" 16 "$a/peace" "$b/peace") || fail "in peace: $said"
note "in peace: $said"
(
    trap - EXIT
    while true; do
        kill -STOP "${pid_of[mount-a]}" || exit 0
        echo >>"$work/stopped"
        read -r -t 0.$((RANDOM % 4))5 <>"$work/never" || true
        kill -CONT "${pid_of[mount-a]}" || exit 0
        read -r -t 0.05 <>"$work/never" || true
    done
) &
stopper=$!
children+=("$stopper")
said=$("$bin/ends" $((2 * seconds)) 16 "$a/stops" "$b/stops") || fail "while the mount is stopped again and again: $said"
note "while the mount is stopped again and again: $said"
kill "$stopper"
wait "$stopper" 2>/dev/null || true
kill -CONT "${pid_of[mount-a]}"
stops=$(wc -l <"$work/stopped")
[ "$stops" -ge "$seconds" ] || fail "the mount was stopped only $stops times"
note "stopped $stops times"
fsck_clean
cluster_end
