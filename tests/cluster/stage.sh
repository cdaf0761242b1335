#!/bin/bash
# morsel stage: what lies at a URL becomes a data set, byte for byte: at once, or in the end, whoever is killed meanwhile; never a mixture of what the
# origin had and what it has now; one download for several who want the same. What goes wrong is said in a line, and leaves nothing behind.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin stage "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 4
start_mount a io_timeout=20s
a=$mnt
start_mount b io_timeout=20s
b=$mnt
mkdir "$a/set" "$a/durable"
policy "$a/set" class=scavenged
mkdir "$work/www"
python3 "$(dirname "$0")/../lib/origin.py" "$work/www" "$work/port" "$work/requests" 2>"$work/log/origin" &
server=$!
children+=("$server")
wait_for 60 "the web server listens" test -e "$work/port"
url=http://127.0.0.1:$(cat "$work/port")
publish() {
    head -c "$2" /dev/urandom >"$work/www/.new"
    mv "$work/www/.new" "$work/www/$1"
}
# hold_at BYTES: no answer goes beyond; let_go.
hold_at() {
    echo "$1" >"$work/www/.hold.new"
    mv "$work/www/.hold.new" "$work/www/.hold"
    : >"$work/requests"
}
let_go() {
    rm -f "$work/www/.hold"
}
is_held() {
    grep -q "^held" "$work/requests"
}
# same NAME [COPY]: both mounts have what was published.
same() {
    cmp "$work/www/${2:-$1}" "$a/set/$1" || fail "$1 is not on this mount what its origin has"
    cmp "$work/www/${2:-$1}" "$b/set/$1" || fail "$1 is not on the other mount what its origin has"
}
state_of() {
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$1")) | .state"
}
is_sealed() {
    [ "$(state_of "$1")" = sealed ]
}
# stored FILE BYTES: at least so many bytes of it are with benefactors.
stored() {
    [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -ge "$2" ]
}
# began_at FROM FILE: the last request for it asked for bytes from there on, and got them.
began_at() {
    grep -q "bytes=$1- -> 206" <<<"$(grep "^GET /$2 " "$work/requests" | tail -n 1)" || fail "the download of $2 did not go on at $1: $(cat "$work/requests")"
}
# refused WORDS NAME ARGUMENTS...: a line with these words, and no file of that name.
refused() {
    local words=$1 name=$2 code=0
    shift 2
    morsel stage "$@" >"$work/out" 2>&1 || code=$?
    [ "$code" != 0 ] || fail "stage $* worked"
    [ "$(wc -l <"$work/out")" = 1 ] || fail "stage $*: $(cat "$work/out")"
    grep -q "$words" "$work/out" || fail "stage $*: not a word of \"$words\": $(cat "$work/out")"
    [ ! -e "$a/set/$name" ] || fail "stage $* left a file"
    last_code=$code
}

# ---- Of any size, from all that we have here.

for bytes in 0 1 1048576 7654321; do
    publish "size$bytes" "$bytes"
    morsel stage "$url/size$bytes" "$a/set" >"$work/out" || fail "stage of $bytes bytes"
    same "size$bytes"
    [ "$bytes" = 0 ] || is_sealed "$a/set/size$bytes" || fail "size$bytes is not sealed behind stage"
done
for kind in undated norange untagged moved; do
    morsel stage --quiet "$url/$kind/size7654321" "$b/set/$kind" >"$work/out"
    same "$kind" size7654321
    is_sealed "$a/set/$kind" || fail "$kind is not sealed behind stage"
    [ ! -s "$work/out" ] || fail "--quiet is not: $(cat "$work/out")"
done
morsel stage --json "file://$work/www/size7654321" "$a/set/file" >"$work/out"
same file size7654321
[ "$(jq -c 'keys' "$work/out")" = '["fetchable","fetched","file","resumed_at","size","url","waited","was_complete","why_not_fetchable"]' ] || fail "--json has other words: $(cat "$work/out")"
[ "$(jq -r '"\(.url) \(.file) \(.resumed_at) \(.waited) \(.fetchable)"' "$work/out")" = "file://$work/www/size7654321 $a/set/file 0 false false" ] || fail "--json: $(cat "$work/out")"
[ "$(jq -r .why_not_fetchable "$work/out")" = "they fetch from http: and https: alone, and files of class durable of the cluster" ] || fail "--json does not say why it is fetched by nobody: $(cat "$work/out")"
[ "$(jq -r '"\(.size) \(.fetched) \(.was_complete)"' "$work/out")" = "7654321 7654321 false" ] || fail "--json: $(cat "$work/out")"
morsel stage --json "$url/size7654321" "$a/set" >"$work/out"
[ "$(jq -r '"\(.fetched) \(.was_complete)"' "$work/out")" = "0 true" ] || fail "what is complete is fetched again: $(cat "$work/out")"
expect_error "Operation not permitted" dd if=/dev/zero of="$a/set/file" bs=1 count=1 conv=notrunc
note "staged"

# ---- A file that is written while it is staged: nobody reads what is of both.

head -c 48M /dev/urandom >"$work/www/busy"
stage_stopped "$work/www/busy" "$a/set/busy"
head -c 4096 /dev/urandom | dd of="$work/www/busy" conv=notrunc status=none
kill -CONT "$stage"
! wait "$stage" || fail "what was written while it was staged was taken"
grep -q "has changed while it was read" "$work/stage" || fail "written meanwhile: $(cat "$work/stage")"
[ "$(stat -c %s "$a/set/busy")" = 0 ] || fail "what may be of both is there"
morsel stage --quiet "$work/www/busy" "$a/set"
same busy
rm "$a/set/busy"
note "written meanwhile"

# ---- What goes wrong leaves nothing behind.

refused "no URL" x gopher://127.0.0.1/x "$a/set/x"
[ "$last_code" = 2 ] || fail "an unknown scheme is exit code $last_code"
refused "password" x http://me:secret@127.0.0.1/x "$a/set/x"
refused "404" x "$url/nothing" "$a/set/x"
[ "$last_code" = 1 ] || fail "404 is exit code $last_code"
refused "404" x "$url/$(printf '%01000d' 0)" "$a/set/x" # Its words are behind the URL.
refused "connect" x http://127.0.0.1:1/x "$a/set/x"
[ "$last_code" = 3 ] || fail "nobody there is exit code $last_code"
refused "do not lie on benefactors" x "$url/size1" "$a/durable/x"
refused "no file" x "$url/" "$a/set"
refused "not on a MorselFS\|no MorselFS\|MorselFS" x "$url/size1" "$work/x"
truncate -s 800M "$work/www/large"
refused "third" large "$url/large" "$a/set"
echo mine >"$a/set/mine"
refused "was not staged" nobody "$url/size1" "$a/set/mine"
[ "$(cat "$a/set/mine")" = mine ] || fail "what was there has changed"
refused "comes from" nobody "$url/size1" "$a/set/file"
morsel stage --fresh --quiet "$url/size1" "$a/set/mine"
same mine size1
note "refused"

# ---- Interrupted, and resumed: the command is killed, and then its mount, and the machine of the writer does not come back.

publish killed 12345678
hold_at 7000000
"$bin/morsel" stage --quiet "$url/killed" "$a/set" &
stage=$!
wait_for 60 "the first bytes are there" stored "$b/set/killed" 5000000
cmp -n 5000000 "$work/www/killed" "$b/set/killed" || fail "what is there while it is staged is not what its origin has"
exec {reader}<"$a/set/killed" # The mount goes on to have it open.
kill -KILL "$stage"
wait "$stage" || true
is_sealed "$a/set/killed" && fail "half of a set is sealed"
let_go
morsel stage --json "$url/killed" "$a/set" >"$work/out"
same killed
is_sealed "$a/set/killed" || fail "it is not sealed behind the resumed stage"
[ "$(jq .resumed_at "$work/out")" -ge 4194304 ] || fail "it was not resumed: $(cat "$work/out")"
began_at "$(jq .resumed_at "$work/out")" killed
cmp "$work/www/killed" <(cat <&"$reader") || fail "who had it open all the time does not read what its origin has"
exec {reader}<&-
note "the command was killed"

# Another file gets its name while the origin is asked, which cannot go on: that file is neither emptied nor written to.
publish raced 3456789
hold_at 2500000
"$bin/morsel" stage --quiet "$url/undated/raced" "$a/set/raced" &
stage=$!
wait_for 60 "the first bytes are there" stored "$b/set/raced" 2000000
kill -KILL "$stage"
wait "$stage" || true
let_go
echo precious >"$a/set/other"
is_free() {
    flock -n "$a/set/raced" true
}
is_locked() {
    ! is_free
}
wait_for 60 "the first one has its lock no more" is_free
kill -STOP "$server"
"$bin/morsel" stage --quiet "$url/undated/raced" "$a/set/raced" >"$work/out" 2>&1 &
stage=$!
wait_for 60 "the second one has its lock" is_locked
mv "$a/set/other" "$a/set/raced"
kill -CONT "$server"
wait "$stage" && fail "it took another file for its own"
grep -q "was not staged" "$work/out" || fail "it does not say that another file is there: $(cat "$work/out")"
[ "$(cat "$a/set/raced")" = precious ] || fail "a file that was renamed there is not what it was"
rm "$a/set/raced"
note "another file came in between"

publish elsewhere 12345678
hold_at 7000000
"$bin/morsel" stage --quiet "$url/elsewhere" "$a/set" 2>/dev/null &
stage=$!
wait_for 60 "the first bytes are there" stored "$b/set/elsewhere" 5000000
kill -KILL "$stage"
wait "$stage" || true
let_go
morsel stage --json "$url/elsewhere" "$b/set" >"$work/out" || fail "another mount does not go on"
same elsewhere
is_sealed "$b/set/elsewhere" || fail "it is not sealed behind the stage of the other mount"
[ "$(jq .resumed_at "$work/out")" -ge 4194304 ] || fail "it was not resumed on another mount: $(cat "$work/out")"
note "another mount went on"

publish dead 12345678
hold_at 7000000
"$bin/morsel" stage --quiet "$url/dead" "$a/set" 2>/dev/null &
stage=$!
wait_for 60 "the first bytes are there" stored "$b/set/dead" 5000000
crash mount-a
umount -l "$a"
let_go
wait "$stage" && fail "stage on a dead mount ended well"
morsel stage --json "$url/dead" "$b/set" >"$work/out" || fail "nobody goes on when the mount is dead"
cmp "$work/www/dead" "$b/set/dead" || fail "dead is not what its origin has"
is_sealed "$b/set/dead" || fail "it is not sealed behind the death of the first mount"
[ "$(jq .resumed_at "$work/out")" -ge 4194304 ] || fail "it was not resumed behind the death of its mount: $(cat "$work/out")"
start_mount a io_timeout=20s
note "the mount was killed"

# ---- The origin has become another one meanwhile: all of that, and nothing of the other.

# As long as before; just as long as what is there by then; shorter than that.
for case in " 12345678" "untagged/ 12345678" "norange/ 12345678" " 6291456" "norange/ 6291456" "blind/ 3000000"; do
    kind=${case% *}
    publish changed 12345678
    hold_at 6291456
    "$bin/morsel" stage --quiet "$url/${kind}changed" "$a/set" 2>/dev/null &
    stage=$!
    wait_for 60 "the first bytes are there" stored "$b/set/changed" 6291456
    kill -KILL "$stage"
    wait "$stage" || true
    publish changed "${case#* }"
    touch -d "2001-02-03 04:05:06" "$work/www/changed"
    let_go
    morsel stage --quiet "$url/${kind}changed" "$b/set" || fail "the origin has changed ($case), and stage fails"
    same changed
    is_sealed "$b/set/changed" || fail "changed is not sealed"
    rm "$a/set/changed"
done
morsel stage --quiet "$url/size1048576" "$a/set/stale"
publish size1048576 1048576
refused "has changed since" nobody "$url/size1048576" "$a/set/stale"
morsel stage --fresh --quiet "$url/size1048576" "$a/set/stale"
same stale size1048576
note "the origin changed"

# ---- Two at once: one download.

publish two 12345678
hold_at 7000000
"$bin/morsel" stage --json "$url/two" "$a/set" >"$work/out1" &
one=$!
wait_for 60 "the first bytes are there" stored "$b/set/two" 5000000
"$bin/morsel" stage --json "$url/two" "$b/set" >"$work/out2" &
two=$!
wait_for 60 "the second one waits" counter_is locks_waiting 1
let_go
wait "$one" || fail "the first of two"
wait "$two" || fail "the second of two"
same two
[ "$(grep -c "^GET /two .*200" "$work/requests")" -le 2 ] && [ "$(jq .fetched "$work/out1")" = 12345678 ] || fail "two at once: $(cat "$work/out1" "$work/out2")"
[ "$(jq -r '"\(.fetched) \(.was_complete) \(.waited)"' "$work/out2")" = "0 true true" ] || fail "the second one has fetched something itself: $(cat "$work/out2")"
note "two at once"

# ---- Who looks sees where it comes from.

grep -qF "$url/two" <<<"$(morsel layout "$a/set/two")" || fail "morsel layout does not show the origin: $(morsel layout "$a/set/two")"
[ "$(morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$a/set/two")) | .origin")" = "$url/two" ] || fail "morsel datasets does not show the origin"
rm "$a"/set/*

# ---- What was complete and is not any more is not called complete.

mkdir "$a/once"
policy "$a/once" class=scavenged replicas=1
publish lost 12345678
morsel stage --quiet "$url/lost" "$a/once"
crash donor1
rm -r "$work/donor1/objects"
mkdir "$work/donor1/objects"
start_donor donor1
misses() {
    [ "$(getfattr --absolute-names --only-values -n user.morsel.missing "$a/once/lost" | wc -l)" -gt 1 ]
}
wait_for 60 "the manager knows that morsels are lost" misses
refused "are lost" nobody "$url/lost" "$a/once"
morsel stage --fresh --quiet "$url/lost" "$b/once"
cmp "$work/www/lost" "$a/once/lost" || fail "what was lost is not there again"
rm "$a/once/lost"
note "lost"
fsck_clean
cluster_end
