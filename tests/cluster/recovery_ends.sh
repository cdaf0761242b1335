#!/bin/bash
# A writer that is faster than a server is brought up to date: that ends all the same, for who orders holds him up. No call of his fails, and none takes long.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
cluster_begin recovery_ends "$1"

# Server 2 lies behind a link of 8 MB/s; the writer makes 16 MB/s where he can.
start_net
join_net iod2 meta iod1 mount-a
tc -n "$router" qdisc add dev iod2 root tbf rate 64mbit burst 128k latency 100ms 2>/dev/null || skip "tc cannot shape a link here; install iproute2"
start_cluster 2
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
seen_well

python3 - "$mnt/two" "$work/wrote" <<'END' &
import os, sys, time
directory, said = sys.argv[1:3]
block, rate, total, longest, number = os.urandom(1 << 20), 16e6, 0, 0.0, 0
begun = time.monotonic()
while True:
    number += 1
    fd = os.open(f"{directory}/{number}", os.O_WRONLY | os.O_CREAT, 0o644)
    for piece in range(16):
        before = time.monotonic()
        os.write(fd, block)
        if piece % 8 == 7:
            os.fdatasync(fd)
        now = time.monotonic()
        longest = max(longest, now - before)
        total += len(block)
        begun = max(begun, now - total / rate - 1)  # What was not written in time is not made up for.
        time.sleep(max(0.0, begun + total / rate - now))
    os.close(fd)
    with open(said + ".new", "w") as file:
        file.write(f"{total} {longest:.3f}\n")
    os.rename(said + ".new", said)
END
writer=$!
children+=("$writer")
wait_for 60 "the writer has begun" test -s "$work/wrote"
crash iod2
seen_alone 2
begun=$(now_ms)
start_iod 2
within 180 groups_are_well || fail "server 2 is not brought up to date beside a writer who is faster"
took=$(($(now_ms) - begun))
kill -0 "$writer" 2>/dev/null || fail "the writer has ended"
read -r wrote longest <"$work/wrote"
note "brought up to date in $took ms; the writer has written $wrote bytes, the longest call took $longest s"
kill "$writer"
wait "$writer" 2>/dev/null || true
[ "${longest%.*}" -lt 20 ] || fail "a call of the writer took $longest s"
cp -r "$mnt/two" "$work/reference"
! grep -h "holds up changes" "$work"/log/iod* || fail "a link of 8 MB/s is taken for a server that does not get on"
for away in 1 2; do
    seen_well
    crash "iod$away"
    drop_caches
    diff -r "$work/reference" "$mnt/two" || fail "the files are different without server $away"
    start_iod "$away"
done
cluster_end
