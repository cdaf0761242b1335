#!/bin/bash
# Files with two copies on two I/O daemons and a manager, with steady writers on one mount and verifying readers on another one while daemons are
# killed, frozen and lost for good moments: the cases of docs/replication.md, by their numbers.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin replicas "$1"

start_cluster 2 --lease-time 2s
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
start_mount b
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well

# A file has two copies, on both servers, under the same names.
printf 'two copies\n' >"$two/note"
sync "$two/note"
objects_of() {
    (cd "$work/$1/objects" && find . -type f | LC_ALL=C sort)
}
[ -n "$(objects_of iod1)" ] && [ "$(objects_of iod1)" = "$(objects_of iod2)" ] ||
    fail "the file does not lie on both servers: $(objects_of iod1) and $(objects_of iod2)"

# Cases 1, 2, 4 and 5: either server is killed; who is left goes on; who returns is brought up to date and takes part.
start_steady "$two" "$beside"
for victim in 1 2 1; do
    crash "iod$victim"
    goes_on 300
    seen_alone "$victim"
    start_iod "$victim"
    seen_well
    goes_on 100
done
end_steady "killed"

# Case 12 at its worst: a server is frozen, and wakes up behind the vote.
start_steady "$two" "$beside"
for victim in 2 1; do
    kill -STOP "${pid_of[iod$victim]}"
    goes_on 300
    kill -CONT "${pid_of[iod$victim]}"
    seen_well
done
end_steady "frozen"

# Case 9: both are killed together under load, and return.
start_steady "$two" "$beside"
goes_on 100
crash iod1
crash iod2
start_iod 2
start_iod 1
seen_well
goes_on 100
end_steady "both killed"

# What the servers have is the same: each alone shows all of it.
head -c 5M /dev/urandom >"$work/random"
cp "$work/random" "$two/random"
sync "$two/random"
each_alone_shows "$two/random" "$work/random"

# Case 3: nobody is there. An error within the time, no hang; and it works again when they are back.
start_mount c io_timeout=3
crash iod1
crash iod2
fails_in_time cat "$work/mnt/c/two/random"
start_iod 1
start_iod 2
seen_well
cmp "$work/mnt/c/two/random" "$work/random"

# Cases 6 and 7: who went on alone is away, and the one that is back knows less: it never serves.
for alone in 1 2; do
    behind=$((3 - alone))
    crash "iod$behind"
    printf 'known to %s alone\n' "$alone" >"$two/later"
    sync "$two/later"
    crash "iod$alone"
    start_iod "$behind"
    wait_for 60 "server $behind is with the manager" servers_up 1
    drop_caches
    fails_in_time cat "$work/mnt/c/two/later"
    start_iod "$alone"
    seen_well
    [ "$(cat "$work/mnt/c/two/later")" = "known to $alone alone" ] || fail "a stale copy was read"
    each_alone_shows "$two/random" "$work/random"
done

# Case 8: no majority of voters. Nothing changes, and all is well when it is back.
crash iod1
stop meta
fails_in_time dd if=/dev/zero of="$work/mnt/c/two/random" bs=4k count=1 conv=notrunc,fsync status=none
start_meta
start_iod 1
seen_well
copies_are_equal

# Case 16: a server comes back, and nothing of its objects and copies is on its disk. While nobody can give it any, it serves nothing; then it is given everything.
for emptied in 1 2; do
    crash "iod$emptied"
    printf 'before %s was emptied\n' "$emptied" >"$two/emptied"
    sync "$two/emptied"
    crash "iod$((3 - emptied))"
    rm -r "$work/iod$emptied"/{objects,copies}
    start_iod "$emptied"
    wait_for 60 "server $emptied is with the manager" servers_up 1
    drop_caches
    fails_in_time cat "$work/mnt/c/two/emptied"
    start_iod "$((3 - emptied))"
    seen_well
    [ "$(cat "$work/mnt/c/two/emptied")" = "before $emptied was emptied" ] || fail "an empty copy was read"
    each_alone_shows "$two/random" "$work/random"
done
copies_are_equal
fsck_clean
cluster_end
