#!/bin/bash
# Mounts that want the same missing tail of a data set fetch it from its origin together, each byte once, and it goes back to the
# benefactors: who reads it later needs no origin. A mount that dies while it fetches holds the others up for a bounded time.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin origins_shared "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
donor_mib=256
start_donors 3
start_mount stage
stage=$mnt
mkdir "$stage/set" "$work/www"
policy "$stage/set" class=scavenged
size_mib=48
kept_mib=4
missing=$(((size_mib - kept_mib) << 20))
head -c $((size_mib << 20)) /dev/urandom >"$work/www/tail"
rm -f "$work/port"
python3 "$(dirname "$0")/../lib/origin.py" "$work/www" "$work/port" "$work/requests" "${host_of[here]}" 2>>"$work/log/origin" &
server=$!
children+=("$server")
wait_for 60 "the web server listens" test -e "$work/port"
morsel stage --quiet "http://${host_of[here]}:$(cat "$work/port")/tail" "$stage/set"
of() {
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$stage/set/tail")) | .$1"
}
is() {
    [ "$(of "$1")" = "$2" ]
}
# uses OPERATOR BYTES: what benefactors have stored is so much.
uses() {
    test "$(morsel donors --json | jq .used)" "$@"
}
wait_for 60 "both copies of all are told" uses -ge $((size_mib << 21)) # Benefactors say now and then what they have.
full=$(morsel donors --json | jq .used)
# evict: the tail goes, and is deleted at the benefactors: what is still to be deleted there comes back nowhere.
evict() {
    wait_for 60 "the tail may be evicted" morsel evict "$stage/set/tail" --keep "${kept_mib}M"
    is morsels_evicted $((size_mib - kept_mib)) || fail "not the tail was evicted: $(morsel datasets)"
    wait_for 60 "what was evicted is deleted" uses -le $((full - missing * 2))
    : >"$work/requests"
}
# given: so many bytes behind the beginning that is kept were asked for and given.
given() {
    sed -nE "s|^GET /tail bytes=([0-9]+)-([0-9]+) -> 206|\1 \2|p" "$work/requests" | awk '{ sum += $2 + 1 - $1 } END { print sum + 0 }'
}
whole() {
    cmp "$work/www/tail" "$1/set/tail" || fail "what was evicted is not what was staged: $(cat "$work/log/mount-"*)"
}

# ---- Two mounts at once: each byte once, for both and for the benefactors.

evict
start_mount never no_origins
never=$mnt
python3 -c 'import sys, time; f = open(sys.argv[1], "rb", 0); time.sleep(600)' "$never/set/tail" & # What is known of a file that is open is not forgotten.
holder=$!
children+=("$holder")
is_held() {
    [ -n "$(find "/proc/$holder/fd" -lname "$never/set/tail")" ]
}
wait_for 60 "it is open" is_held
dd if="$never/set/tail" of=/dev/null bs=1M skip=$kept_mib count=1 status=none 2>"$work/said" && fail "what was evicted is read without its origin"
grep -q "Input/output error" "$work/said" || fail "without its origin: $(cat "$work/said")"
start_mount one
one=$mnt
start_mount two
two=$mnt
whole "$one" &
reader=$!
whole "$two"
wait "$reader" || fail "the other mount did not read it"
[ "$(given)" -ge $missing ] || fail "no more than $(given) bytes were fetched: $(cat "$work/requests")"
[ "$(given)" -lt $((missing * 3 / 2)) ] || fail "the mounts did not share: $(given) bytes for $missing: $(cat "$work/requests")"
note "two mounts: $(given) bytes for $missing, $(grep -c "^GET" "$work/requests") questions"
# What found no place, or was dropped by a benefactor with too much to do, is fetched once more when somebody reads it.
back() {
    is morsels_evicted 0 && return
    whole "$one"
    is morsels_evicted 0
}
wait_for 60 "all of it is there again" back
wait_for 60 "with all its copies" is morsels_short 0
wait_for 60 "which take what they took" uses -eq "$full"

# ---- Who has known it as evicted, and visits no origin, reads it now; who is held up by what it knew hears it within a second.

wait_for 60 "a mount that visits no origin reads it" cmp "$work/www/tail" "$never/set/tail"
kill "$holder"
wait "$holder" 2>/dev/null || true
stop_mount never
stop_mount one
stop_mount two

# ---- A third one needs no origin.

mv "$work/www/tail" "$work/kept"
: >"$work/requests"
start_mount three
cmp "$work/kept" "$mnt/set/tail" || fail "it is not read from the benefactors: $(cat "$work/log/mount-three")"
[ ! -s "$work/requests" ] || fail "the origin was asked: $(cat "$work/requests")"
stop_mount three
mv "$work/kept" "$work/www/tail"
note "read without the origin"

# ---- Who reads in order does not only wait for another one: what comes behind that one's stretch it fetches itself.

evict
echo $(((kept_mib + 16) << 20)) >"$work/www/.hold" # In a stretch of 16 MiB, longer than what is fetched ahead of a reader.
AWS_SECRET_ACCESS_KEY=secret start_mount one
whole "$one" &
reader=$!
wait_for 60 "a mount is in the middle of a stretch" grep -q "^held /tail" "$work/requests"
fetching=$(pgrep -d ' ' -P "${pid_of[mount-one]}") || fail "nobody fetches"
for pid in $fetching; do
    ! grep -q AWS_ "/proc/$pid/environ" || fail "who asks an origin was given the keys of S3"
done
start_mount two
whole "$two" &
other=$!
behind() {
    sed -nE "s|^GET /tail bytes=([0-9]+)-([0-9]+) -> 206|\1|p" "$work/requests" | awk -v from=$(((kept_mib + 31) << 20)) '$1 >= from { found = 1 } END { exit !found }'
}
within 14 behind || fail "the other one does not fetch what comes behind the stretch" # Later it waits no longer for the first one.
rm "$work/www/.hold"
wait "$reader" || fail "who was held up did not read it"
wait "$other" || fail "who came later did not read it"
note "side by side: $(given) bytes for $missing, $(grep -c "^GET" "$work/requests") questions"
[ "$(given)" -lt $((missing * 3 / 2)) ] || fail "the mounts did not share: $(given) bytes for $missing: $(cat "$work/requests")"
wait_for 60 "all of it is there again" back
wait_for 60 "with all its copies" uses -eq "$full"
stop_mount one
stop_mount two

# ---- Who dies while it fetches is waited for for a bounded time; what it has put somewhere in vain is deleted.

evict
echo $(((kept_mib + 2) << 20)) >"$work/www/.hold"
start_mount one
whole "$one" 2>/dev/null &
reader=$!
wait_for 60 "a mount is in the middle of it" grep -q "^held /tail" "$work/requests"
start_mount two
whole "$two" &
other=$!
crash mount-one
umount -l "$one"
wait "$reader" 2>/dev/null || true
rm "$work/www/.hold"
began_ms=$(now_ms)
wait "$other" || fail "the other mount did not read it when the first one was dead: $(cat "$work/log/mount-two")"
took=$(($(now_ms) - began_ms))
[ $took -lt 60000 ] || fail "a dead mount held another one up for $took ms"
note "a dead mount: $took ms"
wait_for 60 "all of it is there again" is morsels_evicted 0
wait_for 60 "with all its copies, and nothing else" uses -eq "$full"
stop_mount two
stop_mount stage
cluster_end
