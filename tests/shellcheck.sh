#!/bin/bash
# All scripts under shellcheck: shellcheck.sh SOURCE [all]
#
# Each cluster test begins with tests/lib/cluster.sh, and reading that a hundred times takes nine tenths of the time. So the tests there are read by
# themselves, without what only who reads all can tell (where a variable is set or used: they run with set -u); with "all" they are read with it, too.
set -euo pipefail
cd "$1"
tests=() others=()
while IFS= read -r file; do
    if [ -f "$file" ] && grep -qE '^#!.*\b(ba)?sh$|^# shellcheck shell=' < <(head -n 1 "$file"); then
        case $file in tests/cluster/*) tests+=("$file") ;; *) others+=("$file") ;; esac
    fi
done < <(git ls-files -co --exclude-standard)
[ ${#tests[@]} -ge 100 ] && [ ${#others[@]} -ge 40 ] || {
    echo "shellcheck: only ${#tests[@]} cluster tests and ${#others[@]} other scripts were found below $1"
    exit 1
}
alone=(-e SC1091 -e SC2034 -e SC2154)
[ "${2-}" != all ] || alone=(--external-sources)
# A hint is no breach: style and info are for whoever writes.
shellcheck --severity=warning --external-sources "${others[@]}"
shellcheck --severity=warning "${alone[@]}" "${tests[@]}"
echo "shellcheck: ${#tests[@]} cluster tests, ${#others[@]} other scripts, clean"
