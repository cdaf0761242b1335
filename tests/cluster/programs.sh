#!/bin/bash
# Unmodified programs inside a mount: git, a CMake build of this project, SQLite, tar, rsync.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin programs "$1"
new_copies= # What users get who say nothing.
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
export HOME=$work GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
for program in git cmake sqlite3 rsync setfattr; do
    command -v "$program" >/dev/null || skip "$program is missing; run scripts/setup"
done
start_cluster 4
start_mount a exec

git clone -q --no-local --no-hardlinks "$source_dir" "$mnt/repository" || fail "git clone"
(
    cd "$mnt/repository"
    git fsck --full --strict >/dev/null 2>"$work/git" || fail "git fsck: $(cat "$work/git")"
    first=$(git rev-list --max-parents=0 HEAD | tail -n 1)
    git checkout -q "$first"
    git checkout -q -
    [ -z "$(git status --porcelain)" ] || fail "git status: the tree is not clean"
    git gc -q
    git fsck --full >/dev/null 2>&1 || fail "git fsck after gc"
) # Without "||" behind it: that would let every command in it fail.
note "git"

mkdir "$mnt/build"
# Of a mount that keeps nothing, a part: each look at a header is a round trip.
target=$([[ ${MOUNT_OPTIONS:-} = *nocache* ]] && echo morsel_proto || echo morsel_core)
(cmake -S "$mnt/repository" -B "$mnt/build" -G Ninja -DMORSEL_TESTS=OFF &&
    cmake --build "$mnt/build" -j 2 --target "$target") >"$work/log/cmake" 2>&1 || fail "CMake build"
note "CMake build"

for mode in delete truncate persist wal; do
    db=$mnt/$mode.db
    sqlite3 "$db" "PRAGMA journal_mode=$mode" "CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB)" >/dev/null
    for i in 1 2 3 4 5; do
        sqlite3 "$db" "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
            INSERT INTO t(b) SELECT randomblob(i % 700) FROM n; UPDATE t SET b = randomblob(300) WHERE a % 7 = $i; COMMIT"
    done
    sqlite3 "$db" "BEGIN; DELETE FROM t; ROLLBACK"
    [ "$(sqlite3 "$db" "PRAGMA integrity_check; SELECT count(*) FROM t")" = "ok
2500" ] || fail "SQLite, journal $mode"
    sqlite3 "$db" VACUUM
    [ "$(sqlite3 "$db" "PRAGMA integrity_check")" = ok ] || fail "SQLite, journal $mode, after VACUUM"
done
note "SQLite"

# Of a mount that keeps nothing, a part again.
part=$([[ ${MOUNT_OPTIONS:-} = *nocache* ]] && echo src/meta || echo src)
# A tree with what archives have to keep: links, modes, times, holes, odd names.
mkdir -p "$work/tree/sub/empty" && (
    cd "$work/tree"
    cp -r "$source_dir/$part" src
    ln -s ../src sub/link
    ln src/CMakeLists.txt sub/hard
    mkfifo sub/fifo
    printf x >"odd
name"
    truncate -s 3M sub/sparse && printf end >>sub/sparse
    chmod 4711 sub/hard
    setfattr -n user.test -v value sub/sparse 2>/dev/null || true # Where temporary files can have one.
    # Not of this second: rsync takes directories changed within one second for equal.
    find . -depth -exec touch -h -d '2001-02-03 04:05:06.789012345' {} +
)
listing() {
    (cd "$1" && find . -printf '%P %y %m %U %G %n %T@ %l\n' | sed 's/\(^\| \)\([0-9.]*\)$/\1\2/' | LC_ALL=C sort &&
        find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
}
mkdir "$mnt/tar" && tar -C "$work/tree" --format=posix -cf - . | tar -C "$mnt/tar" -xpf -
tar -C "$mnt/tar" --format=posix --sort=name -cSf "$work/back.tar" . && mkdir "$work/back" && tar -C "$work/back" -xpf "$work/back.tar"
listing "$work/tree" >"$work/expected"
listing "$mnt/tar" | diff "$work/expected" - >"$work/diff" || fail "tar into the mount: $(head -n 5 "$work/diff")"
listing "$work/back" | diff "$work/expected" - >"$work/diff" || fail "tar out of the mount: $(head -n 5 "$work/diff")"
note "tar"

rsync -aHSX "$work/tree/" "$mnt/rsync/" || fail "rsync into the mount"
[ -z "$(rsync -aHSX --delete --checksum --itemize-changes "$work/tree/" "$mnt/rsync/")" ] || fail "rsync finds differences"
echo more >>"$work/tree/src/CMakeLists.txt"
rsync -aHX --delete "$work/tree/" "$mnt/rsync/"
rm -r "$work/back"
rsync -aHX "$mnt/rsync/" "$work/back/"
listing "$work/tree" >"$work/expected"
listing "$work/back" | diff "$work/expected" - >"$work/diff" || fail "rsync there and back: $(head -n 5 "$work/diff")"
note "rsync"

rm -rf "$mnt/build" "$mnt/repository" "$mnt/tar" "$mnt/rsync"
fsck_clean
cluster_end
