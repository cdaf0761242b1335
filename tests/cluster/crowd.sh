#!/bin/bash
# A crowd of 5,000 connections (crowd.c) at the manager and at an I/O daemon, beside a mount at work: the daemons stay under a
# stated size, strangers are sent away in time, and the mount keeps its throughput and its connection.
#
#   crowd.sh BUILD [CONNECTIONS ROUNDS]      (default: 5,000, and one crowd after the other comes to each daemon once)
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin crowd "$1"
connections=${2:-5000} rounds=${3:-1}
# What all connections may hold, and one answer of each of those that are asked for at once beyond it; limits.h. The address
# sanitizer keeps what is freed, and tells its own story in the resident size: there the daemon's own count is judged alone.
queued_max=$((384 << 20)) resident_max=$((640 << 20))
start_cluster 2
start_mount a
a=$mnt
dd if=/dev/zero of="$a/file" bs=1M count=64 status=none conv=fsync

# It makes each frame of the crowd several times as dear, too, and the crowd and the mount share the machine with the daemon.
sanitized=no percent=${CROWD_PERCENT:-90}
if grep -q -a __asan_init "$bin/morsel-meta"; then
    sanitized=yes percent=${CROWD_PERCENT:-60}
fi

# rate: how often in four seconds the mount makes, writes, syncs, reads and removes a file of 1 MiB.
rate() {
    python3 - "$a" <<'PY'
import os, sys, time
d = sys.argv[1]
rounds, until = 0, time.monotonic() + 4
data = os.urandom(1 << 20)
while time.monotonic() < until:
    with open(f"{d}/new", "wb") as f:
        f.write(data)
        os.fsync(f.fileno())
    os.stat(f"{d}/new")
    with open(f"{d}/new", "rb") as f:
        assert f.read() == data
    os.unlink(f"{d}/new")
    rounds += 1
print(rounds)
PY
}

crowd_at() { # crowd_at NAME ADDRESS
    rm -f "$work/run/$1.in" "$work/run/$1.out"
    mkfifo "$work/run/$1.in" "$work/run/$1.out"
    "$bin/crowd" "${2##*:}" "$connections" <"$work/run/$1.in" >"$work/run/$1.out" &
    crowd=$!
    children+=("$crowd")
    exec 7>"$work/run/$1.in" 8<"$work/run/$1.out"
    read -r -t 120 word taken <&8 || fail "the crowd does not come in: the server takes nobody"
    [ "$word" = here ] && [ "$taken" -ge $((connections * 9 / 10)) ] || fail "only $taken of the crowd were taken"
}

crowd_leaves() {
    local word anew
    exec 7>&-
    read -r -t 60 word anew <&8 || fail "the crowd does not end"
    note "$anew of $connections were closed and came anew"
    [ "$anew" -gt 0 ] || fail "no stranger was sent away"
    wait "$crowd"
    exec 8<&-
}

# median COUNT...: of an even number the lower one of the middle.
median() {
    printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

# beside_crowd DAEMON: what the mount does meanwhile, in $during; the daemon keeps its bounds.
beside_crowd() {
    local daemon=$1 queued strangers resident
    crowd_at "$daemon" "${address_of[$daemon]}"
    during=$(rate)
    queued=$(counter queued_bytes "${address_of[$daemon]}") strangers=$(counter strangers "${address_of[$daemon]}")
    resident=$(awk '/^VmHWM/ { print $2 * 1024 }' "/proc/${pid_of[$daemon]}/status")
    note "$daemon: $during rounds beside $connections; $strangers strangers, $queued bytes queued, $resident resident at most"
    [ "$queued" -lt "$queued_max" ] || fail "$daemon holds $queued bytes for its connections"
    [ "$strangers" -le 1024 ] || fail "$daemon keeps $strangers strangers"
    [ "$sanitized" = yes ] || [ "$resident" -lt "$resident_max" ] || fail "$daemon has grown to $resident bytes"
    crowd_leaves
    wait_for 60 "the crowd is gone from $daemon" gone "$daemon"
}

gone() {
    [ "$(counter connections "${address_of[$1]}")" -lt 20 ] && [ "$(counter queued_bytes "${address_of[$1]}")" -lt 1000000 ]
}

rate >/dev/null # The first time the mount learns what its links carry.
for daemon in meta iod1; do
    without=("$(rate)") with=()
    round=0 kept=0 base=1
    # What else runs on the machine may take from a single round: up to four more judge then.
    while [ "$round" -lt "$rounds" ] || { [ "$round" -lt $((rounds + 4)) ] && [ "$kept" -lt $((base * percent / 100)) ]; }; do
        round=$((round + 1))
        beside_crowd "$daemon"
        with+=("$during")
        without+=("$(rate)")
        note "$daemon: rounds without a crowd ${without[*]}, beside it ${with[*]}"
        # Compared with what was before, between and after, in this one run.
        base=$(median "${without[@]}") kept=$(median "${with[@]}")
    done
    note "$daemon: the mount keeps $((kept * 100 / base)) %"
    [ "$kept" -ge $((base * percent / 100)) ] || fail "the mount did $kept rounds beside the crowd at $daemon, and $base without"
done
grep -q "lost the connection" "$work/log/mount-a" && fail "the mount was turned away for strangers: $(grep 'lost the connection' "$work/log/mount-a")"
cluster_end
