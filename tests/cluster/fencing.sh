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

# Does the mount open the file without asking anybody? Then it holds the lease.
opens_alone() {
    python3 - "$1" "$1/$2" <<'PY'
import os, sys
def opened():
    lines = os.getxattr(sys.argv[1], "user.morsel.statistics").decode().splitlines()
    return int(dict(line.split() for line in lines)["opens_local"])
before = opened()
os.close(os.open(sys.argv[2], os.O_RDWR))
sys.exit(opened() == before)
PY
}

mkfifo "$work/feed"
for round in 1 2 3; do
    file=file$round
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' '0' >"$far/$file"
    sync "$far/$file"
    wait_for 20 "the lease on a new file" opens_alone "$far" "$file"
    dd bs=1M iflag=fullblock conv=notrunc,fsync status=none 1<>"$far/$file" <"$work/feed" 2>"$work/dd" &
    writer=$!
    children+=("$writer")
    exec 8>"$work/feed" # The file is open then, too.
    [ ! -e "$far/new$round" ] # Now it knows.
    # It holds the lease, and what it writes now lies in its sockets.
    cut_link far
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' 'A' >&8 # All but what a pipe holds is taken, and so written.
    before=$(now_ms)
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' 'B' | timeout 30 dd of="$near/$file" bs=1M conv=notrunc,fsync status=none ||
        fail "a mount that was cut off holds up another one"
    took=$(($(now_ms) - before))
    [ "$took" -lt 7000 ] || fail "a mount that was cut off was waited for $took ms"
    touch "$near/new$round"
    mend_link far
    exec 8>&-
    ! wait "$writer" || fail "the mount that was cut off believes that its bytes were written"
    grep -q 'Input/output error' "$work/dd" || fail "not EIO: $(cat "$work/dd")"
    [ "$(tr -d 'B' <"$near/$file" | wc -c)" = 0 ] || fail "bytes of a mount that was cut off landed after those of another one"
    cmp "$far/$file" "$near/$file" || fail "the mount that was cut off reads what it had"
    [ -e "$far/new$round" ] || fail "the mount that was cut off misses a name that others made"
    echo again >"$far/after$round" || fail "the mount that was cut off does not go on"
    [ "$(cat "$near/after$round")" = again ] || fail "what it writes afterwards is not seen"
    note "round $round: waited $took ms, nothing landed late"
done
cluster_end
