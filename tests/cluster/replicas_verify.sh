#!/bin/bash
# `morsel recover verify` of files with two copies: what nobody reads is damaged at rest, on both servers, in running and in stopped ones, under steady
# writers; all of it is found and repaired, and named. What differs although its checksums are right (the file of an object as it was before is put back
# while the server is stopped) is found and made equal. Where nothing is wrong nothing is found, under writers.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_verify "$1"

start_two

# orderer FILE: the server that orders the changes of its object, while all is well.
orderer() {
    local file
    file=$(object_file 1 "$1")
    morsel status --json | jq ".groups[] | select(.number == $((${file##*.} >> 8))) | .servers[0]"
}

# verify CODE DAMAGED DIFFERING REPAIRED BROKEN: all groups are compared, with these counts.
verify() {
    local code=0 found
    found=$(timeout 300 "$bin/morsel" recover verify --all --wait --json --manager="$manager") || code=$?
    [ "$code" = "$1" ] || fail "verify ended with $code, not $1: $found"
    [ "$(jq -c '[.damaged, .differing, .repaired, .broken]' <<<"$found")" = "[$2,$3,$4,$5]" ] || fail "verify found: $found"
    [ "$(jq .done <<<"$found")" = true ] && [ "$(jq .objects <<<"$found")" -ge 11 ] && [ "$(jq .bytes <<<"$found")" -ge $((20 << 20)) ] ||
        fail "verify has not compared everything: $found"
}

head -c 2M /dev/urandom >"$work/bytes"
for i in 1 2 3 4 5 6 7 8 9 10; do
    cp "$work/bytes" "$two/f$i"
done
sync "$two"/f*
start_steady "$two" "$beside"

verify 0 0 0 0 0

# Damage on both, at rest, which nobody reads; once more with the server stopped meanwhile.
for i in 1 2 3 4; do
    flip "$(object_file 1 "$two/f$i")" $((i * 100))
    flip "$(object_file 2 "$two/f$i")" $((i * 100 + 50))
done
verify 4 8 0 8 0
grep -q "did not match their checksums on server 1, and were repaired from server 2" "$work/log/iod1" || fail "the log of server 1 does not name what it has repaired"
grep -q "did not match their checksums on server 2, and were repaired from server 1" "$work/log/iod2" || fail "the log of server 2 does not name what it has repaired"
verify 0 0 0 0 0
file=$(object_file 2 "$two/f5")
stop iod2
flip "$file" 7
flip "$file" 300
start_iod 2
seen_well
goes_on 50
verify 4 2 0 2 0

# An older object is put back: two blocks of it differ, with right checksums. Who orders is right.
right=$(orderer "$two/f6")
wrong=$((3 - right))
file=$(object_file "$wrong" "$two/f6")
cp "$file" "$work/older"
printf 'written later' | dd of="$two/f6" bs=1 seek=$((10 * 4096 + 5)) conv=notrunc,fsync status=none
printf 'written later' | dd of="$two/f6" bs=1 seek=$((400 * 4096 + 5)) conv=notrunc,fsync status=none
cp "$two/f6" "$work/later"
end_steady "before an older object is put back"
# Nothing may differ by what servers know: of that a server that comes back is given everything anew.
rests() {
    local dirty
    for dirty in "$work"/iod[12]/copies/*.dirty; do
        [ "$(tail -c +25 "$dirty" | tr -d '\0' | wc -c)" = 0 ] || return 1
    done
}
wait_for 60 "nothing is under way any more" rests
stop "iod$wrong"
cp "$work/older" "$file"
start_iod "$wrong"
seen_well
start_steady "$two" "$beside"
verify 4 0 2 2 0
grep -qE "object [0-9]+\.[0-9]+: blocks 10 to 10 differ on server $wrong from what server $right has" "$work/log/iod$right" || fail "the log of who orders does not name what differed"
verify 0 0 0 0 0
status=$(morsel recover status)
grep -q "^verify .* 100%.*no difference" <<<"$status" || fail "recover status does not show the comparison: $status"

# The file of an object is gone, at who orders, and shorter at the other one.
file=$(object_file "$(orderer "$two/f7")" "$two/f7") other=$(object_file $((3 - $(orderer "$two/f8"))) "$two/f8")
end_steady "before an object is lost"
wait_for 60 "nothing is under way any more" rests
for server in 1 2; do
    stop "iod$server"
    case $file in "$work/iod$server"/*) rm "$file" ;; esac
    case $other in "$work/iod$server"/*) truncate -s 1000000 "$other" ;; esac
    start_iod "$server"
    seen_well
done
code=0
timeout 300 "$bin/morsel" recover verify --all --wait --manager="$manager" >"$work/out" || code=$?
[ "$code" = 4 ] || fail "what is gone of one copy: $code: $(cat "$work/out")"
verify 0 0 0 0 0

# Damage on both of one block is named, and counted.
flip "$(object_file 1 "$two/f9")" 3
flip "$(object_file 2 "$two/f9")" 3
verify 1 1 0 0 1
dd if="$work/bytes" of="$two/f9" bs=4096 skip=3 seek=3 count=1 conv=notrunc,fsync status=none

[ "$(groups .well | jq all)" = true ] || fail "a copy was closed"
expect_error "needs the number of a group, or --all" morsel recover verify
expect_error "there is no group 999" morsel recover verify 999
drop_caches
for i in 1 2 3 4 5 7 8 9 10; do
    cmp "$two/f$i" "$work/bytes" || fail "f$i is another file"
done
each_alone_shows "$beside/f7" "$work/bytes"
each_alone_shows "$beside/f8" "$work/bytes"
each_alone_shows "$beside/f6" "$work/later"
fsck_clean
cluster_end
