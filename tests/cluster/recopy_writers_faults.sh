#!/bin/bash
# A file moves that other mounts write to, and somebody dies, stands still or is cut off between any two steps of that: who copies, a mount that holds
# still, the manager. No program sees an error but those of a mount that dies, no byte is lost or older, and nobody waits for longer than for the pause and
# a lease period.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
# shellcheck source=tests/lib/writers.sh
. "$(dirname "$0")/../lib/writers.sh"
cluster_begin recopy_writers_faults "$1"
for disk in iod1 iod2; do
    own_disk "$disk" 800M
done
start_host far
listen_for_host
start_cluster 2 --lease-time 1s --session-time 6s
start_mount here
here=$mnt
start_mount one
one=$mnt
inject=("${on_host[@]}")
start_mount two
two=$mnt
inject=()
make_written_files "$here/files"
start_writers one "$one/files"
start_writers two "$two/files" log # What is not held still when this mount is stopped, or cut off, may well see an error.
policy "$here/files" replicas=2
seen_well

# A file that is written to by both, and one that only one of them writes to.
declare -A mover_of say_mover hear_mover
start_mover() { # NAME MOUNT FILE
    mkfifo "$work/run/say.$1" "$work/run/hear.$1"
    python3 "$source_dir/tests/lib/mover.py" "$2/files/$3" <"$work/run/say.$1" >"$work/run/hear.$1" 2>"$work/mover.err" &
    mover_of[$1]=$!
    children+=("$!")
    exec {fd}>"$work/run/say.$1"
    say_mover[$1]=$fd
    exec {fd}<"$work/run/hear.$1"
    hear_mover[$1]=$fd
    rm "$work/run/say.$1" "$work/run/hear.$1"
    hear_step "$1"
    [ "$answer" = ready ] || fail "mover: $answer $(cat "$work/mover.err")"
}
hear_step() {
    answer=
    read -r -t 60 answer <&"${hear_mover[$1]}" || fail "mover $1 does not answer: $(cat "$work/mover.err")"
}
step() { # NAME STEP ANSWER
    echo "$2" >&"${say_mover[$1]}"
    hear_step "$1"
    [[ $answer =~ ^($3)$ ]] || fail "$2: $answer, not $3"
}
end_mover() { # NAME
    local fd=${say_mover[$1]}
    (echo end >&"$fd") 2>/dev/null || true # It may have been killed.
    exec {fd}>&-
    fd=${hear_mover[$1]}
    exec {fd}<&-
    wait "${mover_of[$1]}" || true
}
# How long they hold still, in $held_ms. No process is started for that: when it ends it closes its copies of the files that this script has open, and
# waits as long as one of them holds still.
for_how_long() {
    held_ms=$((${EPOCHREALTIME/./} / 1000 - held_since))
}
# The manager lets them hold still for 5 s: on a busy machine, what comes behind 4 may find that over, and the mount that copies may lose its lease of a
# second before. try_again NAME WHAT: it was refused for that, or the test has failed. Who is given no lease, or no pause, is so each time.
try_again() {
    local told=$answer
    for_how_long
    [[ $told == EAGAIN || $told == good || $told == EBUSY ]] || fail "$2: $told, not good"
    [ "$told" = EAGAIN ] || [ "$held_ms" -ge 4000 ] || fail "$2: $told behind $held_ms ms, though all hold still"
    step "$1" resume good
    note "$2: $told behind $held_ms ms: again"
}
# Until all hold still: those who are at something for longer are tried again.
hold_still() { # NAME
    local until=$((SECONDS + 60))
    answer=
    while [ "$answer" != good ]; do
        [[ $answer =~ ^(EBUSY|EAGAIN|)$ ]] && [ $SECONDS -lt $until ] || fail "the writers do not hold still: $answer"
        echo pause >&"${say_mover[$1]}"
        hear_step "$1"
    done
    held_since=$((${EPOCHREALTIME/./} / 1000))
}
# They do, and the file is copied: within the time of the pause.
paused() { # NAME
    local try
    for try in 1 2 3 4 5; do
        hold_still "$1"
        echo begin >&"${say_mover[$1]}"
        hear_step "$1"
        if [ "$answer" = good ]; then
            step "$1" copy good
            for_how_long
            [ "$held_ms" -ge 4000 ] || return 0
        fi
        try_again "$1" "begin, try $try"
    done
    fail "no copy within the time of a pause"
}
# It is moved while all hold still and, where that is given, behind WHAT, which BACK takes back.
moves() { # NAME [WHAT BACK]
    local try
    for try in 1 2 3 4 5; do
        paused "$1"
        ${2:-true}
        echo commit >&"${say_mover[$1]}"
        hear_step "$1"
        [ "$answer" != good ] || return 0
        ${3:-true}
        try_again "$1" "commit, try $try"
    done
    fail "no commit within the time of a pause"
}
place_of() {
    getfattr --absolute-names --only-values -n user.morsel.layout "$here/files/$1"
}
flip() { # FILE: it is to have another number of copies than it has.
    local now
    now=$(place_of "$1")
    copies=$([[ $now == *replicas=2* ]] && echo 1 || echo 2)
    policy "$here/files" replicas=$copies
}
moved() { # FILE yes|no, seen by who asks now.
    local now
    now=$(place_of "$1")
    case $2 in
    yes) [[ $now == *replicas=$copies* ]] || fail "$1 was not moved: $now" ;;
    no) [[ $now != *replicas=$copies* ]] || fail "$1 was moved: $now" ;;
    esac
}
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
all_move "$here/files"
within_ms() { # BEGAN MOST WHAT
    local took=$(($(now_ms) - $1))
    [ "$took" -lt "$2" ] || fail "$3 took $took ms"
}

# ---- The time of a pause is over ----

for file in log overwrite.one; do
    flip "$file"
    start_mover m "$here" "$file"
    paused m
    go_round "$file"
    for_how_long
    [ "$held_ms" -lt 15000 ] || fail "the end of a pause that nobody ends took $held_ms ms"
    [ "$held_ms" -ge 2000 ] || fail "nobody held still for $file"
    go_round
    step m commit 'EBUSY|EAGAIN'
    moved "$file" no
    end_mover m
done
# A call that waits for longer than its mount waits for servers.
head -c 100000 /dev/urandom | tee "$work/brief" >"$here/files/brief"
start_mount brief io_timeout=4s
exec {brief}>>"$mnt/files/brief"
start_mover m "$here" brief
for try in 1 2 3; do # Each time it is waited for that long; a busy machine may be late besides.
    hold_still m
    if echo more >&"$brief"; then
        echo more >>"$work/brief"
        break
    fi
    [ "$try" -lt 3 ] || fail "who wrote to a file that holds still for longer than io_timeout met an error"
done
for_how_long
[ "$held_ms" -ge 2000 ] || fail "who wrote to a file that holds still did not wait"
end_mover m
exec {brief}>&-
stop_mount brief
cmp "$here/files/brief" "$work/brief" || fail "what was written while a file held still is not there"
note "pauses that nobody ends"

# ---- Nobody was wrong ----

for file in log blocks database.one; do
    flip "$file"
    start_mover m "$here" "$file"
    moves m
    moved "$file" yes
    end_mover m
    go_round
done
# Who says that he is done without having moved it.
flip log
start_mover m "$here" log
resumed() { # And not at the end of the pause's time.
    paused m
    step m resume good
    go_round log
    for_how_long
    took=$held_ms
}
in_time 4000 "what was not moved" resumed
step m commit 'EBUSY|EAGAIN'
moved log no
end_mover m
note "files that move, and one that does not"

# ---- Who copies dies ----

for steps in 1 2 3; do
    flip log
    start_mount copier
    start_mover m "$mnt" log
    if [ "$steps" -lt 3 ]; then
        hold_still m
        [ "$steps" -lt 2 ] || step m begin 'good|EBUSY|EAGAIN' # The time may be over.
    else
        paused m
    fi
    crash mount-copier
    umount -l "$mnt"
    go_round log
    within_ms "$held_since" 15000 "the end of a pause whose mount was killed"
    go_round
    moved log no
    kill -9 "${mover_of[m]}" 2>/dev/null || true
    end_mover m
done
flip blocks
program_dies() {
    start_mover m "$here" blocks
    paused m
    kill -9 "${mover_of[m]}"
    go_round blocks
    for_how_long
    took=$held_ms
    end_mover m
}
in_time 4000 "the end of a pause whose program was killed" program_dies
moved blocks no
go_round
note "who copies was killed"

# ---- A mount that holds still stands still, and misses the end ----

two_stands() {
    kill -STOP "${pid_of[mount-two]}"
}
two_goes_on() {
    kill -CONT "${pid_of[mount-two]}"
}
times_gone() { # So often the manager has ended a session.
    grep -c 'is gone: no word from it within the session time' "$work/log/meta" || true
}
is_gone() {
    [ "$(times_gone)" -gt "$gone" ]
}
# It stands still while it holds the file still, and not behind the end of the pause's time.
stands_held() { # NAME
    local try
    for try in 1 2 3 4 5; do
        paused "$1"
        gone=$(times_gone)
        two_stands
        for_how_long
        [ "$held_ms" -ge 4000 ] || return 0
        two_goes_on
        try_again "$1" "a mount that stands still, try $try"
    done
    fail "no mount was stopped within the time of a pause"
}
killed_are_gone() {
    [ "$(times_gone)" -ge 3 ]
}
wait_for 60 "the sessions of the mounts that were killed are over" killed_are_gone
for stopped in lease session; do # Longer than its lease, and than its session.
    flip log
    start_mover m "$here" log
    gone=$(times_gone)
    moves m two_stands two_goes_on
    moved log yes
    end_mover m
    if [ $stopped = lease ]; then
        sleep 1.5
    else
        wait_for 60 "the session of a mount that stands still is over" is_gone
    fi
    two_goes_on
    go_round
    flip log
    start_mover m "$here" log
    stands_held m
    if [ $stopped = lease ]; then
        sleep 6.5 # The pause is over.
    else
        wait_for 60 "the session of a mount that stands still is over" is_gone
        sleep 5
    fi
    step m commit 'EBUSY|EAGAIN'
    moved log no
    two_goes_on
    end_mover m
    go_round
done
# The file has moved again meanwhile, when nobody heard of that mount any more.
flip log
start_mover m "$here" log
stands_held m
wait_for 60 "the session of a mount that stands still is over" is_gone
end_mover m
start_mover m "$here" log
moves m
moved log yes
end_mover m
two_goes_on
go_round
note "a mount stood still"

# ---- Cut off ----

flip log
start_mover m "$here" log
moves m "cut_link far" "mend_link far"
moved log yes
end_mover m
sleep 2
mend_link far
go_round
head -c 100000 /dev/urandom >"$here/files/idle"
exec {idle}<>"$two/files/idle"
flip idle
start_mover m "$here" log # Who writes there is to see no error.
paused m
start_mover n "$here" idle
cut_link far
began=$(now_ms)
step n pause EBUSY # Nobody answers there.
within_ms "$began" 10000 "a pause that is refused"
end_mover n
end_mover m
mend_link far
exec {idle}>&-
go_round
moved idle no
note "a mount was cut off"

# ---- The manager ----

for when in paused copied committing; do
    flip log
    start_mover m "$here" log
    if [ "$when" = paused ]; then
        hold_still m
    else
        paused m
    fi
    if [ "$when" = committing ]; then
        kill -STOP "${pid_of[meta]}"
        echo commit >&"${say_mover[m]}"
        sleep 0.3
    fi
    crash meta
    sleep 0.5
    start_meta
    case $when in
    paused) step m begin 'good|EBUSY|EAGAIN' ;;
    copied) step m commit 'EBUSY|EAGAIN|EIO' ;;
    committing) hear_step m ;;
    esac
    told=$answer
    go_round
    [ "$when" = committing ] || moved log no
    end_mover m
done
note "the manager was killed, and who committed was told: $told"

# ---- A mount that holds still dies ----

mkdir "$here/files/dead"
head -c 262144 /dev/urandom >"$here/files/dead/file"
policy "$here/files/dead" replicas=$((3 - copies))
start_mount dead
exec {dead}<>"$mnt/files/dead/file"
head -c 5000 /dev/urandom | tee "$work/dead" >&"$dead"
start_mover m "$here" dead/file
paused m
crash mount-dead
echo commit >&"${say_mover[m]}"
hear_step m
if [ "$answer" != good ]; then # Nobody but who is dead had it open.
    try_again m commit
    moves m
fi
moved_to=$(place_of dead/file)
[[ $moved_to == *replicas=$((3 - copies))* ]] || fail "what a dead mount had open was not moved: $moved_to"
end_mover m
exec {dead}>&- || true
umount -l "$mnt"
cmp -n 5000 "$here/files/dead/file" "$work/dead" || fail "what was written through a mount that died is not there"
note "a mount that held still was killed"

# ---- The servers lose their power behind the exchange ----

mkdir "$here/files/power"
head -c 300000 /dev/urandom >"$work/power"
for copies in 1 2; do
    policy "$here/files/power" replicas=$((3 - copies)) stripe_width=2
    cp "$work/power" "$here/files/power/$copies"
    exec {open}<>"$two/files/power/$copies"
    head -c 5000 /dev/urandom >&"$open"
    python3 -c 'import os, sys; os.fsync(int(sys.argv[1]))' "$open"
    cp "$one/files/power/$copies" "$work/power.$copies"
    policy "$here/files/power" replicas=$copies
    start_mover m "$here" power/$copies
    moves m
    end_mover m
    exec {open}>&-
done
end_writers # Those of "log" and the others hear of the loss of what is not synced, which is not the matter here.
written_are_right "$here/files"
fsck_clean
lose_power iod1
lose_power iod2
start_iod 1
start_iod 2
wait_for 60 "the servers are with the manager" running_are_up
seen_well
drop_caches
for copies in 1 2; do
    [[ $(place_of power/$copies) == *replicas=$copies* ]] || fail "power/$copies was not moved"
    cmp "$one/files/power/$copies" "$work/power.$copies" || fail "what was synced before the file moved is not there"
done
note "the servers lost their power"

written_are_right "$here/files" "$one/files" "$two/files"
collected() { # What was deleted just before a loss of power may be back (docs/status.md, Known limits).
    morsel fsck --repair >"$work/mended" 2>&1 || true
    morsel fsck >"$work/fsck" 2>&1
}
wait_for 60 "fsck finds nothing behind fsck --repair" collected
cluster_end
