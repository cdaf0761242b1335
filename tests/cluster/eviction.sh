#!/bin/bash
# A small cloud that is full: data sets that are scratch give way to others, from the end backwards, the one first that was used least; what is
# data never does, nor what is open.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin eviction "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
donor_mib=32
start_donors 2
start_mount a io_timeout=60s
a=$mnt
mkdir "$a/scratch" "$a/data"
policy "$a/scratch" class=scavenged scratch=yes
policy "$a/data" class=scavenged
[ "$(morsel getpolicy "$a/scratch" | grep -cE '^ *scratch.*yes')" = 1 ] || fail "getpolicy: $(morsel getpolicy "$a/scratch")"

# of NAME FIELD: what `morsel datasets` says of a file.
of() {
    local inode
    inode=$(stat -c %i "$a/$1")
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $inode) | .$2"
}
# store NAME: eight morsels, of which a copy is kept beside.
store() {
    mkdir -p "$work/${1%/*}"
    head -c 8388608 /dev/urandom >"$work/$1"
    cp "$work/$1" "$a/$1" || fail "$1 could not be stored: $(morsel datasets; morsel donors)"
}
# use NAME: read the beginning through a mount of its own, so that it is an access of its own.
use() {
    start_mount reader io_timeout=20s
    head -c 4096 "$mnt/$1" >"$work/out" || fail "$1 could not be read"
    stop_mount reader
}
# is_prefix NAME: what is left is its beginning, and of the rest each byte is refused.
is_prefix() {
    local left morsel
    left=$((8 - $(of "$1" morsels_evicted)))
    start_mount reader io_timeout=20s
    head -c $((left << 20)) "$mnt/$1" | cmp -n $((left << 20)) - "$work/$1" || fail "the beginning of $1 is not what was stored"
    if [ $left -lt 8 ]; then
        for ((morsel = left; morsel < 8; morsel++)); do
            expect_error "Input/output error" dd if="$mnt/$1" of=/dev/null bs=1M skip=$morsel count=1 status=none
        done
        grep -q "was evicted" "$work/log/mount-reader" || fail "the mount does not say that it was evicted"
    fi
    stop_mount reader
}
# is_next NAME: those that were stored a moment ago are left alone for a while, so this has to be waited for.
is_next() {
    [ "$(of "$1" eviction)" = "goes next" ]
}
is_hot() {
    [ "$(of "$1" "heat > 0")" = true ]
}
is_whole() {
    [ "$(of "$1" morsels_evicted)" = 0 ] && [ "$(of "$1" morsels_short)" = 0 ]
}
# Nothing of it was evicted. (It may have fewer copies for a while: who stores it takes one rather than none.)
keeps_all() {
    [ "$(of "$1" morsels_evicted)" = 0 ]
}

# ---- Scratch gives way: three sets fit twice over, a fourth one is stored all the same. The one that was never read goes first.

store scratch/one
store scratch/two
use scratch/one
wait_for 60 "what was read is hotter than what was not" is_hot scratch/one
! is_hot scratch/two || fail "what nobody has read is hot: $(of scratch/two heat)"
store scratch/three
wait_for 60 "the one goes next that was stored first and never used" is_next scratch/two
store scratch/four
wait_for 60 "the new one is whole" is_whole scratch/four
note "evicted of one, two, three, four: $(of scratch/one morsels_evicted) $(of scratch/two morsels_evicted) $(of scratch/three morsels_evicted) $(of scratch/four morsels_evicted)"
keeps_all scratch/one || fail "the one that was used has lost something"
[ "$(of scratch/two morsels_evicted)" -gt 0 ] || fail "the one that was used least has lost nothing"
is_prefix scratch/two
note "who is used least has lost its end"

# ---- What is open stays, whatever it is.

exec 7<"$a/scratch/three"
head -c 1 <&7 >"$work/out"
store scratch/five
keeps_all scratch/three || fail "a set was evicted while it was open"
[ "$(of scratch/three eviction)" = "in use now" ] || fail "an open set is said to be \"$(of scratch/three eviction)\""
exec 7<&-
note "what is open stays"

# ---- So does what is pinned, by its owner, until it is unpinned.

morsel pin "$a/scratch/five"
expect_error "nothing to pin" morsel pin "$a/scratch"
[ "$(of scratch/five eviction)" = pinned ] || fail "a pinned set is said to be \"$(of scratch/five eviction)\""
[ "$(getfattr --absolute-names --only-values -n user.morsel.pinned "$a/scratch/five")" = yes ] || fail "it is not said to be pinned"

# ---- The manager is killed between them: it knows what was evicted, and goes on.

crash meta
start_meta --donor-report 200ms --donor-look 1s
wait_for 60 "both benefactors are back" donors_here 2
store scratch/six
for name in one two three four five six; do
    is_prefix "scratch/$name"
done
keeps_all scratch/five || fail "a pinned set was evicted"
morsel unpin "$a/scratch/five"
fsck_clean
note "the manager was killed"

# ---- Data is never evicted: when scratch is gone there is no more room, and all of it is there.

store data/one
store data/two
for name in one two; do
    cmp "$work/data/$name" "$a/data/$name" || fail "data/$name lost something to the other"
done
stored=0
for name in three four five six; do
    if cp "$work/data/one" "$a/data/$name" 2>"$work/out"; then
        stored=$((stored + 1))
    else
        break
    fi
done
[ $stored -lt 4 ] || fail "all of them found room"
grep -q "No space left on device" "$work/out" || fail "no room, and cp says: $(cat "$work/out")"
for name in one two; do
    cmp "$work/data/$name" "$a/data/$name" || fail "data/$name is not what was stored"
    [ "$(of "data/$name" eviction)" = "is data" ] || fail "data is said to be \"$(of "data/$name" eviction)\""
done
[ "$(morsel datasets --json | jq '[.datasets[] | select(.scratch | not) | .morsels_evicted] | add')" = 0 ] || fail "data was evicted"
note "a cloud that is full of data says so"
stop_mount a
stop_donors
cluster_end
