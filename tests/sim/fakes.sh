#!/bin/bash
# The programs in sim/cluster run on the world's libuv and libfuse (world/) and on nothing of the real ones: a function that is missing there would
# otherwise come from the shared library without a word, with a clock and sockets of its own.
#
#   fakes.sh PROGRAM
set -euo pipefail
bad=0
breach() {
    printf '%s: %s\n' "$1" "$2"
    bad=1
}
dynamic=$(readelf --dynamic --wide "$1") # Comes first: it fails where there is no program.
for library in $(sed -nE 's/.*\(NEEDED\).*\[(lib(uv|fuse3)\.[^]]*)\].*/\1/p' <<<"$dynamic"); do
    breach "$library" "the program loads it"
done
for symbol in $(nm --undefined-only "$1" | awk '$NF ~ /^(uv|fuse)_/ { print $NF }'); do
    breach "$symbol" "nothing in tests/sim/world defines it"
done
# The look itself sees something.
for symbol in uv_hrtime fuse_session_process_buf; do
    [ -n "$(nm --defined-only "$1" | awk -v name="$symbol" '$NF == name')" ] || breach "$symbol" "the world does not define it"
done
exit "$bad"
