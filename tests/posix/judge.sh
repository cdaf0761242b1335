#!/bin/bash
# Run the POSIX suite: every case passes, and only what tests/skips lists as KIND/GROUP/CASE is skipped.
#
#   judge.sh KIND PROGRAM DIRECTORY [PATTERN]      KIND: posix-local or posix-mount
set -euo pipefail
# shellcheck source=tests/lib/skip.sh
. "$(dirname "$0")/../lib/skip.sh"
kind=$1 code=0
shift
said=$("$@") || code=$?
grep -v '^ok ' <<<"$said" || true
for name in $(sed -n 's/^skip //p' <<<"$said"); do
    skip_is_known "$kind/$name" || {
        echo "FAILED: $name was skipped, and tests/skips does not say why"
        code=1
    }
done
exit "$code"
