#!/bin/bash
# What was evicted of a data set, or lost, comes back from its origin while it is read: byte for byte what was staged, or an error for
# exactly what is not to be had; never a mixture of what the origin had and what it has now. Two readers of one mount share what is fetched.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin origins "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
donor_mib=96
start_donors 2
start_mount a io_timeout=60s
a=$mnt
mkdir "$a/set" "$a/large" "$a/filler" "$a/scratch"
policy "$a/scratch" class=scavenged scratch=yes
policy "$a/set" class=scavenged
policy "$a/large" class=scavenged morsel_size=4M
policy "$a/filler" class=scavenged
mkdir "$work/www" "$work/kept"
# start_origin ADDRESS [PORT]: a web server, its process in $server, its URL in $url.
start_origin() {
    rm -f "$work/port"
    python3 "$(dirname "$0")/../lib/origin.py" "$work/www" "$work/port" "$work/requests" "$@" 2>>"$work/log/origin" &
    server=$!
    children+=("$server")
    wait_for 60 "the web server listens" test -e "$work/port"
    url=http://$1:$(cat "$work/port")
}
# publish NAME MIB: what an origin has, of which a copy is kept beside.
publish() {
    head -c $(($2 << 20)) /dev/urandom >"$work/www/.new"
    cp "$work/www/.new" "$work/kept/$1"
    mv "$work/www/.new" "$work/www/$1"
}
of() {
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$a/$1")) | .$2"
}
# staged_as_data WHY ARGUMENT...: mounts cannot fetch it again, and who stages it is told why.
staged_as_data() {
    local why=$1
    shift
    morsel stage "$@" >"$work/staged"
    grep -qE "counts as data.*cannot fetch it again: .*$why" "$work/staged" || fail "stage $*: $(cat "$work/staged")"
}
# What was read of the tail came back to the benefactors; that goes again.
evict_again() {
    is_missing || wait_for 60 "the tail is evicted again" morsel evict "$a/set/tail" --keep "${left}M"
    is_missing || fail "not the tail was evicted: $(morsel datasets)"
}
is_missing() {
    [ "$(of set/tail morsels_evicted)" -ge $((24 - left)) ]
}
# fresh_mount [OPTIONS]: one that has nothing in memory, at $mnt; benefactors have nothing of the tail.
fresh_mount() {
    [ -z "${pid_of[mount-reader]:-}" ] || stop_mount reader
    evict_again
    : >"$work/requests"
    : >"$work/log/mount-reader"
    start_mount reader "${1:-io_timeout=60s}"
}
said() {
    grep -q "$1" "$work/log/mount-reader" || fail "the mount does not say \"$1\": $(cat "$work/log/mount-reader")"
}
# refused NAME FROM: each MiB from there on is an error, and what is before is as it was.
refused() {
    local at size
    size=$(stat -c %s "$mnt/$1")
    cmp -n $(($2 << 20)) "$work/kept/${1##*/}" "$mnt/$1" || fail "the beginning of $1 is not what was staged: $(cat "$work/log/mount-reader")"
    for ((at = $2; at < size >> 20; at++)); do
        expect_error "Input/output error" dd if="$mnt/$1" of="$work/read" bs=1M skip=$at count=1 status=none
        [ ! -s "$work/read" ] || fail "bytes of $1 came with an error"
    done
}
# fetched NAME FROM: so many bytes from there on were asked for and given. A benefactor that is late may make somebody ask for some that are before.
fetched() {
    sed -nE "s|^GET /$1 bytes=([0-9]+)-([0-9]+) -> 206|\1 \2|p" "$work/requests" | awk -v from="$2" '{ sum += $2 + 1 - ($1 > from ? $1 : from) > 0 ? $2 + 1 - ($1 > from ? $1 : from) : 0 } END { print sum + 0 }'
}

# ---- Sets with an origin that mounts visit are evicted for others, without being scratch; the others are data.

start_origin 127.0.0.1
cp "$work/port" "$work/www/.inward"
publish inward 2
staged_as_data "only this machine" "$url/inward" "$a/set"
morsel stage --quiet "$url/inward" "$a/scratch"
start_origin "${host_of[here]}"
publish dripping 1
(
    began=$SECONDS
    morsel stage --json "$url/drip/dripping" "$a/set"
    echo $((SECONDS - began)) >"$work/dripped"
) >"$work/dripping" &
dripping=$!
port=$(cat "$work/port")
cp "$work/kept/inward" "$work/kept/redirected"
staged_as_data "only this machine" "$url/inward/inward" "$a/set/redirected"
morsel stage --quiet "$url/inward/inward" "$a/scratch/redirected"
publish large 8
morsel stage --quiet "$url/large" "$a/large"
publish rewritten 4
morsel stage "$url/rewritten" "$a/set" >"$work/staged"
[ "$(wc -l <"$work/staged")" = 1 ] || fail "what mounts can fetch again: $(cat "$work/staged")"
publish tail 24
staged_as_data "http: and https: alone" "file://$work/www/tail" "$a/set/file"
morsel stage --quiet "$url/tail" "$a/set"
publish norange 2
staged_as_data "no ranges" "$url/norange/norange" "$a/set"
staged_as_data "when its staging began" "$url/norange/norange" "$a/set" # It is there.
wait "$dripping" || fail "what drips could not be staged: $(cat "$work/dripping")"
[ "$(cat "$work/dripped")" -lt 120 ] || fail "an origin that drips was waited for for $(cat "$work/dripped") s"
[ "$(jq -r '"\(.fetchable) \(.why_not_fetchable)"' "$work/dripping")" = "false its last byte did not come within 30 s" ] || fail "what drips: $(cat "$work/dripping")"
for name in file inward redirected norange dripping; do
    [ "$(of set/$name eviction)" = "is data" ] || fail "a set that mounts cannot fetch, $name, is said to be \"$(of set/$name eviction)\""
    expect_error "is data" "$bin/morsel" evict "$a/set/$name"
done
is_evicted() {
    [ "$(of "$1" morsels_evicted)" != 0 ]
}
for ((i = 0; i < 32; i++)); do
    ! is_evicted set/tail || break
    head -c 4194304 /dev/urandom >"$work/filler"
    cp "$work/filler" "$a/filler/$i" || fail "the filler found no room: $(morsel datasets; morsel donors)"
done
left=$((24 - $(of set/tail morsels_evicted)))
# More may go ahead of who needs room, until each has a tenth: that is made now, so that nothing goes behind what is counted here.
left=$((left > 6 ? left - 6 : 1))
wait_for 60 "there is room" morsel evict "$a/set/tail" --keep "${left}M"
left=$((24 - $(of set/tail morsels_evicted)))
for name in scratch/inward scratch/redirected large/large set/rewritten; do
    [ "$(of $name morsels_evicted)" = "$(of $name morsels)" ] || fail "$name still has something: $(morsel datasets)"
done
[ $left -gt 0 ] && [ $left -lt 24 ] || fail "$left of 24 morsels are left: $(morsel datasets)"
for name in file inward redirected norange; do
    [ "$(of set/$name morsels_evicted)" = 0 ] || fail "data was evicted: $name"
done
note "$left of 24 morsels are left of a tail"

# ---- They come back as they were, in stretches; the prefix without a question; two readers share what comes.

fresh_mount
cmp -n $((left << 20)) "$work/kept/tail" "$mnt/set/tail" || fail "the beginning is not what was staged"
fresh_mount
# Side by side: who falls so far behind that a morsel has gone from memory again, and has not come to a benefactor yet, asks for it once more.
python3 - "$work/kept/tail" "$mnt/set/tail" >"$work/said" 2>&1 <<'PY' || fail "what was evicted is not what was staged: $(cat "$work/said" "$work/log/mount-reader")"
import os, sys, threading
kept, size, wrong, ended = os.open(sys.argv[1], os.O_RDONLY), os.stat(sys.argv[2]).st_size, [], []
together = threading.Barrier(2, timeout=100)


def read():
    fd = os.open(sys.argv[2], os.O_RDONLY)
    for at in range(0, size, 1 << 18):
        together.wait()
        if os.pread(fd, 1 << 18, at) != os.pread(kept, 1 << 18, at):
            wrong.append(at)
    ended.append(fd)


readers = [threading.Thread(target=read) for _ in range(2)]
for reader in readers:
    reader.start()
for reader in readers:
    reader.join()
sys.exit(0 if len(ended) == 2 and not wrong else f"{len(ended)} of 2 came to the end; wrong bytes at {wrong}")
PY
[ "$(fetched tail $((left << 20)))" = $(((24 - left) << 20)) ] || fail "not each byte that was missing was fetched once: $(cat "$work/requests")"
# In stretches, and not one by one; how long they get depends on how fast who reads comes along.
[ "$(grep -c "^GET /tail" "$work/requests")" -le $(((24 - left) * 3 / 4 + 1)) ] || fail "too many questions: $(cat "$work/requests")"
cmp "$work/kept/large" "$mnt/large/large" || fail "large morsels are not what was staged: $(cat "$work/log/mount-reader")"
[ "$(morsel stats "$mnt" --json | jq '[.. | .set_morsels_origin? // empty] | add')" -ge $((24 - left + 2)) ] || fail "the counters: $(morsel stats "$mnt")"
note "fetched: $(grep -c "^GET" "$work/requests") questions"

# ---- A mount that is told so visits nobody, nor does any visit its own machine's services, whatever a user has written down.

fresh_mount no_origins
refused set/tail "$left"
said "was evicted"
fresh_mount
refused scratch/inward 0
said "only this machine"
refused scratch/redirected 0
grep -q "^GET /inward/inward .*302" "$work/requests" || fail "the redirection was not met: $(cat "$work/requests")"
! grep -q "^GET /inward " "$work/requests" || fail "a service of this machine alone was visited: $(cat "$work/requests")"
note "what is not visited"

# ---- An origin that says nothing costs a bounded time, and its bytes alone; when it is back, all is there.

kill -STOP "$server"
fresh_mount io_timeout=5s
began_ms=$(now_ms)
dd if="$mnt/set/tail" of="$work/read" bs=1M skip="$left" count=1 status=none 2>"$work/said" &
reading=$!
wait_for 30 "somebody without rights asks the origin" pgrep -u 65534 -f "origin-part url=$url/tail"
! wait "$reading" || fail "a silent origin was read"
grep -q "Input/output error" "$work/said" || fail "a silent origin: $(cat "$work/said")"
took=$(($(now_ms) - began_ms))
[ $took -ge 4500 ] || fail "a silent origin was given up behind $took ms"
[ $took -le 30000 ] || fail "a silent origin held a reader for $took ms"
refused set/tail "$left"
kill -CONT "$server"
wait_for 60 "it is read again" cmp "$work/kept/tail" "$mnt/set/tail"
kill -KILL "$server"
wait "$server" 2>/dev/null || true
fresh_mount
refused set/tail "$left"
note "away"

# ---- An origin that has another file by now: an error for what is missing, nothing of the new one.

start_origin "${host_of[here]}" "$port"
head -c $((24 << 20)) /dev/urandom >"$work/www/.new"
mv "$work/www/.new" "$work/www/tail"
fresh_mount
refused set/tail "$left"
said "has changed since"
head -c 1000 "$work/kept/tail" >"$work/www/tail"
fresh_mount
refused set/tail "$left"
rm "$work/www/tail"
fresh_mount
refused set/tail "$left"
touch -r "$work/www/rewritten" "$work/time"
head -c $((4 << 20)) /dev/urandom | dd of="$work/www/rewritten" conv=notrunc status=none
touch -r "$work/time" "$work/www/rewritten"
fresh_mount
refused set/rewritten 0
said "others than those that were stored"
note "changed"

# ---- What all benefactors take with them is had from there, too.

publish away 8
morsel stage --quiet "$url/away" "$a/set"
crash donor1
crash donor2
fresh_mount
cmp "$work/kept/away" "$mnt/set/away" || fail "what no benefactor gives is not had from its origin: $(cat "$work/log/mount-reader")"
stop_mount reader
stop_mount a
cluster_end
