#!/bin/bash
# clang-tidy over every translation unit of the project, two at a time; what clang warns of is a finding (clang-diagnostic-*).
#
#   tests/clang_tidy.sh SOURCE BUILD [all]     BUILD has compile_commands.json of a clang build
#
# The analyzer follows at most so many steps of a function, which takes a tenth of the time; with "all" as many as it would by itself.
# A file whose text, headers and checks are those of the last clean run is not read again (BUILD/clang-tidy-clean).
set -euo pipefail
source_dir=$(cd "$1" && pwd)
build_dir=$2
clean=$build_dir/clang-tidy-clean
depth=()
[ "${3-}" = all ] || for word in -analyzer-config max-nodes=5000; do depth+=(--extra-arg=-Xclang "--extra-arg=$word"); done
database=$build_dir/compile_commands.json

if [ ! -f "$database" ]; then
    echo "clang_tidy: $database is missing; configure with 'cmake --preset clang' first" >&2
    exit 1
fi
mkdir -p "$clean"

check_one() {
    local file=$1 key said
    # The preprocessed text covers the headers, the file itself its comments (NOLINT), .clang-tidy the checks.
    # shellcheck disable=SC2086 # flags are words
    key=$( (echo "$depth_words"
            cat "$source_dir/.clang-tidy" "$file"
            clang -E -P -D_GNU_SOURCE -I"$source_dir/src" -I"$build_dir/src/proto" \
                -I"$source_dir/tests" $fuse_flags "$file" 2>/dev/null ||
                cat "$file") | sha256sum | cut -d' ' -f1)
    [ -e "$clean/$key" ] && return 0
    said=$clean/said.$$
    # shellcheck disable=SC2086 # words
    if clang-tidy --quiet -p "$build_dir" $depth_words "$file" >"$said" 2>&1; then
        mv "$said" "$clean/$key"
    else
        grep -vE '^[0-9]+ warnings? ' "$said"
        rm -f "$said"
        return 1
    fi
}
export -f check_one
fuse_flags=$(pkg-config --cflags fuse3)
depth_words="${depth[*]}"
export source_dir build_dir clean fuse_flags depth_words

grep -o '"file": "[^"]*"' "$database" | cut -d'"' -f4 | sort -u |
    grep -E "^$source_dir/(src|tests|examples)/.*\.c$" |
    xargs -P 2 -I{} bash -c 'check_one "$1"' _ {}
echo "clang-tidy: clean"
