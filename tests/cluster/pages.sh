#!/bin/bash
# What the kernel's pages and its idea of a file's size have to do with what is read (tests/posix/pages.c).
#
#   pages.sh BUILD [ROUNDS]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin pages "$1"
rounds=${2:-100}
start_cluster 2
start_mount a
a=$mnt
start_mount b
b=$mnt
for kind in kept beside direct; do
    mkdir "$a/$kind"
    said=$(timeout 240 "$bin/pages" "$kind" "$rounds" "$a/$kind" "$b/$kind") || fail "$kind: $said"
    note "$kind: $said"
done
fsck_clean
cluster_end
