#!/bin/bash
# All daemons run out of memory now and then (tests/lib/failing_memory.c), under a load of programs: none of them dies, programs
# may hear ENOMEM or EIO, and what was promised to them is there, in every byte; metadata and objects agree. When there is memory
# again everything works.
#
#   no_memory.sh BUILD [SECONDS [ONE_IN]]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin no_memory "$1"
seconds=${2:-8} one_in=${3:-150}

# failing NAME START...: the daemon NAME is one in which allocations fail, when they are made to.
failing() {
    local bin=$build/tests/cluster/no_memory/bin
    export MORSEL_FAILING_MEMORY=$work/run/memory-$1
    shift
    "$@"
}

# fail_one_in N: of the allocations in each place, in all daemons; 0: none.
fail_one_in() {
    python3 - "$1" "$test_seed" "$work"/run/memory-* <<'PY'
import struct, sys
for path in sys.argv[3:]:
    with open(path, "r+b") as shared:
        shared.write(struct.pack("<QQ", int(sys.argv[1]), int(sys.argv[2])))
PY
}

# failures NAME: how many allocations failed, and in how many places.
failures() {
    python3 - "$work/run/memory-$1" <<'PY'
import struct, sys
words = struct.unpack("<3076Q", open(sys.argv[1], "rb").read(3076 * 8))
print(words[3], sum(failed > 0 for failed in words[6::3]))
PY
}

# failed_enough NAME COUNT PLACES
failed_enough() {
    local count places
    read -r count places < <(failures "$1")
    note "$1: $count allocations failed, in $places places"
    [ "$count" -ge "$2" ] && [ "$places" -ge "$3" ] || fail "too few allocations failed in $1"
    kill -0 "${pid_of[$1]}" || fail "$1 has died"
}

failing meta start_meta --lease-time 2s
for i in 1 2 3; do
    failing "iod$i" start_iod "$i"
done
wait_for 20 "three servers are up" servers_up 3
failing mount-a start_mount a
failing mount-b start_mount b
a=$work/mnt/a b=$work/mnt/b
mkdir "$a/load" "$a/work"
policy "$a/work" stripe_width=2

mkfifo "$work/go"
"$bin/ackload" write "$a/load" "$work/journal" 3600 sync >"$work/ackload" 2>&1 &
load=$!
"${BASH_SOURCE[0]%.sh}.py" "$seconds" "$test_seed" "$work/begun" "$a/work" "$b/work" <>"$work/go" >"$work/said" 2>&1 &
programs=$!
children+=("$load" "$programs")
wait_for 10 "the load has begun" test -s "$work/journal"
wait_for 10 "the programs have begun" test -e "$work/begun"
fail_one_in "$one_in"

# The words of the programs, when their time is over.
have_said() {
    [ -s "$work/said" ] || ! kill -0 "$programs"
}
have_ended() {
    ! kill -0 "$programs"
}
wait_for 60 "the programs have come to the end of their time" have_said
kill -TERM "$load"
wait "$load" || fail "ackload: $(tail -n 3 "$work/ackload")"
fail_one_in 0
check_logs
head -n 1 "$work/said"
! grep -q Error "$work/said" || fail "programs: $(cat "$work/said")"
tail -n 1 "$work/ackload"
failed_enough meta 50 20
failed_enough mount-a 50 20
failed_enough mount-b 20 15
for i in 1 2 3; do
    failed_enough "iod$i" 8 5
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
