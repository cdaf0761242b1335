#!/bin/bash
# A data set that is a cache of a file of class durable: what was evicted is read again from that file, byte for byte what was staged, or
# is an error when that file is another one by now; never a mixture. Nobody gets through it to what he may not read.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin origins_durable "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
command -v setpriv >/dev/null || skip "setpriv(1) is missing; install util-linux"
donor_mib=512
start_donors 2
start_iod 1
start_iod 2
wait_for 60 "the servers for durable files are up" servers_up 2
start_mount b allow_other
b=$mnt
start_mount a allow_other
a=$mnt
mkdir "$a/set" "$a/src" "$work/kept"
policy "$a/set" class=scavenged
chmod 777 "$a/set"
of() {
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$a/$1")) | .$2"
}
# as UID COMMAND...
as() {
    local uid=$1
    shift
    setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
}
# source NAME MIB: a file of class durable, which b writes, and nobody syncs; a copy is kept beside.
source_of() {
    head -c $(($2 << 20)) /dev/urandom >"$work/kept/$1"
    cp "$work/kept/$1" "$b/src/$1"
}
# staged NAME: from the one into the other.
staged() {
    morsel stage --json "$a/src/$1" "$a/set" >"$work/staged"
    [ "$(jq -r .fetchable "$work/staged")" = true ] || fail "mounts cannot fetch $1 again: $(cat "$work/staged")"
}
evict() {
    morsel evict "$a/set/$1" "${@:2}" >/dev/null || fail "$1 cannot be evicted: $(morsel datasets)"
    [ "$(of "set/$1" morsels_evicted)" != 0 ] || fail "nothing of $1 was evicted: $(morsel datasets)"
}
# fresh_mount [OPTIONS]: one that has nothing in memory, at $mnt.
fresh_mount() {
    [ -z "${pid_of[mount-reader]:-}" ] || stop_mount reader
    : >"$work/log/mount-reader"
    start_mount reader "allow_other,${1:-io_timeout=60s}"
}
# said NAME WORDS: the mount says them of that set.
said() {
    grep -q "inode $(stat -c %i "$a/set/$1"): .*$2" "$work/log/mount-reader" || fail "the mount does not say \"$2\" of $1: $(cat "$work/log/mount-reader")"
}
# refused NAME FROM: each MiB from there on is an error, and what is before is as it was.
refused() {
    local at size
    size=$(stat -c %s "$mnt/set/$1")
    cmp -n $(($2 << 20)) "$work/kept/$1" "$mnt/set/$1" || fail "the beginning of $1 is not what was staged: $(cat "$work/log/mount-reader")"
    for ((at = $2; at < size >> 20; at++)); do
        expect_error "Input/output error" timeout 60 dd if="$mnt/set/$1" of="$work/read" bs=1M skip=$at count=1 status=none
        [ ! -s "$work/read" ] || fail "bytes of $1 came with an error"
    done
}
# Morsels that the mount has had from origins.
from_origin() {
    morsel stats "$mnt" --json | jq '[.. | .set_morsels_origin? // empty] | add'
}
same() {
    timeout 60 cmp "$work/kept/$1" "$mnt/set/$1"
}
is_same() {
    same "$1" || fail "$1 is not what was staged: $(cat "$work/log/mount-reader")"
}

# ---- By its path; evicted, and read on a mount that never saw it, from the durable file.

source_of one 24
staged one
[ "$(of set/one origin)" = "morsel://$(stat -c %i "$a/src/one")/src/one" ] || fail "its origin: $(morsel datasets)"
cmp "$work/kept/one" "$b/set/one" || fail "what was staged is not what was written"
evict one
[ "$(of set/one morsels_evicted)" = 24 ] || fail "not all of it was evicted: $(morsel datasets)"
fresh_mount
is_same one
[ "$(from_origin)" -ge 24 ] || fail "the counters: $(morsel stats "$mnt")"
morsel stage --json "$a/src/one" "$a/set" >"$work/staged"
[ "$(jq -r .was_complete "$work/staged")" = true ] || fail "again: $(cat "$work/staged")"
evict one
fresh_mount no_origins
refused one 0
mv "$a/src/one" "$a/src/moved" # It is found by its number.
fresh_mount
is_same one
: >"$a/src/empty"
morsel stage --quiet "$a/src/empty" "$a/set"
[ ! -s "$a/set/empty" ] || fail "an empty file was staged"
note "what was evicted comes from the durable file"

# ---- Nobody names what he may not read, nor reads it through another one's set.

source_of open 2
source_of secret 2
mkdir "$a/closed"
cp "$work/kept/open" "$a/closed/file"
chmod 600 "$a/src/secret"
chmod 700 "$a/closed"
expect_error "Permission denied" as 1001 "$bin/morsel" stage "$a/src/secret" "$a/set"
expect_error "Permission denied" as 1001 "$bin/morsel" stage "$a/closed/file" "$a/set"
as 1001 "$bin/morsel" stage --quiet "$a/src/open" "$a/set"
origin=$(getfattr --absolute-names --only-values -n user.morsel.origin "$a/set/open")
# named WORDS INODE PATH VERSION: what is written down by hand.
named() {
    local words=$1 text
    text=$(sed -E "s|url=[^ ]*|url=morsel://$2$3|; s|etag=[^ ]*|etag=\"$4\"|" <<<"$origin")
    [ "$text" != "$origin" ] || fail "the origin is said as before: $text"
    as 1001 rm -f "$a/set/mine"
    as 1001 touch "$a/set/mine"
    expect_error "$words" as 1001 setfattr -n user.morsel.origin -v "$text"$'\n' "$a/set/mine"
}
version() {
    getfattr --absolute-names --only-values -n user.morsel.source "$1" | cut -d' ' -f2
}
secret=$(stat -c %i "$a/src/secret")
readable=$(stat -c %i "$a/src/open")
named "Permission denied" "$secret" /src/secret "$(version "$a/src/secret")"
named "Permission denied" "$(stat -c %i "$a/closed/file")" /closed/file "$(version "$a/closed/file")"
named "Permission denied" "$(stat -c %i "$a/closed/file")" /closed/../closed/file "$(version "$a/closed/file")"
named "Invalid argument" "$secret" /src/open "$(version "$a/src/secret")"
named "Invalid argument" "$(stat -c %i "$a/src")" /src 0
named "Invalid argument" "$(stat -c %i "$a/set/one")" /set/one 1
named "No such file" "$readable" /src/opened "$(version "$a/src/open")"
named "Stale file handle" "$readable" /src/open $(($(version "$a/src/open") + 1))
as 1001 rm "$a/set/mine"
evict open
chmod 600 "$a/src/open"
fresh_mount
refused open 0
said open "may not read it"
chmod 644 "$a/src/open"
wait_for 60 "who may read it again reads it" same open
note "rights"

# ---- A source that is another one by now: what is missing is an error, what is here is what it was.

for name in written mapped shorter longer gone replaced; do
    source_of $name 4
    staged $name
    cmp "$work/kept/$name" "$a/set/$name"
    evict $name --keep 2M
done
printf x | dd of="$b/src/written" bs=1 seek=3000000 conv=notrunc status=none
mkfifo "$work/mapped" "$work/end"
# map FILE: a program has changed a byte of a file that it has mapped, and syncs nothing, until it is told to end.
map() {
    python3 - "$1" "$work/mapped" "$work/end" <<'P' &
import mmap, os, sys
with open(sys.argv[1], 'r+b') as file:
    pages = mmap.mmap(file.fileno(), 0)
    pages[10] ^= 1
    open(sys.argv[2], 'w').close()
    open(sys.argv[3]).close()
P
    mapper=$!
    children+=("$mapper")
    : <"$work/mapped"
}
unmap() {
    : >"$work/end"
    wait "$mapper" || fail "who has mapped it failed"
}
map "$b/src/mapped"
truncate -s 3M "$b/src/shorter"
printf x >>"$b/src/longer"
rm "$a/src/gone"
cp "$work/kept/written" "$b/src/new"
mv "$b/src/new" "$b/src/replaced"
fresh_mount
for name in written mapped shorter longer gone replaced; do
    refused $name 2
    said $name "it was written, replaced or deleted since"
done
unmap
for name in written shorter replaced; do
    ! morsel stage --quiet "$a/src/$name" "$a/set" 2>"$work/said" || fail "$name was staged over what was there"
    grep -q -e "--fresh" "$work/said" || fail "$name again: $(cat "$work/said")"
    morsel stage --quiet --fresh "$a/src/$name" "$a/set"
    cmp "$a/src/$name" "$mnt/set/$name" || fail "$name, staged again, is not what its source is"
done
note "changed"

# ---- Written while it is staged: by whomever, it is noticed, and nothing is sealed.

# staging NAME: a part of it has come, and who stages it stands still.
staging() {
    stage_stopped "$a/src/$1" "$a/set/$1"
}
# noticed NAME WORDS: it goes on, and fails; then nobody writes, and all is well.
noticed() {
    kill -CONT "$stage"
    ! wait "$stage" || fail "what was written while it was staged was taken: $1"
    grep -q "$2" "$work/stage" || fail "$1: $(cat "$work/stage")"
    [ "$(of "set/$1" state)" != sealed ] || [ "$(stat -c %s "$a/set/$1")" = 0 ] || fail "a mixture is sealed: $1"
}
restaged() {
    morsel stage --quiet "$a/src/$1" "$a/set"
    cmp "$a/src/$1" "$a/set/$1" || fail "$1 was not staged as it is"
}
# Does the mount know that nobody else writes (EXCHANGE_BEGIN)?
calm() {
    python3 -c 'import fcntl, sys; fcntl.ioctl(open(sys.argv[1], "rb"), 0x80104d01, bytes(16))' "$1" 2>/dev/null
}
source_of busy 48
for who in "$b" "$a"; do
    staging busy
    head -c 4096 /dev/urandom | dd of="$who/src/busy" conv=notrunc status=none
    noticed busy "while it was read"
    restaged busy
    rm "$a/set/busy"
    staging busy
    map "$who/src/busy"
    noticed busy "while it was read"
    unmap
    restaged busy
    rm "$a/set/busy"
done
staging busy
truncate -s 47M "$b/src/busy"
noticed busy "while it was read"
restaged busy
rm "$a/set/busy"
# Only opened: what was written through it would be known when it is reported, and the mount that has it may die before.
staging busy
exec {writer}<>"$b/src/busy"
noticed busy "while it was read"
expect_error "another mount has it open for writing" "$bin/morsel" stage "$a/src/busy" "$a/set"
exec {writer}>&-
morsel stage --json "$a/src/busy" "$a/set" >"$work/staged"
[ "$(jq -r .resumed_at "$work/staged")" = 0 ] || fail "what came counts, and nobody knows what it is: $(cat "$work/staged")"
cmp "$a/src/busy" "$a/set/busy" || fail "busy was not staged as it is"
rm "$a/set/busy"
staging busy
exec {writer}<>"$b/src/busy"
exec {writer}>&-
wait_for 60 "it is known to be closed" calm "$a/src/busy"
noticed busy "while it was read"
rm "$a/set/busy"
# Another file gets its place: this one is staged as it was, and is no more.
staging busy
cp "$a/src/busy" "$work/kept/busy"
cp "$work/kept/open" "$b/src/new"
mv "$b/src/new" "$b/src/busy"
kill -CONT "$stage"
! wait "$stage" || cmp "$work/kept/busy" "$a/set/busy" || fail "what was replaced while it was staged is a mixture"
rm "$a/set/busy"
note "written meanwhile"

# ---- Interrupted, it goes on.

source_of killed 48
staging killed
kill -KILL "$stage"
! wait "$stage" || fail "who was killed has staged all of it"
state=$(of set/killed state)
[ -n "$state" ] && [ "$state" != sealed ] || fail "half of a set is \"$state\""
morsel stage --json "$a/src/killed" "$a/set" >"$work/staged"
[ "$(jq -r .resumed_at "$work/staged")" -gt 0 ] || fail "it began anew: $(cat "$work/staged")"
cmp "$work/kept/killed" "$a/set/killed" || fail "what was interrupted is not what was written"
note "interrupted"

# ---- What lies on benefactors itself; what lies elsewhere; directories and lists.

expect_error "lies on benefactors itself" "$bin/morsel" stage "$a/set/killed" "$a/set/again"
expect_error "lies on benefactors itself" "$bin/morsel" stage "file://$a/set/killed" "$a/set/again"
expect_error "say the path" "$bin/morsel" stage "morsel://$readable/src/open" "$a/set/again"
expect_error "morsel stage -r" "$bin/morsel" stage "$a/src" "$a/set"
[ ! -e "$a/set/again" ] || fail "a set of a set was made"
morsel stage --quiet "$work/kept/open" "$a/set/elsewhere"
[ "$(of set/elsewhere origin)" = "file://$work/kept/open" ] || fail "a file elsewhere: $(morsel datasets)"
mkdir "$a/src/tree" "$a/set/tree"
cp "$work/kept/open" "$a/src/tree/a file, with 100%"
cp "$work/kept/one" "$a/src/tree/b"
morsel stage --quiet -r "$a/src/tree" "$a/set/tree"
echo "file://$a/src/open" >"$work/list"
rm "$a/set/open"
morsel stage --quiet --list "$work/list" "$a/set"
cp "$work/kept/one" "$work/kept/b"
for name in "a file, with 100%" b; do
    evict "tree/$name"
    cmp "$a/src/tree/$name" "$a/set/tree/$name" || fail "of a directory: $name"
done
[ "$(of set/open origin)" = "morsel://$readable/src/open" ] || fail "of a list: $(morsel datasets)"
note "directories and lists"

# ---- Who reads what is missing has the source open himself, and writes to it, or another mount does: nobody waits for himself.

# Who reads gets it, or an error.
was_told() {
    [[ -z $(<"$work/said") || $(<"$work/said") == *"Input/output error"* ]] || fail "it hangs: $(cat "$work/said")"
}
for name in mine theirs; do
    source_of $name 8
    staged $name
    evict $name
done
morsel stage --quiet "$a/src/mine" "$a/set/mine_too"
evict mine_too
fresh_mount
exec {writer}<>"$mnt/src/mine"
is_same mine
printf new >&"$writer"
! timeout 60 dd if="$mnt/set/mine_too" of="$work/read" bs=1M count=1 status=none 2>"$work/said" || cmp "$work/read" <(head -c 1048576 "$work/kept/mine") || fail "what was written since came of a set"
was_told
exec {writer}>&-
[ "$(head -c 3 "$a/src/mine")" = new ] || fail "what was written to a source is lost"
(while [ ! -e "$work/enough" ]; do printf other | dd of="$b/src/theirs" conv=notrunc status=none; done) &
writers=$!
children+=("$writers")
for ((i = 0; i < 8; i++)); do
    ! timeout 60 dd if="$mnt/set/theirs" of="$work/read" bs=1M skip=$i count=1 status=none 2>"$work/said" || cmp "$work/read" <(dd if="$work/kept/theirs" bs=1M skip=$i count=1 status=none) || fail "a mixture"
    was_told
done
touch "$work/enough"
wait "$writers"

# ---- While the source is moved through the same mount; and who fetched it is gone, and its mount as well.

source_of other 8
for ((i = 0; i < 12; i++)); do
    morsel stage --quiet "$a/src/other" "$a/set/other$i"
    evict "other$i"
done
(while [ ! -e "$work/moved" ]; do
    for size in 64K 1M; do
        policy "$a/src" morsel_size=$size
        morsel recopy "$mnt/src/other" >"$work/recopied" 2>&1 || fail "it is not moved: $(cat "$work/recopied")"
    done
done) &
mover=$!
children+=("$mover")
before=$(from_origin)
for ((i = 0; i < 12; i++)); do
    timeout 60 cmp "$work/kept/other" "$mnt/set/other$i" || fail "what is read while its source is moved: $(cat "$work/log/mount-reader")"
done
touch "$work/moved"
wait "$mover"
[ "$(from_origin)" -ge $((before + 96)) ] || fail "not all was read from the source: $before, $(from_origin)"
# Who read is gone, and so is his mount, while the servers of the source say nothing.
morsel stage --quiet "$a/src/other" "$a/set/last"
evict last
fresh_mount io_timeout=10s
head -c 1 "$mnt/src/other" >/dev/null # Its servers are connected.
for name in iod1 iod2; do kill -STOP "${pid_of[$name]}"; done
dd if="$mnt/set/last" of=/dev/null bs=1M count=1 iflag=direct status=none 2>/dev/null &
reading=$!
visits() {
    [ "$(morsel stats "$mnt" --json | jq '[.. | .set_origin_visits? // empty] | add')" -gt 0 ]
}
wait_for 60 "its source is read" visits
kill -KILL "$reading"
! wait "$reading" || fail "what nobody gave out was read"
stop_mount reader # Waits for io_timeout, and a lease period, at most.
for name in iod1 iod2; do kill -CONT "${pid_of[$name]}"; done
stop_mount b
stop_mount a
cluster_end
