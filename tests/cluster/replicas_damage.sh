#!/bin/bash
# Case 14 of files with two copies: bits are flipped in files of objects, and files are cut, under running daemons, on both servers, with steady
# writers on one mount and verifying readers on another one. Never a wrong byte; no error while one good copy is there; what is damaged is repaired
# and named. What both have damaged is an error that is named.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_damage "$1"

start_two

# count SERVER COUNTER: of all lines of status.
count() {
    morsel status --json | jq ".servers[] | select(.id == $1) | .$2"
}
counted() {
    [ "$(count "$1" "$2")" -ge "$3" ]
}

head -c 6M /dev/urandom >"$work/bytes"
cp "$work/bytes" "$two/read"
sync "$two/read"
one=$(object_file 1 "$two/read") other=$(object_file 2 "$two/read")

# Steady work beside: its own object is damaged as well, now here, now there, while it is written and read.
start_steady "$two" "$beside"
steady_file=$two/steady
for round in 1 2 3 4 5 6; do
    server=$((1 + round % 2))
    flip "$(object_file $server "$steady_file")" $((round * 3))
    flip "$one" $((round * 100))
    flip "$other" $((round * 100 + 50))
    drop_caches
    cmp "$work/bytes" "$beside/read" || fail "round $round: wrong bytes, or an error, of blocks of which a good copy is there"
    goes_on 50
done
end_steady "flipped bits"
seen_well
[ "$(groups .well | jq all)" = true ] || fail "a copy was closed for a damaged block"

# A change of a part of a damaged block, wherever the damage is.
for server in 1 2; do
    flip "$(object_file $server "$two/read")" 300
    printf 'in the middle' | dd of="$work/bytes" bs=1 seek=$((300 * 4096 + 1000)) conv=notrunc status=none
    printf 'in the middle' | dd of="$two/read" bs=1 seek=$((300 * 4096 + 1000)) conv=notrunc status=none
    sync "$two/read"
    drop_caches
    cmp "$work/bytes" "$beside/read" || fail "a part of a block that was damaged on server $server was changed"
done

# Somebody cuts the file of an object under the running daemon, of another file on each server: a change behind the cut, and all of it is read.
for server in 1 2; do
    cp "$work/bytes" "$two/cut$server"
    sync "$two/cut$server"
    cp "$work/bytes" "$work/cut"
    truncate -s 3000000 "$(object_file $server "$two/cut$server")"
    printf 'x' | dd of="$work/cut" bs=1 seek=5000000 conv=notrunc status=none
    printf 'x' | dd of="$two/cut$server" bs=1 seek=5000000 conv=notrunc status=none
    sync "$two/cut$server"
    drop_caches
    cmp "$work/cut" "$beside/cut$server" || fail "the file of the object was cut on server $server"
done

# The member that orders has repaired what was read; each alone shows what it was asked for by now.
wait_for 60 "status shows whose disk gives wrong bytes" counted 1 blocks_mended 1
wait_for 60 "status shows whose disk gives wrong bytes" counted 2 blocks_mended 1
grep -qE "object [0-9]+\.[0-9]+: .* did not match their checksums on server 1, and were repaired from server 2" "$work/log/iod1" ||
    fail "the log of server 1 does not name what was repaired from whom"
grep -q "repaired from server 1" "$work/log/iod2" || fail "the log of server 2 does not name what was repaired"
status=$(morsel status)
grep -q "WRONG BYTES" <<<"$status" || fail "status does not say whose disk gives wrong bytes: $status"
[ "$(morsel status --json | jq '[.servers[].blocks_lost] | add')" = 0 ] || fail "something was lost of which a copy was there"

# Both copies of one block: an error that is named; the rest can be read, and what is written anew is good.
flip "$(object_file 1 "$two/read")" 700
flip "$(object_file 2 "$two/read")" 700
drop_caches
expect_error "Input/output error" cat "$beside/read"
cmp -n $((2 << 20)) "$work/bytes" "$beside/read" || fail "what is good cannot be read beside a block that is lost"
grep -qE "object [0-9]+\.[0-9]+: blocks 700 to 700 do not match" "$work/log/iod1" "$work/log/iod2" || fail "no log names the block that is lost"
expect_error "Input/output error" sh -c "printf part | dd of='$two/read' bs=1 seek=$((700 * 4096 + 5)) conv=notrunc,fsync status=none"
dd if="$work/bytes" of="$two/read" bs=4096 skip=700 seek=700 count=1 conv=notrunc,fsync status=none
drop_caches
cmp "$work/bytes" "$beside/read" || fail "written anew, and still wrong"
seen_well
fsck_clean
cluster_end
