#!/bin/bash
# Bytes are damaged between an I/O daemon and the mount, where only the mount can see it: the read ends with EIO and a line that names file
# and server, or is repeated and right; never with a wrong byte.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin damaged "$1"
start_cluster 2
start_host far
start_relay far --damage "$work/damage"
inject=("${on_host[@]}")
start_mount a io_timeout=5s
inject=()

dd if=/dev/urandom of="$work/bytes" bs=1M count=4 status=none
cp "$work/bytes" "$mnt/file"
sync "$mnt/file"
drop_caches
cmp "$work/bytes" "$mnt/file" || fail "wrong bytes before anything is damaged"

# Every answer is damaged, so asking again does not help.
: >"$work/damage"
drop_caches
expect_error "Input/output error" cat "$mnt/file"
[ "$(stat -c %s "$work/damage")" -ge 2 ] || fail "the relay damaged $(stat -c %s "$work/damage") answers"
inode=$(stat -c %i "$mnt/file")
grep -q checksum <<<"$(grep -E "inode $inode: .*(${address_of[iod1]}|${address_of[iod2]})" "$work/log/mount-a")" ||
    fail "no line names the file, the server and what is wrong"
note "damage on the way is EIO"

# It is not kept: afterwards everything is there.
rm "$work/damage"
drop_caches
cmp "$work/bytes" "$mnt/file" || fail "wrong bytes behind the damage"
stop_mount a
cluster_end
