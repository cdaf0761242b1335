#!/bin/bash
# The limit of recovery that the administrator sets: a server that comes back is brought up to date no faster, whether it is the limit of who gives or of who
# takes; `morsel recover status` names it; a limit with which recovery would not end is refused.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin recovery_rate "$1"

"$bin/morsel-iod" --data-dir "$work/no" --recovery-rate 100K >"$work/out" 2>&1 && fail "a limit of 100 KB a second was taken"
grep -q 'recovery-rate = 102400 bytes a second is too low' "$work/out" || fail "said of a limit that is too low: $(cat "$work/out")"

start_meta
start_iod 1 --recovery-rate 4M
start_iod 2
wait_for 60 "2 servers are up" servers_up 2
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
seen_well

# missing MIB: so much is written while server 2 is away.
missing() {
    crash iod2
    seen_alone 2
    head -c "${1}M" /dev/urandom >"$work/reference"
    cp "$work/reference" "$mnt/two/file"
    sync "$mnt/two/file"
}

# recovered WHAT OPTIONS...: server 2 comes back; in $took how long it is brought up to date.
recovered() {
    local what=$1 begun
    shift
    begun=$(now_ms)
    start_iod 2 "$@"
    wait_for 120 "server 2 is brought up to date" groups_are_well
    took=$(($(now_ms) - begun))
    note "$what: brought up to date in $took ms"
}

limit_is() {
    [ "$(morsel recover status --json | jq "[.groups[].copies[] | select(.server == $1) | .rate_limit] | max")" = "$2" ]
}

# What it may have saved up while nothing was moved, and what is given when all stop to agree, is less than a second's worth.
missing 24
start_iod 2
wait_for 60 "status shows the limit of server 1" limit_is 1 $((4 << 20))
crash iod2
recovered "who gives has a limit of 4 MiB a second"
[ "$took" -ge 5000 ] || fail "24 MiB with a limit of 4 MiB a second took $took ms"
each_alone_shows "$mnt/two/file" "$work/reference"

missing 8
recovered "who takes has a limit of 1 MiB a second" --recovery-rate 1M
[ "$took" -ge 7000 ] || fail "8 MiB with a limit of 1 MiB a second took $took ms"
each_alone_shows "$mnt/two/file" "$work/reference"
cluster_end
