#!/bin/bash
# Histories of reads, writes, appends, sizes and of names from three mounts are linearizable (history.c says how that is found out): in
# peace, while mounts and I/O daemons are stopped for moments, and while the manager dies and comes back.
#
#   history.sh BUILD [SEED COUNT]       (default: 300 histories from the seed of the run)
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin history "$1"
seed=${2:-$test_seed} count=${3:-300}
kinds=(--)
# Through handles that have pages, as all have before Linux 6.6, a read beside another process of its mount may be late for a cut elsewhere
# (docs/status.md, Known limits): so either without cuts, or with one process a mount.
[[ ${MOUNT_OPTIONS:-} != *kernel=* || -n ${HISTORY_CUTS:-} ]] || kinds=(--uncut --single)
mkfifo "$work/never"
start_cluster 2
roots=()
for name in a b c; do
    start_mount "$name"
    roots+=("$mnt")
done

# histories COUNT: the next ones. No mount is cut off or dies here, so no call fails either.
histories() {
    local said kind share=$((($1 + ${#kinds[@]} - 1) / ${#kinds[@]}))
    for kind in "${kinds[@]}"; do
        said=$(timeout $((60 + share)) "$bin/history" "$kind" "$seed" "$share" "${roots[@]}") || fail "from seed $seed on ($kind): $said"
        echo "$said"
        grep -q ' 0 operations failed' <<<"$said" || fail "a call failed, from seed $seed on"
        seed=$((seed + share))
    done
}

histories $((count / 2))
note "in peace"

# Moments in which somebody is stopped: too short to lose a lease.
(
    trap - EXIT
    while read -r -t 0.05 <>"$work/never" || true; do
        victims=("${pid_of[mount-a]}" "${pid_of[mount-b]}" "${pid_of[mount-c]}" "${pid_of[iod1]}" "${pid_of[meta]}")
        victim=${victims[RANDOM % 5]}
        kill -STOP "$victim" || exit 0
        read -r -t 0.0$((RANDOM % 9 + 1)) <>"$work/never" || true
        kill -CONT "$victim" || exit 0
    done
) &
stopper=$!
children+=("$stopper")
histories $((count / 3))
kill "$stopper"
wait "$stopper" 2>/dev/null || true
for name in "${!pid_of[@]}"; do kill -CONT "${pid_of[$name]}"; done
note "while somebody is always stopped for a moment"

# The manager is killed again and again.
for _ in 1 2 3; do
    (histories $((count / 18 + 1))) &
    histories=$!
    read -r -t 0.5 <>"$work/never" || true
    crash meta
    start_meta
    wait "$histories" || fail "while the manager was killed"
    seed=$((seed + count / 18 + 2))
done
note "while the manager is killed"
cluster_end
