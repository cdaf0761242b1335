#!/bin/bash
# What a mount has begun to change, and a storage server has not heard of yet, is waited for before the file holds still there, or the file is not moved: so
# it is never done where the file lay.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin recopy_writers_slow "$1"
start_cluster 2 --lease-time 20s --session-time 60s
start_host far
start_relay far --delay "$work/delay"
start_near_and_far
lib=$(cd "$(dirname "$0")/../lib" && pwd)
mkdir "$near/d"
policy "$near/d" stripe_width=1
head -c 1000000 /dev/urandom >"$work/model"
cat >"$work/change.py" <<'PY'
import ctypes, os, sys
fd, how = os.open(sys.argv[1], os.O_RDWR), sys.argv[2]
print("open", flush=True)
sys.stdin.readline()
if how == "write":
    assert os.pwrite(fd, b"x" * 5000, 300000) == 5000
elif how == "cut":
    os.ftruncate(fd, 500000)
elif how == "punch":
    assert ctypes.CDLL(None).fallocate(fd, 3, ctypes.c_long(100000), ctypes.c_long(200000)) == 0
elif how == "append":
    os.lseek(fd, 0, os.SEEK_END)
    assert os.write(fd, b"y" * 5000) == 5000
print("changed", flush=True)
sys.stdin.readline()
PY
was_delayed() {
    [ -s "$work/delay" ]
}
for how in write cut punch append; do
    cp "$work/model" "$work/$how"
    cp "$work/model" "$near/d/$how"
    exec {first}>>"$near/d/$how" # Written to here, too: so the other mount has no lease, which it could not give back while it waits for the server.
    rm -f "$work/run/say" "$work/run/hear"
    mkfifo "$work/run/say" "$work/run/hear"
    python3 "$work/change.py" "$far/d/$how" "$how" <"$work/run/say" >"$work/run/hear" 2>"$work/change.err" &
    changer=$!
    children+=("$changer")
    exec {say}>"$work/run/say" {hear}<"$work/run/hear" {kept}<"$near/d/$how" # It is a shared one.
    read -r -t 30 _ <&"$hear"
    exec {first}>&-
    : >"$work/delay"
    echo >&"$say"
    wait_for 30 "a change that is under way" was_delayed
    moved=$(timeout 60 python3 "$lib/mover.py" "$near/d/$how" 1)
    [ "$moved" = 0 ] || fail "$how: moved while a change was under way"
    rm "$work/delay"
    read -r -t 30 word <&"$hear" || fail "$how: $(cat "$work/change.err")"
    [ "$word" = changed ] || fail "$how: $word"
    moved=$(timeout 60 python3 "$lib/mover.py" "$near/d/$how" 3)
    [ "$moved" -ge 1 ] || fail "$how: not moved, now that nothing is under way"
    exec {say}>&- {hear}<&- {kept}<&-
    python3 "$work/change.py" "$work/$how" "$how" <<<$'\n\n' >/dev/null
    cmp "$near/d/$how" "$work/$how" || fail "$how: the change is lost"
    cmp "$far/d/$how" "$work/$how" || fail "$how: the change is lost"
    kill "$changer" 2>/dev/null || true
    wait "$changer" 2>/dev/null || true
done
fsck_clean
cluster_end
