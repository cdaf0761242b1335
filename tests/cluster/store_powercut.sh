#!/bin/bash
# Power cuts under the object store, on an ext4 image behind a loop device: store_powercut.sh PROGRAM [ROUNDS [SEED]]
# Exits with 77 (skipped) where loop devices or mounts are not allowed.
set -euo pipefail
# shellcheck source=tests/lib/skip.sh
. "$(dirname "$0")/../lib/skip.sh"
# shellcheck source=tests/lib/ours.sh
. "$(dirname "$0")/../lib/ours.sh"
own_mounts "$@"
program=$1
rounds=${2:-20}
seed=${3:-1}

skip() {
    skip_test cluster/store_powercut "$1"
}

[ "$(id -u)" = 0 ] || skip "needs root for mounts"
work=$(mktemp -d "${TMPDIR:-/tmp}/morsel-powercut-XXXXXX")
device=
cleanup() {
    umount "$work/mnt" 2>/dev/null || true
    [ -z "$device" ] || losetup -d "$device" || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

mkdir "$work/mnt"
truncate -s 256M "$work/image"
mkfs.ext4 -q -F "$work/image"
device=$(losetup --find --show "$work/image") || skip "no loop device"
mount "$device" "$work/mnt" || skip "may not mount"
umount "$work/mnt"
"$program" "$device" "$work/mnt" "$rounds" "$seed"
