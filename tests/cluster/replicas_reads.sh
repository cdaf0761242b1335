#!/bin/bash
# Reads of files with two copies go to both servers, and are right: while another mount changes the file between reads (the lease moves), while
# servers are killed and return, and while one is frozen.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_reads "$1"

start_two

# reads SERVER COUNTER
reads() {
    morsel stats "${address_of[iod$1]}" | awk -v name="$2" '$1 == name { print $2 }'
}
beside_count() {
    echo $(($(reads 1 reads_beside) + $(reads 2 reads_beside)))
}

# A large file: each server gives about a half of it, one of them beside the one that orders.
head -c 48M /dev/urandom >"$work/bytes"
cp "$work/bytes" "$two/large"
sync "$two/large"
drop_caches
before1=$(reads 1 read.served) before2=$(reads 2 read.served)
cmp "$work/bytes" "$beside/large"
served1=$(($(reads 1 read.served) - before1)) served2=$(($(reads 2 read.served) - before2))
note "48 MiB were read by $served1 answers of server 1 and $served2 of server 2"
[ "$served1" -ge 10 ] && [ "$served2" -ge 10 ] || fail "a large file was not read from both servers: $served1 and $served2 answers"
[ "$(beside_count)" -ge 10 ] || fail "nobody answered for the one that orders"

# Another mount changes it between reads, here a part and there all of it: each read shows what was written last.
for round in 1 2 3 4 5 6; do
    head -c 3M /dev/urandom >"$work/part"
    at=$((round * 5))
    dd if="$work/part" of="$work/bytes" bs=1M seek=$at conv=notrunc status=none
    dd if="$work/part" of="$two/large" bs=1M seek=$at conv=notrunc status=none
    cmp "$work/bytes" "$beside/large" || fail "round $round: not what was written last"
    echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true
    cmp "$work/bytes" "$beside/large" || fail "round $round: not what was written last, read again"
    if [ $round = 2 ]; then
        crash iod1
        cmp "$work/bytes" "$two/large" || fail "server 1 was killed"
        start_iod 1
        seen_well
    elif [ $round = 4 ]; then
        crash iod2
        cmp "$work/bytes" "$two/large" || fail "server 2 was killed"
        start_iod 2
        seen_well
    fi
done

# A reader of this mount's own bytes, between its writes.
for round in 1 2 3 4; do
    head -c 2M /dev/urandom >"$work/part"
    dd if="$work/part" of="$work/bytes" bs=1M seek=$((round * 7)) conv=notrunc status=none
    dd if="$work/part" of="$two/large" bs=1M seek=$((round * 7)) conv=notrunc status=none
    drop_caches
    cmp "$work/bytes" "$two/large" || fail "round $round: not its own bytes"
done

# Readers go on while servers are killed, are away, and come back; and while a server is frozen, which costs them little.
drop_caches
for victim in 1 2; do
    (
        for _ in 1 2 3 4; do
            cmp "$work/bytes" "$beside/large" || exit 1
            echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true
        done
    ) &
    reader=$!
    children+=("$reader")
    wait_for 60 "the reader has begun" true
    crash "iod$victim"
    wait "$reader" || fail "a reader saw something else while server $victim was killed"
    start_iod "$victim"
    seen_well
done
for victim in 1 2; do
    kill -STOP "${pid_of[iod$victim]}"
    drop_caches
    cmp "$work/bytes" "$beside/large" || fail "server $victim is frozen"
    kill -CONT "${pid_of[iod$victim]}"
    seen_well
done
# Who was silent is asked first no more for a while; then it is again.
before=$(beside_count)
both_answer_again() {
    drop_caches
    cmp "$work/bytes" "$beside/large" || fail "not what was written last, behind all that"
    [ "$(beside_count)" -gt "$before" ]
}
wait_for 60 "both servers answer again" both_answer_again
seen_well
fsck_clean
cluster_end
