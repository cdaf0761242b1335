#!/bin/bash
# df counts a disk once, however many daemons share it, and shows what was just written, also when no heartbeat is due.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin capacity "$1"
loop_mount "$work/disk1" 256M
loop_mount "$work/disk2" 128M
start_meta --heartbeat 20s
mkdir "$work/disk1/a" "$work/disk1/b" "$work/disk2/c"
for i in 1:disk1/a 2:disk1/b 3:disk2/c; do
    start_daemon "iod${i%%:*}" "$bin/morsel-iod" --data-dir "$work/${i#*:}" --listen 127.0.0.1:0 --manager "$manager" --reserve 0
done
wait_for 60 "3 servers are up" servers_up 3
start_mount a

# total and free, in KiB
of_disks() {
    df -k --output=size,avail "$work/disk1" "$work/disk2" | awk 'NR > 1 { size += $1; free += $2 } END { print size, free }'
}
of_mount() {
    df -k --output=size,avail "$mnt" | tail -n 1 | tr -s ' '
}
near() {
    [ $(($1 > $2 ? $1 - $2 : $2 - $1)) -le 1024 ]
}
# Servers have a quarter of a second to answer, and a busy machine may take longer: df is asked three times at most, and no heartbeat is due then.
compare() {
    local disks mount try
    for try in 1 2 3; do
        read -ra disks < <(of_disks)
        read -ra mount < <(of_mount)
        if near "${mount[0]}" "${disks[0]}" && near "${mount[1]}" "${disks[1]}"; then return; fi
        note "$1, try $try: df says ${mount[*]} KiB, and the disks have ${disks[*]}"
    done
    fail "$1: df says ${mount[*]} KiB, and the disks have ${disks[*]}"
}
compare "empty"
[ "$(morsel df --json | jq .bytes_total)" = $(($(of_disks | cut -d' ' -f1) * 1024)) ] || fail "morsel df counts a shared disk more than once"
grep -q 'counted above' <<<"$(morsel df)" || fail "morsel df does not say which disk is shared"

before=$(of_mount | awk '{ print $2 }')
for size in 8 24; do
    dd if=/dev/urandom of="$mnt/f$size" bs=1M count=$size conv=fsync status=none
    compare "$size MiB later"
done
[ $((before - $(of_mount | awk '{ print $2 }'))) -ge $((31 * 1024)) ] || fail "32 MiB were written and free space shrank by less"

# A server that does not answer costs a moment, not a time-out.
kill -STOP "${pid_of[iod3]}"
begun=$(now_ms)
of_mount >/dev/null
[ $(($(now_ms) - begun)) -lt 5000 ] || fail "df waits for a server that is stopped"
kill -CONT "${pid_of[iod3]}"
cluster_end
