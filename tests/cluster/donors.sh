#!/bin/bash
# Benefactors come and go as desktops do, and the manager knows which of them are here, by which number, at which address, with how much space:
# killed, frozen, stopped in order, copied, at another address, short of disk, of another cluster, without root; and the manager itself restarts.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
cluster_begin donors "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces and loop devices"
# shellcheck disable=SC2153 # of cluster.sh
[ -x "$bin/morsel-benefactor" ] || fail "$bin/morsel-benefactor is missing; build it first"

MIB=1048576
# start_donor NAME [OPTIONS]: on the host of that name.
start_donor() {
    local name=$1
    shift
    start_daemon "$name" "$bin/morsel-benefactor" --data-dir "$work/$name" --manager "$manager" --donate 64M --keep-free 0 --no-gentle "$@"
}
# donors_say JQ-FILTER
donors_say() {
    morsel donors --json >"$work/donors" && jq -e "$1" "$work/donors" >/dev/null
}
# is_so WHAT JQ-FILTER: within the time.
is_so() {
    within 60 donors_say "$2" || fail "not within the time: $1: $(jq -c . "$work/donors")"
}
# times_left ID: so often it has told the manager that it leaves.
times_left() {
    grep -c "benefactor $1 .* is away: it has left" "$work/log/meta" || true
}
left_again() { # ID COUNT
    [ "$(times_left "$1")" -gt "$2" ]
}
# leaves ID: donorID is stopped in order; the manager hears that it leaves, and does not only find that it is silent.
leaves() {
    local before
    before=$(times_left "$1")
    stop "donor$1"
    wait_for 60 "the manager hears that donor$1 leaves" left_again "$1" "$before"
    donors_say "$(donor_is "$1" away)" || fail "who says that it leaves is not away: $(jq -c . "$work/donors")"
}
# donor_is ID STATE
donor_is() {
    echo ".donors[] | select(.id == $1) | .state == \"$2\""
}
# as_before WHAT: three, each with its number and address, are here.
as_before() {
    is_so "$1" ".here == 3 and ([.donors[] | select(.state == \"here\") | [.id, .address]] | sort == $(jq -c . "$work/first"))"
}
# times_lost NAME: so often it has said that the manager is away. misses NAME COUNT: and more than so often.
times_lost() {
    grep -c 'lost the manager' "$work/log/$1" || true
}
misses() {
    [ "$(times_lost "$1")" -gt "$2" ]
}
: >"$work/donors"

start_net
join_net donor1 donor2 donor3
address_of[meta]=${host_of[here]}:0
start_meta --donor-report 200ms --donor-look 5s # On a busy machine one that is well may be silent for a second, and does not count as here then.
is_so "nobody is there" '.count == 0 and .here == 0 and .donors == []'

# ---- Three join. They listen everywhere, and are known by the address from which they come.

for i in 1 2 3; do
    start_donor "donor$i"
    [ "${address_of[donor$i]}" = 0.0.0.0:7462 ] || fail "donor$i listens at ${address_of[donor$i]}"
    is_so "donor$i is here at its address" ".donors[] | select(.id == $i) | .state == \"here\" and .address == \"${host_of[donor$i]}:7462\""
done
is_so "what they donate is known" ".here == 3 and .donated == 3 * 64 * $MIB and .used == 0 and ([.donors[] | .donated == 64 * $MIB and .used == 0] | all)"
jq -c '[.donors[] | [.id, .address]] | sort' "$work/donors" >"$work/first"
[ "$(counter donated_bytes "${host_of[donor1]}:7462")" = $((64 * MIB)) ] || fail "donor1 does not say what it gives: $(morsel stats "${host_of[donor1]}:7462")"
note "three are here"

# ---- Killed: it is away when it was silent for its time, and is the same when it comes back.

began=$(now_ms)
crash donor1
is_so "the killed one is away" "$(donor_is 1 away)"
took=$(($(now_ms) - began))
[ "$took" -lt 20000 ] || fail "a killed benefactor was counted for $took ms: the next connection is waited for 5 s"
is_so "the others are here" '.here == 2'
is_so "what it gave does not count" ".donated == 2 * 64 * $MIB"
start_donor donor1
as_before "the killed one is back"
crash donor1 # And again at once, before anybody has noticed.
start_donor donor1
as_before "the killed one is back at once"

# ---- Frozen: likewise; its connection stands, and it is asked.

kill -STOP "${pid_of[donor2]}"
is_so "the frozen one is away" "$(donor_is 2 away)"
kill -CONT "${pid_of[donor2]}"
as_before "the frozen one is back"

# ---- Stopped in order: away at once.

leaves 3
start_donor donor3
as_before "the stopped one is back"
note "killed, frozen and stopped ones are back"

# ---- The manager restarts, twice; and is away for so long that each of them has tried in vain.

crash meta
start_meta
as_before "all are back behind a restart of the manager"
for i in 1 2 3; do
    lost[i]=$(times_lost "donor$i")
done
stop meta
for i in 1 2 3; do
    wait_for 60 "donor$i misses the manager" misses "donor$i" "${lost[$i]}"
done
start_meta
as_before "all are back behind an outage of the manager"
note "all are back behind restarts of the manager"

# ---- A copy of a directory is not let in while the original is served, and is when that has ended.

cp -a "$work/donor1" "$work/copy"
lives_on[copy]=${lives_on[donor2]}
start_donor copy --listen 0.0.0.0:7463
wait_for 60 "the copy hears that it is one" grep -q 'another process serves' "$work/log/copy"
as_before "the original is here, and no fourth"
[ "$(grep -c 'another process serves' "$work/log/copy")" = 1 ] || fail "the copy says the same again and again"
crash donor1
is_so "the copy takes its place" ".donors[] | select(.id == 1) | .state == \"here\" and .address == \"${host_of[donor2]}:7463\""
stop copy
start_donor donor1
as_before "the original is back"
note "a copy was refused"

# ---- A laptop wakes up at another address: the process, the number and the directory are the same.

pid=${pid_of[donor2]} laptop=${lives_on[donor2]} old=${host_of[donor2]} new=$net_prefix.200
ip -n "$router" route add "$new/32" dev donor2
ip -n "$laptop" address add "$new/32" dev net0
ip -n "$laptop" route replace "$net_prefix.254/32" dev net0 src "$new"
ip -n "$laptop" route replace "$net_prefix.0/24" via "$net_prefix.254" src "$new"
ip -n "$laptop" address del "$old/32" dev net0
ip -n "$router" route del "$old/32"
is_so "the laptop is here at its new address" ".count == 3 and (.donors[] | select(.id == 2) | .state == \"here\" and .address == \"$new:7462\")"
kill -0 "$pid" || fail "the benefactor has ended"
grep -q "clients reach it at $new:7462" "$work/log/donor2" || fail "the benefactor does not say where it is now"
note "a laptop has another address"

# ---- The disk gets full, of files that are not ours: the donation gives way before, and comes back.

loop_mount "$work/disk" 400M
total=$(stat -f -c '%b * %S' "$work/disk" | xargs expr) keep=$((total / 5))
start_daemon donor4 "$bin/morsel-benefactor" --data-dir "$work/disk/donor4" --manager "$manager" --donate 50% --listen "${host_of[here]}:0" --calm-time 1s --no-gentle
free() {
    stat -f -c '%a * %S' "$work/disk" | xargs expr
}
half=$((total / 100 * 50 + total % 100 / 2))
is_so "half of its disk is donated" ".donors[] | select(.id == 4) | .state == \"here\" and .donated <= $half and .donated > $half - 1000"
fallocate -l $(($(free) - keep - 50 * MIB)) "$work/disk/film"
is_so "less is donated" ".donors[] | select(.id == 4) | .donated <= 50 * $MIB and .donated > 48 * $MIB"
[ "$(jq '.donors[] | select(.id == 4) | .donated' "$work/donors")" -le $(($(free) - keep)) ] || fail "more is donated than is free beyond what is kept"
fallocate -l $(($(free) - 10 * MIB)) "$work/disk/another" # The owner may fill it: nothing of ours is in his way.
is_so "nothing is donated" '.donors[] | select(.id == 4) | .state == "here" and .donated == 0'
wait_for 60 "the log says why" grep -q 'gives nothing: .* stay free for its owner' "$work/log/donor4"
rm "$work/disk/film" "$work/disk/another"
is_so "half of its disk is donated again" ".donors[] | select(.id == 4) | .donated <= $half and .donated > $half - 1000"
stop donor4
note "a donation has given way, and is back"

# ---- Of another cluster: it ends, and says why.

start_daemon other "$bin/morsel-meta" --data-dir "$work/other" --listen "${host_of[here]}:0"
stop donor3
code=0
ip netns exec "${lives_on[donor3]}" timeout 60 "$bin/morsel-benefactor" --data-dir "$work/donor3" --manager "${address_of[other]}" --donate 64M --no-gentle \
    >"$work/log/stranger" 2>&1 || code=$?
[ "$code" = 1 ] || fail "a benefactor of another cluster: exit code $code"
grep -q 'error: .*another cluster: name the manager of this one' "$work/log/stranger" || fail "a benefactor of another cluster does not say so"
[ "$(timeout 60 "$bin/morsel" donors --manager "${address_of[other]}" --json | jq .count)" = 0 ] || fail "a benefactor of another cluster was let in"
stop other
start_donor donor3

# ---- A user without root says nothing of directories.

mkdir "$work/home" "$work/programs"
cp "$bin/morsel-benefactor" "$work/programs"
chown 65534:65534 "$work/home"
inject=(env -u XDG_DATA_HOME "HOME=$work/home" setpriv --reuid=65534 --regid=65534 --clear-groups)
start_daemon donor5 "$work/programs/morsel-benefactor" --manager "$manager" --donate 1% --listen "${host_of[here]}:0" --no-gentle
inject=()
is_so "one without root is here" "$(donor_is 5 here)"
[ "$(stat -c %u:%a "$work/home/.local/share/morselfs")" = 65534:700 ] || fail "it does not donate a directory of its user's"
# Its owner has enough of it: it ends, and not as one that is to be started again.
code=0
rm -r "$work/home/.local/share/morselfs"
timeout 60 tail --pid="${pid_of[donor5]}" -s 0.05 -f /dev/null || fail "a benefactor without a directory goes on"
wait "${pid_of[donor5]}" || code=$?
unset "pid_of[donor5]"
[ "$code" = 3 ] || fail "a benefactor whose directory was deleted ended with exit code $code"
[ ! -e "$work/home/.local/share/morselfs" ] || fail "the directory is back"
is_so "five have been seen, three are here" '.count == 5 and .here == 3'

for i in 1 2 3; do
    leaves "$i"
done
is_so "nobody is here" '.count == 5 and .here == 0 and .donated == 0'
cluster_end
