#!/bin/bash
# Servers that are gone for good are taken out while the manager is killed at any point: each removal happens as a whole or not at all, what somebody was
# told of it stays so, and who asks again is told that it is done. And a server is removed that only seemed to be gone: it ends when it is heard of.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin iod_remove_killed "$1"

rounds=${2:-8}
voters_are() {
    [ "$(morsel status --json | jq -r '.voters | select(.change == null and all(.members[]; .state == "votes")) | [.members[].server] | map(tostring) | join(" ")')" = "$1" ]
}
become() {
    wait_for 60 "the voters are $1" voters_are "$1"
}
is_shown() {
    [ "$(morsel iod list --json | jq "any(.servers[]; .id == $1)")" = true ]
}
is_down() {
    [ "$(morsel iod list --json | jq ".servers[] | select(.id == $1) | .up")" = false ]
}
# Whether it is gone is known when the manager has run for a while; and voters must be back.
removes() {
    morsel iod remove --lost --timeout 2s "$1" >"$work/out" 2>&1
}

start_cluster 2 --heartbeat 200ms
become "0 1 2"
done_before=0 killed_before=0 # Kills behind the moment that counts, and before it.
delay_us=100000 step_us=50000
for ((round = 1; round <= rounds; round++)); do
    victim=$((round + 2))
    start_iod "$victim"
    become "0 1 2 $victim"
    crash "iod$victim"
    wait_for 60 "server $victim is down" is_down "$victim"
    removes "$victim" &
    remover=$!
    children+=("$remover")
    sleep "$(printf '0.%06d' "$delay_us")"
    crash meta
    told=no
    timeout 60 tail --pid="$remover" -f /dev/null # It cannot have been told anything new behind that.
    wait "$remover" && told=yes
    start_meta
    if is_shown "$victim"; then
        [ $told = no ] || fail "round $round: a removal that was told is forgotten"
        killed_before=$((killed_before + 1)) delay_us=$((delay_us + step_us))
    else
        done_before=$((done_before + 1)) delay_us=$((delay_us - step_us))
    fi
    delay_us=$((delay_us > 0 ? delay_us : 0))
    # Until there is one of each it looks farther away, how far depends on the machine; then closer each time.
    step_us=$((killed_before == 0 || done_before == 0 ? step_us * 2 : step_us / 2))
    wait_for 60 "server $victim is removed at last" removes "$victim"
    is_shown "$victim" && fail "round $round: server $victim is shown still"
    become "0 1 2"
    removes "$victim" || fail "round $round: who asks again: $(cat "$work/out")"
done
[ "$killed_before" -gt 0 ] && [ "$done_before" -gt 0 ] || fail "killed before the removal $killed_before times, and behind it $done_before times"
note "killed before it was written down $killed_before times, and behind that $done_before times"

# Server LAST does not run, and is removed; then it goes on where it was.
last=$((rounds + 3))
start_iod "$last"
become "0 1 2 $last"
kill -STOP "${pid_of[iod$last]}"
wait_for 60 "server $last is down" is_down "$last"
removes "$last" || fail "a server that does not answer: $(cat "$work/out")"
become "0 1 2"
kill -CONT "${pid_of[iod$last]}"
timeout 60 tail --pid="${pid_of[iod$last]}" -s 0.05 -f /dev/null || fail "a server that was removed goes on"
crash "iod$last" # It has ended; that is taken note of.
grep -q 'was removed from this cluster: .*with an empty data directory' "$work/log/iod$last" || fail "it does not say why it ended"
is_shown "$last" && fail "it is back"
become "0 1 2"
cluster_end
