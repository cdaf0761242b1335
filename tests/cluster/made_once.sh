#!/bin/bash
# A mount makes something, the answer is lost with the link, and another mount removes it before the link is back: nothing is made a second time, and the
# program is not told that the name was there before, but that nobody knows (EIO).
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin made_once "$1"
start_cluster 1
start_host far
start_relay far --lose-create "$work/lose"
start_near_and_far

# The far mount makes something of each kind while its answers are lost; the near one removes it and, `again`, makes a file of that name.
for again in no yes; do
    for what in file directory symlink; do
        name=$what-$again
        : >"$work/lose"
        python3 - "$what" "$far/$name" >"$work/said" 2>&1 <<'PYTHON' &
import errno, os, sys
what, name = sys.argv[1:]
try:
    if what == "file": os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR))
    elif what == "directory": os.mkdir(name)
    else: os.symlink("nowhere", name)
    print("done")
except OSError as error:
    print(errno.errorcode[error.errno])
PYTHON
        maker=$!
        children+=("$maker")
        wait_for 60 "the answer is lost" test -s "$work/lose"
        rm -d "$near/$name"
        [ "$again" = no ] || : >"$near/$name"
        rm "$work/lose"
        wait "$maker" || fail "$name: $(cat "$work/said")"
        [ "$(cat "$work/said")" = EIO ] || fail "$name was made and removed, and who made it is told: $(cat "$work/said")"
        [ "$again" = yes ] || [ ! -e "$near/$name" ] || fail "$name was made a second time"
    done
done
fsck_clean
cluster_end
