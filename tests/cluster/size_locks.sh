#!/bin/bash
# A mount loses its size lock with a shared file between the moment in which it got it and its first byte: the answer that says where the file
# ends is lost, the mount is not heard for a lease period, another one writes in its own size lock, and then the link is back. What the first one wanted
# to do in its size lock is not done any more.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin size_locks "$1"
start_cluster 1 --lease-time 2s
start_host far
start_relay far --lose-size "$work/lose" --delay "$work/delay"
start_near_and_far

# From here on no answer about a size comes, and no change of data arrives.
cat >"$work/change.py" <<'PY'
import os, sys
step, path, lose, delay = sys.argv[1:]
fd = os.open(path, os.O_WRONLY | os.O_APPEND)
open(lose, "w").close()
open(delay, "w").close()
try:
    if step == "append":
        os.write(fd, b"AAAA")
    else:
        os.ftruncate(fd, 3)
    print("done")
except OSError as e:
    print(e.strerror)
PY

times_lost() {
    grep -c 'locks were lost' "$work/log/mount-far" || true
}

append_near() {
    timeout 20 bash -c 'printf "$1" >>"$2"' - "$1" "$near/$file" || fail "$file: the other mount cannot append"
}

# The first mount has ended, or its bytes are on their way.
has_gone_on() {
    [ -s "$work/delay" ] || ! kill -0 "$changer"
}

for step in append cut; do
    file=$step
    printf 0123456789 >"$near/$file"
    exec 7<>"$near/$file"
    python3 "$work/change.py" "$step" "$far/$file" "$work/lose" "$work/delay" >"$work/said" 2>&1 7>&- &
    changer=$!
    children+=("$changer")
    wait_for 60 "the answer about the size is lost" test -s "$work/lose"
    wait_for 60 "the size lock to $step" counter_is locks 1
    kill -STOP "$relay"
    append_near BBBB # When the manager has given the size lock away.
    # It asks for the size anew. Before it is told, it hears that it has lost its size lock.
    # shellcheck disable=SC2034 # used by the text that is waited for
    told=$(times_lost)
    : >"$work/lose"
    kill -CONT "$relay"
    wait_for 60 "the answer about the size is lost again" test -s "$work/lose"
    wait_for 60 "the mount hears that it has lost its size lock" eval '[ "$(times_lost)" -gt "$told" ]'
    rm "$work/lose"
    wait_for 60 "the mount that lost its size lock goes on" has_gone_on
    append_near CCCC
    rm "$work/delay"
    wait "$changer"
    for path in "$near/$file" "$far/$file"; do
        [ "$(cat "$path")" = 0123456789BBBBCCCC ] || fail "$step outside its size lock: $path is $(cat "$path")"
    done
    [ "$(cat "$work/said")" = 'Input/output error' ] || fail "$step outside its size lock: $(cat "$work/said")"
    exec 7>&-
    note "no $step when the size lock was lost before it began"
done
cluster_end
