#!/bin/bash
# The morsel command on a real cluster: what it shows is true, and its exit codes are what the manual says.
#
#   tests/cluster/command.sh BUILD
#
# Exit code 77 (skipped): nothing can be mounted here.
set -euo pipefail
# shellcheck source=tests/lib/skip.sh
. "$(dirname "$0")/../lib/skip.sh"

morsel=$(cd "$1" && pwd)/bin/morsel
[ -c /dev/fuse ] || skip_test cluster/command "there is no /dev/fuse"
work=$(mktemp -d /tmp/morsel-command-XXXXXX)
cluster=$work/cluster
mnt=$cluster/mount
holder=

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    [ -z "$holder" ] || kill "$holder" 2>/dev/null || true
    "$morsel" cluster stop --force "$cluster" || true
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAIL $*"
    tail -n 5 "$work/out" "$work/err" || true
    tail -n 20 "$cluster"/log/* || true
    exit 1
}

# expect CODE COMMAND...: output in $work/out and $work/err.
expect() {
    local wanted=$1 code=0
    shift
    "$morsel" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    [ "$code" = "$wanted" ] || fail "morsel $*: exit code $code, not $wanted"
}

# says JQ-FILTER: holds for the JSON just printed.
says() {
    jq -e "$1" "$work/out" >/dev/null || fail "not so: $1"
}

stop_server() {
    kill "$(cut -d' ' -f1 "$cluster/run/iod-$1.pid")"
    while ("$morsel" status --json || true) | jq -e ".servers[] | select(.id == $1) | .up" >/dev/null; do
        read -r -t 0.1 <>"$work/never" || true
    done
}
mkfifo "$work/never"

expect 1 cluster start --replicas=4 "$cluster"
grep -q 'give auto, 1, 2 or 3' "$work/err" || fail "a number of copies that nobody can have is not named"
expect 0 cluster start --servers=1 --replicas=1 --json "$cluster"
MORSEL_MANAGER=$(jq -r .manager "$work/out") "$morsel" status --json >"$work/out" || fail "status"
says '.new_files == {"replicas": 1, "rule": "1"} and .groups == []'
expect 0 cluster stop "$cluster"
expect 0 cluster start --servers=3 --mount="$mnt" --json "$cluster"
says '.running and (.processes | length) == 4'
MORSEL_MANAGER=$(jq -r .manager "$work/out")
export MORSEL_MANAGER

# ---- status, df, stats

expect 0 status --json
says '.health == "healthy" and (.servers | length) == 3 and (.cluster | length) == 32 and .sessions == 1'
expect 0 df --json
says '.bytes_total >= .bytes_free and .bytes_free > 0 and (.servers | unique_by(.device) | map(.bytes_total) | add) == .bytes_total'
expect 0 stats --json
says '.["register.served"] >= 3'
expect 0 stats --json "$(cat "$cluster/run/iod-1.address")"
expect 3 stats 127.0.0.1:1 --timeout=200ms
expect 0 stats --json "$mnt/"
says '.cpu_ns > 0 and .resident_bytes > 0 and .["session.called"] >= 1'
expect 1 stats "$work/"

expect 0 status
if grep -q '^donors' "$work/out"; then fail "donors are shown where there are none"; fi
expect 0 donors
grep -q 'No benefactor has joined' "$work/out" || fail "no word of there being no benefactors"
expect 0 donors --json
says '. == {"count": 0, "here": 0, "donated": 0, "used": 0, "donors": []}'
expect 3 donors --manager=127.0.0.1:1 --timeout=200ms
expect 0 datasets
grep -q 'No data sets lie on benefactors' "$work/out" || fail "no word of there being no data sets"
expect 0 datasets --json
says '. == {"count": 0, "bytes": 0, "incomplete": 0, "datasets": []}'
expect 3 datasets --manager=127.0.0.1:1 --timeout=200ms

# ---- top: rates of everybody, and a mount that is stopped holds nothing up

(while echo x >"$mnt/busy" && rm "$mnt/busy"; do :; done) 2>/dev/null &
busy=$!
expect 0 top --json --rounds=1 --interval=500ms
says '(.programs | map(.sort)) == ["manager", "server", "server", "server", "mount"]'
says '.programs | all(.answers and .resident_bytes > 0)'
says '.kinds | map(select(.where == "manager" and .kind == "create")) | .[0].per_s > 0 and .[0].busy_us > 0'
says '.kinds | map(select(.where == "mount" and .kind == "create")) | .[0].mean_us > 0'
says '.kinds | map(select(.where == "mount asks" and .kind == "create")) | .[0].mean_us > 0'
expect 0 top --rounds=2 --interval=100ms
grep -q "mount asks" "$work/out" || fail "top says nothing of round trips"
kill "$busy"
wait "$busy" 2>/dev/null || true
mount_pid=$(cut -d' ' -f1 "$cluster/run/mount.pid")
kill -STOP "$mount_pid"
expect 0 top --json --rounds=1 --interval=100ms --timeout=200ms
kill -CONT "$mount_pid"
says '.programs | map(select(.answers | not) | .sort) == ["mount"]'
expect 3 top --manager=127.0.0.1:1 --timeout=200ms
expect 2 top --interval=1ms
expect 3 status --manager=127.0.0.1:1 --timeout=200ms
expect 3 df --manager=127.0.0.1:1 --timeout=200ms
expect 3 fsck --manager=127.0.0.1:1 --timeout=200ms

# ---- Policies and layouts

expect 0 status --json
says '.new_files == {"replicas": 2, "rule": "auto"} and (.groups | length) == 4 and all(.groups[]; .well)'
expect 0 getpolicy --json "$mnt"
says '.own.replicas == null and .effective.replicas == 2 and .replicas_from == "auto"'
: >"$mnt/first"
expect 0 layout --json "$mnt/first"
says '.[0].replicas == 2'
rm "$mnt/first"
expect 0 setpolicy "$mnt" replicas=1 # What follows looks at where single bytes are.
expect 0 getpolicy --json "$mnt"
says '.own.replicas == 1 and .effective.replicas == 1 and .replicas_from == "directory"'
mkdir "$mnt/two"
expect 0 setpolicy "$mnt/two" stripe_width=2 morsel-size=64K stripe_size=3
expect 0 getpolicy --json "$mnt/two"
says '.own.stripe_width == 2 and .own.replicas == null and .effective.morsel_size == 65536 and .effective.stripe_size == 3'
mkdir "$mnt/two/below"
expect 0 getpolicy --json "$mnt/two/below"
says '.own.stripe_width == null and .effective.stripe_width == 2'
expect 0 setpolicy "$mnt/two" stripe_size=inherit
expect 0 setpolicy "$mnt/two" stripe_size=inherit # Again is harmless.
expect 0 getpolicy --json "$mnt/two/below"
says '.effective.stripe_size == 1'
expect 0 setpolicy "$mnt/two" class=scavenged replicas=3
expect 0 getpolicy --json "$mnt/two/below"
says '.effective.class == "scavenged" and .effective.replicas == 3'
expect 0 setpolicy "$mnt/two" class=inherit replicas=inherit
expect 2 setpolicy "$mnt/two" stripe_width=65
expect 0 setpolicy "$mnt/two" stripe_size=3

# The layout is believed only because the bytes are really there: each range of the file, read from the column's object.
head -c 1000000 /dev/urandom >"$work/file"
cp "$work/file" "$mnt/two/file"
sync "$mnt/two/file"
expect 0 layout --all --json "$mnt/two/file"
says '.[0].size == 1000000 and (.[0].columns | length) == 2 and ([.[0].columns[].bytes] | add) == 1000000'
says '[.[0].columns[].ranges[][1]] | add == 1000000'
says '[.[0].columns[].ranges[][0]] | length == (unique | length)'
says '.[0].columns[0].ranges[0:2] == [[0, 196608], [393216, 196608]]'
says '.[0].columns[1].ranges[0:2] == [[196608, 196608], [589824, 196608]]'
while read -r server object; do
    [ -n "$(find "$cluster/iod-$server/objects" -name "$object*")" ] || fail "server $server has no object $object"
done < <(jq -r '.[0].columns[] | "\(.server) \(.object)"' "$work/out")
expect 0 layout "$mnt/two/file"
grep -q '0-196607,393216-589823' "$work/out" || fail "the text does not show the ranges"
: >"$mnt/empty"
expect 0 layout --json "$mnt/empty" "$mnt/two/file"
says 'length == 2 and .[0].size == 0 and ([.[0].columns[].ranges[]] | length) == 0'
expect 2 layout "$mnt/two"
expect 2 layout "$work/file"
expect 1 layout "$mnt/none"

# ---- fsck: clean; then the objects of a file that a metadata backup knows nothing of

expect 0 fsck --json
says '.result == "clean" and .servers_checked == 3 and .objects >= 2'
expect 0 cluster stop "$cluster"
cp -a "$cluster/meta" "$work/backup"
expect 0 cluster start --mount="$mnt" "$cluster"
head -c 3M /dev/zero >"$mnt/later"
sync "$mnt/later"
expect 0 cluster stop "$cluster"
rm -r "$cluster/meta"
cp -a "$work/backup" "$cluster/meta"
expect 0 cluster start --mount="$mnt" --json "$cluster"
MORSEL_MANAGER=$(jq -r .manager "$work/out")
cmp "$work/file" "$mnt/two/file" || fail "the file changed over a restart"
objects() {
    find "$cluster"/iod-*/objects -type f | wc -l
}
before=$(objects)
expect 1 fsck --json
says '.result == "problems" and .orphans == 3 and .problems_count == 3 and .repaired == 0'
[ "$(objects)" = "$before" ] || fail "a check without --repair has changed something"
expect 4 fsck --repair --json
says '.result == "repaired" and .orphans == 3 and .repaired == 3'
while [ "$(objects)" != $((before - 3)) ]; do # The next heartbeat brings the order to delete them.
    [ $SECONDS -lt 60 ] || fail "the stray objects are not collected"
    read -r -t 0.1 <>"$work/never" || true
done
expect 0 fsck
cmp "$work/file" "$mnt/two/file" || fail "the file changed by fsck --repair"

# ---- A server is down

stop_server 2
expect 1 status --json
says '.health == "degraded" and (.servers | map(select(.up)) | length) == 2'
expect 1 fsck --json
says '.servers_skipped == 1'
expect 1 cluster status "$cluster"
expect 0 cluster start --json "$cluster"
says '.running'
expect 0 status

# ---- Short slices, in all threads (Linux 6.12 is the first that keeps them)

python3 - "$cluster"/run/*.pid <<'PY' || fail "a daemon has not asked for short slices"
import ctypes, os, platform, struct, sys
libc, SYS_SCHED_GETATTR = ctypes.CDLL(None), {"x86_64": 315, "aarch64": 275}[platform.machine()]
keeps = tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)
for path in sys.argv[1:]:
    pid = open(path).read().split()[0]
    for thread in os.listdir(f"/proc/{pid}/task"):
        attr = ctypes.create_string_buffer(48)
        assert libc.syscall(SYS_SCHED_GETATTR, int(thread), attr, 48, 0) == 0
        policy, slice_ns = struct.unpack_from("<I", attr.raw, 4)[0], struct.unpack_from("<Q", attr.raw, 24)[0]
        name = open(f"/proc/{pid}/task/{thread}/comm").read().strip()
        assert policy == 0 and (slice_ns == 100000 or not keeps), f"{path}, {name}: policy {policy}, slice {slice_ns} ns"
PY

# ---- A busy mount is not torn away, unless that is wanted

exec 8>"$mnt/held"
expect 1 cluster stop "$cluster"
grep -q 'open there' "$work/err" || fail "the reason is not said"
expect 0 cluster status "$cluster"
mountpoint -q "$mnt" || fail "a refused stop has unmounted"
exec 8>&-
expect 0 cluster unmount "$cluster"
expect 0 cluster status --json "$cluster"
says '.running and .mount == null'
expect 0 cluster start --mount="$mnt" "$cluster"
exec 8>"$mnt/held"
expect 0 cluster stop --force "$cluster"
exec 8>&- || true
expect 1 cluster status "$cluster"
! grep -q 'pid [0-9]' "$work/out" || fail "a process is left"
! mountpoint -q "$mnt" || fail "the mount is left"
expect 3 status --timeout=200ms
echo "command: good"
