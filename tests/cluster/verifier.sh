#!/bin/bash
# The write verifier of an I/O daemon: it stays over an orderly restart and over kill -9, and it is another one after the machine
# was reset and after the disk failed a sync; `morsel status` says that a disk failed.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
own_mounts "$@"
cluster_begin verifier "$1"

# The verifier that the manager was told by server 1.
verifier() {
    morsel status --json | sed -n 's/.*"verifier": "\([0-9a-f]*\)".*/\1/p' | head -n 1
}

known() {
    [ -n "$(verifier)" ] && servers_up 1
}

write_some() {
    dd if=/dev/urandom of="$mnt/file" bs=64k count=16 conv=notrunc status=none
}

start_meta
own_disk iod1 256M
start_iod 1
start_mount a
wait_for 60 "the manager knows the verifier" known
first=$(verifier)
write_some

note "an orderly restart"
stop iod1
start_iod 1
wait_for 60 "the server is back" known
[ "$(verifier)" = "$first" ] || fail "an orderly restart changed the verifier $first to $(verifier)"

note "kill -9"
write_some
crash iod1
start_iod 1
wait_for 60 "the server is back" known
[ "$(verifier)" = "$first" ] || fail "kill -9 changed the verifier $first to $(verifier)"

note "an orderly end, then another boot"
stop iod1
new_boot iod1
start_iod 1
wait_for 60 "the server is back" known
[ "$(verifier)" = "$first" ] || fail "another boot after an orderly end changed the verifier $first to $(verifier)"

note "the machine is reset"
write_some
lose_power iod1
start_iod 1
changed() {
    known && [ "$(verifier)" != "$first" ]
}
wait_for 60 "another verifier after the loss of power" changed
second=$(verifier)

note "the disk fails"
exec 5<>"$mnt/file" # The handle that writes is the one that syncs.
dd if=/dev/urandom bs=64k count=16 status=none >&5
"$bin/powercut" "$work/disk-iod1"
if dd if=/dev/null conv=fsync status=none >&5 2>"$work/out"; then
    fail "fsync said that bytes are on a disk that fails"
fi
exec 5>&- || true
failed() {
    morsel status >"$work/status"
    grep -q 'DISK FAILED' "$work/status"
}
wait_for 60 "status shows that the disk failed" failed
grep -q 'restart morsel-iod' "$work/status" || fail "status does not say what to do: $(cat "$work/status")"
grep -q '"disk_failure": "[^"]' <<<"$(morsel status --json)" || fail "status --json does not say that the disk failed"
grep -q '^health *degraded' <<<"$(morsel status)" || fail "a cluster with a failed disk counts as healthy"
[ "$(verifier)" != "$second" ] || fail "a failed sync left the verifier as it was"
third=$(verifier)
lose_power iod1
start_iod 1
back() {
    known && ! failed
}
wait_for 60 "the server is back with a sound disk" back
case $(verifier) in
    "$first" | "$second" | "$third") fail "the verifier went back to an old one" ;;
esac
cluster_end
