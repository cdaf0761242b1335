#!/bin/bash
# Random file operations on a mount against a model in memory; several seeds, two layouts.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin fsfuzz "$1"
start_cluster 4
start_mount a

# 4844033 once had fsync call bytes lost that had been cut off, in a file that a copy laid elsewhere then.
for seed in ${SEEDS:-$(seq "$test_seed" $((test_seed + 3))) 4844033}; do
    mkdir "$mnt/$seed"
    [ $((seed % 2)) = 0 ] || policy "$mnt/$seed" morsel_size=64K stripe_size=1 stripe_width=4
    timeout 600 "$bin/fsfuzz" "$mnt/$seed" "$seed" "${OPERATIONS:-3000}" || fail "seed $seed"
    rmdir "$mnt/$seed"
done
fsck_clean
cluster_end
