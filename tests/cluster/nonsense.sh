#!/bin/bash
# Sound frames with nonsense inside (nonsense.c), to a real manager and a real I/O daemon, beside a mount at work: both stay up,
# answer everything, serve the mount all along, and start again on what it left behind.
#
#   tests/cluster/nonsense.sh BUILD [SEED [ROUNDS]]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin nonsense "$1"
seed=${2:-$test_seed} rounds=${3:-4000}
start_cluster 2 --donor-look 24h # Who has joined as a benefactor and is silent would be hung up on.
start_mount a
a=$mnt

# What nobody will harm, and what may come to harm: small numbers are among the strange values, so the first inodes are.
mkdir "$a/2" "$a/3"
mkdir "$a/work" "$a/harm"
for i in 1 2 3 4; do
    head -c 100000 /dev/urandom >"$a/work/$i"
done
echo harm >"$a/harm/a"
policy "$a/harm" replicas=2 # A group of both servers.
echo harm >"$a/harm/two"
sync "$a/harm/two"
sync "$a/work/1"

# A mount at work: it must not see an error, and never wait for long.
python3 - "$a/work" "$work/stop" <<'PY' &
import os, sys, time
directory, stop = sys.argv[1:]
rounds, slowest = 0, 0
while not os.path.exists(stop):
    began = time.monotonic()
    path = f"{directory}/{rounds % 4 + 1}"
    data = bytes([rounds % 256]) * 100000
    with open(path, "r+b") as f:
        f.write(data)
        os.fsync(f.fileno())
    with open(path, "rb") as f:
        assert f.read() == data, path
    os.rename(path, path + "x")
    os.rename(path + "x", path)
    assert len(os.listdir(directory)) == 4
    os.chmod(path, 0o600 + rounds % 64)
    slowest = max(slowest, time.monotonic() - began)
    rounds += 1
print(f"a mount did {rounds} rounds beside it, the slowest took {slowest:.2f} s")
assert rounds > 20 and slowest < 20, "the mount stood still"
PY
load=$!
children+=("$load")

"$build/bin/nonsense" "${address_of[meta]##*:}" "${address_of[iod1]##*:}" 2 \
    "$(stat -c %i "$a/harm/a")" "$(stat -c %i "$a/harm")" "$seed" "$rounds" ||
    fail "nonsense with seed $seed"
touch "$work/stop"
wait "$load" || fail "the mount beside nonsense with seed $seed"
children=()

# Servers that are none must have been silent for long enough, for new files would be placed on them.
only_real_ones() {
    [ "$(count_up)" = 2 ]
}
works() {
    head -c 300000 /dev/urandom >"$work/bytes"
    cp "$work/bytes" "$a/work/new"
    sync "$a/work/new"
    drop_caches
    cmp "$work/bytes" "$a/work/new" || fail "what was written after nonsense is not what is read"
    rm "$a/work/new"
    [ "$(ls "$a/work")" = $'1\n2\n3\n4' ] || fail "the directory has changed"
}
# After a restart the manager places new files on all that it has known, until it misses them.
meta_again() {
    local strangers lines
    morsel status --json >"$work/status" || true # It says that servers are away.
    strangers=$(($(grep -oE '"id": *[0-9]+' "$work/status" | wc -l) - 2))
    [ "$strangers" -gt 0 ] || fail "no server that is none was ever registered"
    "$1" meta
    lines=$(wc -l <"$work/log/meta")
    start_meta
    wait_for 60 "the others are missed" are_missed "$lines" "$strangers"
    wait_for 60 "only the real servers are up" only_real_ones
}
are_missed() {
    [ "$(tail -n "+$(($1 + 1))" "$work/log/meta" | grep -c 'storage server .* is down')" = "$2" ]
}
wait_for 60 "only the real servers are up" only_real_ones
works
stop iod1
start_iod 1
wait_for 60 "only the real servers are up" only_real_ones
works
meta_again stop
works
meta_again crash
works
start_iod 3 # There is still room for a server that nobody knows.
wait_for 60 "three servers are up" servers_up 3
cluster_end
