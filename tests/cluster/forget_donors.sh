#!/bin/bash
# Benefactors that never come back are forgotten: by command, not while they are here, nor while they have what nobody else has; and by
# themselves when they are away for too long. Their numbers are never given again; who comes back is a new one, and deletes what it had.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin forget_donors "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 4 --repair-after 1s
start_mount a io_timeout=20s
a=$mnt
mkdir "$a/data" "$a/one"
policy "$a/data" class=scavenged
policy "$a/one" class=scavenged replicas=1
head -c 8388608 /dev/urandom >"$work/two_copies"
cp "$work/two_copies" "$a/data/two"
cp "$work/two_copies" "$a/one/one"

# donors_say JQ-FILTER
donors_say() {
    morsel donors --json | jq -e "$1" >/dev/null
}
state_of() {
    morsel donors --json | jq -r ".donors[] | select(.id == $1) | .state"
}
is_state() {
    [ "$(state_of "$1")" = "$2" ]
}
is_forgotten() {
    [ -z "$(state_of "$1")" ]
}
# id_of NAME: its number, as it last said itself.
id_of() {
    grep -o "as benefactor [0-9]*" "$work/log/$1" | tail -n 1 | grep -o "[0-9]*"
}
is_whole() {
    morsel datasets --json | jq -e ".datasets[] | select(.inode == $(stat -c %i "$a/data/two")) | .morsels_short == 0" >/dev/null
}
# refused WORDS ID [OPTION]
refused() {
    local code=0
    morsel donors forget "${@:2}" >"$work/out" 2>&1 || code=$?
    [ "$code" != 0 ] || fail "benefactor $2 is forgotten"
    grep -q "$1" "$work/out" || fail "not a word of \"$1\": $(cat "$work/out")"
}
used_of() {
    morsel donors --json | jq ".donors[] | select(.id == $1) | .used"
}
has_nothing() {
    [ "$(used_of "$1")" = 0 ]
}

# ---- Neither who is here, nor who has what nobody else has.

id4=$(id_of donor4)
refused "is here" "$id4"
refused "there is no benefactor 77" 77
refused "is no benefactor" nonsense
stop donor4
wait_for 60 "donor4 is away" is_state "$id4" away
wait_for 60 "what it had is copied" is_whole
refused "morsels of 1 data sets that no benefactor has that is here" "$id4"
is_state "$id4" away || fail "who was refused is gone"
cmp "$work/two_copies" "$a/data/two" || fail "a set with two copies cannot be read"
start_donor donor4
wait_for 60 "donor4 is here" is_state "$id4" here
[ "$(id_of donor4)" = "$id4" ] || fail "who was not forgotten is another one"
wait_for 60 "all that it has counts again" cmp "$work/two_copies" "$a/one/one"
note "refused"

# ---- By command, with what nobody else has; its number, the greatest, is given to nobody, and who comes back has nothing.

stop donor4
wait_for 60 "donor4 is away" is_state "$id4" away
morsel donors forget "$id4" --force >"$work/out" || fail "forget --force: $(cat "$work/out")"
is_forgotten "$id4" || fail "it is not forgotten: $(morsel donors)"
[ "$(morsel donors --json | jq .count)" = 3 ] || fail "$(morsel donors)"
[ "$(morsel datasets --json | jq ".datasets[] | select(.inode == $(stat -c %i "$a/one/one")) | .morsels_away")" = 2 ] || fail "$(morsel datasets)"
cmp "$work/two_copies" "$a/data/two" || fail "a set with two copies cannot be read"
crash meta
start_meta --donor-report 200ms --donor-look 5s --repair-after 1s
wait_for 60 "three are here" donors_here 3
is_forgotten "$id4" || fail "it is back with the manager: $(morsel donors)"
start_donor donor4
wait_for 60 "four are here" donors_here 4
new4=$(id_of donor4)
[ "$new4" -gt "$id4" ] || fail "the number $id4 was given again, as $new4"
wait_for 60 "it deletes what it had" has_nothing "$new4"
cmp "$work/two_copies" "$a/data/two" || fail "a set with two copies cannot be read"
note "forgotten by command"

# ---- By itself; and a process that lives on hears that it was forgotten.

stop meta
start_meta --donor-report 200ms --donor-look 2s --repair-after 1s --forget-donors 8s
wait_for 60 "four are here" donors_here 4
kill -STOP "${pid_of[donor4]}"
wait_for 60 "it is away" is_state "$new4" away
wait_for 60 "it is forgotten" is_forgotten "$new4"
grep -q "benefactor $new4 is forgotten, for it was away for too long" "$work/log/meta" || fail "not a word in the log"
kill -CONT "${pid_of[donor4]}"
heard_it() {
    grep -q "was forgotten while it was away" "$work/log/donor4"
}
wait_for 60 "it hears that it was forgotten" heard_it
note "forgotten by itself"
crash donor4
start_donor donor4
wait_for 60 "it is a new one" donors_here 4
[ "$(id_of donor4)" -gt "$new4" ] || fail "the number $new4 was given again"
cmp "$work/two_copies" "$a/data/two" || fail "a set with two copies cannot be read"
rm "$a/one/one" # Of which a part is gone for good.
morsel fsck || fail "fsck"
stop_mount a
stop_donors
cluster_end
