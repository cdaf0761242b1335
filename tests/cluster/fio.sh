#!/bin/bash
# fio writes, and verifies what it reads back: in sequence, at random, mapped, and through fresh handles.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin fio "$1"
start_cluster 4
start_mount a

# verify NAME OPTIONS...: write everything, then read and compare everything, each as a run of its own.
verify() {
    local name=$1 options
    shift
    options=(--name="$name" --directory="$mnt" --verify=crc32c --verify_fatal=1 --group_reporting
        --output="$work/log/fio-$name" --randseed=7 "$@")
    (cd "$work" && timeout 600 fio "${options[@]}" --do_verify=0) >/dev/null || fail "fio $name: write"
    drop_caches
    (cd "$work" && timeout 600 fio "${options[@]}" --verify_only) >/dev/null || fail "fio $name: verify"
    rm -f "$mnt/$name".*
    note "$name"
}

verify sequential --rw=write --bs=1M --size=128M --numjobs=2
verify odd --rw=write --bs=37k --size=48M
verify random --rw=randwrite --bs=4k --size=12M --numjobs=2
verify mixed --rw=randwrite --bsrange=512-300k --bs_unaligned=1 --size=64M --fsync=50
verify mapped --rw=randwrite --bs=4k --size=16M --ioengine=mmap
verify direct --rw=randwrite --bs=64k --size=64M --direct=1 --ioengine=libaio --iodepth=16
cluster_end
