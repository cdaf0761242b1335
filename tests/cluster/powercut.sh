#!/bin/bash
# The power of all servers is cut under load: everything that was fsynced is there, and nothing is inconsistent. Objects of files
# that are gone may be left (docs/status.md, Known limits), and nothing else; `fsck --repair` collects them.
#
# The data directories lie on an ext4 of their own, which EXT4_IOC_SHUTDOWN stops without writing anything back. The daemons
# then meet another boot id, which each finds in a mount namespace of its own.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
own_mounts "$@"
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

fsck_is_clean() {
    morsel fsck >"$work/fsck" 2>&1
}

# Before the load: which files there are. One that is made in this round has a number behind that of the mark.
remember_files() {
    : >"$mnt/mark"
    mark=$(stat -c %i "$mnt/mark")
    rm "$mnt/mark"
    find "$mnt/load" -type f -printf '%i\n' >"$work/known"
}

# A delete is not synced at the server, and a server may have kept bytes of a file that the manager has forgotten. What was
# gone before the round stays gone.
may_be_left() {
    local inode=$((16#$1))
    [ "$inode" -gt "$mark" ] || grep -x "$inode" "$work/known" >/dev/null
}

check_after_cut() {
    local problems object
    "$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after power cut $1"
    wait_for 60 "the servers are with the manager" running_are_up
    if fsck_is_clean; then return; fi
    problems=$(sed -nE 's/^fsck: problems: .* ([0-9]+) problems.*/\1/p' "$work/fsck")
    sed -nE 's/^server [0-9]+: object ([0-9a-f]{16})\.[0-9]+ belongs to no file$/\1/p' "$work/fsck" >"$work/left"
    [ "$(wc -l <"$work/left")" = "$problems" ] || fail "fsck after power cut $1: $(cat "$work/fsck")"
    while read -r object; do
        may_be_left "$object" || fail "object $object was gone before power cut $1: $(cat "$work/fsck")"
    done <"$work/left"
    morsel fsck --repair >"$work/fsck" 2>&1 || [ $? = 4 ] || fail "fsck --repair after power cut $1: $(cat "$work/fsck")"
    wait_for 60 "what power cut $1 left is collected" fsck_is_clean
    "$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after the repair behind power cut $1"
    note "power cut $1 left $problems objects, which are collected"
}

rounds=${ROUNDS:-3}
for ((round = 1; round <= rounds; round++)); do
    boot "$round"
    open_disks
    start_cluster 4
    inject=()
    start_mount a io_timeout=5s
    if [ "$round" -gt 1 ]; then
        check_after_cut $((round - 1))
        find "$mnt" -type f -print0 | xargs -0 cat >/dev/null || fail "a file cannot be read after the power cut"
    fi
    mkdir -p "$mnt/load"
    sync "$mnt/load" "$mnt"
    remember_files
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
    unmount "$work/disk"
    loop_mounts=()
    note "power cut $round"
done
boot "$round"
open_disks
start_cluster 4
inject=()
start_mount a
check_after_cut "$rounds"
find "$mnt" -type f -print0 | xargs -0 cat >/dev/null || fail "a file cannot be read after the power cut"
cluster_end
