#!/bin/bash
# Run a test that another build made.
#
#   sibling.sh NAME FILE [COMMAND...]      COMMAND (default: FILE) runs when FILE is there; else the test is skipped.
set -euo pipefail
# shellcheck source=tests/lib/skip.sh
. "$(dirname "$0")/skip.sh"
name=$1 file=$2
shift 2
[ -e "$file" ] || skip_test "$name" "$file is missing; scripts/test builds it"
[ $# -gt 0 ] || set -- "$file"
exec "$@"
