#!/bin/bash
# Servers that stand still: ETIMEDOUT with `soft`, EIO without, after io_timeout and not much later; with `hard` calls wait until a signal,
# and go on when the servers do. The log names file and server.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin soft "$1"
start_cluster 2
for kind in soft hard plain; do
    options=io_timeout=2s
    [ "$kind" = plain ] || options=$options,$kind
    start_mount "$kind" "$options"
done
start_mount maker
python3 - "$work/mnt/maker" <<'PY'
import os, sys
for name in "soft", "hard", "plain", "later":
    with open(sys.argv[1] + "/" + name, "wb") as f:
        f.write(bytes(range(256)) * 16384) # 4 MiB, on both servers.
        os.fsync(f.fileno())
    os.mkdir(sys.argv[1] + "/dir-" + name)
PY
stop_mount maker

# each.py SOFT PLAIN HARD WHAT: the three do WHAT at the same time, to files of their own. When the first two have heard of their errors,
# the third must still wait; it says so in HARD.waits, and tells at the end in HARD.done how it ended.
cat >"$work/each.py" <<'PY'
import errno, os, signal, sys, time
mounts = dict(zip(("soft", "plain", "hard"), sys.argv[1:4]))
what, out = sys.argv[4], sys.argv[5]

def tell(kind, said, seconds):
    with open(out + "." + kind + ".tmp", "w") as f:
        f.write("%s %.2f\n" % (said, seconds))
    os.rename(out + "." + kind + ".tmp", out + "." + kind)

def act(kind, ready, go):
    path = mounts[kind] + "/" + kind
    fd = os.open(path, os.O_RDWR) if what in ("read", "sync") else -1
    os.write(ready, b"r")
    os.read(go, 1)
    began = time.monotonic()
    try:
        if what == "read":
            got = os.pread(fd, 256, 1 << 20)
            assert got == bytes(range(256)), "wrong bytes"
        elif what == "sync":
            os.pwrite(fd, b"new", 0)
            os.fsync(fd)
        elif what == "look":
            os.stat(mounts[kind] + "/dir-" + kind + "/absent")
        elif what == "make":
            os.close(os.open(mounts[kind] + "/dir-" + kind + "/made", os.O_CREAT | os.O_RDWR))
        said = "0"
    except OSError as e:
        said = errno.errorcode[e.errno]
    tell(kind, said, time.monotonic() - began)

pids = {}
ready_r, ready_w = os.pipe()
go_r, go_w = os.pipe()
for kind in mounts:
    pids[kind] = os.fork()
    if pids[kind] == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL) # A wait for the kernel's pages ends with nothing less than the process.
        act(kind, ready_w, go_r)
        os._exit(0)
for _ in mounts:
    os.read(ready_r, 1)
with open(out + ".pid", "w") as f:
    f.write("%d\n" % pids["hard"])
os.mkfifo(out + ".go")
open(out + ".go").read()
os.write(go_w, b"go!")
for kind, pid in pids.items():
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT:
        tell(kind, "interrupted", 0)
PY

# begin WHAT: the three stand ready, with their files open.
begin() {
    what=$1
    out=$work/$1
    python3 "$work/each.py" "$work/mnt/soft" "$work/mnt/plain" "$work/mnt/hard" "$what" "$out" &
    children+=("$!")
    wait_for 60 "the three are ready" test -p "$out.go"
}

# told KIND ERRNO: it said so, not before io_timeout and not long after.
told() {
    local said seconds
    wait_for 60 "$what with $1 ends" test -s "$out.$1"
    read -r said seconds <"$out.$1"
    [ "$said" = "$2" ] || fail "$what with $1 said $said after $seconds s, not $2"
    awk -v s="$seconds" 'BEGIN { exit !(s >= 1.5 && s <= 8) }' || fail "$what with $1 ended after $seconds s, and io_timeout is 2 s"
    note "$what with $1: $said after $seconds s"
}

# The one with `hard` waits on, longer than the others have.
still_waits() {
    [ ! -e "$out.hard" ] || fail "$what with hard ended: $(cat "$out.hard")"
    grep -qE "request_wait_answer|folio_wait" "/proc/$(cat "$out.pid")/wchan" || fail "$what with hard waits for something else"
}

# ended WORD: and in the end it said so.
ended() {
    local said
    wait_for 60 "$what with hard ends" test -s "$out.hard"
    read -r said _ <"$out.hard"
    [ "$said" = "$1" ] || fail "$what with hard said $said in the end, not $1"
}

signal_all() {
    local name
    for name in "${@:2}"; do kill "-$1" "${pid_of[$name]}"; done
}

# names KIND WORDS: the log of that mount has a line with the inode of its file, a server, and the words.
names() {
    local line
    line="inode $(stat -c %i "$work/mnt/$1/$1"): .*$2.* server [12] \\(${address_of[iod1]%:*}:[0-9]+\\)"
    grep -E "$line" "$work/log/mount-$1" >/dev/null || fail "the log of $1 has no line like: $line"
}

for what in read sync; do
    begin "$what"
    signal_all STOP iod1 iod2
    echo >"$out.go"
    told soft ETIMEDOUT
    told plain EIO
    still_waits
    if [ "$what" = read ]; then
        kill -INT "$(cat "$out.pid")"
        ended interrupted
        signal_all CONT iod1 iod2
    else
        signal_all CONT iod1 iod2
        ended 0
    fi
done
names soft "cannot read"
names plain "were not written to"
for what in look make; do
    begin "$what"
    signal_all STOP meta
    echo >"$out.go"
    told soft ETIMEDOUT
    told plain EIO
    still_waits
    if [ "$what" = make ]; then
        kill -INT "$(cat "$out.pid")"
        ended interrupted
        signal_all CONT meta
    else
        signal_all CONT meta
        ended ENOENT
    fi
done

# All goes on, on each of them.
python3 - "$work"/mnt/{soft,plain,hard} <<'PY'
import os, sys
for mount in sys.argv[1:]:
    with open(mount + "/later", "rb") as f:
        assert f.read() == bytes(range(256)) * 16384, mount
    path = mount + "/after-" + os.path.basename(mount)
    with open(path, "wb") as f:
        f.write(b"after")
        os.fsync(f.fileno())
with open(sys.argv[3] + "/hard", "rb") as f:
    assert f.read(4) == b"new\3", "what hard has written is not there"
PY
cluster_end
