#!/bin/bash
# What a yes of fsync is worth while the mount lives on: servers lose their power, and everything that was fsynced before is there, whoever
# wrote it, through whichever handle and mount.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin durable "$1"

# The machines of both I/O daemons lose their power, and come back.
iods_lose_power() {
    lose_power iod1
    lose_power iod2
    start_iod 1
    start_iod 2
    wait_for 20 "the I/O daemons are back" servers_up 2
}

own_disk iod1 1G
own_disk iod2 1G
start_cluster 2
start_mount a io_timeout=3s
a=$mnt
start_mount b io_timeout=3s
b=$mnt
head -c 6000000 /dev/urandom >"$work/bytes"

fsync_path() {
    python3 -c 'import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd)' "$1"
}

# ---- Another handle, after close, another mount ----

cp "$work/bytes" "$a/sync-file"
sync "$a/sync-file"
cp "$work/bytes" "$a/open-fsync"
fsync_path "$a/open-fsync"
cp "$work/bytes" "$a/other-mount"
fsync_path "$b/other-mount"
cp "$work/bytes" "$a/other-writes"
printf X | dd of="$b/other-writes" bs=1 seek=3000000 conv=notrunc status=none
fsync_path "$a/other-writes"
cp "$work/bytes" "$a/cut"
fsync_path "$a/cut"
truncate -s 4000000 "$a/cut"
fsync_path "$a/cut"
cp "$work/bytes" "$a/held-open"
python3 - "$a/held-open" "$b/held-open" <<'PY'
import os, sys
here, there = (os.open(p, os.O_RDWR) for p in sys.argv[1:])
for i in range(4): # Of two mounts that have it open, one writes and the other one syncs.
    os.pwrite(here, b"Y" * 100, i << 20)
os.fsync(there)
PY
iods_lose_power
drop_caches
for name in sync-file open-fsync other-mount; do
    cmp "$work/bytes" "$a/$name" || fail "$name: bytes that were fsynced are gone"
done
cp "$work/bytes" "$work/expected"
printf X | dd of="$work/expected" bs=1 seek=3000000 conv=notrunc status=none
cmp "$work/expected" "$a/other-writes" || fail "bytes of another mount that were fsynced are gone"
cmp <(head -c 4000000 "$work/bytes") "$a/cut" || fail "bytes that were fsynced before a cut are gone"
cp "$work/bytes" "$work/expected"
for i in 0 1 2 3; do
    head -c 100 /dev/zero | tr '\0' Y | dd of="$work/expected" bs=1 seek=$((i << 20)) conv=notrunc status=none
done
cmp "$work/expected" "$a/held-open" || fail "bytes of a file that two mounts have open are gone, although one of them fsynced it"
note "fsync covers what others wrote"

# ---- Two at a time, and one that fails ----

python3 - "$a/failing" "${pid_of[iod1]}" "${pid_of[iod2]}" <<'PY' || fail "a failed fsync is not remembered"
import os, signal, sys, threading
path, *pids = sys.argv[1:]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
for i in range(8):
    os.pwrite(fd, b"Z" * (1 << 20), i << 20)
os.close(os.dup(fd)) # Everything is with the servers, and nothing is synced.
for pid in pids:
    os.kill(int(pid), signal.SIGSTOP)
said = []
def sync():
    mine = os.open(path, os.O_RDONLY)
    try:
        os.fsync(mine)
        said.append(0)
    except OSError as e:
        said.append(e.errno)
both = [threading.Thread(target=sync) for _ in range(2)]
for t in both: t.start()
for t in both: t.join()
sync() # Nobody has written since.
for pid in pids:
    os.kill(int(pid), signal.SIGCONT)
print("fsync while the servers stand still:", said)
if 0 in said:
    sys.exit(1)
os.fsync(os.open(path, os.O_RDONLY))
PY
iods_lose_power
drop_caches
[ "$(tr -d Z <"$a/failing" | wc -c)" = 0 ] || fail "bytes are gone although the fsync after a failed one said yes"
note "a failed fsync is remembered"
cluster_end
