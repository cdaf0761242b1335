# shellcheck shell=bash disable=SC2154,SC2034
# For tests of files with copies, in bash: source it behind cluster.sh. Steady work (steady.py) while servers fail, and what `morsel status` says
# of groups.

# start_steady WRITE_DIRECTORY READ_DIRECTORY [OPTIONS]: until end_steady.
start_steady() {
    local write=$1 read=$2
    shift 2
    : >"$work/progress"
    python3 "$(dirname "${BASH_SOURCE[0]}")/steady.py" steady "$write" "$read" --progress "$work/progress" "$@" >"$work/steady.json" &
    steady=$!
    children+=("$steady")
    goes_on 200
}

progress() {
    tail -n 1 "$work/progress"
}

# goes_on COUNT: that many more writes are acknowledged, at least.
goes_on() {
    local before
    before=$(progress)
    wait_for 120 "$1 more writes behind ${before:-0}" progress_beyond "$((${before:-0} + $1))"
    kill -0 "$steady" 2>/dev/null || fail "the steady work has ended: $(cat "$work/steady.json")"
}

progress_beyond() {
    local now
    now=$(progress)
    [ "${now:-0}" -ge "$1" ] || ! kill -0 "$steady" 2>/dev/null
}

# Ends it; what it says of itself is noted, with WHAT.
end_steady() {
    kill -TERM "$steady"
    wait "$steady" || fail "$1: steady work: $(cat "$work/steady.json")"
    note "$1: $(cat "$work/steady.json")"
}

groups() {
    morsel status --json | jq "[.groups[] | $1]"
}

# All copies of all groups take part.
groups_are_well() {
    [ "$(groups '(.told and .well)' | jq 'length > 0 and all')" = true ]
}

seen_well() {
    wait_for 120 "all copies take part" groups_are_well
}

# seen_alone VICTIM: status says that copies go on without that server.
one_is_missed() {
    [ "$(groups .well | jq 'any(. == false)')" = true ]
}
seen_alone() {
    wait_for 60 "status shows that server $1 is missed" one_is_missed
}

# start_two: two servers, and a directory of files with two copies, of one column each, through two mounts: $two and $beside.
start_two() {
    start_cluster 2 --lease-time 2s
    mount_two
}
# The same with servers that are up.
mount_two() {
    start_mount a
    mkdir "$mnt/two"
    policy "$mnt/two" replicas=2 stripe_width=1
    start_mount b
    two=$work/mnt/a/two beside=$work/mnt/b/two
    seen_well
}

# No two servers have ever believed in different sets of one epoch.
one_set_an_epoch() {
    cat "$work"/log/iod* | sed -nE 's/.*group ([0-9]+): in epoch ([0-9]+) the servers in sync are those at places (0x[0-9a-f]+).*/\1 \2 \3/p' | sort -u |
        awk '{ print "group", $1, "epoch", $2 }' | uniq -d >"$work/twice"
    [ ! -s "$work/twice" ] || fail "two sets in one epoch: $(cat "$work/twice")"
}

# object_file SERVER FILE: where that server has the bytes of the file.
object_file() {
    local found
    found=$(find "$work/iod$1/objects" -type f -name "$(printf '%016x' "$(stat -c %i "$2")").*")
    [ -n "$found" ] || fail "server $1 has no object of $2"
    printf '%s\n' "$found"
}

# flip FILE BLOCK: a bit of that block of the object is another one.
flip() {
    python3 - "$1" "$2" <<'PYTHON'
import os, sys
at = int(sys.argv[2]) // 256 * (1052672) + 4096 + int(sys.argv[2]) % 256 * 4096 + 99
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 4]), at)
PYTHON
}

# each_alone_shows FILE REFERENCE: with one of two servers away, and the kernel's pages dropped, the file reads as it should.
each_alone_shows() {
    local away
    for away in 1 2; do
        seen_well
        crash "iod$away"
        drop_caches
        cmp "$1" "$2" || fail "$1 is another file without server $away"
        start_iod "$away"
    done
    seen_well
}

# fails_in_time COMMAND...: it fails, and soon.
fails_in_time() {
    local begun
    begun=$(now_ms)
    if timeout 60 "$@" >"$work/out" 2>&1; then
        fail "succeeded although nobody may answer: $*"
    fi
    [ $(($(now_ms) - begun)) -lt 30000 ] || fail "took $(($(now_ms) - begun)) ms to fail: $*"
}

# copies_are_equal: all copies of everything, compared object by object (morsel recover verify), while whatever goes on goes on.
copies_are_equal() {
    local found
    seen_well
    found=$(timeout 300 "$bin/morsel" recover verify --all --wait --json --manager="$manager") || fail "copies are compared: $found"
    [ "$(jq '.damaged + .differing' <<<"$found")" = 0 ] || fail "copies differ: $found"
    note "copies compared: $found"
}

# watch_copies [SELECT [OPENING_LOOKS]]: from now on, at no moment that can be seen, has a group fewer than two copies that are in sync: no server of
# theirs says otherwise, nor that it goes on alone. SELECT, of jq, says which groups are looked at (all). While a set agrees none serves for a moment, and
# none is lost. What is being opened again, because others hold places of its group, has nothing to say: with OPENING_LOOKS it may be so for as many looks
# in a row, and without it is missed.
watch_copies() {
    watched=${1:-.} opening_looks=${2:-0}
    : >"$work/fewer"
    : >"$work/opening"
    look_at_copies &
    watcher=$!
    children+=("$watcher")
}

look_at_copies() {
    local opens=false looks=0 few opening
    [ "$opening_looks" = 0 ] || opens='(.state == "opening")'
    # shellcheck disable=SC2016 # names of jq
    few='.groups[] | '$watched'
        | . as $g
        | [.copies[] | select(.state != "consistent" and .state != "standalone" and ('$opens' | not)) | .server] as $behind
        | select(([.servers[] | select(. != 0 and (. as $s | $behind | index($s) | not))] | length) < 2
            or any($g.copies[]; .state == "standalone" and (.set == 1 or .set == 2 or .set == 4)))'
    # shellcheck disable=SC2016
    opening='.groups[] | '$watched' | . as $g | .copies[] | select('$opens') | "\($g.number) \(.server)"'
    while sleep 0.1; do # Nothing tells of what is to be seen: it is looked for.
        morsel status --json >"$work/looked" 2>/dev/null || [ -s "$work/looked" ] || continue
        looks=$((looks + 1))
        jq -c "$few" "$work/looked" >>"$work/fewer"
        jq -r "$opening" "$work/looked" | sed "s/^/$looks /" >>"$work/opening"
        echo "$looks" >"$work/looks.new"
        mv "$work/looks.new" "$work/looks" # Whole, whoever reads it just then.
    done
}

copies_watched() {
    local long
    kill "$watcher" || fail "who looked at the copies has ended before"
    wait "$watcher" 2>/dev/null || true # It was killed.
    [ "$(cat "$work/looks")" -ge 5 ] || fail "there were only $(cat "$work/looks") looks at the copies"
    [ ! -s "$work/fewer" ] || fail "a group had fewer than two complete copies: $(head -n 3 "$work/fewer")"
    long=$(awk -v most="$opening_looks" '{ copy = $2 " " $3; row[copy] = last[copy] == $1 - 1 ? row[copy] + 1 : 1; last[copy] = $1
                if (row[copy] > most) { print copy; exit } }' "$work/opening")
    [ -z "$long" ] || fail "of group and server $long: a copy was being opened for more than $opening_looks looks"
}
