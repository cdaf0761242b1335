# shellcheck shell=bash
# skip_test NAME REASON: ends the script, for here the test cannot run. That is a failure where MORSEL_NO_SKIPS is set (scripts/test
# sets it), unless tests/skips lists NAME with a reason.
skip_test() {
    printf 'skipped: %s\n' "$2"
    if [ -n "${MORSEL_NO_SKIPS:-}" ] && ! skip_is_known "$1"; then
        printf 'FAILED: a test that does not run proves nothing; if %s cannot run here, tests/skips must say why\n' "$1"
        exit 1
    fi
    exit 77
}

# skip_is_known NAME
skip_is_known() {
    grep -q "^$1: ." "$(dirname "${BASH_SOURCE[0]}")/../skips"
}
