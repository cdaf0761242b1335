#!/bin/bash
# Processes of two mounts rename the same name to the same other name at the same moment: one has done it, the others hear that the name is
# gone; nobody who looks at the names meanwhile hears ESTALE. With leases, and without.
#
#   meetings.sh BUILD [ROUNDS]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin meetings "$1"
start_cluster 2
for how in leases nocache; do
    options=()
    [ "$how" = leases ] || options=(nocache)
    start_mount "a_$how" "${options[@]}"
    a=$mnt
    start_mount "b_$how" "${options[@]}"
    b=$mnt
    mkdir "$a/$how"
    said=$(timeout 240 "$bin/meetings" "$test_seed" "${2:-1500}" "$a/$how" "$b/$how") || fail "$how, seed $test_seed: $said"
    note "$how: $said"
done
fsck_clean
cluster_end
