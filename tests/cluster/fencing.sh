#!/bin/bash
# A mount that holds a lease is cut off with its writes on the way: what it sent must not land when the link is mended, because others have
# written since. It is told EIO once, and goes on by itself.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin fencing "$1"
start_host far
for name in meta iod1 iod2; do address_of[$name]=$host_address:0; done
start_cluster 2
start_mount near
near=$mnt
inject=("${on_host[@]}")
start_mount far
far=$mnt
inject=()

for round in 1 2 3; do
    file=file$round
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' '0' >"$far/$file"
    sync "$far/$file"
    # It holds the lease, and what it writes now lies in its sockets.
    cut_link far
    (dd if=/dev/zero bs=1M count=4 status=none | tr '\0' 'A' | dd of="$far/$file" bs=1M conv=notrunc,fsync status=none) 2>"$work/dd" &
    writer=$!
    children+=("$writer")
    before=$(now_ms)
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' 'B' | timeout 30 dd of="$near/$file" bs=1M conv=notrunc,fsync status=none ||
        fail "a mount that was cut off holds up another one"
    took=$(($(now_ms) - before))
    [ "$took" -lt 7000 ] || fail "a mount that was cut off was waited for $took ms"
    mend_link far
    ! wait "$writer" || fail "the mount that was cut off believes that its bytes were written"
    grep -q 'Input/output error' "$work/dd" || fail "not EIO: $(cat "$work/dd")"
    [ "$(tr -d 'B' <"$near/$file" | wc -c)" = 0 ] || fail "bytes of a mount that was cut off landed after those of another one"
    wait_for 20 "the mount that was cut off reads what others wrote" cmp "$far/$file" "$near/$file"
    echo again >"$far/after$round" || fail "the mount that was cut off does not go on"
    [ "$(cat "$near/after$round")" = again ] || fail "what it writes afterwards is not seen"
    note "round $round: waited $took ms, nothing landed late"
done
cluster_end
