#!/bin/bash
# Files with two copies of which one never comes back, when the other may not decide by itself: nothing is served until somebody names the copy that counts;
# then writers are told of what may be lost, what was synced is there, and the lost server, which comes back after all with what it had, is never
# served from. Then the copy that was complete is lost, and only a stale one is left.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
own_mounts "$@"
cluster_begin recover_force "$1"

own_disk iod1 256M
own_disk iod2 256M
start_cluster 2 --lease-time 2s
start_mount a io_timeout=5s
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
start_mount b io_timeout=5s
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well
groups_there=$(morsel status --json | jq -r '.groups[].number')

# refused GROUP SERVER WORDS: nothing is changed.
refused() {
    expect_error "$3" morsel recover force --yes "$1" "$2"
}

# Of no group a copy serves.
nobody_serves() {
    [ "$(groups '.complete_copies == 0' | jq 'length > 0 and all')" = true ]
}

named() {
    [ "$(groups ".forced == $1" | jq 'length > 0 and all')" = true ]
}

# Of each group one does.
is_served() {
    [ "$(groups '.complete_copies >= 1' | jq 'all')" = true ]
}

server_is() {
    [ "$(morsel status --json | jq ".servers[] | select(.id == $1) | .up")" = "$2" ]
}

for group in $groups_there; do
    refused "$group" 1 "serves: nothing has to be forced"
done
refused 999 1 "there is no group 999"
refused "${groups_there%%[[:space:]]*}" 9 "has no copy"

# What is synced, what is only acknowledged by both servers, and who holds it open.
head -c 5M /dev/urandom >"$work/random"
cp "$work/random" "$two/synced"
sync "$two/synced"
cat >"$work/holder.py" <<'END'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
for line in sys.stdin:
    try:
        if line.strip() == "write":
            os.pwrite(fd, os.urandom(3 << 20), 0)
        else:
            os.fsync(fd)
        print("ok", flush=True)
    except OSError as e:
        print(os.strerror(e.errno), flush=True)
END
hold() { # hold WORD: what the holder answers.
    echo "$1" >&"${holder[1]}"
    read -r -t 60 answer <&"${holder[0]}" || fail "the holder does not answer to $1"
}
coproc holder { exec python3 "$work/holder.py" "$two/unsynced"; }
children+=("$holder_PID")
hold write
[ "$answer" = ok ] || fail "write: $answer"
cp "$beside/unsynced" "$work/unsynced" # Now the servers have it.

# Both lose their power under load, and the disk of one is gone.
start_steady "$two" "$beside"
goes_on 50

kill -STOP "${pid_of[iod1]}" "${pid_of[iod2]}" # At the same moment: neither sees the other go.
lose_power iod1
lose_power iod2
kill -KILL "$steady" # It cannot go on while nobody serves.
wait "$steady" || true
mv "$work/disk-iod2/data" "$work/disk-iod2/lost"
start_iod 1
wait_for 60 "server 1 is up" server_is 1 true
wait_for 60 "the manager misses server 2" server_is 2 false
wait_for 60 "nobody serves" nobody_serves
fails_in_time cat "$two/synced"
morsel status --show-loss >"$work/out" || true
grep -q "missing: server 2" "$work/out" || fail "--show-loss: $(cat "$work/out")"
grep -q "0 of 2 copies have all of it" "$work/out" || fail "--show-loss: $(cat "$work/out")"

# What would be lost is said first; without a confirmation nothing happens.
for group in $groups_there; do
    refused "$group" 2 "server 2 is down"
    if echo 2 | morsel recover force "$group" 1 >"$work/out" 2>&1; then
        fail "a confirmation of another server was taken: $(cat "$work/out")"
    fi
    for words in "What was written and not yet synced" "What was synced while it took part is there" "If server 2 runs somewhere" "nothing was changed"; do
        grep -qF "$words" "$work/out" || fail "\"$words\" is not in $(cat "$work/out")"
    done
    expect_error "yes does it" morsel recover force --json "$group" 1
done
nobody_serves || fail "a copy serves that nobody has named"
for group in $groups_there; do
    echo 1 | morsel recover force "$group" 1 >"$work/out" 2>&1 || fail "force: $(cat "$work/out")"
done
wait_for 60 "the named copies serve" is_served
named 1 || fail "status does not say whose copy was named: $(morsel status)"
morsel status >"$work/out" || true
grep -q 'FORCED: the copy on server 1' "$work/out" || fail "status: $(cat "$work/out")"
grep -q 'by command the copy on server 1 counts from now on' "$work/log/meta" || fail "the manager's log does not say so"
grep -q 'by command of the administrator this copy counts' "$work/log/iod1" || fail "the daemon's log does not say so"

# Who wrote what may be lost is told, once; what was synced is there.
hold sync
[ "$answer" = "Input/output error" ] || fail "fsync of what may be lost says: $answer"
hold write
hold sync
[ "$answer" = ok ] || fail "fsync of what was written again says: $answer"
drop_caches
cmp "$work/random" "$two/synced" || fail "synced bytes are lost"
cmp "$work/random" "$beside/synced" || fail "synced bytes are lost for the other mount"
head -c 5M /dev/urandom >"$work/newer"
dd if="$work/newer" of="$two/synced" bs=1M conv=notrunc,fsync status=none
rm "$two/unsynced"

# The lost server comes back with what it had.
mv "$work/disk-iod2/lost" "$work/disk-iod2/data"
start_iod 2
seen_well
wait_for 60 "all copies are complete, and status says no more that one was named" named 0
each_alone_shows "$two/synced" "$work/newer"

# Only a stale copy is left: what was written without it is lost, and what was synced before is there.
crash iod2
seen_alone 2
cp "$work/random" "$two/later"
sync "$two/later"
dd if="$work/random" of="$two/synced" bs=1M conv=notrunc,fsync status=none
crash iod1
start_iod 2
wait_for 60 "server 2 is up" server_is 2 true
wait_for 60 "the manager misses server 1" server_is 1 false
wait_for 60 "nobody serves" nobody_serves
for group in $groups_there; do
    morsel recover force --yes "$group" 2 >"$work/out" 2>&1 || fail "force: $(cat "$work/out")"
    grep -qF "Everything that was written while it was left behind, synced or not" "$work/out" || fail "force: $(cat "$work/out")"
done
wait_for 60 "the named copies serve" is_served
drop_caches
cmp "$work/newer" "$two/synced" || fail "what was synced with the named copy is lost"

# Who stood alone, and has newer bytes, comes back: it is not served from.
start_iod 1
cmp "$work/newer" "$two/synced" || fail "bytes of a copy that was given up are served"
seen_well
each_alone_shows "$two/synced" "$work/newer"
stop_holder() {
    kill "$holder_PID"
    wait "$holder_PID" || true
}
stop_holder
fsck_clean
cluster_end
