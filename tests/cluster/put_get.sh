#!/bin/bash
# The user's hand on data sets: morsel evict gives back now what a set takes, from its end, and only what may go; morsel put and get carry files in
# and out, which are there under their names when they are complete, and not before.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin put_get "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
donor_mib=96
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

# ---- put and get: of any size, from and to files and pipes, sealed and byte for byte.

mkdir "$work/in" "$work/out.d"
for bytes in 0 1 1048576 7654321; do
    head -c "$bytes" /dev/urandom >"$work/in/size$bytes"
    morsel put "$work/in/size$bytes" "$a/data" >"$work/out"
    cmp "$work/in/size$bytes" "$b/data/size$bytes" || fail "put of $bytes bytes"
    [ "$bytes" = 0 ] || [ "$(of "data/size$bytes" state)" = sealed ] || fail "size$bytes is not sealed behind put"
    morsel get "$b/data/size$bytes" "$work/out.d" >"$work/out"
    cmp "$work/in/size$bytes" "$work/out.d/size$bytes" || fail "get of $bytes bytes"
done
big=size7654321
grep -q "7.3 MiB" "$work/out" || fail "get says: $(cat "$work/out")"
morsel put --quiet - "$a/data/piped" < <(cat "$work/in/$big") >"$work/out" 2>&1
[ ! -s "$work/out" ] || fail "--quiet is not: $(cat "$work/out")"
cmp "$work/in/$big" <(morsel get "$b/data/piped" -) || fail "put and get of pipes"
{
    head -c 100 >"$work/out"
    morsel put - "$a/data/rest" >"$work/out"
} <"$work/in/$big"
[ "$(stat -c %s "$b/data/rest")" = "$(stat -c %s "$a/data/rest")" ] && tail -c "$(stat -c %s "$b/data/rest")" "$work/in/$big" | cmp - "$b/data/rest" || fail "put of the rest of a file"
[ "$(morsel put --json "$work/in/size1" "$a/data/json" | jq -r '"\(.file) \(.size)"')" = "$a/data/json 1" ] || fail "put --json"
[ "$(morsel get --json "$a/data/json" "$work/out.d/json" | jq -r '"\(.file) \(.size)"')" = "$work/out.d/json 1" ] || fail "get --json"
script -qc "$bin/morsel put $work/in/$big $a/data/shown" "$work/out" >/dev/null
cmp "$work/in/$big" "$b/data/shown" || fail "put on a terminal"
note "put and get"

# ---- What is there is not replaced, unless that is said; and then at once.

refused "already.*--force" morsel put "$work/in/size1" "$a/data/piped"
cmp "$work/in/$big" "$b/data/piped" || fail "what was there has changed"
refused "already.*--force" morsel get "$a/data/json" "$work/out.d/$big"
cmp "$work/in/$big" "$work/out.d/$big" || fail "what was here has changed"
refused "no regular file" morsel get --force "$a/data/json" /dev/null
[ -c /dev/null ] || fail "/dev/null is no device any more"
morsel put --force "$work/in/size1" "$a/data/piped" >"$work/out"
cmp "$work/in/size1" "$b/data/piped" || fail "put --force"
morsel get --force "$a/data/json" "$work/out.d/$big" >"$work/out"
cmp "$work/in/size1" "$work/out.d/$big" || fail "get --force"

# ---- What goes wrong leaves nothing.

nothing_left() {
    [ -z "$(ls -A "$a/empty")$(ls -A "$work/empty")" ] || fail "$1 leaves something: $(ls -A "$a/empty" "$work/empty")"
}
mkdir "$a/empty" "$work/empty"
policy "$a/empty" class=scavenged
truncate -s 800M "$work/in/large"
stored=$(mount_counter "$a" set_morsels_stored)
refused "third part.*morsel donors" morsel put "$work/in/large" "$a/empty"
[ "$(mount_counter "$a" set_morsels_stored)" = "$stored" ] || fail "a set that is too large is refused, and not at once"
refused "third" morsel put - "$a/empty/large" < <(head -c 80M /dev/zero)
refused "do not lie on benefactors" morsel put "$work/in/size1" "$a/durable"
refused "No such file" morsel put "$work/in/nothing" "$a/empty"
refused "is a directory" morsel put "$work/in" "$a/empty"
refused "names no file" morsel put - "$a/empty"
refused "somebody writes to it" morsel put /proc/self/status "$a/empty" # Of no length, as stat(2) has it.
refused "not on a mounted MorselFS" morsel get "$work/in/size1" "$work/empty"
refused "leave out --json" morsel get --json "$a/data/json" -
morsel put "$work/in/$big" "$a/scratch/cut" >"$work/out"
morsel evict --keep 1M "$a/scratch/cut" >"$work/out"
refused "behind 1.0 MiB nothing can be read.*evicted" morsel get "$b/scratch/cut" "$work/empty" # Which has read nothing of it before.
nothing_left "what is refused"

# Killed in the middle: the pipe gives no more, and the benefactors give nothing.
sets() {
    morsel datasets --json | jq .count
}
sets_are() {
    [ "$(sets)" = "$1" ]
}
before=$(find "$a/data" "$a/scratch" "$a/empty" -type f -size +0 | wc -l)
wait_for 60 "what was replaced and refused has gone" sets_are "$before"
mkfifo "$work/pipe"
"$bin/morsel" put - "$a/empty/killed" <"$work/pipe" &
put=$!
exec 8>"$work/pipe"
head -c 5M /dev/urandom >&8
wait_for 60 "something of it is stored" sets_are $((before + 1))
nothing_left "a put that is under way"
kill -KILL "$put"
wait "$put" || true
exec 8>&-
nothing_left "a put that was killed"
wait_for 60 "the benefactors have its space again" sets_are "$before"

# Ended by a signal: where a file may be without a name that is its end, and elsewhere it takes the name away, and says how much had come.
"$bin/morsel" put - "$a/empty/ended" <"$work/pipe" 2>"$work/said" &
put=$!
exec 8>"$work/pipe"
head -c 5M /dev/urandom >&8
wait_for 60 "something of it is stored" sets_are $((before + 1))
kill -TERM "$put"
echo more >&8
code=0
wait "$put" || code=$?
exec 8>&-
case $code in
143) [ ! -s "$work/said" ] ;;
1) grep -q "interrupted behind 5.0 MiB; nothing is left of that: say it again with all of it" "$work/said" ;;
*) false ;;
esac || fail "a put that was ended is exit code $code: $(cat "$work/said")"
nothing_left "a put that was ended"
wait_for 60 "the benefactors have its space again" sets_are "$before"

morsel put "$work/in/$big" "$a/data/unread" >"$work/out"
kill -STOP "${pid_of[donor1]}" "${pid_of[donor2]}"
"$bin/morsel" get "$b/data/unread" "$work/empty/killed" &
get=$!
makes_it() {
    grep -q "$work/empty/" <<<"$(ls -l "/proc/$get/fd" 2>/dev/null)"
}
wait_for 60 "get has begun" makes_it
kill -KILL "$get"
kill -CONT "${pid_of[donor1]}" "${pid_of[donor2]}"
wait "$get" || true
nothing_left "a get that was killed"
note "what goes wrong leaves nothing"
fsck_clean
cluster_end
