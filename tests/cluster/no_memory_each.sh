#!/bin/bash
# Every single allocation of a daemon fails once: of the manager, of a storage server, and of the two mounts, while programs do one
# thing each (write and read, names, attributes, locks, appends ...). Whoever asked gets an answer within seconds, no daemon dies,
# what was promised is there, and then everything works, through both mounts.
#
#   no_memory_each.sh BUILD [SECONDS [ONLY]...]     as many of them as fit in SECONDS (0: all); ONLY: daemons, or scenes
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/failing_memory.sh
. "$(dirname "$0")/../lib/failing_memory.sh"
cluster_begin no_memory_each "$1"
seconds=${2:-40}

failing meta start_meta --lease-time 1s
for i in 1 2; do
    failing "iod$i" start_iod "$i"
done
wait_for 60 "two servers are up" servers_up 2
failing mount-a start_mount a
failing mount-b start_mount b
mkdir "$work/mnt/a/work"
policy "$work/mnt/a/work" stripe_width=2

"${BASH_SOURCE[0]%.sh}.py" "$work" "$build/tests/cluster/no_memory/bin" "$seconds" "$test_seed" "${@:3}" >"$work/said" 2>&1 &
children+=("$!")
wait "$!" || fail "$(cat "$work/said")"
cat "$work/said"
for name in "${!pid_of[@]}"; do
    kill -0 "${pid_of[$name]}" || fail "$name has died"
done
check_logs
fsck_clean
cluster_end
