#!/bin/bash
# A mount behind a slow link with a long way: what it writes fills the link and lands, nearly nothing is refused for coming too late, and who
# shares the link with it does not wait. A link that dies in the middle of a write makes it fail in time, and the next one lands again.
#
#   slow_link.sh BUILD [SECONDS]    how long each link is watched; with 1 and 16 writers each, which must fill 90 % of it. Without: 4 s and two links, of which
#                                   a moment so short tells less: they must carry 60 %.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin slow_link "$1"
seconds=${2:-4} floor=60
[ $# -lt 2 ] || floor=90
way_ms=150 # Each way.

# The daemons in one namespace, the mount in another; `path` joins them.
start_host near
near_address=${host_address%.1}.2
on_near=("${on_host[@]}")
start_host far
on_far=("${on_host[@]}")
net=10.214.$(($$ % 250))
mkfifo "$work/path"
python3 "$(dirname "$0")/slow_path.py" "mfs$$far" "$net.1" "mfs$$near" "$net.2" "$way_ms" >"$work/path" 2>"$work/log/path" &
path=$!
children+=("$path")
read -r -t 10 _ <"$work/path" || skip "no tun devices here: $(cat "$work/log/path")"
ip route add "$net.2/32" via "$near_address"

# set_rate MBIT: both ways. What waits in front of the link has room for two seconds, as in many a modem.
set_rate() {
    local host
    for host in far near; do
        ip netns exec "mfs$$$host" tc qdisc replace dev path root tbf rate "$1mbit" burst $((5000 + $1 * 600)) latency 2s
    done
}

for name in meta iod1 iod2; do address_of[$name]=$net.2:0; done
set_rate 100
inject=("${on_near[@]}")
start_cluster 2
inject=()
start_mount near
near=$mnt
inject=("${on_far[@]}")
start_mount far io_timeout=6s
far=$mnt
inject=()
for i in {1..400}; do
    mkdir "$near/d$i"
    echo "$i" >"$near/d$i/f"
done

# counter NAME: of all I/O daemons.
counter() {
    local i sum=0 value
    for i in 1 2; do
        value=$(morsel stats "${address_of[iod$i]}" | awk -v name="$1" '$1 == name { print $2 }')
        sum=$((sum + ${value:-0}))
    done
    echo "$sum"
}

# stats_of DIRECTORY FROM SECONDS: the longest of many stat(2) that nobody has done before, in milliseconds.
cat >"$work/stats.py" <<'PY'
import os, sys, time
directory, at, end = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
longest, count = 0, 0
while time.monotonic() < end:
    before = time.monotonic()
    os.stat(f"{directory}/d{at}/f")
    longest = max(longest, time.monotonic() - before)
    at += 1
    count += 1
    time.sleep(0.2)
print(f"{longest * 1000:.0f} {at} {count}")
PY

next=1
# watch MBIT WRITERS
watch() {
    local rate=$1 writers=$2 i pids=() before after began took stat_ms count percent refused wire
    set_rate "$rate"
    ls "$far" >"$work/out" # The names of the directories are known then, what is in them is not.
    for ((i = 0; i < writers; i++)); do
        head -c $((rate * 125000 * (seconds + 10) / writers)) /dev/zero >"$far/w$rate-$writers-$i" &
        pids+=("$!")
    done
    children+=("${pids[@]}")
    sleep 6 # The beginning: the mount and TCP find out what the link carries.
    before=$(counter write.served_bytes)
    wire=$(ip netns exec "mfs$$far" cat /sys/class/net/path/statistics/tx_bytes)
    began=$(now_ms)
    read -r stat_ms next count < <(python3 "$work/stats.py" "$far" "$next" "$seconds")
    after=$(counter write.served_bytes)
    took=$(($(now_ms) - began))
    wire=$((($(ip netns exec "mfs$$far" cat /sys/class/net/path/statistics/tx_bytes) - wire) * 8 / 10 / (took * rate)))
    percent=$(((after - before) * 8 / 10 / (took * rate)))
    refused=$(counter write.failed)
    note "$rate Mbit/s, $writers writers: $percent % of the link ($wire % with all that goes along), $refused refused of $(counter write.served), longest of $count stats $stat_ms ms"
    [ "$percent" -ge "$floor" ] || fail "the link is not full: $percent %"
    [ $((refused * 100)) -lt "$(counter write.served)" ] || fail "refused writes"
    [ "$stat_ms" -lt 1000 ] || fail "a stat beside the writers took $stat_ms ms"
    set_rate 1000
    wait "${pids[@]}" || fail "a writer failed"
    rm -f "$far"/w*
}

links=(1:16 10:16)
[ $# -lt 2 ] || links=(1:1 1:16 10:1 10:16 40:1 40:16 100:1 100:16)
for link in "${links[@]}"; do
    watch "${link%:*}" "${link#*:}"
done

# Nothing gets through any more, and nobody says so.
set_rate 10
landed() {
    [ "$(counter write.served_bytes)" -gt "$1" ]
}
before=$(counter write.served_bytes)
dd if=/dev/zero of="$far/dead" bs=64k count=128 conv=fsync status=none 2>"$work/dd" &
writer=$!
children+=("$writer")
wait_for 10 "the first MiB of the write" landed $((before + (1 << 20)))
kill -STOP "$path"
began=$(now_ms)
! wait "$writer" || fail "a write over a dead link was successful"
took=$(($(now_ms) - began))
grep -q 'Input/output error' "$work/dd" || fail "a write over a dead link: $(cat "$work/dd")"
[ "$took" -lt 8500 ] || fail "a write over a dead link failed after $took ms, with io_timeout=6s"
kill -CONT "$path"
head -c 1M /dev/urandom >"$work/data"
timeout 60 dd if="$work/data" of="$far/alive" bs=64k conv=fsync status=none || fail "the link is back, and nothing lands"
cmp "$work/data" "$near/alive" || fail "what landed is something else"
note "a write over a dead link failed after $took ms; the next one landed"
cluster_end
