#!/bin/bash
# The set of voters on real processes: it grows with each server that registers, changes by one at a time also when a server or the manager is killed
# in the middle, replaces who has lost its votes, and is what every server has on its disk.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin voters "$1"

voters() {
    morsel status --json | jq -r ".voters | $1"
}
# voters_are SERVERS [VERSION]: these votes, and no change is under way.
voters_are() {
    [ "$(voters '.change == null and all(.members[]; .state == "votes")')" = true ] &&
        [ "$(voters '[.members[].server] | map(tostring) | join(" ")')" = "$1" ] &&
        { [ $# = 1 ] || [ "$(voters .version)" = "$2" ]; }
}
become() {
    wait_for 60 "the voters are $1" voters_are "$@"
}
id_of() {
    voters ".members[] | select(.server == $1) | .id"
}
voter_is_not() {
    [ "$(id_of "$1")" != "$2" ]
}
step_is() {
    [ "$(voters '.change.step // "none"')" = "$1" ]
}
# Each server that runs has the same on its disk.
all_keep_it() {
    local name first=
    for name in "${!pid_of[@]}"; do
        case $name in iod*)
            first=${first:-$name}
            cmp -s "$work/$first/voters" "$work/$name/voters" || return 1
            ;;
        esac
    done
    grep -q "voter set $(voters .version):" "$work/log/$first"
}
kept_by_all() {
    wait_for 60 "all servers keep the set" all_keep_it
}

# It begins with the manager alone, and grows.
start_meta
become "0" 1
start_iod 1
become "0 1" 2
start_iod 2
become "0 1 2" 3
kept_by_all
grep -q '^voters    3, version 3: manager, server 1, server 2$' <<<"$(morsel status)" || fail "status does not name the voters: $(morsel status)"
note "a set of three"

# A change waits for a majority, and says for whom; the server is killed whose answer may be on its way, and the other one is enough.
kill -STOP "${pid_of[iod1]}" "${pid_of[iod2]}"
start_iod 3
wait_for 60 "a change is under way" step_is reading
grep -qE '^ +change to version 4 under way \(reading\); to join: server 3; waits for server 1, server 2$' <<<"$(morsel status)" ||
    fail "status does not say what is under way: $(morsel status)"
crash iod1
kill -CONT "${pid_of[iod2]}"
become "0 1 2 3" 4
start_iod 1
kept_by_all
note "a server is killed in the middle"

# The manager is killed in the middle. What it had planned was never in effect; it plans again, under a version that it never used.
kill -STOP "${pid_of[iod1]}" "${pid_of[iod2]}"
start_iod 4
wait_for 60 "a change is under way" step_is reading
crash meta
start_meta
wait_for 60 "a change is under way again" step_is reading
[ "$(voters .version)" = 4 ] || fail "the set changed without a majority"
kill -CONT "${pid_of[iod1]}" "${pid_of[iod2]}"
become "0 1 2 3 4"
[ "$(voters .version)" -ge 6 ] || fail "a version was used twice: $(voters .version)"
kept_by_all
note "the manager is killed in the middle"

# One voter is lost for good: its server comes back without its votes, and another time with damaged ones; then the manager.
for loss in missing damaged; do
    lost=$(id_of 2)
    stop iod2
    if [ $loss = missing ]; then rm "$work/iod2/votes"; else printf x | dd of="$work/iod2/votes" bs=1 seek=20 conv=notrunc status=none; fi
    start_iod 2
    wait_for 60 "the vote of server 2 is replaced" voter_is_not 2 "$lost"
    become "0 1 2 3 4"
    grep -q "$lost" <<<"$(voters '.members[].id')" && fail "a lost voter is in the set still"
done
lost=$(id_of 0)
stop meta
rm "$work/meta/votes"
start_meta
wait_for 60 "the vote of the manager is replaced" voter_is_not 0 "$lost"
become "0 1 2 3 4"
kept_by_all
note "lost votes are replaced"

# What a server keeps of the set is damaged: it says so, and is told again.
stop iod3
printf x | dd of="$work/iod3/voters" bs=1 seek=30 conv=notrunc status=none
start_iod 3
grep -q 'iod3/voters is damaged' "$work/log/iod3" || fail "nothing is said of a damaged set"
kept_by_all

# A file of votes that was copied from another server is not taken for a vote; it is said once, with what to do, and that helps.
lost=$(id_of 3)
version=$(voters .version)
stop iod3
cp "$work/iod1/votes" "$work/iod3/votes"
start_iod 3
copied() {
    grep -q "storage server 3 votes as $(id_of 1), which is the voter of storage server 1: its file of votes is a copy" "$work/log/meta"
}
wait_for 60 "the manager names the copy" copied
kept_by_all # With further heartbeats.
[ "$(voters .version)" = "$version" ] || fail "a copied vote has changed the set"
stop iod3
rm "$work/iod3/votes"
start_iod 3
wait_for 60 "the vote of server 3 is replaced" voter_is_not 3 "$lost"
become "0 1 2 3 4"
[ "$(grep -c 'its file of votes is a copy' "$work/log/meta")" = 1 ] || fail "the copy is named more than once"
note "copied votes are refused"

# A server that is gone for good holds up nobody, and keeps its place.
crash iod4
start_iod 5
become "0 1 2 3 4 5"
version=$(voters .version)
stop meta
start_meta
wait_for 60 "the set is as it was" voters_are "0 1 2 3 4 5" "$version"
kept_by_all
[ "$(grep -c "voter set $version:" "$work/log/iod1")" = 1 ] || fail "a server is told again what it has on its disk"
note "a server that is gone keeps its place"
cluster_end
