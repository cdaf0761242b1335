#!/bin/bash
# What a server that has lost its places still has of deleted files: nothing waits for it for ever in the manager's
# queue, and objects of its old copies that were left behind by a kill are collected by fsck.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin leftovers "$1"

start_cluster 3 --lease-time 2s --heartbeat 300ms --rebuild-after 2s
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
two=$work/mnt/a/two
seen_well
mkdir "$work/reference"
for i in {1..12}; do
    head -c 200000 /dev/urandom >"$work/reference/$i"
    cp "$work/reference/$i" "$two/$i"
    sync "$two/$i"
done

# No place of its own any more, and all copies are complete.
is_out() {
    [ "$(morsel status --json | jq ".servers[] | select(.id == 2) | .places")" = 0 ] && groups_are_well
}
no_garbage() {
    [ "$(morsel status --json | jq .garbage)" = 0 ]
}
has_objects() {
    [ -n "$(find "$work/iod2/objects" -type f)" ]
}
has_none() {
    ! has_objects
}

# Files are deleted while server 2 is away, which loses its places then.
crash iod2
has_objects || fail "server 2 has no object at all"
cp -a "$work/iod2" "$work/aside"
seen_alone 2
rm "$two"/{1..6}
wait_for 120 "server 2 holds no copy, and all are complete" is_out
start_iod 2
wait_for 60 "server 2 deletes its copies" has_none
wait_for 60 "nothing waits to be deleted" no_garbage
note "deleted while the server was away"

# As if it had been killed while it deleted them: its table of groups is the new one by then.
crash iod2
cp -a "$work/aside/objects/." "$work/iod2/objects/"
start_iod 2
wait_for 60 "all servers are up" running_are_up
has_objects || fail "server 2 has no object again"
if morsel fsck >"$work/found"; then fail "fsck finds nothing: $(cat "$work/found")"; fi
grep -q "server 2: object .* belongs to no file" "$work/found" || fail "fsck: $(cat "$work/found")"
morsel fsck --repair >"$work/found" || [ $? = 4 ] || fail "fsck --repair: $(cat "$work/found")"
wait_for 60 "what was left is collected" has_none
wait_for 60 "nothing waits to be deleted any more" no_garbage
fsck_clean
drop_caches
start_mount b # That has none of it in its memory.
for i in {7..12}; do
    cmp "$work/reference/$i" "$mnt/two/$i" || fail "of a file that was not deleted something was collected"
done
note "killed while it deleted its copies"
cluster_end
