#!/bin/bash
# No test is lost without a word: count.sh SOURCE BUILD
#
# ctest knows at least as many tests as tests/count says, and each script and program that is a test.
set -euo pipefail
source_dir=$1 build=$2
bad=0
# As ctest reads them; asking ctest itself would end the log of the one that runs this.
names=$(find "$build/tests" -name CTestTestfile.cmake -exec sed -nE 's/^add_test\(\[=\[([^]]+)\]=\].*/\1/p' {} +)
count=$(wc -l <<<"$names")
floor=$(cat "$source_dir/tests/count")
if [ "$count" -lt "$floor" ]; then
    echo "count: ctest knows $count tests, and knew $floor; lower tests/count if that is meant"
    bad=1
fi
has() {
    grep -qxF "$1" <<<"$names" || {
        echo "count: $1 is not known to ctest"
        bad=1
    }
}
for file in "$source_dir"/tests/cluster/*.sh; do
    name=${file##*/}
    has "cluster/${name%.sh}"
done
for file in "$source_dir"/tests/unit/*.c; do
    name=${file##*/}
    if grep -q 'int main(' "$file"; then has "unit/${name%.c}"; fi
done
[ "$bad" = 0 ] && echo "count: $count tests, at least $floor"
exit "$bad"
