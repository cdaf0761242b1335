#!/bin/bash
# A mount behind a slow link with a long way: what it writes fills the link and lands, nearly nothing is refused for coming too late; what it reads
# fills the link too; and who shares the link with it does not wait. A link that dies in the middle of a write makes it fail in time, and the next one
# lands again.
#
#   slow_link.sh BUILD [SECONDS]    how long each link is watched, with 1 and 16 writers and with 1 and 4 readers, which must fill 90 % of it. Without: 4 s
#                                   and fewer links, of which a moment so short tells less: they must carry 60 %.
#
# LINKS="w10:16 r10:1" watches these: w for writing or r for reading, Mbit/s, programs.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin slow_link "$1"
seconds=${2:-4} floor=60
[ $# -lt 2 ] || floor=90
beginning=6 # The mount and TCP find out what the link carries, for a single reader one server behind the other.
[ $# -lt 2 ] || beginning=10
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

# set_rate MBIT: both ways. What waits in front of the link has room for two seconds, as in many a modem. The burst is some 20 ms: what comes in one piece
# (64 KiB from a kernel that leaves the cutting to the card) must be small against it, or the link would carry less wherever a timer is late.
set_rate() {
    local host
    for host in far near; do
        ip netns exec "mfs$$$host" tc qdisc replace dev path root tbf rate "$1mbit" burst $((5000 + $1 * 2500)) latency 2s
    done
}

# Loss-based, and everywhere at hand. BBR, which some machines have as their default, lets a link run dry for half a second every ten: that is not ours to judge.
for host in far near; do
    ip netns exec "mfs$$$host" sysctl -q net.ipv4.tcp_congestion_control="${TCP:-reno}"
done
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
for i in {1..800}; do
    mkdir "$near/d$i"
    echo "$i" >"$near/d$i/f"
done

# A clock that is learned over a long way is the manager's all the same: what is changed later has later times, whoever changed it.
python3 - "$near" "$far" <<'PY' || fail "the times of what was changed behind a long way are not in order"
import os, sys, time
near, far = sys.argv[1:]
for i in range(4):
    with open(f"{far}/time{i}", "wb", buffering=0) as f:
        f.write(b"first")
        os.fsync(f.fileno())
        time.sleep(1.2)  # Right behind changes nothing is granted.
        f.write(b"second")
        os.fsync(f.fileno())
        name = f"{near}/time{i}.near"
        open(name, "w").close()
        made = os.stat(name).st_mtime_ns
        time.sleep(0.02)
        f.write(b"later")
        written = os.fstat(f.fileno()).st_mtime_ns
        assert written > made, f"what was written {(time.time_ns() - made) // 1000000} ms later is {(made - written) // 1000000} ms older"
PY
note "times"

# iod_counter NAME: of all I/O daemons.
iod_counter() {
    local i sum=0 value
    for i in 1 2; do
        value=$(counter "$1" "${address_of[iod$i]}")
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

# write.py ENOUGH BYTES: writes until that file is there or so much is written. (Several programs by turns would not do: a mount waits for the bytes
# whenever one closes.)
cat >"$work/write.py" <<'PY'
import os, sys
left = int(sys.argv[2])
while left > 0 and not os.path.exists(sys.argv[1]):
    left -= os.write(1, bytes(64 << 10))
PY

# What the writers have brought to the servers, or the readers have got, in bytes.
moved() {
    local pid sum=0 name value
    if [ "$1" = w ]; then
        iod_counter write.served_bytes
        return
    fi
    for pid in "${pids[@]}"; do
        while read -r name value; do
            [ "$name" != pos: ] || sum=$((sum + value))
        done <"/proc/$pid/fdinfo/0"
    done
    echo "$sum"
}

# begin r|w MBIT COUNT: so many programs, in pids.
begin() {
    local i bytes=$(($2 * 125000 * (seconds + beginning + 4) * 2 / $3))
    pids=()
    rm -f "$work/enough"
    if [ "$1" = r ]; then
        for ((i = 0; i < $3; i++)); do
            head -c "$bytes" /dev/zero >"$near/r$i"
        done
    fi
    set_rate "$2"
    ls "$far" >"$work/out" # The names of the directories are known then, what is in them is not.
    for ((i = 0; i < $3; i++)); do
        if [ "$1" = w ]; then
            python3 "$work/write.py" "$work/enough" "$bytes" >"$far/w$i" &
        else
            cat <"$far/r$i" >/dev/null &
        fi
        pids+=("$!")
    done
    children+=("${pids[@]}")
}

# end r|w: writers end well; readers need not come to the end.
end() {
    touch "$work/enough"
    set_rate 1000
    if [ "$1" = w ]; then
        wait "${pids[@]}" || fail "a writer failed"
    else
        kill "${pids[@]}" || fail "a reader has ended"
        wait "${pids[@]}" || true
    fi
    rm -f "$far/$1"[0-9]*
}

next=1 pids=()
# watch r|w MBIT COUNT: leaves in $wrong what was not as it must be.
watch() {
    local what=$1 rate=$2 least=$floor before after began took stat_ms count percent refused wire bytes=rx
    [ "$what" = r ] || bytes=tx
    begin "$what" "$rate" "$3"
    sleep "$beginning"
    before=$(moved "$what")
    wire=$(ip netns exec "mfs$$far" cat "/sys/class/net/path/statistics/${bytes}_bytes")
    began=$(now_ms)
    read -r stat_ms next count < <(python3 "$work/stats.py" "$far" "$next" "$seconds")
    after=$(moved "$what")
    took=$(($(now_ms) - began))
    wire=$((($(ip netns exec "mfs$$far" cat "/sys/class/net/path/statistics/${bytes}_bytes") - wire) * 8 / 10 / (took * rate)))
    percent=$(((after - before) * 8 / 10 / (took * rate)))
    refused=$(iod_counter write.failed)
    note "$what $rate Mbit/s, $3 programs: $percent % of the link ($wire % with all that goes along), $refused refused of $(iod_counter write.served)," \
        "longest of $count stats $stat_ms ms"
    if [ "$what" = r ]; then # Programs get MiBs at once, some of them fetched before: over so short a time the link itself tells more.
        [ "$rate" -lt 10 ] || [ "$percent" -ge 50 ] || wrong="the readers got $percent % of what the link carries"
        percent=$wire
    fi
    [ "$percent" -ge "$least" ] || wrong="the link is not full: $percent %"
    [ $((refused * 100)) -lt "$(iod_counter write.served)" ] || fail "refused writes"
    [ "$stat_ms" -lt 1000 ] || wrong="a stat beside took $stat_ms ms"
    end "$what"
}

# The fastest first: where nothing is known of the link, and TCP has not got going, most is to be found out.
links="w1:16 w10:16 r10:1 r10:4"
if [ $# -ge 2 ]; then
    links=$(printf '%s ' {w,r}{100,40,10,1}:1 w{100,40,10,1}:16 r{100,40,10,1}:4)
fi
for link in ${LINKS:-$links}; do
    IFS=':' read -r rate count <<<"${link#?}"
    for try in 1 2 3; do # A busy machine takes from what goes through a link, and is late, now and then.
        wrong=
        watch "${link%"${link#?}"}" "$rate" "$count"
        [ -n "$wrong" ] || break
        note "$link, try $try: $wrong"
    done
    [ -z "$wrong" ] || fail "$wrong"
done

# Nothing gets through any more, and nobody says so.
set_rate 10
landed() {
    [ "$(iod_counter write.served_bytes)" -gt "$1" ]
}
before=$(iod_counter write.served_bytes)
dd if=/dev/zero of="$far/dead" bs=64k count=128 conv=fsync status=none 2>"$work/dd" &
writer=$!
children+=("$writer")
wait_for 60 "the first MiB of the write" landed $((before + (1 << 20)))
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
