#!/bin/bash
# The link of a mount breaks when what was written under a lease that is asked back has just gone out, while its programs write on, through. Nothing is lost
# with that lease, so nobody is told of a loss.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin returns "$1"
start_cluster 2
start_host far
start_relay far --break-flush "$work/break"
start_near_and_far
: >"$work/break"

cat >"$work/writers.py" <<'PYTHON'
import os, random, sys, threading
near, far, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
FILES, WRITERS, BYTES = 20, 3, 1 << 16
for n in range(FILES):
    os.close(os.open("%s/%d" % (far, n), os.O_CREAT | os.O_WRONLY))
opened = [threading.Semaphore(0) for _ in range(FILES)]
shared = [threading.Event() for _ in range(FILES)]
failed = []

def run(call, *args):
    try:
        call(*args)
    except OSError as error:
        failed.append("%s%s: %s" % (call.__name__, args, error))
        for event in shared: event.set()
        for there in opened: there.release(WRITERS)

def write(number):
    """Until some time after the other mount has opened it. Who appends has something to tell the manager each time."""
    chance = random.Random(seed * WRITERS + number)
    for n in range(FILES):
        fd, left = os.open("%s/%d" % (far, n), os.O_WRONLY | (number and os.O_APPEND)), 6
        opened[n].release()
        while left > 0:
            if number: os.write(fd, b"x" * 100)
            else: os.pwrite(fd, b"x" * 100, chance.randrange(BYTES))
            left -= shared[n].is_set()
        os.close(fd)

def share():
    for n in range(FILES):
        for _ in range(WRITERS): opened[n].acquire()
        fd = os.open("%s/%d" % (near, n), os.O_WRONLY)
        os.pwrite(fd, b"y" * 100, 0)
        shared[n].set()
        os.close(fd)

threads = [threading.Thread(target=run, args=(write, number)) for number in range(WRITERS)] + [threading.Thread(target=run, args=(share,))]
for thread in threads: thread.start()
for thread in threads: thread.join()
if failed: sys.exit("\n".join(failed))
PYTHON
mkdir "$near/files"
python3 "$work/writers.py" "$near/files" "$far/files" "$test_seed" || fail "a call failed"
broken=$(stat -c %s "$work/break")
[ "$broken" -ge 15 ] || fail "the link has broken $broken times only"
note "the link has broken $broken times"
cluster_end
