#!/bin/bash
# The POSIX suite on a mount, over the default layout and over one with small morsels.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin posix "$1"
new_copies= # What users get who say nothing.
start_cluster 4
start_mount a allow_other,dev,suid

# suite DIRECTORY [PATTERN]: everything passes, and only what tests/skips lists is skipped.
suite() {
    mkdir -m 755 "$1"
    [ -z "${3:-}" ] || policy "$1" $3
    timeout 900 "$(dirname "$0")/../posix/judge.sh" posix-mount "$bin/posix_suite" "$1" ${2:+"$2"} ||
        fail "the suite in $1 (${3:-default layout})"
}

suite "$mnt/default"
small="morsel_size=64K stripe_size=2 stripe_width=3"
if [[ ${MOUNT_OPTIONS:-} != nocache ]]; then # Where nothing is kept, it matters less how a file lies.
    suite "$mnt/small-data" data/ "$small"
    suite "$mnt/small-sparse" sparse/ "$small"
    suite "$mnt/small-map" map/ "$small"
fi
fsck_clean
cluster_end
