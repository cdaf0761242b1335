#!/bin/bash
# Tables of the manager's database are written slowly, and one mount changes so much that the memory tables are full and LevelDB would wait:
# its changes wait then, and nothing else does. What another mount looks at, opens and is told, and the word that extends its leases, take no
# longer than without.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin slow_tables "$1"
write_ms=1 # For each 4 KiB of a table: a memory table of 16 MiB takes some five seconds. More, where changes do not come as fast as that.

mkdir "$work/disk" "$work/meta"
echo 0 0 >"$work/ms"
"$bin/slow_disk" "$work/disk" "$work/meta" "$work/ms" >"$work/log/slow_disk" 2>&1 &
children+=("$!")
loop_mounts+=("$work/meta")
wait_for 60 "the slow disk is there" mountpoint -q "$work/meta"

start_cluster 1 --lease-time 3s # Long enough for a busy machine; a table takes longer.
start_mount a
a=$mnt
start_mount b
b=$mnt
mkdir "$a/many"
touch "$b/mine"

# Attributes of 4 KiB fill a memory table quickly; each thread has files of its own.
cat >"$work/write.py" <<'PY'
import os, sys, threading
directory, enough = sys.argv[1], sys.argv[2]
made = [0] * 4
def write(me):
    i = 0
    while not os.path.exists(enough):
        name = f"{directory}/{me}.{i % 100}"
        if i < 100:
            os.mknod(name, 0o100644)
        os.setxattr(name, "user.much", os.urandom(4000))
        i += 1
        made[me] = i
threads = [threading.Thread(target=write, args=(me,)) for me in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(sum(made))
PY
# look.py FILE SECONDS OUT: asks the manager for an attribute again and again: how often, how many milliseconds the slowest of a hundred took, and
# how many were spent in those that took longer than half a second.
cat >"$work/look.py" <<'PY'
import os, sys, time
name, seconds, out = sys.argv[1], float(sys.argv[2]), sys.argv[3]
took = []
end = time.monotonic() + seconds
while time.monotonic() < end and not os.path.exists(out):
    before = time.monotonic()
    try:
        os.getxattr(name, "user.none")
    except OSError:
        pass
    took.append(time.monotonic() - before)
    time.sleep(0.002)
took.sort()
print(len(took), round(took[-1 - len(took) // 100] * 1000, 1), round(sum(t for t in took if t > 0.5) * 1000))
PY
echo "0 $write_ms" >"$work/ms"
heard=$(wc -l <"$work/log/mount-b")
python3 "$work/write.py" "$a/many" "$work/enough" >"$work/written" 2>"$work/log/write" &
writer=$!
children+=("$writer")
python3 "$work/look.py" "$b/mine" 600 "$work/stop" >"$work/looked" 2>"$work/log/look" &
looker=$!
children+=("$looker")
stalled() {
    [ "$(counter disk_waits_for_room)" -ge 2 ]
}
until within 40 stalled; do
    write_ms=$((write_ms * 2))
    [ "$write_ms" -le 16 ] || fail "no change had to wait for tables"
    note "tables are written more slowly: $write_ms ms for each 4 KiB"
    echo "0 $write_ms" >"$work/ms"
done
note "changes waited $(counter disk_waits_for_room) times for tables"
touch "$work/stop" "$work/enough"
wait "$looker" || fail "questions of mount b: $(cat "$work/log/look")"
echo "0 0" >"$work/ms"
wait "$writer" || fail "changes of mount a: $(cat "$work/log/write")"
read -r asked slow late <"$work/looked"
note "$(cat "$work/written") changes; mount b asked $asked times, one in a hundred took $slow ms or more; $late ms in all were spent in those longer than half a second"
[ "$asked" -ge 20 ] || fail "mount b asked too seldom: $asked"
[ "$late" -lt 1500 ] || fail "questions of mount b waited for tables, $late ms in all"
if tail -n +"$((heard + 1))" "$work/log/mount-b" | grep -E 'has not answered|lost the connection' >"$work/unheard"; then
    fail "mount b did not hear of the manager: $(cat "$work/unheard")"
fi
if grep -E 'is down' "$work/log/meta" >"$work/down"; then
    fail "a storage server was not heard: $(cat "$work/down")"
fi
cluster_end
