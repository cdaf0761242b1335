#!/bin/bash
# Random operations through two mounts by turns, against one model: what one has done the other sees at once. The second time one
# of the two keeps nothing.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin twomounts "$1"
new_copies= # What users get who say nothing.
start_cluster 4
start_mount a
a=$mnt
start_mount b
b=$mnt
start_mount c nocache
c=$mnt

for seed in ${SEEDS:-$(seq "$test_seed" $((test_seed + 3)))}; do
    other=$b
    [ $((seed % 4)) != 0 ] || other=$c
    mkdir "$a/$seed"
    [ $((seed % 2)) = 0 ] || policy "$a/$seed" morsel_size=64K stripe_size=1 stripe_width=4
    timeout 600 "$bin/fsfuzz" "$a/$seed" "$seed" "${OPERATIONS:-3000}" --second "$other/$seed" || fail "seed $seed"
    rmdir "$a/$seed"
done
fsck_clean
cluster_end
