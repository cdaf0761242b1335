#!/bin/bash
# A cluster as users get it who say nothing, four I/O daemons, under work through three mounts of which every byte is verified, while one thing after the
# other goes wrong: a daemon is killed, frozen or restarted in good order, the manager too; links are cut, to one host, between two, and in one direction; a
# disk is full; blocks are damaged; the manager is killed while one of them is away. The work: random calls on files of their own (own_files.py), and writers on one mount with readers on another one who see
# no older bytes (steady.py). No call may fail but for a full disk, none may hang. In the end all copies are equal, fsck finds nothing, and a mount that has
# seen nothing of it finds all that was acknowledged.
#
#   torture.sh BUILD [MINUTES]      each kind of fault once, on whom and in which order is drawn from the seed; with MINUTES again and again until these
#                                   are over. scripts/torture BUILD SEED is that
#
# Needs root, network namespaces and loop devices.
set -euo pipefail
lib=$(cd "$(dirname "$0")/../lib" && pwd)
# shellcheck source=tests/lib/cluster.sh
. "$lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$lib/replicas.sh"
# shellcheck source=tests/lib/net.sh
. "$lib/net.sh"
cluster_begin torture "$1"
minutes=${2:-0} servers=4 reserve_bytes=$((64 << 20)) call_ms_max=60000
[ "$minutes" = 0 ] || again="scripts/torture $build $test_seed $minutes"
new_copies=
declare -A happened=([kills]=0 [freezes]=0 [cuts]=0 [restarts]=0 [full]=0 [damaged]=0) # How often.

# draw N: one of 1 to N.
draw() {
    drawn=$((RANDOM % $1 + 1))
}

work_progress() {
    tail -n 1 "$work/own.progress"
}
work_beyond() {
    local now
    now=$(work_progress)
    [ "${now:-0}" -ge "$1" ] || ! kill -0 "$working" 2>/dev/null
}
# own_go_on COUNT: so many more operations on own files end, and a hundred is the least that is seen.
own_go_on() {
    local before
    before=$(work_progress)
    wait_for 120 "$fault: $1 more operations behind ${before:-0}" work_beyond $((${before:-0} + $1))
    kill -0 "$working" 2>/dev/null || fail "$fault: the work has ended: $(cat "$work/own.json")"
}
# work_goes_on COUNT: and so many writes that others read.
work_goes_on() {
    own_go_on "$1"
    goes_on "$1"
}

# begin SERVER: what is under way to a disk that fills up goes to its reserve.
begin() {
    start_iod "$1" --reserve "$reserve_bytes"
}

kill_daemon() {
    crash "$1"
    happened[kills]=$((happened[kills] + 1))
}
# frozen_while DAEMON COMMAND...: it runs no more until the command ends.
frozen_while() {
    local daemon=$1
    shift
    kill -STOP "${pid_of[$daemon]}"
    "$@"
    kill -CONT "${pid_of[$daemon]}"
    happened[freezes]=$((happened[freezes] + 1))
}
# cut_while CUT...: and the work goes on.
cut_while() {
    "$@"
    work_goes_on 200
    mend_net
    happened[cuts]=$((happened[cuts] + 1))
}
stop_daemon() {
    stop "$1"
    happened[restarts]=$((happened[restarts] + 1))
}

killed() {
    kill_daemon "iod$victim"
    work_goes_on 200
    begin "$victim"
}
killed_and_back() {
    kill_daemon "iod$victim"
    begin "$victim"
}
frozen() {
    frozen_while "iod$victim" work_goes_on 200
}
cut_from_all() {
    cut_while cut_off "iod$victim"
}
cut_from_one() {
    cut_while cut_between "iod$victim" "iod$other"
}
unheard() {
    cut_while cut_way "iod$victim" all
}
deaf() {
    cut_while cut_way all "iod$victim"
}
cut_from_a_mount() {
    cut_while cut_between "iod$victim" mount-b
}
restarted() {
    stop_daemon "iod$victim"
    work_goes_on 100
    begin "$victim"
}
# Until the space is there again, and all is as before, a call may say that there is none.
full() {
    local disk=$work/disk-iod$victim space
    touch "$work/full"
    space=$(($(stat -f -c '%a * %S' "$disk")))
    fallocate -l $((space - reserve_bytes - (4 << 20))) "$disk/filler" || fail "$fault: the disk has $space bytes"
    own_go_on 500
    rm "$disk/filler"
    within 30 groups_are_well || { # A copy that was closed for want of space waits for a start of its daemon.
        note "server $victim did not go on by itself"
        stop "iod$victim"
        begin "$victim"
    }
    seen_well
    wait_for 60 "$fault: there is space again" space_everywhere
    rm "$work/full"
    happened[full]=$((happened[full] + 1))
}
# Who orders hears of the space of others a moment later: files on all groups.
space_everywhere() {
    local i
    for i in {1..24}; do
        dd if=/dev/zero of="$work/mnt/a/probe" bs=1M count=4 conv=fsync status=none || return 1
        rm "$work/mnt/a/probe"
    done
}
# Blocks of some objects of one server, while all others are good; found and repaired before anything else goes wrong.
damaged() {
    local object count=0
    draw 32767
    while read -r object; do
        [ "$(stat -c %s "$object" 2>/dev/null || echo 0)" -gt 8192 ] || continue
        flip "$object" 0 2>/dev/null || continue # It may have been deleted meanwhile.
        count=$((count + 1))
    done < <(find "$work/iod$victim/objects" -type f | shuf --random-source=<(yes "$drawn") -n 8)
    note "$count objects were damaged"
    happened[damaged]=$((happened[damaged] + count))
    work_goes_on 100
    verified
}
meta_killed() {
    kill_daemon meta
    start_meta
}
meta_frozen() {
    frozen_while meta sleep 2 # This is what is tested: less than a lease period.
}
meta_restarted() {
    stop_daemon meta
    start_meta
}

# The manager as well, while a server is away: who is left knows what was decided before.
meta_killed_meanwhile() {
    kill_daemon meta
    start_meta
    work_goes_on 100
}
cut_and_meta_killed() {
    cut_off "iod$victim"
    meta_killed_meanwhile
    mend_net
    happened[cuts]=$((happened[cuts] + 1))
}
frozen_and_meta_killed() {
    frozen_while "iod$victim" meta_killed_meanwhile
}
killed_and_meta_killed() {
    kill_daemon "iod$victim"
    meta_killed_meanwhile
    begin "$victim"
}

# What differs or is damaged is found, and made good: of damage there may be some, of difference none.
verified() {
    local found
    seen_well
    found=$(timeout 600 "$bin/morsel" recover verify --all --wait --json --manager="$manager") || true
    [ "$(jq '.done and .differing == 0' <<<"$found")" = true ] || fail "$fault: copies differ: $found"
}

[ "$(id -u)" = 0 ] || skip "needs root for loop devices"
fault="no fault"
start_net
join_net meta mount-a mount-b mount-c
for ((i = 1; i <= servers; i++)); do
    join_net "iod$i"
    own_disk "iod$i" 4G # What is deleted keeps its space until all mounts are back at a manager that was killed, and longer where one is cut off.
done
start_meta
for ((i = 1; i <= servers; i++)); do begin "$i"; done
wait_for 60 "$servers servers are up" servers_up "$servers"
for name in a b c; do start_mount "$name"; done
seen_well
: >"$work/own.progress"
python3 "$lib/own_files.py" "$test_seed" "$work/own.progress" "$work/full" "$work/sums" "$work"/mnt/[abc] >"$work/own.json" &
working=$!
children+=("$working")
start_steady "$work/mnt/a" "$work/mnt/b" --full "$work/full" --seconds $((minutes * 60 + 36000))
work_goes_on 200

kinds=(killed killed_and_back frozen cut_from_all cut_from_one unheard deaf cut_from_a_mount restarted full damaged meta_killed meta_frozen meta_restarted
    killed_and_meta_killed frozen_and_meta_killed cut_and_meta_killed)
# All kinds, in another order each time.
shuffle() {
    local i taken
    deck=("${kinds[@]}")
    for ((i = ${#deck[@]}; i > 1; i--)); do
        draw "$i"
        taken=${deck[drawn - 1]} deck[drawn - 1]=${deck[i - 1]}
        deck[i - 1]=$taken
    done
}
# it_happens KIND: on whom is drawn; then all is as before.
it_happens() {
    draw "$servers"
    victim=$drawn
    draw $((servers - 1))
    other=$(((victim - 1 + drawn) % servers + 1))
    count=$((count + 1))
    fault="$count: $1 $victim $other"
    note "$fault, $(work_progress) operations"
    "$1"
    work_goes_on 100
    seen_well
}
over() {
    [ "$count" -ge ${#kinds[@]} ] && [ "$(now_ms)" -ge "$until" ]
}
until=$(($(now_ms) + minutes * 60000)) count=0
until over; do
    shuffle
    for kind in "${deck[@]}"; do
        over || it_happens "$kind"
    done
done

# at_least WHAT FLOOR HAPPENED
at_least() {
    [ "$3" -ge "$2" ] || fail "only $3 $1, and at least $2 are needed to believe the rest"
}
fault="in the end"
kill -TERM "$working"
wait "$working" || fail "the work: $(cat "$work/own.json")"
end_steady "$count faults"
note "$(cat "$work/own.json")"
of() {
    jq "$2" "$work/$1.json"
}
for what in kills=7 freezes=3 cuts=6 restarts=2 full=1 damaged=1; do
    at_least "${what%=*}" "${what#*=}" "${happened[${what%=*}]}"
done
at_least "operations on own files" 3000 "$(of own .operations)"
at_least "calls that met the full disk" 1 $(($(of own .refused_full) + $(of steady .refused_full)))
at_least "bytes written" $((128 << 20)) "$(of own .written)"
at_least "bytes read and verified" $((256 << 20)) "$(of own .verified)"
at_least "writes that others read" 3000 "$(of steady .writes)"
at_least "reads beside writers" 3000 "$(of steady .reads)"
for longest in "$(of own .longest_ms)" "$(of steady '[.longest_ms[]] | max')"; do
    [ "$longest" -lt "$call_ms_max" ] || fail "a call took $longest ms, and must not take $call_ms_max"
done
one_set_an_epoch
verified
fsck_clean
for name in a b c; do stop_mount "$name"; done
start_mount fresh
(cd "$mnt" && sha256sum --check --quiet "$work/sums") || fail "$fault: a fresh mount finds other bytes"
note "$(wc -l <"$work/sums") files are as they were acknowledged, through a fresh mount; $count faults:$(for what in "${!happened[@]}"; do printf ' %s %s' "${happened[$what]}" "$what"; done)"
cluster_end
