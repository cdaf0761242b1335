#!/bin/bash
# morsel recopy moves files that are too large to be copied while everybody holds still, and that two other mounts have open and write to with hardly
# a rest: they are copied beforehand, and only what was changed meanwhile once more. No byte is lost or older, whichever way it was changed, whichever
# server dies meanwhile.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin recopy_large "$1"
start_cluster 3
start_mount here
here=$mnt
start_mount one
one=$mnt
start_mount two
two=$mnt
half_mib=72 # More than 128 MiB: before, nobody moved that.
half=$((half_mib << 20))
mkdir "$here/files" "$work/models"
policy "$here/files" replicas=2
seen_well
policy "$here/files" replicas=1
head -c "$((2 * half_mib))M" /dev/urandom >"$here/files/large"

declare -A say hear writer_of
answer=
# start_writer WHO MOUNTPOINT HALF
start_writer() {
    local fd
    mkfifo "$work/run/say.$1" "$work/run/hear.$1"
    python3 "$(dirname "$0")/../lib/large_writer.py" "$2/files/large" "$work/models/$1" "$3" "$half" <"$work/run/say.$1" >"$work/run/hear.$1" 2>"$work/writer.$1.err" &
    writer_of[$1]=$!
    children+=("$!")
    exec {fd}>"$work/run/say.$1"
    say[$1]=$fd
    exec {fd}<"$work/run/hear.$1"
    hear[$1]=$fd
    listen "$1"
    [ "$answer" = ready ] || fail "writer of $1: $answer $(cat "$work/writer.$1.err")"
}
listen() {
    answer=
    read -r -t 120 answer <&"${hear[$1]}" || fail "the writer of $1 does not answer: $(cat "$work/writer.$1.err")"
}
ask() { # WHO WORD
    echo "$2" >&"${say[$1]}"
    listen "$1"
}
# count_changes: so many have both made, in $count.
count_changes() {
    local who
    count=0
    for who in one two; do
        ask "$who" count
        [ "$answer" != broken ] || fail "the writer of $who has met an error: $(cat "$work/writer.$who.err")"
        count=$((count + answer))
    done
}
end_writers() {
    local who
    for who in one two; do
        ask "$who" end
        [ "$answer" = ended ] || fail "the writer of $who has met an error: $(cat "$work/writer.$who.err")"
        wait "${writer_of[$who]}" || fail "the writer of $who ended with an error"
    done
}
# moves WANTED...: it gets that policy, and does as it says, while both write.
moves() {
    local before said
    policy "$here/files" "$@"
    count_changes
    before=$count
    said=$(morsel recopy --json --wait=100s "$here/files") || fail "it was not moved: $said"
    [ "$(jq .files_done <<<"$said")" = 1 ] || fail "it was not moved: $said"
    [ "$(morsel recopy --json --dry-run "$here/files" | jq .files_wanted)" = 0 ] || fail "it lies otherwise than its policy says: $said"
    count_changes
    changed=$((count - before))
    [ "$changed" -ge 20 ] || fail "only $changed changes were made meanwhile"
    note "$*: $changed changes meanwhile; $said"
}
# moves_while_dies VICTIM WANTED...: the same, slowly, while that server is killed and started again behind the first bytes: whoever orders
# then knows nothing of what was changed before.
has_begun() {
    kill -USR1 "$recopying"
    grep -qE ', [0-9.]+ (KiB|MiB) of' "$work/recopy.err"
}
has_ended() {
    ! kill -0 "$recopying" 2>/dev/null
}
moves_while_dies() {
    local victim=$1 before code=0
    shift
    seen_well
    policy "$here/files" "$@"
    count_changes
    before=$count
    trap '' USR1 # It may be asked how far it is before it listens.
    "$bin/morsel" recopy --rate=50000000 --json --wait=100s --manager="$manager" "$here/files" >"$work/said" 2>"$work/recopy.err" &
    recopying=$!
    trap - USR1
    children+=("$recopying")
    wait_for 60 "the first bytes of the copy" has_begun
    crash "iod$victim"
    start_iod "$victim"
    within 300 has_ended || fail "recopy does not end: $(cat "$work/recopy.err")"
    wait "$recopying" || code=$?
    [ "$code" = 0 ] || fail "recopy ended with $code: $(cat "$work/said" "$work/recopy.err")"
    [ "$(morsel recopy --json --dry-run "$here/files" | jq .files_wanted)" = 0 ] || fail "it lies otherwise than its policy says: $(cat "$work/said")"
    count_changes
    changed=$((count - before))
    [ "$changed" -ge 20 ] || fail "only $changed changes were made meanwhile"
    note "$*, while server $victim died: $changed changes"
}
is_right() {
    local top
    cat "$work/models/one" "$work/models/two" >"$work/models/both"
    for top in "$here" "$one" "$two"; do
        cmp "$top/files/large" "$work/models/both" || fail "$top/files/large is not what was written"
    done
}

start_writer one "$one" 0
start_writer two "$two" 1
moves replicas=2
moves replicas=1 stripe_width=2 stripe_size=1
moves replicas=2 stripe_width=1 stripe_size=64
moves_while_dies 1 replicas=3
moves_while_dies 2 replicas=2 stripe_width=2 stripe_size=1
moves_while_dies 3 replicas=2 stripe_width=1 stripe_size=64
for who in one two; do
    ask "$who" longest
    note "longest call of $who: $answer ms"
done
end_writers
is_right
fsck_clean
cluster_end
