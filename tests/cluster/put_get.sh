#!/bin/bash
# The user's hand on data sets: morsel evict gives back now what a set takes, from its end, and only what may go.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin put_get "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
donor_mib=64
start_donors 2
start_mount a io_timeout=20s,allow_other
a=$mnt
start_mount b io_timeout=20s
b=$mnt
mkdir "$a/scratch" "$a/data" "$a/durable"
policy "$a/scratch" class=scavenged scratch=yes
policy "$a/data" class=scavenged

# of NAME FIELD: what `morsel datasets` says of a file.
of() {
    local inode
    inode=$(stat -c %i "$a/$1")
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $inode) | .$2"
}
# refused WORDS COMMAND...: it fails with one line that has these words.
refused() {
    local words=$1 code=0
    shift
    "$@" >"$work/out" 2>&1 || code=$?
    [ "$code" != 0 ] || fail "$* worked: $(cat "$work/out")"
    [ "$(wc -l <"$work/out")" = 1 ] || fail "$*: $(cat "$work/out")"
    grep -q -- "$words" "$work/out" || fail "$*: not a word of \"$words\": $(cat "$work/out")"
    last_code=$code
}

# ---- evict: the end goes, in whole morsels, and nothing else; what is left can be read at once.

store() {
    mkdir -p "$work/${1%/*}"
    head -c "$2" /dev/urandom >"$work/$1"
    cp "$work/$1" "$a/$1"
}
# is_left NAME MORSELS: its beginning is there for a mount that has not seen it, and all behind it is gone.
is_left() {
    start_mount reader io_timeout=20s
    head -c $(($2 << 20)) "$mnt/$1" | cmp -n $(($2 << 20)) - "$work/$1" || fail "the beginning of $1 is not what was stored"
    expect_error "Input/output error" dd if="$mnt/$1" of=/dev/null bs=1M skip="$2" count=1 status=none
    stop_mount reader
}
store scratch/one 8000000
morsel evict --keep 2500K "$a/scratch/one" >"$work/out"
grep -q "gives back 4.6 MiB of each copy, 3.0 MiB are left" "$work/out" || fail "evict says: $(cat "$work/out")"
[ "$(of scratch/one morsels_evicted)" = 5 ] || fail "$(of scratch/one morsels_evicted) morsels were evicted, not 5"
[ "$(getfattr --absolute-names --only-values -n user.morsel.kept "$a/scratch/one")" = 3145728 ] || fail "user.morsel.kept is wrong"
is_left scratch/one 3
morsel evict --keep 50% "$a/scratch/one" >"$work/out" # There is less.
grep -q "has no more than 3.0 MiB" "$work/out" || fail "evict again says: $(cat "$work/out")"
[ "$(of scratch/one morsels_evicted)" = 5 ] || fail "there was less, and something went"
store scratch/two 3000000
[ "$(morsel evict --json "$a/scratch/one" "$a/scratch/two" | jq -c '[.files[] | .evicted, .kept]')" = "[3145728,0,3000000,0]" ] || fail "evict --json"
gave_back() {
    [ "$(morsel donors --json | jq '[.donors[].used] | add')" = 0 ]
}
wait_for 60 "benefactors have the space again" gave_back
note "the end goes"

# ---- What may not go stays: it is said why, and what to do.

is_closed() {
    [ "$(of "$1" eviction)" != "in use now" ]
}
store data/one 3000000
store scratch/three 3000000
refused "is data.*scratch=yes" morsel evict "$a/data/one"
refused "nothing to evict" morsel evict "$a/durable"
[ "$last_code" = 2 ] || fail "evict of what lies on no benefactor is exit code $last_code"
morsel pin "$a/scratch/three"
refused "morsel unpin" morsel evict "$a/scratch/three"
morsel unpin "$a/scratch/three"
for mount in "$a" "$b"; do
    cat "$mount/scratch/three" >"$work/out" # The mount may open it without a word from now on: it does not say at once that it has.
    wait_for 60 "the mount has said that it is closed" is_closed scratch/three
    exec 7<"$mount/scratch/three"
    refused "is in use" morsel evict --timeout 300ms "$a/scratch/three"
    exec 7<&-
done
chown 1234 "$a/scratch/three"
chmod 666 "$a/scratch/three"
chmod 755 "$a" "$a/scratch"
refused "only its owner" setpriv --reuid 4321 --regid 4321 --clear-groups "$bin/morsel" evict "$a/scratch/three"
refused "give a size" morsel evict --keep half "$a/scratch/three"
for name in data/one scratch/three; do
    [ "$(of "$name" morsels_evicted)" = 0 ] || fail "$name has lost something"
    cmp "$work/$name" "$b/$name" || fail "$name is not what was stored"
done
setpriv --reuid 1234 --regid 1234 --clear-groups "$bin/morsel" evict "$a/scratch/three" >"$work/out" || fail "its owner may not: $(cat "$work/out")"
[ "$(of scratch/three morsels_evicted)" = 3 ] || fail "its owner did not evict it"
note "what may not go stays"
fsck_clean
cluster_end
