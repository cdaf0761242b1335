#!/bin/bash
# The power of all servers is cut under load: everything that was fsynced is there, and nothing is inconsistent.
#
# The data directories lie on an ext4 of their own, which EXT4_IOC_SHUTDOWN stops without writing anything back. The daemons
# then meet another boot id, which each finds in a mount namespace of its own.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin powercut "$1"
[ "$(id -u)" = 0 ] || skip "needs root for loop devices"
unshare -m true 2>/dev/null || skip "needs mount namespaces"

# In front of each daemon: the boot id of the imagined machine.
boot() {
    cat >"$work/run/boot" <<END
#!/bin/sh
mount --bind "$work/run/boot_id" /proc/sys/kernel/random/boot_id && exec "\$@"
END
    chmod +x "$work/run/boot"
    printf '%08x-0000-4000-8000-000000000000\n' "$1" >"$work/run/boot_id"
    inject=(unshare -m --propagation private "$work/run/boot")
}

open_disks() {
    local name
    loop_mount "$work/disk" 3G
    for name in meta iod1 iod2 iod3 iod4; do
        mkdir -p "$work/disk/$name"
        ln -sfn "$work/disk/$name" "$work/$name"
    done
}

rounds=${ROUNDS:-3}
for ((round = 1; round <= rounds; round++)); do
    boot "$round"
    open_disks
    start_cluster 4
    inject=()
    start_mount a io_timeout=5s
    if [ "$round" -gt 1 ]; then
        "$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after power cut $((round - 1))"
        fsck_clean
        find "$mnt" -type f -print0 | xargs -0 cat >/dev/null || fail "a file cannot be read after the power cut"
    fi
    mkdir -p "$mnt/load"
    sync "$mnt/load" "$mnt"
    "$bin/ackload" write "$mnt/load" "$work/journal" 60 sync >"$work/ackload" 2>&1 &
    load=$!
    sleep "$((1 + round)).$round"
    "$bin/powercut" "$work/disk" || fail "the file system does not shut down"
    for name in iod1 iod2 iod3 iod4 meta; do
        crash "$name"
    done
    kill -TERM "$load" 2>/dev/null || true
    wait "$load" || true
    cat "$work/ackload" | tail -n 1
    umount -l "$mnt"
    crash mount-a
    umount "$work/disk" || fail "the disk is still in use"
    loop_mounts=()
    note "power cut $round"
done
boot "$round"
open_disks
start_cluster 4
inject=()
start_mount a
"$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after the last power cut"
fsck_clean
find "$mnt" -type f -print0 | xargs -0 cat >/dev/null || fail "a file cannot be read after the power cut"
cluster_end
