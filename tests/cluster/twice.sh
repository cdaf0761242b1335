#!/bin/bash
# A change of data takes effect once at most: the answer to it is lost behind the server, another mount writes to the same place, and the link
# comes back. What the other mount wrote stays, and whoever changed the data first is told that it was done; or EIO where the server has been
# started again and nobody can know.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin twice "$1"
start_cluster 1
start_host far
start_relay far --lose "$work/lose" --lose-rename "$work/lose-rename" --delay "$work/delay"
start_near_and_far

# change DIRECTORY FILE STEP...: one process opens the file and takes the steps; each that ends is a line of the output.
cat >"$work/change.py" <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
fd = os.open(sys.argv[1], os.O_RDWR)
steps = {
    "write": lambda: os.pwrite(fd, b"A" * 4096, 4096),
    "punch": lambda: fallocate(fd, 3, 4096, 4096),
    "allocate": lambda: fallocate(fd, 0, 4096, 16384),
    "cut": lambda: os.ftruncate(fd, 4096),
    "write_and_sync": lambda: (os.pwrite(fd, b"A" * 4096, 4096), os.fsync(fd)),
    "copy": lambda: os.copy_file_range(os.open(sys.argv[3], os.O_RDONLY), fd, 8192, 0, 0),
}
try:
    steps[sys.argv[2]]()
    print("done", flush=True)
except OSError as e:
    print(e.strerror, flush=True)
PY

lost() {
    [ -s "$work/lose" ]
}

# The mount at the end of the relay changes $file, and the answer to it is lost.
change_and_lose() {
    : >"$work/lose"
    python3 "$work/change.py" "$far/$file" "$@" >"$work/said" 2>&1 &
    changer=$!
    children+=("$changer")
    wait_for 60 "the server has carried it out" lost
}

# The link is back.
break_link() {
    rm "$work/lose"
}

said() {
    local word
    timeout 60 tail --pid="$changer" -s 0.05 -f /dev/null || fail "$file: whoever changed it waits for ever"
    word=$(cat "$work/said")
    [ "$word" = "$1" ] || fail "$file: the mount whose answer was lost said '$word', not '$1'"
}

# A file that both mounts have open.
shared_file() {
    file=$1
    head -c 8192 /dev/zero | tr '\0' 'o' >"$near/$file"
    exec 7<>"$near/$file"
}

piece() {
    dd if="$1" bs=4096 iflag=skip_bytes,count_bytes,fullblock skip="$2" count="$3" status=none
}

# holds BYTES AT LENGTH: on both mounts the file has nothing but BYTES there.
holds() {
    local path
    for path in "$near/$file" "$far/$file"; do
        piece "$path" "$2" "$3" >"$work/piece"
        [ "$(tr -d "$1" <"$work/piece" | wc -c)" = 0 ] && [ "$(stat -c %s "$work/piece")" = "$3" ] ||
            fail "$path: what another mount wrote is gone: $(od -c "$work/piece" | head -3)"
    done
}

overwrite() {
    head -c 4096 /dev/zero | tr '\0' 'B' | timeout 20 dd of="$near/$file" bs=4096 seek=1 conv=notrunc status=none ||
        fail "$file: the other mount cannot write"
}

repeats() {
    counter repeats_answered "${address_of[iod1]}"
}

for step in write punch allocate; do
    shared_file "$step"
    before=$(repeats)
    change_and_lose "$step"
    overwrite
    break_link
    said "done"
    holds B 4096 4096
    [ "$(repeats)" -gt "${before:-0}" ] || fail "$step was not repeated, or not recognized"
    exec 7>&-
    note "$step took effect once"
done

# A cut is alone with the file: whoever else writes waits for it. It is recognized all the same, and so is a copy.
shared_file cut
before=$(repeats)
change_and_lose cut
overwrite &
other=$!
break_link
said "done"
wait "$other" || fail "the write behind a cut failed"
holds B 4096 4096
[ "$(repeats)" -gt "$before" ] || fail "a cut was not repeated, or not recognized"
exec 7>&-
note "a cut took effect once"
head -c 8192 /dev/zero | tr '\0' 'c' >"$far/source"
: >"$far/copied"
sync "$far/source"
file=copied
before=$(repeats)
change_and_lose copy "$far/source"
break_link
said "done"
holds c 0 8192
[ "$(repeats)" -gt "$before" ] || fail "a copy was not repeated, or not recognized"
note "a copy took effect once"

# Two names are exchanged, once, and the mount that asked twice knows which is which.
mkdir "$near/names"
printf one >"$near/names/one"
printf two >"$near/names/two"
cat "$far"/names/* >"$work/piece"
: >"$work/lose-rename"
python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, os.fsencode(sys.argv[1] + "/one"), -100, os.fsencode(sys.argv[1] + "/two"), 2) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))' "$far/names" &
changer=$!
children+=("$changer")
wait_for 60 "the manager has exchanged the names" test -s "$work/lose-rename"
rm "$work/lose-rename"
wait "$changer" || fail "who exchanged two names was told that it failed"
for directory in "$near" "$far" "$far"; do
    [ "$(cat "$directory/names/one") $(cat "$directory/names/two")" = "two one" ] ||
        fail "$directory: behind an exchange one and two are $(cat "$directory/names/one") and $(cat "$directory/names/two")"
    drop_caches # So the kernel asks the mount.
done
note "two names were exchanged once, and are known for what they are"

# The server is started again before the link is back: it knows nothing any more.
for step in write punch; do
    shared_file "restart-$step"
    change_and_lose "$step"
    overwrite
    crash iod1
    start_iod 1 7>&-
    break_link
    said "Input/output error"
    holds B 4096 4096
    exec 7>&-
    note "$step before a restart of the server: EIO, and what came later stays"
done

# Nobody else can have written where a mount has the file for itself: then a restart costs nothing.
file=alone
head -c 8192 /dev/zero | tr '\0' 'o' >"$far/$file"
change_and_lose write_and_sync
crash iod1
start_iod 1
break_link
said "done"
holds A 4096 4096
note "a write under a lease survived a restart of the server"

# A write that was given up may still land until its lease period is over. Whoever gave it up closes the file: still nobody is told that the file
# will stay as it is.
# Of the server's counters: writes and cuts that have been answered, or refused.
changes_answered() {
    morsel stats "${address_of[iod1]}" | awk '$1 == "write.served" || $1 == "truncate.served" { n += $2 } END { print n + 0 }'
}
another_change() {
    [ "$(changes_answered)" -gt "$before" ]
}
# Whoever changes $file hears that it failed, and the change is still on its way.
change_and_give_up() {
    before=$(changes_answered)
    : >"$work/delay"
    python3 "$work/change.py" "$far/$file" "$1" >"$work/said" 2>&1
    grep -q "Input/output error" "$work/said" || fail "$file: a change that does not arrive says '$(cat "$work/said")'"
    [ "$(changes_answered)" = "$before" ] || fail "$file: a change arrived although it was held up"
}
change_arrives() {
    before=$(changes_answered)
    rm "$work/delay"
    wait_for 60 "the change has arrived" another_change
}
inject=("${on_host[@]}")
start_mount brief io_timeout=1s
far=$mnt
inject=()
shared_file closed
change_and_give_up write
exec 7>&-
wait_for 60 "nobody else has the file open" opens_alone "$near" "$file" O_RDONLY
exec 7<"$near/$file"
read_7() {
    python3 -c 'import os; os.write(1, os.pread(7, 8192, 0))'
}
read_7 >/dev/null
change_arrives
read_7 | cmp - "$far/$file" || fail "a mount keeps what it read of a file, and another one's write has landed in it"
exec 7<&-
note "a file in which a write may still land is not closed for the manager"

# Nobody else may write where a change that was given up may still land: a size lock is let go, and a lease given back, when it cannot any more.
shared_file given-up-cut
change_and_give_up cut
head -c 4096 /dev/zero | tr '\0' 'B' | timeout 20 dd of="$near/$file" bs=4096 oflag=append conv=notrunc status=none ||
    fail "$file: the other mount cannot append"
change_arrives
holds o 0 8192
holds B 8192 4096
exec 7>&-
note "a cut: nobody appended before it could not be made any more"
shared_file given-up-write
change_and_give_up write
timeout 20 truncate -s 4096 "$near/$file" || fail "$file: the other mount cannot cut"
timeout 20 truncate -s 12288 "$near/$file" || fail "$file: the other mount cannot extend"
change_arrives
holds o 0 4096
holds '\0' 4096 8192
exec 7>&-
note "a write to a shared file: nobody cut it before the write could not land any more"
file=given-up-alone
head -c 8192 /dev/zero | tr '\0' 'o' >"$far/$file"
sync "$far/$file"
change_and_give_up write_and_sync
overwrite
change_arrives
holds B 4096 4096
note "a write under a lease: nobody else wrote before it could not land any more"
cluster_end
