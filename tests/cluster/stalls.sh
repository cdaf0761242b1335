#!/bin/bash
# Somebody stands still for some seconds and goes on: the manager, a mount, an I/O daemon. What he did not hear meanwhile is not held
# against others: nobody is fenced, no lease is voided, nothing is lost, and who has to wait is told for whom.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin stalls "$1"
start_cluster 2
start_mount a
a=$mnt
start_mount b
b=$mnt

# Nothing was taken from anybody.
nothing_voided() {
    if grep -hE 'was silent too long|is gone: no word|did not give back|has lost its locks' "$work/log/meta" >"$work/voided" ||
        grep -hE 'leases were lost|locks were lost|had given us up|will say EIO|did not take its new size' "$work"/log/mount-* >>"$work/voided"; then
        fail "$1: $(head -n 5 "$work/voided")"
    fi
}

# Both mounts at work while the manager stands still: files of their own, held back under leases; locks; a file that both append to.
cat >"$work/load.py" <<'PY'
import fcntl, os, signal, sys
mnt, name, shared = sys.argv[1:]
going = True
def end(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, end)
os.mkdir(f"{mnt}/{name}")
held = os.open(f"{mnt}/{name}/locked", os.O_RDWR | os.O_CREAT)
fcntl.lockf(held, fcntl.LOCK_EX)
kept = os.open(f"{mnt}/{name}/kept", os.O_RDWR | os.O_CREAT)
appended = os.open(shared, os.O_WRONLY | os.O_APPEND)
i = 0
while going:
    record = f"{name} {i:08d}\n".encode()
    os.pwrite(kept, record, len(record) * i)
    os.pwrite(held, record, 0)
    os.write(appended, record)
    fd = os.open(f"{mnt}/{name}/file{i % 50}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.write(fd, record * 100)
    os.close(fd)
    assert open(f"{mnt}/{name}/file{i % 50}", "rb").read() == record * 100, "other bytes"
    i += 1
os.fsync(kept)
os.close(held)
os.close(appended)
for n in range(i):
    assert os.pread(kept, len(record), len(record) * n) == f"{name} {n:08d}\n".encode(), f"record {n} is lost"
print(i)
PY
: >"$a/shared"
declare -A worker=()
for name in a b; do
    python3 "$work/load.py" "$work/mnt/$name" "$name" "$work/mnt/$name/shared" >"$work/load-$name" 2>&1 &
    worker[$name]=$!
    children+=("$!")
done
wait_for 60 "both mounts are at work" test -e "$a/b/file9" -a -e "$b/a/file9"
for round in 1 2; do
    kill -STOP "${pid_of[meta]}"
    sleep 6 # This is what is tested: a manager that stands still for longer than a lease period.
    kill -CONT "${pid_of[meta]}"
    before=$(stat -c %s "$a/shared")
    wait_for 60 "the mounts go on" eval '[ "$(stat -c %s "$a/shared")" -gt $((before + 2000)) ]'
    nothing_voided "the manager stood still for 6 s"
    note "round $round: the manager stood still for 6 s, and voided nothing"
done
for name in a b; do
    kill -TERM "${worker[$name]}"
    wait "${worker[$name]}" || fail "work on mount $name while the manager stood still: $(cat "$work/load-$name")"
done
nothing_voided "the manager stood still for 6 s"
for name in a b; do
    count=$(cat "$work/load-$name")
    [ "$(grep -c "^$name " "$a/shared")" = "$count" ] || fail "appends of mount $name are lost: $(grep -c "^$name " "$a/shared") of $count"
    cmp -s "$a/$name/kept" "$b/$name/kept" || fail "the mounts disagree about what $name wrote"
    note "mount $name: $count rounds of work, nothing lost"
done

# A mount stands still while the answer that extends its lease period is on its way, until behind the end of the old one: it reads before it judges.
terms_over() {
    grep -c 'nothing is cached, and nothing written' "$work/log/mount-a" || true
}
over=$(terms_over)
mkdir "$a/word"
before=$(now_ms)
kill -STOP "${pid_of[meta]}"
sleep 1.9 # The mount asks for a longer lease period meanwhile.
kill -STOP "${pid_of[mount-a]}"
kill -CONT "${pid_of[meta]}"
sleep "$(awk "BEGIN { t = 5.1 - ($(now_ms) - $before) / 1000; print (t > 0 ? t : 0) }")"
kill -CONT "${pid_of[mount-a]}"
[ -d "$a/word" ] || fail "a mount that stood still lost a name"
wait_for 60 "the mount's next look at its lease period" eval 'mkdir "$a/word/again" 2>/dev/null && sleep 0.2 && rmdir "$a/word/again"'
[ "$(terms_over)" = "$over" ] || fail "a mount that stood still did not read what the manager had granted meanwhile"
nothing_voided "a mount stood still for 3 s"
note "a mount that stood still goes on with what it had"

# An I/O daemon stands still while mount A has bytes of its own on the way to it, and B wants to read them: A is waited for, and B is told.
cat >"$work/overwrite.py" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
assert os.write(fd, b"y" * (8 << 20)) == 8 << 20
open(sys.argv[2], "w").close()
os.close(fd)
PY
for server in 1 2; do
    dd if=/dev/zero bs=1M count=8 status=none | tr '\0' 'x' >"$a/slow$server"
    kill -STOP "${pid_of[iod$server]}"
    rm -f "$work/written"
    python3 "$work/overwrite.py" "$a/slow$server" "$work/written" >"$work/overwrite" 2>&1 &
    writer=$!
    children+=("$writer")
    wait_for 60 "mount A has bytes on the way" test -e "$work/written"
    # shellcheck disable=SC2034 # used by the text that is waited for
    told=$(grep -c 'we wait for the mount at' "$work/log/mount-b" || true)
    before=$(now_ms)
    cat "$b/slow$server" >"$work/read" 2>"$work/read-error" &
    reader=$!
    children+=("$reader")
    wait_for 15 "B is told whom it waits for" eval '[ "$(grep -c "we wait for the mount at .* which still writes back" "$work/log/mount-b")" -gt $((told)) ]'
    sleep "$(awk "BEGIN { t = 8 - ($(now_ms) - $before) / 1000; print (t > 0 ? t : 0) }")"
    kill -CONT "${pid_of[iod$server]}"
    wait "$writer" || fail "A is told that its bytes are lost: $(cat "$work/overwrite")"
    wait "$reader" || fail "B could not read: $(cat "$work/read-error")"
    [ "$(tr -d y <"$work/read" | wc -c)" = 0 ] && [ "$(stat -c %s "$work/read")" = $((8 << 20)) ] ||
        fail "B does not see A's bytes: $(stat -c %s "$work/read") bytes, $(tr -d y <"$work/read" | wc -c) of them old"
    nothing_voided "an I/O daemon stood still for 8 s"
    grep -q "still writes back" "$work/log/meta" || fail "the manager does not say who makes others wait"
    note "an I/O daemon stood still for $(($(now_ms) - before)) ms: A was waited for, nothing lost"
done
# A dead holder's lease period ends all the same, the time apart in which the manager stood still.
start_mount c
c=$mnt
echo held >"$c/held"
crash mount-c
umount -l "$c" 2>/dev/null || true
before=$(now_ms)
kill -STOP "${pid_of[meta]}"
sleep 2
kill -CONT "${pid_of[meta]}"
timeout 30 bash -c 'echo afterwards >"$1/held"' - "$b" || fail "a dead holder holds up another mount"
took=$(($(now_ms) - before))
[ "$took" -lt 9500 ] || fail "a dead holder was waited for $took ms"
note "a dead holder cost $took ms, 2 s of them the manager's"

fsck_clean
cluster_end
