#!/bin/bash
# Benefactors that leave with a deadline, and such that give less than they have: what is there goes to others before, while readers verify every byte. The
# one that leaves is killed, the manager is, and one that takes copies; the deadline is too short; nobody has room.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin leaving "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"

MORSELS=24
donate() {
    local name=$1
    shift
    timeout 120 nsenter "--net=/run/netns/${lives_on[$name]}" "$bin/morsel" donate "$@" --data-dir "$work/$name"
}
status_is() {
    { morsel status --json || true; } | jq -e ".donors | $1" >/dev/null
}
donors_say() {
    morsel donors --json >"$work/donors" && jq -e "$1" "$work/donors" >/dev/null
}
says() {
    donate "$1" status --json | jq -e "$2" >/dev/null
}
is_so() {
    wait_for 90 "$1" status_is "$2"
}
# copies_on NAME...: files of morsels on their disks.
copies_on() {
    local name dirs=()
    for name; do dirs+=("$work/$name/objects"); done
    find "${dirs[@]}" -name '*.*' -type f | wc -l
}
copies_are() {
    local count=$1
    shift
    [ "$(copies_on "$@")" = "$count" ]
}
# freeze STOP|CONT NUMBER...
freeze() {
    local signal=$1 i
    shift
    for i; do kill "-$signal" "${pid_of[donor$i]}"; done
}
# reads_well WHEN: by a mount that has nothing.
reads_well() {
    start_mount reader io_timeout=5s
    cmp "$work/copy" "$mnt/set/file" || fail "the file is not what was written: $1"
    stop_mount reader
}
# Readers that verify all, again and again, until the file "done" is there.
read_on() {
    local n=0
    while [ ! -e "$work/done" ]; do
        cmp "$work/copy" "$1/set/file" || return 1
        n=$((n + 1))
    done
    echo "$n" >"$work/rounds"
}

start_donors 4
start_iod 1
wait_for 60 "the server for durable files is up" servers_up 1
start_mount a io_timeout=5s
a=$mnt
mkdir "$a/set"
policy "$a/set" class=scavenged replicas=2 stripe_width=4
head -c $((MORSELS * 1048576 - 12345)) /dev/urandom >"$work/copy"
cp "$work/copy" "$a/set/file"
is_so "all has its copies" '.morsels_short == 0'
copies_are $((2 * MORSELS)) donor1 donor2 donor3 donor4 || fail "$(copies_on donor1 donor2 donor3 donor4) copies"

# ---- One leaves while readers verify, and another file is written: the command is back when others have all.

had=$(copies_on donor1)
[ "$had" -gt 0 ] || fail "donor1 has nothing"
start_mount b io_timeout=5s
read_on "$mnt" & reader=$!
cp "$work/copy" "$a/set/other" & writer=$!
donate donor1 leave --deadline=90s >"$work/text" || fail "it has not left: $(cat "$work/text")"
wait "$writer" || fail "a file could not be written meanwhile"
is_so "nothing is short behind that" '.morsels_short == 0 and .here == 3'
touch "$work/done"
wait "$reader" || fail "a reader saw something else, or nothing"
[ "$(cat "$work/rounds")" -gt 0 ] || fail "nothing was read meanwhile"
stop_mount b
grep -Eq '^'"$work"'/donor1: [1-9][0-9]* morsels \(.*\) were copied' "$work/text" || fail "the owner reads: $(cat "$work/text")"
grep -q 'fewer copies' "$work/text" && fail "something has fewer copies: $(cat "$work/text")"
cmp "$work/copy" "$a/set/other" || fail "the other file is not what was written"
rm "$a/set/other"
wait "${pid_of[donor1]}" || fail "it did not end well"
unset "pid_of[donor1]"
reads_well "one has left"
note "one has left, of $had morsels"

# ---- It is back, with all that it had. Then one gives nothing any more: all that it has is with others, and deleted there.

start_donor donor1
donors_here 4 || wait_for 60 "it is back" donors_here 4
had=$(copies_on donor2)
donate donor2 set 0 >/dev/null
wait_for 90 "all of it is given back" copies_are 0 donor2
is_so "nothing is short" '.morsels_short == 0 and .here == 4'
reads_well "one gives nothing"
wait_for 60 "the owner sees it" says donor2 '.used == 0 and .excess == 0 and .state == "nothing"'
note "one has given back $had morsels"

# ---- With the manager killed in the middle: it goes on behind its restart, for the benefactor says it again.

donate donor2 set 256M >/dev/null
wait_for 60 "it gives again" donors_say ".donors[1].donated == 256 * 1048576"
freeze STOP 1 2 4
donate donor3 leave --deadline=90s --json >"$work/left" & leaver=$!
wait_for 60 "donor3 leaves" donors_say '.donors[2].state == "leaving"'
crash meta
freeze CONT 1 2 4
start_meta --donor-report 200ms --donor-look 1s
wait "$leaver" || fail "it has not left: $(cat "$work/left")"
jq -e '.moving.end == "all" and .moving.counted and .moving.wanted == 0' "$work/left" >/dev/null || fail "it says: $(cat "$work/left")"
wait "${pid_of[donor3]}" || fail "it did not end well"
unset "pid_of[donor3]"
is_so "nothing is short" '.morsels_short == 0 and .here == 3'
reads_well "the manager was killed"
note "the manager was killed meanwhile"

# ---- The one that leaves is killed, when one that takes copies hangs: what it had is copied from the others, at once.

start_donor donor3
wait_for 60 "it is back" donors_here 4
freeze STOP 2 3 4
donate donor1 leave --deadline=90s >/dev/null 2>&1 & leaver=$!
wait_for 60 "donor1 leaves" donors_say '.donors[0].state == "leaving"'
crash donor1
crash donor2
freeze CONT 3 4
! wait "$leaver" || fail "one that was killed is said to have left"
start_donor donor2
is_so "nothing is short" '.morsels_short == 0 and .morsels_fetching == 0 and .here == 3'
reads_well "two were killed"
note "the leaving one was killed"

# ---- Nobody has room: that is said at once, and what it has is there when it is back.

start_donor donor1
wait_for 60 "it is back" donors_here 4
for i in 2 3 4; do donate "donor$i" set 0 >/dev/null; done
wait_for 90 "one has all, and the others what it has besides" donors_say '[.donors[1:][] | .excess == .stuck_bytes] | all'
donate donor1 leave --deadline=1h --json >"$work/left" || fail "it has not left"
jq -e '.moving.end == "stuck" and .moving.wanted > 0 and .moving.stuck == .moving.wanted' "$work/left" >/dev/null || fail "it says: $(cat "$work/left")"
unset "pid_of[donor1]"
start_donor donor1
wait_for 60 "it is back" donors_here 4
reads_well "nobody had room"

# It may stay, too; and where all must go and nobody takes it, it stays, and is said.
donate donor1 set 0 >"$work/text"
wait_for 60 "the manager says that it is stuck" donors_say '.donors[0].stuck_bytes > 0'
wait_for 60 "the owner reads it" says donor1 '.moving.stuck_bytes > 0'
grep -q 'no other benefactor has room' <<<"$(donate donor1 status)" || fail "the owner reads: $(donate donor1 status)"
grep -q 'no other benefactor has room' <<<"$(morsel donors)" || fail "the administrator reads: $(morsel donors)"
reads_well "what nobody can take stays"
for i in 1 2 3 4; do donate "donor$i" set 256M >/dev/null; done
is_so "nothing is short" '.morsels_short == 0 and .here == 4'
reads_well "all give again"

# ---- The deadline is too short for one that hardly gives anything out: it leaves all the same, and says what is left.

freeze STOP 2 3 4
donate donor1 leave --deadline=100ms --json >"$work/left" || fail "it has not left"
jq -e '.moving.end == "late" or .moving.end == "stuck"' "$work/left" >/dev/null || fail "it says: $(cat "$work/left")"
freeze CONT 2 3 4
unset "pid_of[donor1]"
start_donor donor1
is_so "all are back" '.morsels_short == 0 and .here == 4'
reads_well "the deadline was too short"

stop_mount a
fsck_clean
stop_donors
cluster_end
