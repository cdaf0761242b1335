#!/bin/bash
# Calls of two mounts that cross, while what the one mount has answered lies there for moments: both see the same when all is over. The
# daemons have another processor than the process that is kept waiting.
#
#   crossing.sh BUILD [SEED ROUNDS]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin crossing "$1"
inject=(taskset -c "0-$(($(nproc) - 2))")
start_cluster 2
start_mount a
a=$mnt
start_mount b
b=$mnt
mkdir "$a/d"
said=$(timeout 1500 "$bin/crossing" "${2:-1}" "${3:-1000}" "$a/d" "$b/d") || fail "seed ${2:-1}: $said"
note "$said"
fsck_clean
cluster_end
