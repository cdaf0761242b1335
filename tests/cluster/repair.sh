#!/bin/bash
# Morsels whose benefactors stay away get new copies, and those that came back take the surplus with them: one killed for good, each of the others stopped,
# the first one back, the source killed in the middle of a fetch, and the only target full. Files are written and read through real mounts.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
cluster_begin repair "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
command -v jq >/dev/null || skip "jq(1) is missing"
# shellcheck disable=SC2153 # of cluster.sh
[ -x "$bin/morsel-benefactor" ] || fail "$bin/morsel-benefactor is missing; build it first"

MORSELS=24
donate=256M
start_donor() {
    start_daemon "$1" "$bin/morsel-benefactor" --data-dir "$work/$1" --manager "$manager" --donate "$donate" --keep-free 0 --calm-time 0 --no-gentle
}
# status_is JQ-FILTER: of the part about benefactors.
status_is() {
    { morsel status --json || true; } | jq -e ".donors | $1" >/dev/null # Its exit code says how storage servers are.
}
is_so() {
    wait_for 90 "$1" status_is "$2"
}
# copies_on NAME...: files of the set on their disks.
copies_on() {
    local name dirs=()
    for name; do dirs+=("$work/$name/objects"); done
    find "${dirs[@]}" -name "$(printf '%016x' "$set").*" | wc -l
}
# copies_are COUNT NAME...
copies_are() {
    local count=$1
    shift
    [ "$(copies_on "$@")" = "$count" ]
}
# The set of a file.
set_of() {
    getfattr --absolute-names --only-values -n user.morsel.layout "$1" | grep -oE 'set=[0-9]+' | cut -d= -f2
}
# reads_well WHEN: from the benefactors, by a mount that has nothing.
reads_well() {
    start_mount reader io_timeout=20s
    cmp "$work/copy" "$mnt/set/$file" || fail "$file is not what was written: $1"
    stop_mount reader
}
# write_file NAME: with all copies.
write_file() {
    file=$1
    cp "$work/copy" "$a/set/$file"
    set=$(set_of "$a/set/$file")
    is_so "all of $file has its copies" '.morsels_short == 0'
}

start_net
join_net donor1 donor2 donor3 donor4
address_of[meta]=${host_of[here]}:0
start_meta --donor-report 200ms --donor-look 5s --repair-after 2s
for i in 1 2 3 4; do start_donor "donor$i"; done
is_so "four are here" '.here == 4'
start_iod 1
wait_for 60 "the server for durable files is up" servers_up 1
start_mount a io_timeout=20s
a=$mnt
mkdir "$a/set" "$a/three"
policy "$a/set" class=scavenged replicas=2 stripe_width=4
head -c $((MORSELS * 1048576 - 12345)) /dev/urandom >"$work/copy"
write_file one
copies_are $((2 * MORSELS)) donor1 donor2 donor3 donor4 || fail "$(copies_on donor1 donor2 donor3 donor4) copies of $MORSELS morsels"
had=$(copies_on donor1)
[ "$had" -gt 0 ] || fail "donor1 has nothing of the file"

# ---- One is killed, and stays away: the others have two copies of all again, and each of them may be stopped.

crash donor1
is_so "what it had is copied" ".morsels_repaired >= $had and .morsels_short == 0"
copies_are $((2 * MORSELS)) donor2 donor3 donor4 || fail "$(copies_on donor2 donor3 donor4) copies on the three that are left"
[ "$(morsel status --json | jq .donors.bytes_repaired)" -ge $((had * 1000000)) ] || fail "bytes_repaired: $(morsel status --json | jq -c .donors)"
[ "$(morsel datasets --json | jq "[.. | .morsels_short? // empty] | add")" = 0 ] || fail "morsels are short: $(morsel datasets)"
note "$had morsels were copied"
for i in 2 3 4; do
    kill -STOP "${pid_of[donor$i]}"
    reads_well "donor$i is stopped"
    kill -CONT "${pid_of[donor$i]}"
    is_so "donor$i is back" '.here == 3'
done
is_so "all is well again" '.morsels_short == 0 and .morsels_fetching == 0'

# ---- It comes back: what it had counts again, and what is too many goes; at once, with a manager that waits for nobody.

start_donor donor1
is_so "the killed one is back" '.here == 4'
[ "$(copies_on donor1)" = "$had" ] || fail "donor1 does not have what it had: $(copies_on donor1) of $had"
stop meta
start_meta --donor-report 200ms --donor-look 5s --repair-after 0
is_so "all are back" '.here == 4'
wait_for 90 "the surplus is deleted" copies_are $((2 * MORSELS)) donor1 donor2 donor3 donor4
is_so "nothing is short" '.morsels_short == 0'
reads_well "the surplus is gone"
for i in 1 2 3 4; do
    kill -STOP "${pid_of[donor$i]}"
    reads_well "the surplus is gone, and donor$i is stopped"
    kill -CONT "${pid_of[donor$i]}"
    is_so "donor$i is back" '.here == 4'
    is_so "all is well" '.morsels_short == 0 and .morsels_fetching == 0'
done
wait_for 90 "the surplus of that is deleted, too" copies_are $((2 * MORSELS)) donor1 donor2 donor3 donor4
note "the surplus went"

# ---- The source is killed in the middle of a fetch: another one takes its place. Frozen ones count as here for a minute.

rm "$a/set/one"
wait_for 90 "the file is gone" copies_are 0 donor1 donor2 donor3 donor4
stop meta
start_meta --donor-report 200ms --donor-look 60s --repair-after 0
is_so "all are back" '.here == 4'
policy "$a/set" class=scavenged replicas=3 stripe_width=4
write_file two
kill -STOP "${pid_of[donor2]}"
crash donor1
is_so "fetches from the frozen one are under way" '.morsels_fetching > 0'
crash donor2
start_donor donor2
is_so "all have three copies on three" '.morsels_short == 0 and .morsels_fetching == 0 and .here == 3'
copies_are $((3 * MORSELS)) donor2 donor3 donor4 || fail "$(copies_on donor2 donor3 donor4) copies on three"
reads_well "the source was killed"
note "the source was killed"

# ---- The only target is full: it stays as it is, is said, and is repaired when there is room.

stop donor4
rm -rf "$work/donor4"
donate=4M
start_donor donor4
is_so "what it could have taken is short" ".here == 3 and .morsels_fetching == 0 and .morsels_short > 0"
full() {
    [ "$(copies_on donor4)" -ge 3 ] && status_is ".morsels_fetching == 0 and .morsels_short >= $((MORSELS - 4))"
}
wait_for 90 "it takes what it can" full
grep -q 'have fewer copies here than wanted' <<<"$(morsel status || true)" || fail "morsel status does not say it: $(morsel status || true)"
reads_well "one is full"
stop donor4
donate=256M
start_donor donor4
is_so "with room all is repaired" '.morsels_short == 0 and .morsels_fetching == 0'
copies_are $((3 * MORSELS)) donor2 donor3 donor4 || fail "$(copies_on donor2 donor3 donor4) copies on three"
reads_well "there was room again"
note "a full one"

stop_mount a
fsck_clean
cluster_end
