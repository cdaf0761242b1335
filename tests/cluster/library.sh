#!/bin/bash
# libmorsel, the C interface for data sets, and `morsel reserve`: the example stores a set and reads it back; what goes wrong has its error, at once, and
# leaves nothing behind; one that was interrupted is not sealed, and is gone on with on another mount; threads share a set.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin library "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 4
start_mount a io_timeout=20s
a=$mnt
start_mount b io_timeout=20s
b=$mnt
mkdir "$a/set" "$a/durable" "$work/elsewhere"
policy "$a/set" class=scavenged
size=12345678
# answers FILE STEP=ANSWER...: the calls, one behind the other, answer that: a number, or the name of an error.
answers() {
    local file=$1 pair steps=() wanted=()
    shift
    for pair; do
        steps+=("${pair%=*}")
        wanted+=("${pair%=*} ${pair##*=}")
    done
    "$bin/library_calls" "$file" "${steps[@]}" >"$work/answers" 2>&1 || fail "library_calls $file ${steps[*]}: $(cat "$work/answers")"
    printf '%s\n' "${wanted[@]}" >"$work/wanted"
    sed 's/: .*//' "$work/answers" | diff "$work/wanted" - || fail "$file: $(cat "$work/answers")"
}
# of FILE FIELD: what `morsel datasets` says of it; nothing: it is no data set.
of() {
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$1")) | .$2"
}
# has FIELD VALUE FILE
has() {
    [ "$(of "$3" "$1")" = "$2" ]
}

# ---- The example.

"$bin/example_dataset" "$a/set/example" "$size" || fail "the example"
has state sealed "$a/set/example" || fail "what the example has stored is not sealed"
answers "$b/set/example" retrieve=0 "size=$size" gets=1=0 close=0
cmp "$a/set/example" "$b/set/example" || fail "two mounts read different bytes"
code=0
"$bin/example_dataset" "$a/set/example" "$size" 2>"$work/err" || code=$?
[ "$code" = 1 ] && grep -q "is sealed" "$work/err" || fail "storing what is sealed: exit code $code, $(cat "$work/err")"
note "the example"

# ---- Each error, and nothing is left.

answers "$a/set/large" reserve=800000000=EDQUOT store=800000000=EDQUOT reserve=0=EINVAL store=0=EINVAL retrieve=ENOENT cancel=ENOENT
answers "$a/set/morsels" reserve=9000000000000000000=EDQUOT
answers "$a/durable/x" reserve=5=EOPNOTSUPP store=5=EOPNOTSUPP
answers "$work/elsewhere/x" reserve=5=ENODEV store=5=ENODEV
answers "$a/nowhere/x" reserve=5=ENOENT store=5=ENOENT
answers "$a/set" reserve=5=EINVAL store=5=EINVAL
for left in "$a/set/large" "$a/set/morsels" "$a/durable/x" "$work/elsewhere/x"; do
    [ ! -e "$left" ] || fail "$left was left"
done
echo x >"$work/elsewhere/file"
answers "$work/elsewhere/file" store=5=ENODEV retrieve=ENODEV
answers "$b/set/example" "store=$size=EPERM" "reserve=$size=EPERM" cancel=EPERM
expect_error "Operation not permitted" dd if=/dev/zero of="$a/set/example" bs=1 count=1 conv=notrunc
answers "$a/set/example" retrieve=0 put=0:5=EBADF seal=EBADF "get=$((size - 3)):10=3" "get=$size:10=0" close=0
answers "$a/set/steps" store=100000=0 get=0:5=EBADF put=0:100001=EFBIG put=100001:0=EFBIG put=0:5000=0 close=0
answers "$a/set/steps" retrieve=EAGAIN
: >"$a/set/empty"
answers "$a/set/empty" retrieve=EAGAIN cancel=ENODATA
note "errors"

# ---- What is not all of it is not sealed, and what is cannot be put.

morsel=$((1 << 20))
answers "$a/set/parts" store=$((3 * morsel))=0 stored=0 put=0:$morsel=0 put=$((2 * morsel)):$morsel=0 seal=ENODATA put=$morsel:$morsel=0 seal=0 seal=EBADF put=0:5=EBADF close=0
answers "$b/set/parts" retrieve=0 gets=1=0 close=0
answers "$a/set/threads" "store=$size=0" puts=5=0 seal=0 close=0
answers "$b/set/threads" retrieve=0 "size=$size" gets=5=0 close=0
# Also a hole that a morsel does not show, and what was not said to be complete although all of it was put.
answers "$a/set/hole" store=100000=0 put=0:5000=0 put=60000:40000=0 seal=ENODATA close=0 retrieve=EAGAIN
answers "$a/set/hole" store=100000=0 stored=0 put=0:100000=0 close=0 retrieve=EAGAIN store=100000=0 put=0:100000=0 seal=0 close=0
answers "$b/set/hole" retrieve=0 get=0:100000=100000 close=0
note "parts, threads"

# ---- Who stores it has it alone. Killed, he is gone on with: by the same program on another mount, behind what is there.

mkfifo "$work/silence"
exec {silence}<>"$work/silence"
"$bin/library_calls" "$a/set/killed" "store=$size" "put=0:$((5 * morsel))" wait >"$work/holder" <&"$silence" &
holder=$!
children+=("$holder")
wait_for 60 "half of it is put" grep -q "^waits" "$work/holder"
answers "$a/set/killed" "store=$size=EBUSY" cancel=EBUSY
answers "$b/set/killed" "store=$size=EBUSY"
kill -KILL "$holder"
wait "$holder" 2>/dev/null || true
answers "$b/set/killed" retrieve=EAGAIN store=$((size + 1))=EEXIST
! has state sealed "$a/set/killed" || fail "half a set was sealed"
"$bin/example_dataset" "$b/set/killed" "$size" >"$work/out" || fail "going on with it"
grep -q "are there already" "$work/out" || fail "it began anew: $(cat "$work/out")"
has state sealed "$b/set/killed" || fail "it is not sealed"
answers "$a/set/killed" retrieve=0 "size=$size" gets=3=0 close=0
note "interrupted, and gone on with"

# ---- Reservations.

code=0
morsel reserve "$a/set/reserved" 800M >"$work/out" 2>&1 || code=$?
[ "$code" = 1 ] && grep -q "third of what all" "$work/out" || fail "too large a reservation: exit code $code, $(cat "$work/out")"
[ ! -e "$a/set/reserved" ] || fail "what was refused was left"
expect_error "do not lie on benefactors" morsel reserve "$a/durable/x" 5
expect_error "on no mounted MorselFS" morsel reserve "$work/elsewhere/x" 5
code=0
morsel reserve "$a/set/reserved" 5x >"$work/out" 2>&1 || code=$?
[ "$code" = 2 ] || fail "a size that is none: exit code $code, $(cat "$work/out")"
morsel reserve "$a/set/reserved" 3M
has state reserved "$a/set/reserved" || fail "a reservation is not listed: $(morsel datasets)"
has reserved $((3 * morsel)) "$a/set/reserved" || fail "its size is not listed: $(morsel datasets)"
[ "$(stat -c %s "$a/set/reserved")" = 0 ] || fail "what is reserved has bytes"
morsel reserve "$b/set/reserved" 2M # As long as nothing is there.
"$bin/example_dataset" "$a/set/reserved" $((2 * morsel)) || fail "storing what was reserved elsewhere"
has state sealed "$b/set/reserved" || fail "it is not sealed"
has reserved 0 "$b/set/reserved" || fail "it is reserved for ever"
expect_error "is sealed" morsel reserve --cancel "$b/set/reserved"
[ -e "$b/set/reserved" ] || fail "a sealed set was canceled"
morsel reserve "$a/set/canceled" 3M
morsel reserve --cancel "$b/set/canceled"
[ ! -e "$a/set/canceled" ] || fail "it was not canceled"
morsel reserve --json "$a/set/emptied" 3M >"$work/out"
[ "$(jq .reserved "$work/out")" = $((3 * morsel)) ] || fail "--json: $(cat "$work/out")"
truncate -s 0 "$b/set/emptied"
[ -z "$(of "$b/set/emptied" state)" ] || fail "truncated to zero it is still reserved"
[ "$(morsel datasets --json | jq '[.datasets[] | select(.state == "reserved")] | length')" = 0 ] || fail "it is still listed: $(morsel datasets)"
morsel reserve "$a/set/plain" 3M # By any program: it is sealed with just so many bytes.
dd if=/dev/zero of="$a/set/plain" bs=1M count=2 conv=notrunc,fsync status=none
dd if=/dev/zero of="$a/set/plain" bs=1M seek=2 count=2 conv=notrunc,fsync status=none
! has state sealed "$a/set/plain" || fail "it is longer than was reserved, and sealed"
answers "$a/set/plain" "store=$((3 * morsel))=0" "stored=$((2 * morsel))" put=$((2 * morsel)):$morsel=0 seal=0 close=0
has state sealed "$a/set/plain" || fail "it is not sealed"
note "reservations"

cluster_end
