#!/bin/bash
# Files with two copies while machines lose their power (what was not synced is gone from the disk), and on a disk that is full: what was acknowledged
# is there, copies are the same, nobody is told of a loss that did not happen.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
own_mounts "$@"
cluster_begin replicas_power "$1"

own_disk iod1 256M
own_disk iod2 160M
start_cluster 1 --lease-time 2s
start_iod 2 --reserve 64M # What is under way to a disk that fills up goes there.
wait_for 60 "2 servers are up" servers_up 2
start_mount a
mkdir "$mnt/two"
policy "$mnt/two" replicas=2
start_mount b
two=$work/mnt/a/two beside=$work/mnt/b/two
seen_well

start_again() {
    if [ "$1" = 2 ]; then start_iod 2 --reserve 64M; else start_iod "$1"; fi
}

# Case 9a: a machine loses its power under load and returns, before and after it was missed. What was acknowledged is in the other one.
start_steady "$two" "$beside"
for victim in 1 2; do
    lose_power "iod$victim"
    goes_on 200
    start_again "$victim"
    seen_well
    goes_on 100
    lose_power "iod$victim"
    start_again "$victim"
    seen_well
    goes_on 100
done
end_steady "power lost"
head -c 5M /dev/urandom >"$work/random"
cp "$work/random" "$two/random"
sync "$two/random"
each_alone_shows "$two/random" "$work/random"

# Case 13: the smaller disk is full. Whoever writes is told so, both servers stay in the group, and there is room again when something is deleted.
if dd if=/dev/zero of="$two/large" bs=1M count=200 conv=fsync status=none 2>"$work/out"; then
    fail "200 MiB were written although one of two disks has 160 MiB"
fi
grep -qF 'No space left' "$work/out" || fail "a full disk is told as: $(cat "$work/out")"
groups_are_well || fail "a full disk has cost a copy: $(morsel status)"
each_alone_shows "$two/random" "$work/random"
rm "$two/large"
small() {
    dd if=/dev/zero of="$two/small" bs=1M count=8 conv=fsync status=none
}
wait_for 60 "there is room again" small

# Case 9: both lose their power at once. What was synced is there.
lose_power iod1
lose_power iod2
start_again 2
start_again 1
seen_well
drop_caches
cmp "$work/random" "$two/random" || fail "synced bytes are lost"
each_alone_shows "$two/random" "$work/random"
fsck_clean
cluster_end
