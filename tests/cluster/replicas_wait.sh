#!/bin/bash
# Two mounts write the same bytes of a file with two copies while the disk of one server hangs for longer than a lease period, and shorter than
# its group puts up with (--slow-limit): what waits behind a change that does not come to its end is not too late for that, and says no error.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_wait "$1"
hang_s=3 # A mount asks again after 2 s, and is answered then, when what it asked first is not valid any more.

disk() {
    echo "$2 $2" >"$work/ms$1"
}
start_meta --lease-time 2s
for i in 1 2; do
    disk "$i" 0
    inject=(env LD_PRELOAD="$bin/slow_sync.so" SLOW_SYNC_FILE="$work/ms$i" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0")
    start_iod "$i" --slow-limit 30s
    inject=()
done
wait_for 60 "both servers are up" servers_up 2
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2 stripe_width=1
start_mount b
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well

# Writes through both mounts, at the same place and time; it stands there once more as one of them wrote it. Both have it open, so nothing waits
# in a mount's memory.
cat >"$work/meet.py" <<'PYTHON'
import os, sys, threading
files = [os.open(path, os.O_RDWR) for path in sys.argv[2:]]
values = [b"A" * 8, b"B" * 8]
failed = []
def write(which):
    try:
        os.pwrite(files[which], values[which], 0)
    except OSError as e:
        failed.append(f"{sys.argv[2 + which]}: {e.strerror}")
os.pwrite(files[0], b"-" * 8, 0)
os.pwrite(files[1], b"+" * 8, 0)
open(sys.argv[1], "w").close()
sys.stdin.readline()
threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
sys.exit("; ".join(failed) or (0 if os.pread(files[0], 8, 0) in values else "the bytes are neither's"))
PYTHON

for victim in 1 2; do
    head -c 8192 /dev/zero >"$two/shared$victim"
    sync "$two/shared$victim"
    mkfifo "$work/go$victim"
    python3 "$work/meet.py" "$work/open$victim" "$two/shared$victim" "$beside/shared$victim" <"$work/go$victim" >"$work/said$victim" 2>&1 &
    meeting=$!
    children+=("$meeting")
    exec {go}>"$work/go$victim"
    wait_for 60 "both mounts have the file open" test -e "$work/open$victim"
    disk "$victim" 600000
    begun=$(now_ms)
    echo >&"$go"
    sleep "$hang_s" # So long the disk hangs.
    disk "$victim" 0
    wait "$meeting" || fail "the disk of server $victim hung for $hang_s s: $(cat "$work/said$victim")"
    exec {go}>&-
    took_ms=$(($(now_ms) - begun))
    note "the disk of server $victim hung for $hang_s s: the writes took $took_ms ms"
    [ "$took_ms" -ge $((hang_s * 1000)) ] || fail "the writes did not wait for the disk"
    seen_well
    copies_are_equal
done
fsck_clean
cluster_end
