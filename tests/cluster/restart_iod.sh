#!/bin/bash
# I/O daemons are killed under load, away, and frozen.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin restart_iod "$1"
start_cluster 4
start_mount a

mkdir "$mnt/load"
"$bin/ackload" write "$mnt/load" "$work/journal" 600 >"$work/ackload" 2>&1 &
load=$!
acknowledged() {
    [ "$(grep -cE '^(there|gone) ' "$work/journal")" -ge "$1" ]
}
kills=0
for number in 1 2 3 4 2; do
    sleep 1.$number # The moment of the blow varies; there is no event to wait for.
    kills=$((kills + 1))
    wait_for 60 "changes between the kills" acknowledged $((20 * kills))
    crash "iod$number"
    start_iod "$number"
done
kill -TERM "$load"
wait "$load" || fail "the load ended badly"
cat "$work/ackload"
[ "$(sed -nE 's/.* ([0-9]+) changes acknowledged.*/\1/p' "$work/ackload")" -ge 100 ] || fail "too few changes between the kills to show anything"
grep -q ' 0 failed' "$work/ackload" || fail "changes failed although each daemon came back in time"
drop_caches
"$bin/ackload" verify "$mnt/load" "$work/journal" || fail "after five kills of I/O daemons"
fsck_clean
note "kill and restart under load"

# One is away: its morsels give an error after io_timeout, everything else goes on.
start_mount soft io_timeout=2s
files="1 2 3 4 5 6 7 8"
mkdir "$mnt/narrow"
policy "$mnt/narrow" stripe_width=1
declare -A server_of=()
for file in $files; do # Each on one server.
    dd if=/dev/urandom of="$mnt/narrow/$file" bs=1M count=3 status=none conv=fsync
    sha256sum <"$mnt/narrow/$file" >"$work/sum$file"
    server_of[$file]=$(morsel layout --json "$mnt/narrow/$file" | grep -oE '"server": *[0-9]+' | grep -oE '[0-9]+$')
done
dd if=/dev/urandom of="$mnt/wide" bs=1M count=16 status=none conv=fsync
sha256sum <"$mnt/wide" >"$work/sumwide"
victim=${server_of[1]}

# read_narrow: $file, in $took milliseconds.
read_narrow() {
    local before
    before=$(now_ms)
    good=no
    timeout 60 sha256sum <"$mnt/narrow/$file" >"$work/sum" 2>"$work/out" && good=yes
    took=$(($(now_ms) - before))
}

read_again() {
    drop_caches
    read_narrow
    [ "$good" = yes ] || fail "file $file: $(cat "$work/out")"
}

# broken_files [SERVER]: exactly the files of this server cannot be read, and say so in time.
broken_files() {
    local file took good
    drop_caches
    for file in $files; do
        read_narrow
        if [ "${server_of[$file]}" = "${1:-}" ]; then
            [ "$good" = no ] || fail "file $file was read without its server"
            grep -q 'Input/output error' "$work/out" || fail "file $file: $(cat "$work/out")"
            [ "$took" -le 10000 ] || fail "the error for file $file came after $took ms; io_timeout is 2 s"
        else
            [ "$good" = yes ] || fail "file $file on server ${server_of[$file]}: $(cat "$work/out")"
            cmp -s "$work/sum" "$work/sum$file" || fail "wrong bytes in file $file"
            # Not as long as io_timeout. Only where that is late by a busy machine, it is read again.
            [ "$took" -lt 2000 ] || in_time 2000 "file $file, whose server is well," read_again
        fi
    done
}

# all_whole: as before.
all_whole() {
    wait_for 60 "the file over all servers is readable again" cat "$mnt/wide"
    broken_files
    cmp -s <(sha256sum <"$mnt/wide") "$work/sumwide" || fail "wrong bytes after the server's return"
}

for kind in away frozen; do
    if [ "$kind" = away ]; then crash "iod$victim"; else kill -STOP "${pid_of[iod$victim]}"; fi
    broken_files "$victim"
    if timeout 60 cat "$mnt/wide" >/dev/null 2>&1; then fail "$kind: a file over all servers was read without one"; fi
    # A write is told of it at the latest by fsync, and only of its own file.
    expect_error "Input/output error" dd if=/dev/zero of="$mnt/narrow/1" bs=64k count=1 conv=notrunc,fsync
    touch "$mnt/name-$kind" || fail "$kind: a name cannot be made without one server"
    [ -n "$(find "$mnt" -maxdepth 1 -name "name-$kind")" ] || fail "$kind: names cannot be made and listed without one server"
    grep -q "${address_of[iod$victim]}" "$work/log/mount-soft" || fail "$kind: the mount's log does not name the server"
    if [ "$kind" = away ]; then start_iod "$victim"; else kill -CONT "${pid_of[iod$victim]}"; fi
    wait_for 60 "file 1 can be written again" dd if=/dev/zero of="$mnt/narrow/1" bs=64k count=1 conv=notrunc,fsync
    sha256sum <"$mnt/narrow/1" >"$work/sum1"
    all_whole
    note "$kind: an error for its own files, nothing else, and whole after its return"
done

# Hard: it waits for ever, and lets itself be interrupted.
start_mount hard hard
for number in 1 2 3 4; do
    kill -STOP "${pid_of[iod$number]}"
done
drop_caches
cat "$mnt/wide" >/dev/null 2>"$work/out" &
reader=$!
sleep 3
kill -0 "$reader" 2>/dev/null || fail "a hard mount gave up: $(cat "$work/out")"
kill -TERM "$reader"
before=$(now_ms)
wait "$reader" 2>/dev/null && fail "the reader ended well without its servers"
took=$(($(now_ms) - before))
[ "$took" -le 5000 ] || fail "a signal took $took ms to end a waiting reader"
timeout 60 sha256sum <"$mnt/wide" >"$work/sum" &
reader=$!
sleep 1
for number in 1 2 3 4; do
    kill -CONT "${pid_of[iod$number]}"
done
wait "$reader" || fail "a hard read did not go on when the servers came back"
cmp -s "$work/sum" "$work/sumwide" || fail "wrong bytes"
note "hard: interrupted after $took ms, and goes on by itself"
fsck_clean
cluster_end
