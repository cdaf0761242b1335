#!/bin/bash
# The manager is killed every few seconds, for as long as this runs. All the same what is deleted gives back its space: as soon as all mounts
# that may have it open are back, and when one never comes back, after some of these lives. And what is deleted while it is open stays
# readable, also where its mount cannot come back for two of them.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin restarts "$1"
session_ms=15000
start_cluster 2 --lease-time 1s --session-time ${session_ms}ms --heartbeat 300ms
life_s=3.5 # Not so long that one life of the manager were enough, and longer than a mount takes to come back.
round_bytes=$((8 << 20))
kept_bytes=$((1 << 20))

start_mount a
start_mount b nocache
start_mount away nocache
start_mount lost nocache

# What the files take on the disks of the servers.
used_bytes() {
    find "$work"/iod*/objects -type f -printf '%b\n' 2>/dev/null | awk '{ sum += $1 * 512 } END { print sum + 0 }'
}

# hold NAME: a process holds a file open through the mount, whose name goes. Told to "read" it reads all of it from the servers.
hold() {
    mkfifo "$work/$1.ask" "$work/$1.answer"
    python3 -c '
import hashlib, os, sys
path, count = sys.argv[1], int(sys.argv[2])
content = os.urandom(count)
fd = os.open(path, os.O_CREAT | os.O_RDWR)
assert os.pwrite(fd, content, 0) == count
os.fsync(fd)
os.unlink(path)
print("held", flush=True)
for line in sys.stdin:
    if line == "end\n":
        break
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        print("well" if os.pread(fd, count + 1, 0) == content else "other bytes", flush=True)
    except OSError as e:
        print(e, flush=True)
' "$work/mnt/$1/held-$1" "$kept_bytes" <"$work/$1.ask" >"$work/$1.answer" 2>"$work/log/holder-$1" &
    children+=("$!")
    holder_of[$1]=$!
    exec {to}>"$work/$1.ask" {from}<"$work/$1.answer"
    to_of[$1]=$to from_of[$1]=$from
    hears "$1" held
}
declare -A holder_of=() to_of=() from_of=()

# hears NAME WORD
hears() {
    local word=
    read -r -t 60 word <&"${from_of[$1]}" || fail "who holds a file open through mount $1 does not answer: $(cat "$work/log/holder-$1")"
    [ "$word" = "$2" ] || fail "what is held open through mount $1: $word"
}
is_readable() {
    echo read >&"${to_of[$1]}"
    hears "$1" well
}

# One life of the manager: files are written and deleted through two mounts, what is held through those of `reading` is read, and it is killed.
lives=0
reading=(a b away lost)
live() {
    local mount number born
    start_meta
    born=$(now_ms)
    lives=$((lives + 1))
    for mount in a b; do
        for number in 1 2; do
            head -c $((round_bytes / 4)) /dev/zero | tr '\0' x >"$work/mnt/$mount/$lives-$number" || fail "a file could not be written in life $lives"
            [ "$number" = 1 ] || sync "$work/mnt/$mount/$lives-$number"
        done
        rm "$work/mnt/$mount/$lives"-[12]
    done
    for mount in "${reading[@]}"; do is_readable "$mount"; done
    while [ $(($(now_ms) - born)) -lt "${life_s/./}00" ]; do sleep 0.1; done
    crash meta
}

# lives_until LIVES WHAT BYTES: at most so many until what is used is no more than what is held, BYTES, and what one life has deleted last.
lives_until() {
    local most=$1 what=$2 held=$3 begun=$lives
    while [ "$(used_bytes)" -gt $((held + round_bytes)) ]; do
        [ $((lives - begun)) -lt "$most" ] || fail "$what: still $(used_bytes) bytes after $most lives of the manager"
        live
    done
    note "$what: $((lives - begun)) lives of the manager, $(used_bytes) bytes are used"
}

for name in a b away lost; do hold "$name"; done
held=$((4 * kept_bytes))
[ "$(used_bytes)" -ge "$held" ] || fail "what is held takes $(used_bytes) bytes"
crash meta

# All mounts come back each time: what a life deletes is gone at the end of the next one.
for _ in 1 2 3 4; do live; done
lives_until 2 "all mounts come back" "$held"

# One cannot come back for two lives, and may have any of it open.
before=$(used_bytes)
kill -STOP "${pid_of[mount-away]}"
reading=(a b lost)
live
live
[ "$(used_bytes)" -ge $((before + round_bytes)) ] || fail "space was given back while a mount was away: $(used_bytes) bytes, and before $before"
kill -CONT "${pid_of[mount-away]}"
reading=(a b away lost)
live
lives_until 4 "a mount was away for two lives" "$held"

# One never does. Its session ends although no life of the manager is as long, and what it held open goes, too.
crash mount-lost
umount -l "$work/mnt/lost"
reading=(a b away)
live
[ "$(used_bytes)" -ge "$held" ] || fail "what a mount held open was deleted at once"
held=$((held - kept_bytes))
lives_until 16 "a mount is lost" "$held"
note "$lives lives of the manager of $life_s s, and sessions of $session_ms ms"

# In peace everything goes.
start_meta
for name in a b away; do
    echo end >&"${to_of[$name]}"
    wait "${holder_of[$name]}" || fail "the holder of $name: $(cat "$work/log/holder-$name")"
done
all_is_gone() {
    [ "$(used_bytes)" = 0 ]
}
wait_for 60 "everything that was deleted is gone" all_is_gone
fsck_clean
cluster_end
