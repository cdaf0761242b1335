#!/bin/bash
# A mount that holds a lease is cut off with its writes on the way: what it sent must not land when the link is mended, because others have
# written since. It is told EIO once, and goes on by itself.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin fencing "$1"
start_host far
listen_for_host
start_cluster 2 --lease-time 2s
start_near_and_far

mkfifo "$work/feed"
for round in 1 2 3; do
    file=file$round
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' '0' >"$far/$file"
    sync "$far/$file"
    wait_for 60 "the lease on a new file" opens_alone "$far" "$file" O_RDWR
    dd bs=1M iflag=fullblock conv=notrunc,fsync status=none 1<>"$far/$file" <"$work/feed" 2>"$work/dd" &
    writer=$!
    children+=("$writer")
    exec 8>"$work/feed" # The file is open then, too.
    [ ! -e "$far/new$round" ] # Now it knows.
    # It holds the lease, and what it writes now lies in its sockets.
    cut_link far
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' 'A' >&8 # All but what a pipe holds is taken, and so written.
    before=$(now_ms)
    dd if=/dev/zero bs=1M count=4 status=none | tr '\0' 'B' | timeout 30 dd of="$near/$file" bs=1M conv=notrunc,fsync status=none ||
        fail "a mount that was cut off holds up another one"
    took=$(($(now_ms) - before))
    [ "$took" -lt 4000 ] || fail "a mount that was cut off was waited for $took ms"
    touch "$near/new$round"
    mend_link far
    exec 8>&-
    ! wait "$writer" || fail "the mount that was cut off believes that its bytes were written"
    grep -q 'Input/output error' "$work/dd" || fail "not EIO: $(cat "$work/dd")"
    [ "$(tr -d 'B' <"$near/$file" | wc -c)" = 0 ] || fail "bytes of a mount that was cut off landed after those of another one"
    cmp "$far/$file" "$near/$file" || fail "the mount that was cut off reads what it had"
    [ -e "$far/new$round" ] || fail "the mount that was cut off misses a name that others made"
    echo again >"$far/after$round" || fail "the mount that was cut off does not go on"
    [ "$(cat "$near/after$round")" = again ] || fail "what it writes afterwards is not seen"
    note "round $round: waited $took ms, nothing landed late"
done

# A write that the kernel cuts in several says how far it got, and not that the rest failed; a program goes on behind that, and it is fsync
# that tells what is lost, once, whatever was told before. (The buffer is as small as one of those parts, so that the second waits.)
inject=("${on_host[@]}")
start_mount tight write_buffer=1M
inject=()
tight=$mnt
file=short
dd if=/dev/zero bs=1M count=4 status=none | tr '\0' '0' >"$tight/$file"
sync "$tight/$file"
wait_for 60 "the lease on a new file" opens_alone "$tight" "$file" O_RDWR
python3 - "$tight/$file" "$work/feed" >"$work/short" <<'PY' &
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
open(sys.argv[2]).read()
def told(call):
    try:
        return call()
    except OSError as e:
        return e.strerror
data = b"A" * (3 << 20)
print("write", told(lambda: os.write(fd, data)))
print("write", told(lambda: os.write(fd, data[:100])))
print("fsync", told(lambda: os.fsync(fd)))
print("fsync", told(lambda: os.fsync(fd)))
PY
writer=$!
children+=("$writer")
exec 8>"$work/feed"
[ ! -e "$tight/tight" ] # It is still open, and the manager heard so.
cut_link far
exec 8>&-
dd if=/dev/zero bs=1M count=4 status=none | tr '\0' 'B' | timeout 30 dd of="$near/$file" bs=1M conv=notrunc,fsync status=none ||
    fail "a mount that was cut off holds up another one"
mend_link far
wait "$writer" || fail "a writer that was cut off has ended badly"
[ "$(cat "$work/short")" = "write 1048576
write 100
fsync Input/output error
fsync None" ] || fail "what a writer was told whose write was cut in several, and lost: $(cat "$work/short")"
note "fsync tells what a short write did not"

# Likewise where both have the file open and nobody holds a lease: an append and a cut whose size lock is over when the servers are back.
for step in 'append' 'cut'; do
    file=$near/shared-$step
    printf 0123456789 >"$file"
    exec 7<>"$file"
    crash iod1
    crash iod2
    python3 - "$step" "$far/shared-$step" >"$work/$step" <<'PY' &
import os, sys
fd = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
try:
    if sys.argv[1] == "append":
        os.write(fd, b"AAAA")
    else:
        os.ftruncate(fd, 3)
    print("done")
except OSError as e:
    print(e.strerror)
PY
    late=$!
    children+=("$late")
    wait_for 60 "the size lock to $step" counter_is locks 1
    cut_link far
    start_iod 1 7>&-
    start_iod 2 7>&-
    timeout 30 bash -c 'printf BBBB >>"$1"' - "$file" || fail "a mount that was cut off before its $step holds up another one"
    mend_link far
    wait "$late"
    [ "$(cat "$work/$step")" = 'Input/output error' ] || fail "$step after its size lock: $(cat "$work/$step")"
    for path in "$file" "$far/shared-$step"; do
        [ "$(cat "$path")" = 0123456789BBBB ] || fail "$step after its size lock: $path is $(cat "$path")"
    done
    exec 7>&-
    note "no $step after its size lock"
done

# Attributes that were set under a lease, answered, and lost with it: fsync tells, once, also through a handle that cannot write, and of
# a file that nobody had open.
mkdir "$far/attributes"
echo held >"$far/attributes/held"
echo quiet >"$far/attributes/quiet"
sync "$far/attributes/held" "$far/attributes/quiet"
mkfifo "$work/go"
python3 - "$far/attributes" "$work/go" >"$work/attributes" <<'PY' &
import os, sys
path, go = sys.argv[1:]
go = open(go)
def say(word):
    print(word, flush=True)
def sync(fd):
    try:
        os.fsync(fd)
        return 0
    except OSError as e:
        return e.strerror
held = os.open(path + "/held", os.O_RDONLY)
os.stat(path + "/quiet")
for line in go:
    if line.strip() == "sync":
        break
    os.fchmod(held, int(line, 8))
    os.chmod(path + "/quiet", int(line, 8))
    say("set " + line.strip())
quiet = os.open(path + "/quiet", os.O_RDONLY)
for fd in held, quiet, held, quiet:
    say(sync(fd))
PY
setter=$!
children+=("$setter")
exec 8>"$work/go"
# A busy machine may take longer to cut the link than the lease period lasts: they wait for the manager then, and it is tried again.
is_set() {
    grep -q "set $mode" "$work/attributes"
}
under_the_lease=no
for mode in 640 604 650 605 620; do
    wait_for 60 "the lease on a new file" opens_alone "$far" attributes/quiet O_RDWR
    cut_link far
    echo "$mode" >&8
    within 2 is_set && under_the_lease=yes && break
    mend_link far
    wait_for 60 "attributes are set behind a cut" is_set
done
[ "$under_the_lease" = yes ] || fail "no attributes could be set while the lease was valid"
for name in held quiet; do
    timeout 30 chmod u=rwx,go= "$near/attributes/$name" || fail "a mount that was cut off holds up another one"
done
mend_link far
sees_it() {
    [ "$(timeout 10 stat -c %a "$far/attributes/held" "$far/attributes/quiet" | sort -u)" = 700 ]
}
wait_for 60 "the mount that was cut off sees what another one has set" sees_it
echo sync >&8
wait "$setter" || fail "who has set attributes has ended badly"
exec 8>&-
[ "$(tail -n 4 "$work/attributes" | tr '\n' ,)" = 'Input/output error,Input/output error,0,0,' ] ||
    fail "what fsync tells of attributes that are lost: $(cat "$work/attributes")"
note "fsync tells of attributes that are lost"
cluster_end
