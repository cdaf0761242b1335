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
start_mount one io_timeout=4s # Shorter than a pause that nobody ends.
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
# Until all hold still: those who are at something for longer are tried again.
paused() { # NAME
    local i
    for i in 1 2 3 4 5; do
        echo pause >&"${say_mover[$1]}"
        hear_step "$1"
        [ "$answer" != good ] || break
    done
    [ "$answer" = good ] || fail "the writers do not hold still: $answer"
    step "$1" begin good
    step "$1" copy good
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
    began=$(now_ms)
    go_round
    within_ms "$began" 15000 "the end of a pause that nobody ends"
    [ $(($(now_ms) - began)) -ge 2000 ] || fail "nobody held still for $file"
    step m commit 'EBUSY|EAGAIN'
    moved "$file" no
    end_mover m
done
note "pauses that nobody ends"

# ---- Nobody was wrong ----

for file in log blocks database.one; do
    flip "$file"
    start_mover m "$here" "$file"
    paused m
    step m commit good
    moved "$file" yes
    end_mover m
    go_round
done
# Who says that he is done without having moved it.
flip log
start_mover m "$here" log
paused m
step m resume good
began=$(now_ms)
go_round
within_ms "$began" 3000 "what was not moved"
step m commit 'EBUSY|EAGAIN'
moved log no
end_mover m
note "files that move, and one that does not"

# ---- Who copies dies ----

for steps in 1 2 3; do
    flip log
    start_mount copier
    start_mover m "$mnt" log
    step m pause good
    [ "$steps" -lt 2 ] || step m begin good
    [ "$steps" -lt 3 ] || step m copy good
    crash mount-copier
    umount -l "$mnt"
    began=$(now_ms)
    go_round
    within_ms "$began" 8000 "the end of a pause whose mount was killed"
    moved log no
    kill -9 "${mover_of[m]}" 2>/dev/null || true
    end_mover m
done
flip blocks
start_mover m "$here" blocks # Only the program.
paused m
kill -9 "${mover_of[m]}"
began=$(now_ms)
go_round
within_ms "$began" 4000 "the end of a pause whose program was killed"
moved blocks no
end_mover m
note "who copies was killed"

# ---- A mount that holds still stands still, and misses the end ----

for stopped_ms in 1500 9000; do # Longer than its lease, and than its session.
    flip log
    start_mover m "$here" log
    paused m
    kill -STOP "${pid_of[mount-two]}"
    step m commit good
    moved log yes
    end_mover m
    sleep $((stopped_ms / 1000)).$((stopped_ms % 1000 / 100))
    kill -CONT "${pid_of[mount-two]}"
    go_round
    flip log
    start_mover m "$here" log
    paused m
    kill -STOP "${pid_of[mount-two]}"
    sleep $((stopped_ms / 1000 + 5)).$((stopped_ms % 1000 / 100)) # The pause is over.
    step m commit 'EBUSY|EAGAIN'
    moved log no
    kill -CONT "${pid_of[mount-two]}"
    end_mover m
    go_round
done
# The file has moved again meanwhile, when nobody heard of that mount any more.
flip log
start_mover m "$here" log
paused m
kill -STOP "${pid_of[mount-two]}"
sleep 13
end_mover m
start_mover m "$here" log
paused m
step m commit good
moved log yes
end_mover m
kill -CONT "${pid_of[mount-two]}"
go_round
note "a mount stood still"

# ---- Cut off ----

flip log
start_mover m "$here" log
paused m
cut_link far
step m commit good
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
within_ms "$began" 6000 "a pause that is refused"
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
        step m pause good
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
step m commit good
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
    paused m
    step m commit good
    end_mover m
    exec {open}>&-
done
end_writers # Those of "log" and the others hear of the loss of what is not synced, which is not the matter here.
written_are_right "$here/files"
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
fsck_clean
cluster_end
