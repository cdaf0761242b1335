#!/bin/bash
# Files of class scavenged as their users meet them, on benefactors that are all well: written in all ways, of any size, read by any mount, also while
# they are stored, sealed at the last close, named and deleted as all files are; by one writer; and what becomes of a set whose writer has died.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin datasets "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 4
start_iod 1
wait_for 60 "the server for durable files is up" servers_up 1
start_mount a io_timeout=20s
a=$mnt
start_mount b io_timeout=20s
b=$mnt
mkdir "$a/set" "$a/durable"
policy "$a/set" class=scavenged
own="$(dirname "$0")/datasets.py"

# both_have NAME COPY
both_have() {
    cmp "$2" "$a/set/$1" || fail "$1 is not on this mount what was written"
    cmp "$2" "$b/set/$1" || fail "$1 is not on the other mount what was written"
}
# The kernel tells a mount of the last close behind close(2): so long who writes on goes on.
seals() {
    wait_for 60 "$1 is sealed" is_sealed "$1"
}
is_sealed() {
    morsel datasets --json | jq -e "any(.datasets[]; .inode == $(stat -c %i "$a/set/$1") and .state == \"sealed\")" >/dev/null
}
# is_refused WORDS COMMAND...
is_refused() {
    expect_error "$@"
}
# objects NAME: of the set of the file, at all benefactors.
objects() {
    local set
    set=$(getfattr --absolute-names --only-values -n user.morsel.layout "$a/set/$1" | grep -oE 'set=[0-9]+' | cut -d= -f2)
    find "$work"/donor*/objects -name "$(printf '%016x' "$set").*" | wc -l
}
# objects_are NAME COUNT
objects_are() {
    [ "$(objects "$1")" = "$2" ]
}
no_objects() {
    [ "$(find "$work"/donor*/objects -type f | wc -l)" = 0 ]
}

# ---- Programs write files of any size, and others read them.

for bytes in 0 1 4095 1048576 1048577 7654321; do
    head -c "$bytes" /dev/urandom >"$work/copy"
    cp "$work/copy" "$a/set/size$bytes"
    both_have "size$bytes" "$work/copy"
done
wait_for 60 "of a file of 8 morsels there are two of each" objects_are size7654321 16
dd if="$work/copy" of="$b/set/small" bs=777 status=none
dd if="$work/copy" of="$b/set/synced" bs=100k conv=fsync status=none
dd if="$work/copy" of="$b/set/direct" bs=1M oflag=direct iflag=fullblock status=none
tar -C "$a/set" -cf "$b/set/archive.tar" small synced
tar -C "$work" -xf "$b/set/archive.tar"
for name in small synced direct; do
    both_have "$name" "$work/copy"
done
cmp "$work/copy" "$work/small" && cmp "$work/copy" "$work/synced" || fail "an archive of such files in such a file is not what it was"
cat "$a/set/small" "$a/set/small" >"$a/set/twice"
cp "$a/set/twice" "$a/durable/twice"
cp "$b/durable/twice" "$b/set/back"
cmp "$a/set/back" "$a/durable/twice" || fail "copied to a durable file and back it is not what it was"
[ "$(sha256sum <"$b/set/twice")" = "$(cat "$work/copy" "$work/copy" | sha256sum)" ] || fail "another checksum"
note "written and read"

# ---- Who begins with a long read has the next benefactors at work at once, before he has anything; who wants a header has not.

# holders NAME MORSEL: the benefactors that have a copy.
holders() {
    local set
    set=$(getfattr --absolute-names --only-values -n user.morsel.layout "$a/set/$1" | grep -oE 'set=[0-9]+' | cut -d= -f2)
    find "$work"/donor*/objects -name "$(printf '%016x' "$set").$2" | sed -E 's,.*/(donor[0-9]+)/objects/.*,\1,'
}
# has_read MOUNT COUNT: morsels, or more.
has_read() {
    [ "$(mount_counter "$1" set_morsels_read)" -ge "$2" ]
}
start_mount header
header=$mnt
head -c 4096 "$header/set/size7654321" | cmp - <(head -c 4096 "$work/copy") || fail "the header is not what was written"
start_mount long
mapfile -t frozen < <(holders size7654321 0)
others=0
for morsel in 1 2 3; do
    [ -z "$(holders size7654321 "$morsel" | grep -vxF "$(printf '%s\n' "${frozen[@]}")")" ] || others=$((others + 1))
done
[ "${#frozen[@]}" -ge 2 ] && [ "$others" -ge 2 ] || fail "the copies lie otherwise than dealt: the first morsel on ${frozen[*]}, $others of the next three elsewhere"
for name in "${frozen[@]}"; do kill -STOP "${pid_of[$name]}"; done
dd if="$mnt/set/size7654321" of="$work/read" bs=1M count=1 status=none &
reader=$!
# Later the manager misses the frozen ones, and has others copy what they have.
within 15 has_read "$mnt" "$others" || fail "$others of the next morsels did not come while the first one was waited for"
for name in "${frozen[@]}"; do kill -CONT "${pid_of[$name]}"; done
wait "$reader" || fail "who waited for a frozen benefactor failed"
cmp "$work/read" <(head -c 1M "$work/copy") || fail "the first MiB is not what was written"
cmp "$work/copy" "$mnt/set/size7654321" || fail "read whole it is not what was written"
[ "$(mount_counter "$mnt" set_cached_bytes)" = 0 ] || fail "the mount keeps $(mount_counter "$mnt" set_cached_bytes) bytes of what the kernel has"
# Who reads here and there past the kernel's pages has each morsel fetched once, however often he reads in it.
had=$(mount_counter "$mnt" set_morsels_read)
python3 - "$mnt/set/size7654321" <<'P'
import mmap, os, random, sys
page = mmap.mmap(-1, 4096)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
random.seed(7)
for _ in range(16384):
    os.preadv(fd, [page], random.randrange(7 * 256) * 4096)
P
now=$(mount_counter "$mnt" set_morsels_read)
[ "$now" -gt "$had" ] && [ "$now" -le $((had + 26)) ] || fail "for 7 MiB that were read here and there $((now - had)) morsels were fetched"
! has_read "$header" 3 || fail "for a header $(mount_counter "$header" set_morsels_read) morsels were fetched"
stop_mount header
stop_mount long
wait_for 60 "all benefactors are here" donors_here 4
note "begun with much and with little"

# ---- In any order, with everything that may be done to a file before it is sealed.

for seed in 1 2 3; do
    python3 "$own" random "$a/set/random" "$work/copy" $((test_seed + seed)) || fail "at random, seed $((test_seed + seed))"
    both_have random "$work/copy"
    python3 "$own" direct "$b/set/random" "$work/copy" $((test_seed + seed)) || fail "with O_DIRECT, seed $((test_seed + seed))"
    both_have random "$work/copy"
done
note "written in any order"

# ---- Sealed at the last close: nothing can be changed, but it can begin anew; what belonged to it goes.

head -c 3000000 /dev/urandom >"$work/copy"
cp "$work/copy" "$a/set/sealed"
seals sealed
for where in "$a" "$b"; do
    is_refused "Operation not permitted" bash -c "echo more >>$where/set/sealed"
    is_refused "Operation not permitted" dd if=/dev/zero of="$where/set/sealed" bs=10 count=1 conv=notrunc
    is_refused "Operation not permitted" truncate -s 10 "$where/set/sealed"
    is_refused "Operation not permitted" truncate -s 9000000 "$where/set/sealed"
    is_refused "Operation not permitted" fallocate -l 9000000 "$where/set/sealed"
    both_have sealed "$work/copy"
done
echo new >"$b/set/sealed"
[ "$(cat "$a/set/sealed")" = new ] || fail "it did not begin anew"
seals sealed
is_refused "Operation not permitted" bash -c "echo more >>$b/set/sealed"
wait_for 90 "what it was is deleted" objects_are sealed 2
touch "$a/set/empty"
echo first >>"$b/set/empty" || fail "an empty file was sealed"
[ "$(cat "$a/set/empty")" = first ] || fail "what was written to an empty file is not there"
is_refused "Operation not supported" fallocate -l 100 "$a/set/reserved"
note "sealed"

# ---- Names are as those of all files.

cp "$work/copy" "$a/set/name"
ln "$b/set/name" "$b/set/other"
mv "$b/set/name" "$b/durable/moved"
both_have other "$work/copy"
cmp "$work/copy" "$a/durable/moved" || fail "a file that was moved to another directory is not what it was"
[ "$(stat -c '%h %s' "$a/set/other")" = "2 3000000" ] || fail "$(stat "$a/set/other")"
exec {held}<"$a/set/other"
rm "$b/set/other" "$b/durable/moved"
cmp "$work/copy" "/dev/fd/$held" || fail "a file without a name that is open cannot be read"
exec {held}<&-

# ---- Read while it is stored, by another mount; which cannot write.

coproc slow { exec python3 "$own" slowly "$a/set/slow" "$work/slow" 8; }
# shellcheck disable=SC2154 # of coproc
writer=$slow_PID # Bash forgets it when it ends.
for i in 0 1 2 3 4 5 6 7; do
    echo go >&"${slow[1]}"
    read -r -t 60 said <&"${slow[0]}" || fail "no MiB $i"
    [ "$said" = "$i" ] || fail "MiB $said in the place of $i"
    cmp "$work/slow" "$b/set/slow" || fail "what is stored so far ($i) is not read by another mount"
    if [ "$i" = 4 ]; then
        is_refused "Device or resource busy" dd if=/dev/zero of="$b/set/slow" bs=10 count=1 conv=notrunc,fsync
    fi
done
wait "$writer" || fail "who wrote slowly failed"
both_have slow "$work/slow"
seals slow
is_refused "Operation not permitted" bash -c "echo more >>$b/set/slow"
note "read while it is stored"

# ---- The manager restarts in the middle; and a mount dies there: what is stored stays, and nobody goes on.

coproc slow { exec python3 "$own" slowly "$a/set/slow" "$work/slow" 6; }
writer=$slow_PID
for i in 0 1 2; do
    echo go >&"${slow[1]}"
    read -r -t 60 said <&"${slow[0]}" || fail "no MiB $i"
done
crash meta
start_meta
for i in 3 4; do
    echo go >&"${slow[1]}"
    read -r -t 60 said <&"${slow[0]}" || fail "no MiB $i behind a restart of the manager"
done
cmp "$work/slow" "$b/set/slow" || fail "behind a restart of the manager it is not what it was"
crash mount-a
umount -l "$a"
kill "$writer" # It waits for a word.
wait "$writer" || true
start_mount a io_timeout=20s
cmp "$work/slow" "$b/set/slow" || fail "what was stored when its mount died is not there"
cmp "$work/slow" "$a/set/slow" || fail "what was stored when its mount died is not there on a new mount"
may_not_go_on() {
    ! dd if=/dev/zero of="$a/set/slow" bs=10 count=1 conv=notrunc,fsync 2>"$work/out" && grep -q "Operation not permitted" "$work/out"
}
wait_for 60 "nobody goes on with a set whose mount has died" may_not_go_on
cmp "$work/slow" "$b/set/slow" || fail "who was refused has changed it"
cp "$work/copy" "$b/set/slow" || fail "it does not begin anew"
both_have slow "$work/copy"
note "a writer died"

# ---- Nothing stays behind.

rm -r "$b/set"/*
wait_for 60 "nothing is left at the benefactors" no_objects
fsck_clean
stop_donors
cluster_end
