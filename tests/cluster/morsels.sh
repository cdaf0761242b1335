#!/bin/bash
# What a benefactor holds, by itself (no mounts; the sets have numbers that the manager has not given yet, which it leaves alone): killed while it is
# written to, damaged and swapped files, a full disk, less given than used, power lost, a read-only disk, deleted directories, few open files, and
# what the manager's maps do not know.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
own_mounts "$@"
cluster_begin morsels "$1"
[ "$(id -u)" = 0 ] || skip "needs root for loop devices"
# shellcheck disable=SC2153 # of cluster.sh
for program in morsel-benefactor morselio powercut nonsense; do
    [ -x "$bin/$program" ] || fail "$bin/$program is missing; build it first"
done

MIB=1048576
SET=1000000000000 # Numbers of sets count up from 2.
WHOLE=$((MIB + 4096)) # What a morsel of 1 MiB counts for.
# start_donor [OPTIONS]: on its own disk.
start_donor() {
    start_daemon donor1 "$bin/morsel-benefactor" --data-dir "$work/donor1" --manager "$manager" --listen "${address_of[donor1]:-127.0.0.1:0}" \
        --keep-free 0 --calm-time 0 --no-gentle "$@"
}
# io PUT|GET SET FIRST COUNT BYTES [sync]
io() {
    local what=$1
    shift
    timeout 60 "$bin/morselio" "$what" "${address_of[donor1]}" "$@"
}
# all_good SET FIRST COUNT BYTES [WHEN]
all_good() {
    io get "$1" "$2" "$3" "$4" >"$work/got"
    [ "$(grep -c '^good ' "$work/got")" = "$3" ] || fail "${5:-}: not all of $3 morsels are good: $(grep -v '^good ' "$work/got" | head -n 5)"
}
# takes: a morsel that it has not had before.
taken=0
takes() {
    taken=$((taken + 1))
    io put $((SET + 9)) $taken 1 1 >/dev/null 2>&1
}
# no_disk_error LINE WHAT: the log has no such thing from that line on.
no_disk_error() {
    local said
    said=$(tail -n "+$1" "$work/log/donor1" | grep 'morsel-benefactor error: .*\(write\|sync\)' | tail -n 3) || return 0
    fail "$2 is an error of the disk: $said"
}
is_open() {
    wait_for 60 "morsels are taken" takes
}
# one COUNTER: of the benefactor.
one() {
    counter "$1" "${address_of[donor1]}"
}
# file_of SET MORSEL
file_of() {
    find "$work/donor1/objects" -name "$(printf '%016x.%d' "$1" "$2")"
}

start_meta --donor-report 200ms --donor-look 24h # Nonsense joins, too, and is silent.
own_disk donor1 400M
start_donor --donate 200M
is_open

# ---- What is written is there, and counts.

before=$(one used_bytes)
io put $SET 0 20 $MIB >"$work/put"
all_good $SET 0 20 $MIB
[ "$(one used_bytes)" = $((before + 20 * WHOLE)) ] || fail "20 morsels of 1 MiB count for $(($(one used_bytes) - before)) bytes"
says_used() {
    [ "$(morsel donors --json | jq '.donors[0].used')" = $((before + 20 * WHOLE)) ]
}
wait_for 60 "the manager hears what is used" says_used
[ "$(io get $SET 20 1 $MIB)" = "short 20" ] || fail "a morsel that was never written is not short"

# ---- Killed while it is written to, five times: what was acknowledged is there.

for round in 1 2 3 4 5; do
    put=$work/put-$round
    : >"$put"
    io put $((SET + round)) 0 100 300000 >"$put" 2>/dev/null &
    writer=$!
    wait_for 60 "some are acknowledged" test -s "$put"
    crash donor1
    kill "$writer" 2>/dev/null || true
    wait "$writer" || true
    start_donor --donate 200M
    while read -r number; do
        got=$(io get $((SET + round)) "$number" 1 300000)
        [ "$got" = "good $number" ] || fail "round $round: morsel $number was acknowledged, and now: $got"
    done <"$put"
    is_open
done
all_good $SET 0 20 $MIB "behind five kills"
used=$(one used_bytes)
stop donor1
start_donor --donate 200M
is_open
used=$((used + 8192)) # Of is_open.
[ "$(one used_bytes)" = "$used" ] || fail "behind a restart $(one used_bytes) bytes are used, and $used were before"
find "$work/donor1/objects" -type f -printf '%s\n' | awk '{ sum += int(($1 + 4095) / 4096) * 4096 } END { printf "%d\n", sum }' >"$work/sum"
[ "$(cat "$work/sum")" = "$used" ] || fail "files take $(cat "$work/sum") bytes, and $used are said"
note "killed five times"

# ---- A flipped byte, a file in the place of another, one that was cut: each is found, and the others are not touched.

stop donor1
printf '\xff\x00\xff' | dd of="$(file_of $SET 3)" bs=1 seek=500000 conv=notrunc status=none
one=$(file_of $SET 4) two=$(file_of $SET 5)
mv "$one" "$work/swap" && mv "$two" "$one" && mv "$work/swap" "$two"
truncate -s 400000 "$(file_of $SET 6)" # In the middle of a block.
truncate -s 409600 "$(file_of $SET 9)" # Behind one.
cp "$(file_of $SET 7)" "$(file_of $SET 8)"
start_donor --donate 200M
io get $SET 0 20 $MIB | sort -k2n >"$work/got"
for number in 3 4 5 6 8; do
    grep -q "^failed $number " "$work/got" || fail "morsel $number was damaged, and: $(grep " $number\( \|$\)" "$work/got")"
done
grep -q '^short 9$' "$work/got" || fail "morsel 9 was cut, and: $(grep ' 9' "$work/got")"
[ "$(grep -c '^good ' "$work/got")" = 14 ] || fail "damage to six morsels: $(cat "$work/got")"
grep -q 'object 1000000000000.3: blocks 121 to 121 do not match their checksums: .* where there is another copy' "$work/log/donor1" || fail "the log does not say what is damaged"
note "damage is found"

# ---- More than is given is not taken; when the owner gives less than is used, nothing is.

is_open
if io put $((SET + 6)) 0 300 $MIB >"$work/put" 2>"$work/err"; then
    fail "more is taken than is given"
fi
grep -q 'no space left: all that is given is used' "$work/err" || fail "what does not fit: $(cat "$work/err")"
[ "$(one used_bytes)" -le $((200 * MIB)) ] || fail "200 MiB are given, and $(one used_bytes) bytes used"
[ "$(one used_bytes)" -gt $((198 * MIB)) ] || fail "200 MiB are given, and only $(one used_bytes) bytes could be used"
stop donor1
start_donor --donate 100M
wait_for 60 "its log says that it gives less than it has" grep -q 'gives way: .* have to go' "$work/log/donor1"
all_good $SET 10 10 $MIB "with less given than used"
! takes || fail "something is taken although more is used than given"
stop donor1
rm -r "$work/donor1/objects"
start_donor --donate 90%
is_open
[ "$(one used_bytes)" = 8192 ] || fail "an empty directory has $(one used_bytes) bytes"

# ---- The disk is full, of files of its owner.

io put $SET 0 20 $MIB sync >"$work/put"
fallocate -l "$(($(stat -f -c '%a * %S' "$work/disk-donor1" | xargs expr) - 8 * MIB))" "$work/disk-donor1/film"
if io put $((SET + 1)) 0 40 $MIB >"$work/put" 2>"$work/err"; then
    fail "a full disk takes 40 morsels"
fi
grep -q 'no space left' "$work/err" || fail "what does not fit on the disk: $(cat "$work/err")"
all_good $SET 0 20 $MIB "on a full disk"
rm "$work/disk-donor1/film"
sync -f "$work/disk-donor1" # Or it is back with the power.
gives_again() {
    [ "$(one donated_bytes)" -gt $((100 * MIB)) ]
}
wait_for 60 "all is given again" gives_again
takes || fail "nothing is taken although there is room again"
note "a full disk"

# ---- Power is lost: what was synced is there; of the rest nothing is what it was not.

io put $((SET + 2)) 0 20 $MIB >"$work/put"
lose_power donor1
start_donor --donate 200M
all_good $SET 0 20 $MIB "behind a loss of power"
io get $((SET + 2)) 0 20 $MIB >"$work/got"
! grep '^wrong ' "$work/got" || fail "a loss of power has left wrong bytes: $(cat "$work/got")"
is_open

# ---- The file system has had enough, and is read-only: it is read, nothing is taken, and that is said once.

no_disk_error 1 "before the disk has one"
mount -o remount,abort,errors=remount-ro "$work/disk-donor1"
! takes || fail "a read-only disk takes morsels"
all_good $SET 0 20 $MIB "on a read-only disk"
wait_for 60 "the log says so" grep -q 'read-only: morsels that are here can be read, and nothing more is taken' "$work/log/donor1"
gives_what_it_has() {
    morsel donors --json | jq -e '.donors[0] | .state == "here" and .donated <= .used' >/dev/null
}
wait_for 60 "the manager hears that nothing more is given" gives_what_it_has
looks() {
    ! takes && [ "$(grep -c 'nothing more is taken' "$work/log/donor1")" = 1 ]
}
for _ in 1 2 3 4; do
    sleep 1 # Two looks at the disk.
    looks || fail "that it is read-only is said again and again, or is forgotten"
done
stop donor1
unmount "$work/disk-donor1"
within 60 mount_afresh "$work/disk-donor1" || fail "the disk cannot be mounted again"
read_only_until=$(wc -l <"$work/log/donor1") # Whoever makes a file meanwhile may be told EBADMSG as well: ext4 looks at directories first.
start_donor --donate 200M
all_good $SET 0 20 $MIB "behind a read-only time"
is_open
note "a read-only disk"

# ---- Sets that the manager has given and that are gone: deleted at the next start, whatever there is of them.

used=$(one used_bytes)
io put 1 0 30 10000 >/dev/null
io put 1 100000 1 10000 >/dev/null
stop donor1
start_donor --donate 200M
is_open
[ "$(one used_bytes)" = $((used + 8192)) ] || fail "what is in no map is still there: $(one used_bytes) bytes used, $used before"
[ "$(one morsels_deleted)" -ge 31 ] || fail "$(one morsels_deleted) morsels were deleted"
all_good $SET 0 20 $MIB "behind the deletion of others"

# ---- Sound frames with nonsense inside: everything is answered, and nothing comes to harm.

"$bin/nonsense" "${address_of[meta]##*:}" "${address_of[donor1]##*:}" 2 1 1 "$test_seed" 1500 || fail "nonsense with seed $test_seed"
all_good $SET 0 20 $MIB "behind nonsense"
takes || fail "nothing is taken any more behind nonsense"
no_disk_error $((read_only_until + 1)) "nonsense"

# ---- Few files may be open.

stop donor1
inject=(bash -c "ulimit -n 350 && exec \"\$@\"" _)
start_donor --donate 200M
inject=()
is_open
io put $((SET + 3)) 0 500 5000 >/dev/null || fail "with few open files"
all_good $((SET + 3)) 0 500 5000 "with few open files"

# ---- Its owner deletes the morsels, and not the directory: it ends as when all of it is deleted.

rm -r "$work/donor1/objects"
timeout 60 tail --pid="${pid_of[donor1]}" -s 0.05 -f /dev/null || fail "a benefactor without its morsels goes on"
code=0
wait "${pid_of[donor1]}" || code=$?
unset "pid_of[donor1]"
[ "$code" = 3 ] || fail "a benefactor whose morsels were deleted ended with exit code $code"
cluster_end
