#!/bin/bash
# The manager's database lies on a slow disk, and nothing of it is in memory: who asks for what must be read waits for the disk, and nobody
# else does. While one mount looks up cold names as fast as it can, another one's work and the word that extends its leases take no longer
# than without.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin cold_disk "$1"
read_ms=50
files=12000

# Its database is on the slow disk.
mkdir "$work/disk" "$work/meta"
echo 0 >"$work/read_ms"
"$bin/slow_disk" "$work/disk" "$work/meta" "$work/read_ms" >"$work/log/slow_disk" 2>&1 &
children+=("$!")
loop_mounts+=("$work/meta")
wait_for 60 "the slow disk is there" mountpoint -q "$work/meta"

start_cluster 1 --lease-time 3s # Long enough for a busy machine.
start_mount a
a=$mnt
start_mount b
b=$mnt
mkdir "$b/mine" "$a/cold"
python3 - "$a/cold" "$files" <<'PY'
import os, sys
for i in range(int(sys.argv[2])):
    os.mknod(f"{sys.argv[1]}/name{i:05d}", 0o100644)
PY
note "$files files are made"

# With the manager goes all that it had in memory; mount a goes too, and knows nothing any more.
stop_mount a
stop meta
start_meta
start_mount a
wait_for 60 "the server is back" servers_up 1

echo "$read_ms" >"$work/read_ms" # Reads that are under way end as they began.

# work.py DIRECTORY SECONDS MS FILE: pairs of changes by mount b, which ask the manager each, until the file is there: how many, how long one
# change of the middle one took, and how much of the time in a hundred went to pairs that took as long as that.
cat >"$work/work.py" <<'PY'
import os, sys, time
directory, seconds, out = sys.argv[1], float(sys.argv[2]), sys.argv[4]
took = []
begin = time.monotonic()
end = begin + seconds
while time.monotonic() < end and not os.path.exists(out):
    before = time.monotonic()
    os.mkdir(f"{directory}/d")
    os.rmdir(f"{directory}/d")
    took.append((time.monotonic() - before) / 2)
    time.sleep(0.002)
took.sort()
late = sum(2 * t for t in took if 2000 * t >= float(sys.argv[3]))
print(len(took), round(took[len(took) // 2] * 1000, 2), round(100 * late / (time.monotonic() - begin)))
PY
cat >"$work/cold.py" <<'PY'
import os, random, sys, threading
directory, files, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
names = [f"{directory}/name{i:05d}" for i in range(files)]
random.Random(int(sys.argv[4])).shuffle(names)
missing = []
def look(part):
    for name in part:
        try:
            os.lstat(name)
        except OSError as e:
            missing.append((name, e))
threads = [threading.Thread(target=look, args=(names[i::4],)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert not missing, missing[:3]
open(out, "w").write(str(len(names)))
PY
python3 "$work/work.py" "$b/mine" 3 "$read_ms" "$work/never" >"$work/alone" || fail "work of mount b"
read -r _ alone late_alone <"$work/alone"
# However slow the machine is: a read takes ten times as long as a change.
read_ms=$(awk "BEGIN { ms = int(10 * $alone); print (ms > $read_ms ? ms : $read_ms) }")
echo "$read_ms" >"$work/read_ms"
heard=$(wc -l <"$work/log/mount-b")
python3 "$work/cold.py" "$a/cold" "$files" "$work/looked" "$test_seed" 2>"$work/log/cold" &
cold=$!
children+=("$cold")
python3 "$work/work.py" "$b/mine" 300 "$read_ms" "$work/looked" >"$work/beside" || fail "work of mount b while names are looked up"
read -r count beside late <"$work/beside"
note "alone $alone ms each, $late_alone % of the time late; beside cold look-ups $beside ms, $count times; $late % of the time went to those that took as long as a read of the disk"
# What else runs on the machine makes some of them late without any reads, too.
[ "$late" -lt $((25 + late_alone)) ] || fail "work of mount b waits for reads of the disk that mount a needs, $late % of the time"
[ "$count" -ge 100 ] || fail "too little work of mount b: $count"
if tail -n +"$((heard + 1))" "$work/log/mount-b" | grep -E 'has not answered|lost the connection' >"$work/unheard"; then
    fail "mount b did not hear of the manager: $(cat "$work/unheard")"
fi
wait "$cold" || fail "the cold names: $(cat "$work/log/cold")"
waits=$(counter disk_waits)
[ "$waits" -ge 100 ] || fail "only $waits times the manager waited for its disk: this was no cold database"
[ "$(counter disk_waits_on_loop)" = 0 ] || fail "the manager waited for its disk on its loop"
note "all $(cat "$work/looked") names were looked up, and $waits times the disk was waited for"
cluster_end
