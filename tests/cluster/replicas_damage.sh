#!/bin/bash
# Case 14 of files with two copies: bits are flipped in files of objects, sectors of disks are lost, and files are cut, under running daemons, on both
# servers, with steady writers on one mount and verifying readers on another one. Never a wrong byte; no error while one good copy is there; what is damaged
# is repaired and named. What both have damaged is an error that is named.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_damage "$1"

start_meta --lease-time 2s
start_bad_iod() {
    mkdir -p "$work/bad$1"
    inject=(env LD_PRELOAD="$bin/bad_sectors.so" BAD_SECTORS="$work/bad$1" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0")
    start_iod "$1"
    inject=()
}
for i in 1 2; do
    start_bad_iod "$i"
done
wait_for 60 "both servers are up" servers_up 2
mount_two

# lose_sector SERVER FILE BLOCK: the disk of that server gives an error in place of that block of the file's object, until it is written.
lose_sector() {
    : >"$work/bad$1/$(stat -c %i "$(object_file "$1" "$2")").$(($3 / 256 * 1052672 + 4096 + $3 % 256 * 4096))"
}

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

# Sectors that a disk has lost: here, there, and of what is written meanwhile. The object ends in one of them.
printf 'and its end' | tee -a "$work/bytes" >>"$two/read"
sync "$two/read"
start_steady "$two" "$beside"
for round in 1 2 3 4; do
    server=$((1 + round % 2))
    lose_sector "$server" "$steady_file" $((round * 3 + 1))
    lose_sector 1 "$two/read" $((round * 100 + 7))
    lose_sector 2 "$two/read" $((round * 100 + 57))
    drop_caches
    cmp "$work/bytes" "$beside/read" || fail "round $round: wrong bytes, or an error, of sectors of which a good copy is there"
    goes_on 50
done
end_steady "lost sectors"
# change_part WORDS BLOCK OFFSET: of a block of the file, and of what is known to be in it.
change_part() {
    local file
    for file in "$work/bytes" "$two/read"; do
        printf '%s' "$1" | dd of="$file" bs=1 seek=$(($2 * 4096 + $3)) conv=notrunc status=none
    done
    sync "$two/read"
    drop_caches
    cmp "$work/bytes" "$beside/read"
}
for server in 1 2; do
    lose_sector "$server" "$two/read" 1536
    change_part X 1536 3 || fail "wrong bytes, or an error, where the object ends in a lost sector"
    lose_sector "$server" "$two/read" 301
    change_part 'in a sector' 301 1000 || fail "a part of a block that the disk of server $server does not give was changed"
done
[ -z "$(find "$work"/bad[12] -name '*.6320128')" ] || fail "the sector in which the object ends was not written anew: $(ls "$work"/bad[12])"
seen_well
[ "$(groups .well | jq all)" = true ] || fail "a copy was closed for a lost sector"
! grep -E "the copy of group .* is closed" "$work"/log/iod* || fail "a copy was closed on the way"
grep -qE "object [0-9]+\.[0-9]+: 1 of its blocks 301 to 301 could not be read from the disk of server 1, and were repaired from server 2" "$work/log/iod1" ||
    fail "the log of server 1 does not name the sector that was repaired"
grep -qE "could not be read from the disk of server 2, and were repaired from server 1" "$work/log/iod2" || fail "nor does that of server 2"

# One server goes on alone, and blocks go bad there of which it has changed others beside, and does so still: the other one comes back all the same, and
# what it has of these blocks is what they are to be. Nobody reads them before.
zeros_in_block_900() {
    dd if=/dev/zero of="$1" bs=4096 count=1 seek=900 conv="$2" status=none
}
zeros_in_block_900 "$work/bytes" notrunc
for victim in 1 2; do
    alone=$((3 - victim))
    while zeros_in_block_900 "$two/read" notrunc,fsync; do :; done &
    writer=$!
    children+=("$writer")
    crash "iod$victim"
    seen_alone "$victim"
    flip "$(object_file "$alone" "$two/read")" 905
    lose_sector "$alone" "$two/read" 910
    start_bad_iod "$victim"
    seen_well
    kill "$writer"
    wait "$writer" || true # It was killed.
    grep -q "blocks 905 to 905 are damaged on the server that this one is made equal to: 1 of them are here" "$work/log/iod$victim" ||
        fail "server $victim does not name what it was given as damaged"
    drop_caches
    cmp "$work/bytes" "$beside/read" || fail "what only server $victim has good is lost, for server $alone had gone on alone"
done

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
grep -q "BAD BLOCKS" <<<"$status" || fail "status does not say whose disk gives wrong bytes: $status"
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
lose_sector 1 "$two/read" 800
lose_sector 2 "$two/read" 800
drop_caches
expect_error "Input/output error" cat "$beside/read"
grep -qE "object [0-9]+\.[0-9]+: blocks 800 to 800 cannot be read from the disk on server [12], and no other" "$work/log/iod1" "$work/log/iod2" ||
    fail "no log names the sector that both have lost"
dd if="$work/bytes" of="$two/read" bs=4096 skip=800 seek=800 count=1 conv=notrunc,fsync status=none
drop_caches
cmp "$work/bytes" "$beside/read" || fail "written anew, and still wrong"
seen_well
fsck_clean
cluster_end
