#!/bin/bash
# A server that is gone for good is taken out: not while anything needs it; then its vote is gone, so that those who are left go on without one more of
# them; what only it had fails at once; and its directory is never let in again.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin iod_remove "$1"

voters_are() {
    [ "$(morsel status --json | jq -r '.voters | select(.change == null and all(.members[]; .state == "votes")) | [.members[].server] | map(tostring) | join(" ")')" = "$1" ]
}
become() {
    wait_for 60 "the voters are $1" voters_are "$1"
}
# Servers that are shown.
servers() {
    morsel iod list --json | jq -r '[.servers[].id] | map(tostring) | join(" ")'
}
servers_are() {
    [ "$(servers)" = "$1" ]
}
is_down() {
    [ "$(morsel iod list --json | jq ".servers[] | select(.id == $1) | .up")" = false ]
}
gone_down() {
    wait_for 60 "server $1 is down" is_down "$1"
}
holds_nothing() {
    [ "$(morsel iod list --json | jq ".servers[] | select(.id == $1) | .places")" = 0 ] && groups_are_well
}
# refused SERVER WORDS: it is not removed, and why
refused() {
    ! morsel iod remove "$1" >"$work/out" 2>&1 || fail "server $1 was removed, expected '$2'"
    grep -qF -- "$2" "$work/out" && grep -qF -- "${3:-$2}" "$work/out" || fail "expected '$2' '${3:-}', got: $(cat "$work/out")"
    [ "$(morsel iod list --json | jq "any(.servers[]; .id == $1)")" = true ] || fail "server $1 was removed: $2"
}
# is_turned_away NUMBER: a daemon with that directory ends, and says what to do.
is_turned_away() {
    local code=0
    timeout 60 "$bin/morsel-iod" --data-dir "$work/iod$1" --listen 127.0.0.1:0 --manager "$manager" --reserve 0 >"$work/out" 2>&1 || code=$?
    [ "$code" != 0 ] && [ "$code" != 124 ] || fail "the removed server $1 ended with $code: $(cat "$work/out")"
    grep -q "was removed from this cluster: .*with an empty data directory" "$work/out" || fail "it does not say what to do: $(cat "$work/out")"
}

start_cluster 3 --lease-time 2s --rebuild-after 0
start_mount a io_timeout=5s
mkdir "$mnt/two" "$mnt/one"
policy "$mnt/two" replicas=2
policy "$mnt/one" stripe_width=1
two=$mnt/two one=$mnt/one
start_mount b hard
beside=$work/mnt/b
seen_well
become "0 1 2 3"

# What lies on server 3 alone: a file with bytes, and one without.
mkdir "$work/reference"
for i in {1..12}; do
    head -c 100000 /dev/urandom >"$work/reference/$i"
done
cp "$work/reference"/* "$two"
cp "$work/reference"/* "$one"
: >"$one/empty"
sync "$two"/* "$one"/*
lies_on() {
    morsel layout --json "$1" | jq -e "[.. | .server? // empty] | index($2) != null" >/dev/null
}
lost=() kept=()
for i in {1..12}; do
    if lies_on "$one/$i" 3; then lost+=("$i"); else kept+=("$i"); fi
done
[ ${#lost[@]} -gt 1 ] && [ ${#kept[@]} -gt 1 ] || fail "files do not lie on all servers: ${lost[*]}"

# Not while it is there, and not while copies are missing.
refused 3 "server 3 is up: drain it first (\`morsel iod drain\`), then stop it"
expect_error "there is no storage server 9" morsel iod remove 9
crash iod3
gone_down 3
refused 3 "server 3 has a place in 2 groups (" "give them to others first, with \`morsel recover replace\`"
morsel recover replace 3 auto >/dev/null
wait_for 120 "all that server 3 held is elsewhere" holds_nothing 3

# A manager that has just started does not know who is gone.
crash meta
start_meta
refused 3 "server 3 may be there: the manager has just started"
gone_down 3
wait_for 60 "servers 1 and 2 are back" servers_up 2
seen_well

# One more of those who are left is away: its vote and that of the dead one are two of four, and nothing goes on.
crash iod2
fails_in_time dd if=/dev/zero of="$two/blocked" bs=1 count=1 conv=fsync status=none
gone_down 2
crash iod1
gone_down 1
refused 3 "server 3 votes, and its vote can be taken away only when 2 of the 4 voters answer: 1 does without it"
start_iod 1
start_iod 2
seen_well
note "with the vote of a dead server nothing goes on without one more"

# Not before somebody says that what only it has is lost; a reader with "hard" waits for it until then.
refused 3 "server 3 was not removed: files need it"
[ "$(morsel iod remove --json 3 2>/dev/null | jq -c '[.removed, .files_holding, .bytes_holding, (.inodes | length > 0)]')" = "[false,${#lost[@]},$((${#lost[@]} * 100000)),true]" ] ||
    fail "what is lost: $(morsel iod remove --json 3 2>&1)"
drop_caches
cat "$beside/one/${lost[0]}" >"$work/read" 2>&1 &
reader=$!
children+=("$reader")

sleep 0.2 # If it does not wait it has ended by now.
kill -0 "$reader" || fail "a reader does not wait for server 3: $(cat "$work/read")"

# Removed, while no voter answers: the manager is killed before its vote is out, and takes that up.
kill -STOP "${pid_of[iod1]}" "${pid_of[iod2]}"
morsel iod remove --lost 3 >"$work/out"
grep -q "server 3 is removed" "$work/out" || fail "nothing is said of the removal: $(cat "$work/out")"
servers_are "1 2" || fail "a removed server is shown: $(servers)"
crash meta
start_meta
servers_are "1 2" || fail "the removal was forgotten: $(servers)"
kill -CONT "${pid_of[iod1]}" "${pid_of[iod2]}"
become "0 1 2"
grep -q "server 3 is removed" <<<"$(morsel iod remove 3)" || fail "who asks again is not told that it is done"
[ "$(morsel status --json | jq '[.servers[].id] == [1, 2] and .health == "healthy"')" = true ] || fail "status: $(morsel status)"
note "removed"

# Who waited is told, and so is everybody else, at once.
timeout 60 tail --pid="$reader" -s 0.05 -f /dev/null || fail "a reader waits for a removed server for ever"
wait "$reader" && fail "a lost file was read: $(cat "$work/read")"
grep -q 'Input/output error' "$work/read" || fail "the reader was told: $(cat "$work/read")"
drop_caches
for i in "${lost[@]}"; do
    begun=$(now_ms)
    expect_error 'Input/output error' cat "$work/mnt/a/one/$i"
    [ $(($(now_ms) - begun)) -lt 10000 ] || fail "a lost file fails after $(($(now_ms) - begun)) ms"
done
grep -q 'was removed from the cluster, and had the only copy' "$work/log/mount-a" || fail "the mount does not say what is lost"
start_mount c hard # It never knew the server.
expect_error 'Input/output error' cat "$mnt/one/${lost[0]}"
grep -q "inode $(stat -c %i "$mnt/one/${lost[0]}"): what of it lay on server 3 is lost" "$work/log/mount-c" || fail "a new mount does not say what is lost"
for i in "${kept[@]}"; do
    cmp "$work/reference/$i" "$one/$i"
done
! morsel fsck >"$work/out" || fail "fsck does not name what is lost"
[ "$(grep -c '^100000 bytes of inode .* were on server 3 alone, which was removed' "$work/out")" = ${#lost[@]} ] || fail "fsck: $(cat "$work/out")"
# Who copies a lost file gets an error, and none that stays: the new file does not lie where nothing can be written.
expect_error 'Input/output error' cp "$one/${lost[0]}" "$one/copied"
dd if="$work/reference/1" of="$one/copied" conv=fsync status=none || fail "what a lost file was copied to cannot be written"
cmp "$work/reference/1" "$one/copied"
rm "${lost[@]/#/$one/}"
[ "$(morsel status --json | jq .garbage)" = 0 ] || wait_for 60 "nothing waits to be deleted on the removed server" eval '[ "$(morsel status --json | jq .garbage)" = 0 ]'
for i in {1..9}; do
    echo new >"$one/new$i"
    lies_on "$one/new$i" 3 && fail "a new file lies on the removed server"
done
sync "$one"/new*

# One more is away: two of three votes are enough now.
crash iod2
for i in {1..12}; do
    echo more >>"$two/$i"
    cat "$work/reference/$i" - <<<more | cmp - "$two/$i"
done
sync "$two"/*
start_iod 2
seen_well
note "two of those who are left are enough"

# It comes back with what it had.
is_turned_away 3
grep -q 'server 3 (.*) was removed from this cluster' "$work/log/meta" || fail "the manager does not say whom it refuses"
servers_are "1 2" || fail "the removed server is back: $(servers)"
become "0 1 2"
rm -r "$work/iod3"
start_iod 3
become "0 1 2 4"
servers_are "1 2 4" || fail "with an empty directory it is another server: $(servers)"
fsck_clean
cluster_end
