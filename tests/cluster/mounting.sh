#!/bin/bash
# Mounting as people do: mount(8) with its defaults, fstab, remount; in a mount namespace of our own, where mount(8) finds its helper.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
own_mounts "$@"
cluster_begin mounting "$1"
start_cluster 2

mkdir "$work/scratch" "$work/here"
mount -t tmpfs tmpfs "$work/scratch"
mkdir "$work/scratch/upper" "$work/scratch/work"
mount -t overlay -o "lowerdir=/usr/sbin,upperdir=$work/scratch/upper,workdir=$work/scratch/work" overlay /usr/sbin
ln -s "$bin/morsel-mount" /usr/sbin/mount.fuse.morsel
here=$work/here
loop_mounts+=("$here" /usr/sbin "$work/scratch")

# flags_are WANTED...: of what is mounted; "!x" stands for no x.
flags_are() {
    local flags wanted
    flags=,$(findmnt -n -o OPTIONS "$here"),
    for wanted in "$@"; do
        case $wanted in
        !*) [[ $flags != *,${wanted#!},* ]] || fail "${wanted#!} is among the flags $flags" ;;
        *) [[ $flags == *,$wanted,* ]] || fail "$wanted is not among the flags $flags" ;;
        esac
    done
}

# by_mount OPTIONS WANTED...
by_mount() {
    mount -t fuse.morsel ${1:+-o "$1"} "$manager" "$here" || fail "mount -o $1"
    shift
    flags_are "$@"
    umount "$here"
}

by_mount "" rw !nodev !nosuid !noexec
by_mount dev,suid rw !nodev !nosuid
by_mount nodev,nosuid nodev nosuid
by_mount user nodev nosuid noexec
by_mount user,dev !nodev nosuid
by_mount ro,noatime ro noatime !nodev
note "mount(8): what is default there is default here"

# A device and a set-id program work where nobody said otherwise.
mount -t fuse.morsel "$manager" "$here"
mknod "$here/null" c 1 3
echo gone >"$here/null" || fail "a device node does not work"
cp /usr/bin/id "$here/id"
chmod 4755 "$here" "$here/id"
umount "$here"
mount -t fuse.morsel -o allow_other "$manager" "$here"
[ "$(setpriv --reuid=nobody --regid=nogroup --clear-groups "$here/id" -u)" = 0 ] || fail "a set-id program does not work"
umount "$here"

echo "$manager $here fuse.morsel defaults,_netdev,noauto,nofail,nosuid 0 0" >"$work/fstab"
mount -T "$work/fstab" "$here"
flags_are rw nosuid !nodev
note "fstab"

# Remount changes the kernel's flags and nothing else.
echo before >"$here/file"
mount -o remount,ro "$here"
flags_are ro nosuid
expect_error "Read-only file system" touch "$here/new"
[ "$(cat "$here/file")" = before ] || fail "remount,ro lost something"
mount -o remount,rw "$here"
flags_are rw nosuid
echo after >"$here/file" || fail "not writable after remount,rw"
mount -o remount,noatime "$here"
flags_are rw noatime
exec 5>>"$here/file"
expect_error "files are open for writing" mount -o remount,ro "$here"
exec 5>&-
umount "$here"
mount -t fuse.morsel -o ro "$manager" "$here"
mount -o remount,rw "$here"
[ "$(cat "$here/file")" = after ] || fail "what was written last is gone"
echo more >"$here/file" || fail "mounted read-only, then remounted: not writable"
"$bin/morsel-mount" -o remount,ro,soft "$manager" "$here" 2>"$work/out" || fail "remount with an option that stays"
grep -q '"soft" stays' "$work/out" || fail "nobody was told that \"soft\" stays: $(cat "$work/out")"
flags_are ro
umount "$here"
expect_error "no MorselFS is mounted there" "$bin/morsel-mount" -o remount,ro "$manager" "$here"
note "remount"
cluster_end
