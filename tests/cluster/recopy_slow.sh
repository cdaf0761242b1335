#!/bin/bash
# morsel recopy of a file that is not large, but too large for servers behind slow links to be copied while others hold still, and that a program of
# another mount writes to all the time: it is copied beforehand, as large ones are; and where it is changed faster than it can be copied it is left as
# it is, and named.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin recopy_slow "$1"
rate=2000000 mib=10
start_net
join_net meta iod1 iod2 mount-a mount-b
start_meta
start_iod 1
start_iod 2
wait_for 60 "2 servers are up" servers_up 2
start_mount a
a=$mnt
start_mount b
b=$mnt
mkdir "$a/files"
policy "$a/files" replicas=2
seen_well
policy "$a/files" replicas=1 stripe_width=1
head -c "${mib}M" /dev/urandom >"$a/files/slow"
sync "$a/files/slow"
for name in iod1 iod2; do
    tc -n "$router" qdisc replace dev "$name" root tbf rate $((rate * 8))bit burst $((rate / 50 + 65536)) latency 100ms
    tc -n "${lives_on[$name]}" qdisc replace dev net0 root tbf rate $((rate * 8))bit burst $((rate / 50 + 65536)) latency 100ms
done

# A word each twentieth of a second; at the end the file is what it says.
cat >"$work/writes.py" <<'PY'
import os, random, sys, time
path, model_path, enough = sys.argv[1:]
fd, chance, count = os.open(path, os.O_RDWR), random.Random(1), 0
with open(model_path, "r+b") as model:
    size = os.fstat(fd).st_size
    while not os.path.exists(enough):
        at, word = chance.randrange(size - 8), chance.randbytes(8)
        assert os.pwrite(fd, word, at) == 8
        model.seek(at)
        model.write(word)
        count += 1
        print(count, flush=True)
        time.sleep(0.05)
os.fsync(fd)
PY
cp "$a/files/slow" "$work/model"
python3 "$work/writes.py" "$b/files/slow" "$work/model" "$work/enough" >"$work/writes" &
writer=$!
children+=("$writer")
wait_for 60 "somebody writes" test -s "$work/writes"
policy "$a/files" stripe_size=8 stripe_width=2
before=$(tail -n 1 "$work/writes")
said=$(morsel recopy --json --wait=150s "$a/files") || fail "it was not moved: $said"
changes=$(($(tail -n 1 "$work/writes") - before))
[ "$(jq .files_done <<<"$said")" = 1 ] || fail "it was not moved: $said"
[ "$(morsel recopy --json --dry-run "$a/files" | jq .files_wanted)" = 0 ] || fail "it lies otherwise than its policy says: $said"
[ "$changes" -ge 20 ] || fail "only $changes changes were made meanwhile"
note "moved beside $changes changes"
touch "$work/enough"
wait "$writer" || fail "the writer met an error"
for top in "$a" "$b"; do
    cmp "$top/files/slow" "$work/model" || fail "$top/files/slow is not what was written"
done

# Some of every grain of it (common/store/watches.h) is changed, many times while it is copied.
cat >"$work/everywhere.py" <<'PY'
import os, sys, threading
path, enough = sys.argv[1:]
THREADS, GRAIN, grains = 8, 1 << 16, os.stat(path).st_size >> 16
fd, rounds = os.open(path, os.O_RDWR), [0] * THREADS


def work(thread):
    while not os.path.exists(enough):
        rounds[thread] += 1
        for grain in range(thread, grains, THREADS):
            assert os.pwrite(fd, bytes([rounds[thread] % 255 + 1]) * 512, grain * GRAIN) == 512
        print(min(rounds), flush=True)


threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
PY
rm "$work/enough"
python3 "$work/everywhere.py" "$b/files/slow" "$work/enough" >"$work/everywhere" &
everywhere=$!
children+=("$everywhere")
rounds() {
    tail -n 1 "$work/everywhere"
}
has_been_round() {
    [ -s "$work/everywhere" ] && [ "$(rounds)" -ge 1 ]
}
wait_for 60 "a first round of a writer" has_been_round
policy "$a/files" stripe_size=1 stripe_width=1
before=$(rounds) code=0
said=$(morsel recopy --json "$a/files") || code=$?
[ "$code" = 1 ] || fail "recopy ended with $code: $said"
during=$(($(rounds) - before))
[ "$during" -ge 3 ] || fail "nobody has changed all of it meanwhile"
[ "$(jq -r '.left[].why' <<<"$said" | grep -c "faster than it can be copied")" = 1 ] || fail "it does not say that it is changed faster than it can be copied: $said"
[ "$(jq -r '.left[].writers | length' <<<"$said")" -gt 0 ] || fail "it does not say who writes: $said"
note "left beside $during rounds of a writer"
touch "$work/enough"
wait "$everywhere" || fail "a writer met an error"
morsel recopy --json "$a/files" >/dev/null || fail "it was not moved when nobody wrote"
cmp "$a/files/slow" "$b/files/slow" || fail "two mounts read different bytes"
fsck_clean
cluster_end
