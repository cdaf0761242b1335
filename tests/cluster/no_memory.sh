#!/bin/bash
# All daemons run out of memory now and then (tests/lib/failing_memory.c), under a load of programs: none of them dies, programs
# may hear ENOMEM or EIO, and what was promised to them is there, in every byte; metadata and objects agree. When there is memory
# again everything works.
#
#   no_memory.sh BUILD [SECONDS [ONE_IN]]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/failing_memory.sh
. "$(dirname "$0")/../lib/failing_memory.sh"
cluster_begin no_memory "$1"
seconds=${2:-8} one_in=${3:-150}

# fail_one_in N: of the allocations in each place, in all daemons; 0: none.
fail_one_in() {
    python3 - "$1" "$test_seed" "$work"/run/memory-* <<'PY'
import struct, sys
for path in sys.argv[3:]:
    with open(path, "r+b") as shared:
        shared.write(struct.pack("<QQ", int(sys.argv[1]), int(sys.argv[2])))
PY
}

# Says how many allocations failed in each daemon, and in how many places. False: too few.
enough_failed() {
    python3 - "$work/run" <<'PY'
import struct, sys
enough = True
for name, count, places in (("meta", 50, 20), ("mount-a", 50, 20), ("mount-b", 20, 15), ("iod1", 8, 5), ("iod2", 8, 5), ("iod3", 8, 5)):
    words = [word for word, in struct.iter_unpack("<Q", open(f"{sys.argv[1]}/memory-{name}", "rb").read())]
    failed = sum(failed > 0 for failed in words[19::3])
    print(f"{name}: {words[3]} allocations failed, in {failed} places")
    enough &= words[3] >= count and failed >= places
sys.exit(not enough)
PY
}

failing meta start_meta --lease-time 2s
for i in 1 2 3; do
    failing "iod$i" start_iod "$i"
done
wait_for 60 "three servers are up" servers_up 3
failing mount-a start_mount a
failing mount-b start_mount b
a=$work/mnt/a b=$work/mnt/b
mkdir "$a/load" "$a/work"
policy "$a/work" stripe_width=2

mkfifo "$work/go"
"$bin/ackload" write "$a/load" "$work/journal" 3600 sync >"$work/ackload" 2>&1 &
load=$!
"${BASH_SOURCE[0]%.sh}.py" "$seconds" "$test_seed" "$work/begun" "$work/enough" "$a/work" "$b/work" <>"$work/go" >"$work/said" 2>&1 &
programs=$!
children+=("$load" "$programs")
wait_for 60 "the load has begun" test -s "$work/journal"
wait_for 60 "the programs have begun" test -e "$work/begun"
fail_one_in "$one_in"

# The words of the programs, when their time is over.
have_said() {
    [ -s "$work/said" ] || ! kill -0 "$programs"
}
have_ended() {
    ! kill -0 "$programs"
}
enough_or_over() {
    enough_failed || have_said
}
wait_for 60 "enough allocations have failed" enough_or_over
touch "$work/enough"
wait_for 90 "the programs have come to the end of their time" have_said
kill -TERM "$load"
wait "$load" || fail "ackload: $(tail -n 3 "$work/ackload")"
fail_one_in 0
check_logs
head -n 1 "$work/said"
! grep -q Error "$work/said" || fail "programs: $(cat "$work/said")"
tail -n 1 "$work/ackload"
enough_failed || fail "too few allocations failed"
for name in "${!pid_of[@]}"; do
    kill -0 "${pid_of[$name]}" || fail "$name has died"
done

echo >"$work/go"
wait_for 60 "the programs have ended: $(cat "$work/said")" have_ended
wait "$programs" || fail "programs: $(cat "$work/said")"
tail -n 1 "$work/said"
drop_caches
"$bin/ackload" verify "$b/load" "$work/journal" || fail "what was synced through the other mount is not there"
head -c 3000000 /dev/urandom >"$work/bytes"
cp "$work/bytes" "$a/work/after"
cmp "$work/bytes" "$b/work/after" || fail "what is written when there is memory again is not what is read"
fsck_clean
cluster_end
