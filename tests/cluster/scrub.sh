#!/bin/bash
# The scrub of I/O daemons: damage in files that nobody reads is found; what another server has is repaired, what nobody has is named once, in the log and
# in status, until the file is gone. What clients write, cut and delete meanwhile is never taken for damage. A pass goes on behind a restart where it was;
# switched off, nothing is read.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin scrub "$1"

# ---- Values that make no sense ----

refused() {
    local words=$1
    shift
    "$bin/morsel-iod" --data-dir "$work/no" "$@" >"$work/out" 2>&1 && fail "taken: $*"
    grep -qF "$words" "$work/out" || fail "said of $*: $(cat "$work/out")"
}
refused 'scrub-rate = 1024 bytes a second is too low' --scrub-rate 1K
refused 'value "much" of "scrub-rate" is not a size' --scrub-rate much
refused '"scrub-every"' --scrub-every 10ms

# ---- Off ----

start_meta --lease-time 2s
start_iod 1 --scrub-rate 0
start_iod 2 --scrub-rate 0
wait_for 60 "2 servers are up" servers_up 2
start_mount a
mkdir "$mnt/two" "$mnt/one"
policy "$mnt/two" replicas=2 stripe_width=1
policy "$mnt/one" stripe_width=1
two=$mnt/two one=$mnt/one
seen_well
for i in $(seq 6); do
    head -c 6M /dev/urandom >"$work/bytes$i"
    cp "$work/bytes$i" "$two/file$i"
    cp "$work/bytes$i" "$one/file$i"
done
sync "$two"/file* "$one"/file*

# scrub SERVER FIELD: of its scrub, as status has it.
scrub() {
    morsel status --json | jq ".servers[] | select(.id == $1) | .scrub.$2"
}
scrub_is() {
    [ "$(scrub "$1" "$2")" = "$3" ]
}
passes() {
    counter scrub_passes "${address_of[iod$1]}"
}
passed() {
    [ "$(passes "$1")" -ge "$2" ]
}
# Each server reads everything that it has once more, from here on.
whole_passes() {
    local before1 before2
    before1=$(passes 1) before2=$(passes 2)
    wait_for 120 "server 1 reads everything again" passed 1 $((before1 + ${1:-2}))
    wait_for 120 "server 2 reads everything again" passed 2 $((before2 + ${1:-2}))
}
holder() {
    local server
    for server in 1 2; do
        [ -z "$(find "$work/iod$server/objects" -type f -name "$(printf '%016x' "$(stat -c %i "$1")").*")" ] || echo "$server"
    done
}

grep -qE 'server 1: off' <<<"$(morsel status)" || fail "status does not say that the scrub is off: $(morsel status)"
[ "$(morsel status --json | jq -c '[.servers[].scrub]')" = '[null,null]' ] || fail "scrubs that are off: $(morsel status --json)"
[ "$(counter scrub_bytes "${address_of[iod1]}")" = 0 ] || fail "the scrub is off, and reads"
[ ! -e "$work/iod1/scrub" ] || fail "the scrub is off, and writes"

# ---- Clients beside it ----

scrub_on() {
    local server
    for server in 1 2; do
        stop "iod$server"
        start_iod "$server" "$@"
        seen_well
    done
}
scrub_on --scrub-rate 1G --scrub-every 1s
whole_passes
# shellcheck disable=SC2016 # for the other shell
bash -c 'n=0
while :; do
    n=$((n + 1))
    head -c $((RANDOM * 60)) "$1" >"$2/busy$((n % 7))"
    truncate -s $((RANDOM * 50)) "$2/busy$((n % 5))"
    dd if="$1" of="$2/busy$((n % 3))" bs=777 seek=$((RANDOM / 10)) count=100 conv=notrunc status=none
    [ $((n % 4)) != 0 ] || rm -f "$2/busy$((n % 7))"
done' changer "$work/bytes1" "$one" &
changer=$!
children+=("$changer")
start_steady "$two" "$two"
whole_passes 4
end_steady "beside the scrub"
kill "$changer"
wait "$changer" 2>/dev/null || true
! grep -E 'scrub: object|match' "$work"/log/iod* || fail "what clients changed was taken for damage"
for server in 1 2; do
    scrub_is "$server" damaged_objects 0 || fail "server $server counts damage that is not there"
    [ "$(scrub "$server" ended)" -ge $(($(date +%s) - 600)) ] || fail "status does not say when the last pass of server $server ended"
done
rm -f "$one"/busy*

# ---- Damage in files that nobody reads ----

flip "$(object_file 1 "$two/file2")" 300
flip "$(object_file 2 "$two/file2")" 40
flip "$(object_file 2 "$two/file2")" 41
flip "$(object_file 2 "$two/file2")" 1200
lost=$(stat -c %i "$one/file3") holder=$(holder "$one/file3")
flip "$(object_file "$holder" "$one/file3")" 700
drop_caches
mended() {
    [ "$(morsel status --json | jq -c '[.servers[].blocks_mended]')" = '[1,3]' ]
}
wait_for 120 "both copies are repaired" mended
wait_for 120 "what nobody has is counted" scrub_is "$holder" damaged_objects 1
grep -qE 'repaired from server 1' "$work/log/iod2" || fail "the log of server 2 does not name what was repaired"
grep -qE 'repaired from server 2' "$work/log/iod1" || fail "the log of server 1 does not name what was repaired"
whole_passes 3
named() {
    grep -cE "scrub: object $lost\.[0-9]+: 1 of its blocks 700 to 700 do not match their checksums on server $holder, and there is no other copy" "$work/log/iod$holder"
}
[ "$(named)" = 1 ] || fail "what nobody has is not named once, but $(named) times"
[ "$(grep -c 'scrub: object' "$work"/log/iod* | awk -F: '{ n += $2 } END { print n }')" = 1 ] || fail "more was named than is damaged"
[ "$(scrub "$holder" 'damaged[0].inode')" = "$lost" ] || fail "status --json does not name the file: $(morsel status --json)"
[ "$(counter scrub_damaged_blocks "${address_of[iod$holder]}")" = 1 ] || fail "the counters do not say how many blocks are damaged"
if words=$(morsel status); then fail "status says that all is well: $words"; fi
grep -qE 'DAMAGED FILES' <<<"$words" || fail "status does not show which server has damage: $words"
grep -qE "inode $lost .*1 of its blocks 700 to 700 do not match" <<<"$words" || fail "status does not name the file: $words"
[ "$(find "$one" -inum "$lost")" = "$one/file3" ] || fail "the file cannot be found as the log says"
copies_are_equal

# Not once more behind a start. And when the file is written anew, all is well.
stop "iod$holder"
start_iod "$holder" --scrub-rate 1G --scrub-every 1s
seen_well
wait_for 60 "it is still counted" scrub_is "$holder" damaged_objects 1
whole_passes
[ "$(named)" = 1 ] || fail "what nobody has is named again behind a start"
cp "$work/bytes3" "$work/new"
cp "$work/new" "$one/file3"
sync "$one/file3"
wait_for 120 "what was written anew is not damaged" scrub_is "$holder" damaged_objects 0
morsel status >"$work/out" || fail "status is not well: $(cat "$work/out")"
drop_caches
for i in $(seq 6); do
    cmp "$work/bytes$i" "$one/file$i" || fail "file$i is another one"
done
each_alone_shows "$two/file2" "$work/bytes2"

# ---- In the middle of a pass ----

stop iod1
rm "$work/iod1/scrub"
start_iod 1 --scrub-rate 2M --scrub-every 1s
grep -q 'scrub: there was none in this directory yet' "$work/log/iod1" || fail "the log does not say that the scrub begins"
all=$(find "$work/iod1/objects" -type f -size +16k -printf '%s\n' | awk '{ n += $1 } END { print n }')
beyond() {
    [ "$(scrub 1 running)" = true ] && [ "$(scrub 1 bytes)" -ge "$1" ]
}
[ "$all" -ge $((36 << 20)) ] || fail "server 1 has $all bytes: too little for this test"
wait_for 120 "a third is read" beyond $((all / 3))
grep -qE 'server 1: [0-9]+% of a pass' <<<"$(morsel status)" || fail "status does not say how far it is: $(morsel status)"
[ "$(passes 1)" = 0 ] || fail "the pass has ended: it was to be cut short"
stop iod1
start_iod 1 --scrub-rate 2M --scrub-every 1s
behind=$(sed -n 's/.*scrub: goes on with a pass, behind [0-9]* objects and \([0-9]*\) bytes.*/\1/p' "$work/log/iod1" | tail -n 1)
[ "${behind:-0}" -ge $((all / 3)) ] || fail "it did not go on where it was: behind ${behind:-nothing} of $all bytes"
seen_well
wait_for 120 "the pass ends" passed 1 1
read_now=$(counter scrub_bytes "${address_of[iod1]}")
ended=$(sed -n 's/.*scrub: a pass has ended: [0-9]* objects, \([0-9]*\) bytes read.*/\1/p' "$work/log/iod1" | tail -n 1)
note "of $all bytes $behind were read before the restart, $ended in the pass"
[ "$ended" -le $((all + (2 << 20))) ] || fail "$ended bytes were read in a pass over $all"
[ "$ended" -ge "$all" ] || fail "only $ended of $all bytes were read"
[ "$read_now" -ge $((all - behind - (2 << 20))) ] || fail "what was behind the restart was not read: $read_now of $((all - behind))"

# A file that cannot be read is worth a pass and no more; one from a process that was killed is good.
crash iod1
start_iod 1 --scrub-rate 1G --scrub-every 1s
wait_for 60 "a pass behind a kill" passed 1 1
stop iod1
printf 'x' | dd of="$work/iod1/scrub" bs=1 seek=20 conv=notrunc status=none
start_iod 1 --scrub-rate 1G --scrub-every 1s
grep -qE 'scrub: .*/scrub is damaged: it begins again from the first object' "$work/log/iod1" || fail "nothing is said of a damaged file: $(tail "$work/log/iod1")"
wait_for 60 "a pass behind a damaged file" passed 1 1
seen_well
fsck_clean
cluster_end
