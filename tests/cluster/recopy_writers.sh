#!/bin/bash
# morsel recopy moves files that two other mounts have open for writing, and write to in all ways, without anybody closing them: no program sees an
# error, no byte is lost or older, and no write is longer than the pause.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
# shellcheck source=tests/lib/writers.sh
. "$(dirname "$0")/../lib/writers.sh"
cluster_begin recopy_writers "$1"
start_cluster 3
start_mount here
here=$mnt
start_mount one
one=$mnt
start_mount two
two=$mnt
make_written_files "$here/files"
start_writers one "$one/files"
start_writers two "$two/files"

moves=0
for wanted in "replicas=2" "replicas=1 stripe_width=2 stripe_size=1" "replicas=2 stripe_width=1 stripe_size=64" "replicas=3" "replicas=1"; do
    # shellcheck disable=SC2086
    policy "$here/files" $wanted
    all_move "$here/files"
    moves=$((moves + ${#written[@]}))
    go_round
done
# What both append to, some of it in several requests of the kernel.
for file in log blocks log; do
    moved=$(python3 "$(dirname "$0")/../lib/mover.py" "$here/files/$file" 25)
    [ "$moved" -ge 10 ] || fail "of 25 times $file was moved $moved times"
    moves=$((moves + moved))
done
longest_of one
longest_of two
note "$moves files were moved while they were written to"
end_writers
written_are_right "$here/files" "$one/files" "$two/files"
fsck_clean
cluster_end
