#!/bin/bash
# A benefactor that calls the manager, and at which nobody can call: it is found, named to everybody and to its owner, and nothing is placed there until
# it can be reached. What it has stays in the maps.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin shut "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"

# donors_say JQ-FILTER
donors_say() {
    morsel donors --json >"$work/donors" && jq -e "$1" "$work/donors" >/dev/null
}
says() {
    nsenter "--net=/run/netns/${lives_on[donor4]}" timeout 60 "$bin/morsel" donate status --json --data-dir "$work/donor4" | jq -e "$1" >/dev/null
}
copies_at() {
    { find "$work/donor$1/objects" -name '*.*' -type f 2>/dev/null || true; } | wc -l
}

start_donors 3
start_iod 1
# Nobody is at the address that it names: what a firewall does that drops all.
donor_at=${host_of[donor3]%.*}.250:7462
join_net donor4
start_donor donor4 --advertise "$donor_at"
wait_for 60 "four benefactors are here" donors_here 4
wait_for 60 "the manager finds that the fourth cannot be reached" donors_say '[.donors[] | select(.shut) | .id] == [4]'
morsel donors >"$work/text"
grep -q ' shut ' "$work/text" || fail "it is not named: $(cat "$work/text")"
grep -q 'let a firewall of that machine pass the port' "$work/text" || fail "nobody is told what to do: $(cat "$work/text")"
grep -q "benefactor 4 .* nobody opens at $donor_at" "$work/log/meta" || fail "the manager's log does not name it"
wait_for 60 "its owner is told" says ".cluster.shut and .cluster.address == \"$donor_at\""
nsenter "--net=/run/netns/${lives_on[donor4]}" "$bin/morsel" donate status --data-dir "$work/donor4" >"$work/text"
grep -q "clients cannot reach this machine at $donor_at" "$work/text" || fail "its owner does not read what to do: $(cat "$work/text")"

start_mount a io_timeout=10s
a=$mnt
mkdir "$a/set"
policy "$a/set" class=scavenged replicas=2 stripe_width=4
head -c $((16 * 1048576)) /dev/urandom >"$work/copy"
cp "$work/copy" "$a/set/file"
[ "$(copies_at 4)" = 0 ] || fail "$(copies_at 4) morsels lie where nobody can read them"
[ "$(($(copies_at 1) + $(copies_at 2) + $(copies_at 3)))" = 32 ] || fail "the others have not all copies"
[ "$(grep -c 'was not had from\|did not take' "$work/log/mount-a")" = 0 ] || fail "the mount has tried it: $(cat "$work/log/mount-a")"

# ---- It can be reached: it gets its share.

stop donor4
start_donor donor4
wait_for 60 "it can be reached" donors_say '[.donors[] | select(.shut)] == [] and .here == 4'
wait_for 60 "its owner is told that, too" says '.cluster.shut == false'
cp "$work/copy" "$a/set/second"
[ "$(copies_at 4)" -gt 0 ] || fail "it gets nothing although it can be reached"

# ---- Shut again: what it has counts.

stop donor4
start_donor donor4 --advertise "$donor_at"
wait_for 60 "it is found shut again" donors_say '[.donors[] | select(.shut) | .id] == [4]'
morsel status --json | jq -e '.donors.morsels_short == 0' >/dev/null || fail "its copies do not count"
cmp "$work/copy" "$a/set/second" || fail "the file is not what was written"
stop_mount a
stop_donors
stop iod1
cluster_end
