#!/bin/bash
# Counters under locks, by two processes on each of three mounts: no step is lost, and no byte becomes one that nobody wrote. In files
# that stay open for seconds, and in many new ones.
#
#   counters.sh BUILD [SEED SECONDS FILES]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin counters "$1"
seed=${2:-$test_seed} seconds=${3:-20} files=${4:-${COUNTERS_FILES:-300}}
start_cluster 2
roots=()
for name in a b c; do
    start_mount "$name"
    roots+=("$mnt")
done
mkdir "${roots[0]}/d"

# counters KIND AMOUNT DIR...
counters() {
    local said
    said=$(timeout 1500 "$bin/counters" "$1" "$seed" "${@:2}") || fail "seed $seed, $1: $said"
    note "$1: $said"
}

counters open "$seconds" "${roots[@]/%//d}"
counters young "$files" "${roots[@]/%//d}"
counters young $((files / 4)) "${roots[0]}/d" "${roots[1]}/d"
fsck_clean
cluster_end
