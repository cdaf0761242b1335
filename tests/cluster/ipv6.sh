#!/bin/bash
# A cluster that knows nothing but IPv6: manager, I/O daemons and mount meet on [::1].
#
#   tests/cluster/ipv6.sh BUILD
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin ipv6 "$1"
address_of[meta]='[::1]:0' address_of[iod1]='[::1]:0' address_of[iod2]='[::1]:0'
start_cluster 2
for daemon in meta iod1 iod2; do
    [[ ${address_of[$daemon]} == '[::1]:'[1-9]* ]] || fail "$daemon listens on ${address_of[$daemon]}"
done
morsel status >"$work/status" || fail "morsel status says that the cluster is not well"
[ "$(grep -c '\[::1\]:' "$work/status")" -ge 2 ] || fail "morsel status does not show the servers' addresses: $(cat "$work/status")"
start_mount a
head -c 5000000 /dev/urandom >"$work/bytes"
cp "$work/bytes" "$mnt/file"
sync "$mnt/file"
drop_caches
cmp "$work/bytes" "$mnt/file" || fail "what is read is not what was written"

# Both kinds of server come back at their address, and the mount finds them.
stop iod1
start_iod 1
crash meta
start_meta
wait_for 60 "both servers are up" servers_up 2
drop_caches
cmp "$work/bytes" "$mnt/file" || fail "what is read after restarts is not what was written"
cp "$work/bytes" "$mnt/other"
cmp "$work/bytes" "$mnt/other" || fail "a second file"
sock=$(ss -Htnp 2>/dev/null | grep "pid=${pid_of[mount-a]}," || true)
if [ -n "$sock" ] && grep -vqF '[::1]' <<<"$sock"; then
    fail "the mount speaks something else than IPv6: $sock"
fi
rm "$mnt/file" "$mnt/other"
fsck_clean
cluster_end
