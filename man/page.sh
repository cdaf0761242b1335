#!/bin/sh
# Make a man page: page.sh PAGE.scd BIN_DIR OUT
#
# A line "@OPTIONS PROGRAM [COMMAND]@" is replaced by the options that the program lists itself, and
# "@MOUNT_OPTIONS@" by what `morsel-mount --help` says of -o, so that page and program cannot drift apart.
set -eu
page=$1
bin=$2
out=$3
# What a program forgets at its exit is not the page's business.
export ASAN_OPTIONS=detect_leaks=0

while IFS= read -r line; do
    case $line in
    @OPTIONS*@)
        words=${line#@OPTIONS }
        # shellcheck disable=SC2086 # split into words on purpose
        set -- ${words%@}
        program=$1
        shift
        "$bin/$program" "$@" --print-man
        ;;
    @MOUNT_OPTIONS@)
        "$bin/morsel-mount" --help | sed -n '/^Mount options/,$p' | sed -nE '
            s/^  ([^ ]+) +(.*)/*\1*\n\t\2\n/
            T
            s/_/\\_/g
            p'
        ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$page" >"$out.scd"
scdoc <"$out.scd" >"$out.new"
mv "$out.new" "$out"
rm "$out.scd"
