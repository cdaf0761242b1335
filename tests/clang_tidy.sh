#!/bin/bash
# clang-tidy over every translation unit of the project, two at a time; what clang warns of is a finding (clang-diagnostic-*).
#
#   tests/clang_tidy.sh SOURCE BUILD [all]     BUILD has compile_commands.json of a clang build
#
# The analyzer follows at most so many steps of a function, and leaves tests out, which takes a small part of the time; with "all" it reads all, and
# follows as many as it would by itself.
# From its second run in a BUILD on it notes which texts, with their headers and checks, are clean, and does not read these again
# (BUILD/clang-tidy-clean): to note it takes a quarter of the time, and where everything is built once nobody would ask.
set -euo pipefail
source_dir=$(cd "$1" && pwd)
build_dir=$2
clean=$build_dir/clang-tidy-clean
depth=()
tests=()
if [ "${3-}" != all ]; then
    for word in -analyzer-config max-nodes=3000; do depth+=(--extra-arg=-Xclang "--extra-arg=$word"); done
    tests=("--checks=-clang-analyzer-*")
fi
database=$build_dir/compile_commands.json

if [ ! -f "$database" ]; then
    echo "clang_tidy: $database is missing; configure with 'cmake --preset clang' first" >&2
    exit 1
fi
notes=yes
[ -d "$clean" ] || notes=no
mkdir -p "$clean"

# key_of FILE: the preprocessed text covers the headers, the file itself its comments (NOLINT), .clang-tidy and the words the checks.
key_of() {
    # shellcheck disable=SC2086 # flags are words
    (echo "$words"
        cat "$source_dir/.clang-tidy" "$1"
        clang -E -P -D_GNU_SOURCE -I"$source_dir/src" -I"$build_dir/src/proto" -I"$source_dir/tests" $fuse_flags "$1" 2>/dev/null ||
            cat "$1") | sha256sum | cut -d' ' -f1
}

check_one() {
    local file=$1 key='' said=$clean/said.$$ words=$depth_words
    [[ $file != "$source_dir/tests/"* ]] || words+=" $tests_words"
    if [ "$notes" = yes ]; then
        key=$(key_of "$file")
        [ ! -e "$clean/$key" ] || return 0
    fi
    # shellcheck disable=SC2086 # words
    if ! clang-tidy --quiet -p "$build_dir" $words "$file" >"$said" 2>&1; then
        grep -vE '^[0-9]+ warnings? ' "$said"
        rm -f "$said"
        return 1
    fi
    rm "$said"
    [ -z "$key" ] || : >"$clean/$key"
}
export -f check_one key_of
fuse_flags=$(pkg-config --cflags fuse3)
depth_words="${depth[*]}"
tests_words="${tests[*]}"
export source_dir build_dir clean notes fuse_flags depth_words tests_words

grep -o '"file": "[^"]*"' "$database" | cut -d'"' -f4 | sort -u |
    grep -E "^$source_dir/(src|tests|examples)/.*\.c$" |
    xargs -P 2 -I{} bash -c 'check_one "$1"' _ {}
echo "clang-tidy: clean"
