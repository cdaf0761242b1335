#!/bin/bash
# A byte on a daemon's disk is flipped: EIO and a line that names the file, never a wrong byte; the rest stays readable.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin corrupt "$1"
start_cluster 2
start_mount a
dd if=/dev/urandom of="$work/bytes" bs=1M count=6 status=none
cp "$work/bytes" "$mnt/damaged"
cp "$work/bytes" "$mnt/sound"
sync "$mnt/damaged" "$mnt/sound"
inode=$(stat -c %i "$mnt/damaged")
stop_mount a
for name in iod1 iod2; do
    stop "$name"
done

object=$(find "$work"/iod1/objects -type f -name "$inode.*" -o -type f -name "$(printf '%x' "$inode").*" \
    -o -type f -name "$(printf '%016x' "$inode").*" | head -n 1)
[ -n "$object" ] || fail "no object of inode $inode under iod1: $(find "$work/iod1/objects" -type f | head -n 3)"
at=$((4096 + 123456)) # A byte of the first morsel, behind the page of checksums.
byte=$(dd if="$object" bs=1 skip=$at count=1 status=none | od -An -tu1)
# shellcheck disable=SC2059 # the format is the byte
printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$object" bs=1 seek=$at conv=notrunc status=none

for number in 1 2; do
    start_iod "$number"
done
wait_for 60 "the servers are up" servers_up 2
start_mount a io_timeout=5s
drop_caches
expect_error "Input/output error" cat "$mnt/damaged"
cat "$work"/log/iod1 "$work"/log/mount-a | grep -iE 'checksum|damag|corrupt' | grep -E "$inode|$(printf '%x' "$inode")|${object##*/}" >/dev/null ||
    fail "no line of a log names the damaged file"
cmp "$work/bytes" "$mnt/sound" || fail "a sound file beside it cannot be read"
# What lies outside the damaged block is still there.
cmp -n $((1 << 20)) -i $((3 << 20)) "$work/bytes" "$mnt/damaged" || fail "sound parts of the damaged file cannot be read"
# Written anew, the file is sound again.
cp "$work/bytes" "$mnt/damaged" || fail "a damaged file cannot be overwritten"
sync "$mnt/damaged"
drop_caches
cmp "$work/bytes" "$mnt/damaged" || fail "overwritten, and still wrong"
cluster_end
