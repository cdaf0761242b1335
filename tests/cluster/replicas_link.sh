#!/bin/bash
# Servers behind links that writers fill: each byte goes to the other copy once. A member that is late because much lies in front of it is not one that
# has lost something; what it was sent again would come on top, and make its link slower yet.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas_link "$1"

rate=10000000 writers=4 mib=16
start_net
join_net meta iod1 iod2 mount-a
for name in iod1 iod2 mount-a; do
    # With a burst of some 20 ms; what waits in front has room for a tenth of a second.
    tc -n "$router" qdisc replace dev "$name" root tbf rate $((rate * 8))bit burst $((rate / 50 + 65536)) latency 100ms
    tc -n "${lives_on[$name]}" qdisc replace dev net0 root tbf rate $((rate * 8))bit burst $((rate / 50 + 65536)) latency 100ms
done
start_meta
start_iod 1
start_iod 2
wait_for 60 "2 servers are up" servers_up 2
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
seen_well

# Bytes that the servers have sent, to each other for the most part.
sent() {
    local name sum=0
    for name in iod1 iod2; do
        sum=$((sum + $(ip -n "${lives_on[$name]}" -j -s link show dev net0 | jq '.[0].stats64.tx.bytes')))
    done
    echo "$sum"
}

head -c "${mib}M" /dev/urandom >"$work/reference"
before=$(sent) begun=$(now_ms) jobs=()
for ((k = 0; k < writers; k++)); do
    dd if="$work/reference" of="$mnt/two/$k" bs=1M conv=fsync status=none &
    jobs+=("$!")
done
for job in "${jobs[@]}"; do wait "$job" || fail "a write failed"; done
took=$(($(now_ms) - begun)) forwarded=$(($(sent) - before)) written=$((writers * mib << 20))
note "$((written >> 20)) MiB written in $took ms, $((forwarded >> 20)) MiB sent by the servers"
# Frames, acknowledgements, words and leases besides; a mount's read of its first page.
[ "$forwarded" -ge "$written" ] || fail "only $forwarded of $written bytes went from one server to the other"
[ "$((forwarded * 100))" -le "$((written * 115))" ] || fail "$forwarded bytes were sent for $written that were written"
for ((k = 0; k < writers; k++)); do cmp "$work/reference" "$mnt/two/$k" || fail "what was written is not what is read"; done
cluster_end
