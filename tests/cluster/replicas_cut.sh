#!/bin/bash
# Files with copies while links are cut, under steady writers on one mount and verifying readers on another one, each daemon and each mount on a host of its
# own: the cases of docs/replication.md, by their numbers.
#
#   replicas_cut.sh BUILD [SERVERS]    2 or 3 I/O daemons, each of which has a copy of everything
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
cluster_begin replicas_cut "$1"
servers=${2:-2}
both=(1 2)
[ "$servers" = 2 ] || both=($((RANDOM % 2 + 1))) # Of three servers one of them: the seed says which, and two servers show both.
pause_ms=3500 # Of who is left when a host falls silent.

start_net
join_net meta mount-a mount-b
for ((i = 1; i <= servers; i++)); do join_net "iod$i"; done
start_cluster "$servers"
start_mount a
mkdir "$mnt/all"
policy "$mnt/all" "replicas=$servers"
start_mount b
all=$work/mnt/a/all beside=$work/mnt/b/all
seen_well

# under_work LIMIT_MS WHAT COMMAND...: links are cut by the command, under work, and mended. No call fails or sees older bytes, and none takes longer than that:
# in one try of three, for a busy machine is late now and then.
under_work() {
    local try longest limit=$1 what=$2
    shift 2
    for try in 1 2 3; do
        start_steady "$all" "$beside"
        "$@"
        mend_net
        seen_well
        goes_on 100
        end_steady "$what"
        jq -e '.writes > 500 and .reads > 100 and .syncs > 0' "$work/steady.json" >/dev/null || fail "$what: too little work was done"
        one_set_an_epoch
        longest=$(jq '[.longest_ms[]] | max' "$work/steady.json")
        [ "$longest" -gt "$limit" ] || return 0
        note "$what: a call took $longest ms, try $try"
    done
    fail "$what: a call took $longest ms, and must not take more than $limit"
}

# missed_while VICTIM CUT...: who is left goes on alone; VICTIM is brought up to date and takes part again, while the writers go on.
missed_while() {
    local victim=$1
    shift
    "$@"
    goes_on 300
    seen_alone "$victim"
    mend_net
    seen_well
}

# A member's host is cut off from everybody, and lives on.
for victim in "${both[@]}"; do
    under_work "$pause_ms" "server $victim is cut off" missed_while "$victim" cut_off "iod$victim"
done

# Case 10: only the link between two members is cut. One goes on without the other, and never both.
under_work "$pause_ms" "two servers do not hear each other" missed_while "1 or 2" cut_between iod1 iod2

# What one sends vanishes, and it hears the others; and the other way round.
for victim in "${both[@]}"; do
    under_work "$pause_ms" "server $victim is not heard" missed_while "$victim" cut_way "iod$victim" all
    under_work "$pause_ms" "server $victim does not hear" missed_while "$victim" cut_way all "iod$victim"
done

# What the servers have is the same: each alone shows all of it.
head -c 5M /dev/urandom >"$work/random"
cp "$work/random" "$all/random"
sync "$all/random"
[ "$servers" != 2 ] || each_alone_shows "$all/random" "$work/random"

# Case 11: a mount reaches only one of them, which orders or does not. It works, after a while in which it finds out, and nobody is missed.
reaches_only() {
    local i
    for ((i = 1; i <= servers; i++)); do
        [ "$i" = "$2" ] || cut_between "$1" "iod$i"
    done
    goes_on "$3"
    groups_are_well || fail "a mount that is cut off has cost a copy: $(morsel status)"
}
for reached in "${both[@]}"; do
    under_work "$pause_ms" "the writers reach server $reached alone" reaches_only mount-a "$reached" 300
    under_work "$pause_ms" "the readers reach server $reached alone" reaches_only mount-b "$reached" 1000
done

# Case 15: the manager is cut off, for less than a lease period, together with a server. A majority of voters is away: nothing changes, and
# everything goes on when they are back. Alone it is missed by none but readers of what others write, who ask it for the size.
away_for_a_while() {
    local name
    for name; do cut_off "$name"; done
    sleep 2 # This is what is tested.
    mend_net
    goes_on 300
}
for victim in "${both[@]}"; do
    under_work $((2000 + pause_ms)) "the manager and server $victim are cut off" away_for_a_while meta "iod$victim"
done
under_work $((2000 + pause_ms)) "the manager is cut off" away_for_a_while meta

fsck_clean
cluster_end
