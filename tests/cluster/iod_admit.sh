#!/bin/bash
# With --admit=manual a server that is new waits until it is admitted: it is no voter, has no place in a group, and no file lies there, whatever is
# restarted meanwhile; then it is one like the others. Those that were there before are admitted.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin iod_admit "$1"

"$bin/morsel-meta" --data-dir "$work/no" --admit perhaps >"$work/out" 2>&1 && fail "a manager with --admit=perhaps ran"
grep -q 'give auto or manual' "$work/out" || fail "said of --admit=perhaps: $(cat "$work/out")"

status_says() {
    (morsel status --json || true) | jq -e "$1" >/dev/null # Its exit code says that something is not well.
}
# waits N: server N is up and waits; it holds nothing, and does not vote.
waits() {
    status_says ".servers[] | select(.id == $1) | .up and .waits and .places == 0" || fail "server $1 does not wait: $(morsel status)"
    status_says "[.voters.members[].server] | index($1) == null" || fail "server $1 votes: $(morsel status)"
    [ -z "$(find -L "$work/iod$1/objects" -type f)" ] || fail "something lies on server $1"
}
# is_one N: it votes, and has a place.
is_one() {
    status_says ".servers[] | select(.id == $1) | .up and (.waits | not) and .places > 0"
    status_says "[.voters.members[] | select(.state == \"votes\") | .server] | index($1) != null"
}
files() {
    local i
    for ((i = 0; i < 20; i++)); do
        head -c 100000 /dev/urandom >"$mnt/two/$1-$i"
        head -c 100000 /dev/urandom >"$mnt/one/$1-$i"
    done
    find "$mnt/two" "$mnt/one" -type f -exec sync {} +
}

# Nobody has been admitted: no file can be made.
start_meta --lease-time 2s --heartbeat 300ms --admit manual
start_iod 1
wait_for 60 "1 server is up" servers_up 1
waits 1
start_mount a
touch "$mnt/nowhere" 2>"$work/out" && fail "a file was made although no server is admitted"
morsel iod admit 7 >"$work/out" 2>&1 && fail "a server was admitted that is not there"
grep -q 'there is no storage server 7' "$work/out" || fail "said of server 7: $(cat "$work/out")"
morsel iod admit 1
echo text >"$mnt/somewhere"
morsel iod admit 1 # Again it does no harm.
crash iod1

# A cluster that was made before.
start_iod 1
start_iod 2
wait_for 60 "2 servers are up" servers_up 2
waits 2
grep -q 'server 2 is admitted' <<<"$(morsel iod admit 2)" || fail "it is not said that server 2 is admitted"
mkdir "$mnt/two" "$mnt/one"
policy "$mnt/two" replicas=2
policy "$mnt/one" replicas=1
for i in 1 2; do
    wait_for 60 "server $i is one of the cluster" is_one "$i"
done
files first

# A third one waits, through restarts of everything; also where nobody is to wait any more.
start_iod 3
wait_for 60 "3 servers are up" servers_up 3
waits 3
grep -q 'iod admit 3' "$work/log/meta" || fail "the log does not say how server 3 is admitted"
grep -q 'morsel iod admit 3' <<<"$(morsel status)" || fail "status does not say how server 3 is admitted: $(morsel status)"
grep -q 'waits to be admitted' <<<"$(morsel iod list)" || fail "iod list does not say that server 3 waits: $(morsel iod list)"
morsel recover replace 1 3 >"$work/out" 2>&1 && fail "server 3 takes over although it waits"
files second
crash meta
crash iod3
start_meta
start_iod 3
wait_for 60 "3 servers are up" servers_up 3
waits 3
crash meta
start_meta --lease-time 2s --heartbeat 300ms
wait_for 60 "3 servers are up" servers_up 3
seen_well
files third
waits 3
[ "$(morsel rebalance --dry-run --json | jq '[.servers[].server] | index(3)')" = null ] || fail "server 3 takes part in what is evened out"

# Then it is admitted, and is one like the others, without being started again. A fourth one waits for nobody.
start_steady "$mnt/two" "$mnt/two"
morsel iod admit 3
wait_for 60 "server 3 is one of the cluster" is_one 3
start_iod 4
wait_for 60 "server 4 is one of the cluster" is_one 4
seen_well
files fourth
[ -n "$(find -L "$work/iod3/objects" -type f)" ] || fail "nothing lies on server 3"
goes_on 200
end_steady "admitted"
copies_are_equal
cluster_end
