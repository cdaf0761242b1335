#!/bin/bash
# Histories of three mounts are linearizable (history.c) while the links of two of them are cut: for moments, and until they are fenced; and
# while mounts and I/O daemons are killed and come back; and while both happen at once, so that what is under way lands late or not at all.
# The first mount stays, and waits for no other longer than a lease period and a second.
#
#   history_faults.sh BUILD [SEED COUNT]       (default: 40 histories from the seed of the run)
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin history_faults "$1"
seed=${2:-$test_seed} count=${3:-40}
RANDOM=$seed
mkfifo "$work/never"
far=(b c)
for name in "${far[@]}"; do start_host "$name"; done
listen_for_host
start_cluster 2 --lease-time 2s
ip -n "mfs$$b" route add default via "${host_address_of[b]}"

hit=0
far_timeout=3
start_far() {
    inject=(nsenter "--net=/run/netns/mfs$$$1")
    start_mount "$1" "io_timeout=$far_timeout"
    inject=()
}
start_mount a
for name in "${far[@]}"; do start_far "$name"; done

pause_ms() {
    read -r -t "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))" <>"$work/never" || true
}

# histories COUNT FAULT: the next ones, with one FAULT after the other meanwhile.
histories() {
    local pid
    "$bin/history" --faults "$seed" "$1" "$work/mnt/a" "$work/mnt/b" "$work/mnt/c" >"$work/said" 2>"$work/complaints" &
    pid=$!
    children+=("$pid")
    while kill -0 "$pid" 2>/dev/null; do
        "$2" "${far[RANDOM % 2]}"
        pause_ms $((100 + RANDOM % 400))
    done
    wait "$pid" || fail "from seed $seed on: $(cat "$work/said") $(tail -n 5 "$work/complaints")"
    cat "$work/said"
    hit=$((hit + $(sed -nE 's/.* waited: in ([0-9]+) histories$/\1/p' "$work/said")))
    seed=$((seed + $1))
}

# How often somebody was silent for longer than a lease period, and lost leases.
losses() {
    grep -cE 'was silent too long: [1-9]' "$work/log/meta" || true
}

# harm COUNT FAULT [lost]: COUNT histories, and more of them until the FAULT has hit operations of one: they failed in the middle, or had to wait;
# with `lost`, until somebody has lost his leases, too. One that hits nothing shows nothing, whatever else it costs. (A kill that is over at once hits one history in ten.)
harm() {
    local more before
    hit=0 lost=0
    before=$(losses)
    histories "$1" "$2"
    for more in 1 2 3 4 5 6 7 8 9 10 11 12; do
        lost=$(($(losses) - before))
        [ "$hit" = 0 ] || { [ "${3:-}" = lost ] && [ "$lost" = 0 ]; } || break
        histories "$more" "$2"
    done
    [ "$hit" -gt 0 ] || fail "$2 hit no operation"
    lost=$(($(losses) - before))
    note "$2: operations of $hit histories were hit, leases were lost $lost times"
}

short_cut() {
    cut_link "$1"
    pause_ms $((20 + RANDOM % 900))
    mend_link "$1"
}

long_cut() {
    cut_link "$1"
    pause_ms $((1800 + RANDOM % 1200))
    mend_link "$1"
}

kill_somebody() {
    case $((RANDOM % 3)) in
    0)
        crash iod1
        start_iod 1
        ;;
    *)
        crash "mount-$1"
        umount -l "$work/mnt/$1"
        start_far "$1"
        ;;
    esac
}

# What is begun while no I/O daemon runs is on its way still when it has been given away.
cut_with_servers_away() {
    crash iod1
    crash iod2
    pause_ms $((5 + RANDOM % 100))
    cut_link "$1"
    start_iod 1
    start_iod 2
    pause_ms $((1800 + RANDOM % 1200))
    mend_link "$1"
}

harm "$count" short_cut
note "links cut for moments"
harm $((count / 8)) long_cut lost
[ "$lost" -gt 0 ] || fail "nobody was cut off for so long that he lost his leases"
note "links cut for longer than a lease period"
harm $((count / 5)) kill_somebody
note "mounts and I/O daemons killed"
far_timeout=20
for name in "${far[@]}"; do
    stop_mount "$name"
    start_far "$name"
done
harm $((count / 8)) cut_with_servers_away lost
[ "$lost" -gt 0 ] || fail "nobody was cut off for so long that he lost his leases while I/O daemons were away"
note "links cut for longer than a lease period while I/O daemons are away"
cluster_end
