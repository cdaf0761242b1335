#!/bin/bash
# A writer pauses, and so do benefactors: while its file is open they sleep, others take their places, and they wake up; then the writer goes on. And all owners
# pause what they give: whoever reads is told what he is told when benefactors are away. Many writers
# pause at once.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin datasets_idle "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 4 --repair-after 1s
start_mount a io_timeout=20s
a=$mnt
mkdir "$a/set"
policy "$a/set" class=scavenged
head -c 2000000 /dev/urandom >"$work/copy"

# who_has MORSEL: in order, of the file.
who_has() {
    find "$work"/donor*/objects -name "$(printf '%016x' "$set").$1" | sed -E 's|.*/(donor[0-9]+)/objects/.*|\1|' | sort
}
status_is() {
    { morsel status --json || true; } | jq -e ".donors | $1" >/dev/null # Its exit code says how storage servers are.
}
# owners VERB: all say it.
owners() {
    local i
    for i in 1 2 3 4; do
        ip netns exec "${lives_on[donor$i]}" timeout 60 "$bin/morsel" donate "$1" --data-dir "$work/donor$i" >/dev/null
    done
}

# ---- Both benefactors of the last morsel sleep, one after the other, and one of them has nothing of it any more when they are awake again.

exec {file}>"$a/set/idle"
head -c 1500000 "$work/copy" >&"$file"
sync "$a/set/idle"
set=$(getfattr --absolute-names --only-values -n user.morsel.layout "$a/set/idle" | grep -oE 'set=[0-9]+' | cut -d= -f2)
morsel=$(find "$work"/donor*/objects -name "$(printf '%016x' "$set").*" | sed 's|.*\.||' | sort | tail -n 1)
mapfile -t had < <(who_has "$morsel")
[ ${#had[@]} = 2 ] || fail "the last morsel is at ${had[*]}"
copied() {
    [ "$(who_has "$morsel" | wc -l)" = $((6 - here)) ] && status_is '.morsels_short == 0 and .morsels_fetching == 0'
}
here=4
for name in "${had[@]}"; do
    kill -STOP "${pid_of[$name]}"
    here=$((here - 1))
    wait_for 60 "$name is away" donors_here "$here"
    wait_for 60 "another one has what it had" copied
done
for name in "${had[@]}"; do
    kill -CONT "${pid_of[$name]}"
done
wait_for 60 "all are back" donors_here 4
one_has_nothing() {
    [ "$(who_has "$morsel" | grep -cxF "$(printf '%s\n' "${had[@]}")")" -lt 2 ]
}
wait_for 60 "what one of them had is deleted there" one_has_nothing
tail -c +1500001 "$work/copy" >&"$file"
exec {file}>&-
wait_for 60 "all of it has its copies" status_is '.morsels_short == 0 and .morsels_fetching == 0'
for name in donor1 donor2 donor3 donor4; do
    kill -STOP "${pid_of[$name]}"
    start_mount fresh io_timeout=10s
    cmp "$work/copy" "$mnt/set/idle" || fail "without $name it is not what was written; its end was at ${had[*]}, and is at $(who_has "$morsel" | xargs)"
    [ "$(mount_counter "$mnt" set_copies_wrong)" = 0 ] || fail "a copy is wrong"
    stop_mount fresh
    kill -CONT "${pid_of[$name]}"
    wait_for 60 "$name is back" donors_here 4
done
note "asleep"

# ---- All are paused.

owners pause
start_mount fresh io_timeout=2s
expect_error "Input/output error" cat "$mnt/set/idle"
owners resume
cmp "$work/copy" "$mnt/set/idle" || fail "it cannot be read when nobody is paused any more"
stop_mount fresh
note "paused"
# ---- Many files are open whose writers pause: what stays of them in memory is bounded.

head -c 20000000 /dev/urandom >"$work/copy"
open=()
for i in 1 2 3 4 5; do
    exec {file}>"$a/set/open$i"
    open+=("$file")
    cat "$work/copy" >&"$file"
    sync "$a/set/open$i"
done
kept=$(mount_counter "$a" set_open_bytes)
{ [ "$kept" -gt 0 ] && [ "$kept" -le $((64 << 20)) ]; } || fail "$kept bytes of five files of 20 MB are kept"
for i in 1 2 3 4 5; do
    file=${open[i - 1]}
    head -c 12345 "$work/copy" >&"$file"
    exec {file}>&-
    cat "$work/copy" <(head -c 12345 "$work/copy") | cmp - "$a/set/open$i"
done
note "$kept bytes of five files of 20 MB are kept"
stop_donors
cluster_end
