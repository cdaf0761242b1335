#!/bin/bash
# A benefactor gives way to the programs of its owner: while they have all processors it reads and writes 1 MiB a second, and says so; and it
# gives nothing, and takes nothing, while he has paused it.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin governor "$1"
# shellcheck disable=SC2153 # of cluster.sh
for program in morsel-benefactor morselio; do
    [ -x "$bin/$program" ] || fail "$bin/$program is missing; build it first"
done

MIB=1048576
SET=1000000000000 # Numbers of sets count up from 2.
COUNT=8
desk=$work/desk
start_desk() {
    start_daemon desk "$bin/morsel-benefactor" --data-dir "$desk" --manager "$manager" --donate 64M --keep-free 0 --listen "${address_of[desk]:-127.0.0.1:0}" "$@"
}
donate() {
    timeout 60 "$bin/morsel" donate "$@" --data-dir "$desk"
}
io() {
    timeout 120 "$bin/morselio" "$1" "${address_of[desk]}" $SET 0 "${2:-$COUNT}" $MIB
}
says() {
    donate status --json >"$work/status" && jq -e "$1" "$work/status" >/dev/null
}
# all_good: they are read, and it leaves in $took how long that took.
all_good() {
    local began
    began=$(now_ms)
    io get >"$work/got"
    took=$(($(now_ms) - began))
    [ "$(grep -c '^good ' "$work/got")" = $COUNT ] || fail "not all of $COUNT morsels are good: $(cat "$work/got")"
}

# ---- Where nobody is to be considered, nothing waits.

start_meta
start_desk --no-gentle
wait_for 60 "morsels are taken" io put
all_good
fast=$took
says '.pace.rate_most == 0 and (.pace.why | test("gentle"))' || fail "not so fast: $(jq -c .pace "$work/status")"
[ "$(counter governor_held "${address_of[desk]}")" = 0 ] || fail "something has waited"
stop desk
note "without considering anybody $COUNT MiB are read in $fast ms"

# ---- The owner's programs have all processors.

start_desk # Before them: it takes what they leave, and would be long about it.
for ((i = $(nproc); i > 0; i--)); do
    (while :; do :; done) &
    children+=($!)
done
all_good # Meanwhile it looks.
all_good
# A request at a time waits for a second and a half at most; some are under way together.
[ "$took" -gt 2000 ] || fail "$COUNT MiB were read in $took ms, though programs have the processors"
says '.pace.rate_most == 1048576 and (.pace.why | test("other programs|programs wait"))' || fail "it does not say why it is slow: $(jq -c .pace "$work/status")"
donate status >"$work/text"
grep -q '  pace       at most 1.0 MiB/s, for ' "$work/text" || fail "the owner reads: $(cat "$work/text")"
[ "$(counter governor_held "${address_of[desk]}")" -gt 0 ] || fail "nothing has waited"
kill "${children[@]}"
wait "${children[@]}" 2>/dev/null || true
children=()
note "beside other programs $COUNT MiB are read in $took ms"

# ---- Paused.

donate pause >/dev/null
io get 1 >"$work/got"
grep -q '^failed 0 .*the owner of this benefactor has paused it' "$work/got" || fail "what is read while it is paused: $(cat "$work/got")"
if io put 1 >"$work/got" 2>&1; then fail "a morsel was taken while it is paused"; fi
donate resume >/dev/null
all_good
stop desk
cluster_end
