#!/bin/bash
# Programs that share a directory as if it lay on one disk, on two mounts: SQLite in rollback mode written from both, git pushing and
# pulling, maildir delivery, make with sources on one and objects seen from the other.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin shared_programs "$1"
for program in git make cc python3; do
    command -v "$program" >/dev/null || skip "$program is missing; run scripts/setup"
done
start_cluster 3
start_mount a
a=$mnt
start_mount b
b=$mnt

# Both count in one database, in transactions that read before they write.
cat >"$work/count.py" <<'PY'
import sqlite3, sys
path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
db = sqlite3.connect(path, timeout=60, isolation_level=None)
for i in range(count):
    db.execute("BEGIN IMMEDIATE")
    (total,) = db.execute("SELECT total FROM sum").fetchone()
    db.execute("UPDATE sum SET total = ?", (total + 1,))
    db.execute("INSERT INTO log VALUES (?, ?, ?)", (total + 1, who, "x" * 200))
    db.execute("COMMIT")
PY
python3 - "$a/db" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == "delete"
db.executescript("CREATE TABLE sum (total INTEGER); INSERT INTO sum VALUES (0); CREATE TABLE log (n INTEGER PRIMARY KEY, who TEXT, pad TEXT);")
PY
python3 "$work/count.py" "$a/db" a 60 &
counter=$!
children+=("$counter")
python3 "$work/count.py" "$b/db" b 60
wait "$counter" || fail "a transaction on the first mount"
for root in "$a" "$b"; do
    python3 - "$root/db" <<'PY' || fail "the database as $root sees it"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
assert db.execute("SELECT total FROM sum").fetchone()[0] == 120
assert db.execute("SELECT count(*), count(DISTINCT n), sum(who = 'a') FROM log").fetchone() == (120, 120, 60)
PY
done
note "SQLite: 120 transactions from two mounts"

# A repository that both push to and pull from.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
git init -q --bare -b main "$a/repository.git"
git clone -q "$a/repository.git" "$a/clone" 2>/dev/null
git -C "$a/clone" checkout -q -b main
for i in $(seq 12); do
    here=$a there=$b
    [ $((i % 2)) = 1 ] || here=$b there=$a
    clone=$here/clone
    [ "$here" = "$a" ] || clone=$b/clone-of-b
    [ -d "$clone" ] || git clone -q "$here/repository.git" "$clone"
    [ "$i" = 1 ] || git -C "$clone" pull -q "$here/repository.git" main
    seq "$i" $((i * 300)) >"$clone/file$i"
    git -C "$clone" add . && git -C "$clone" commit -qm "$i"
    git -C "$clone" push -q "$here/repository.git" main
    [ "$(git -C "$there/repository.git" rev-list --count main)" = "$i" ] || fail "a push that the other mount does not see"
done
git -C "$b/repository.git" fsck --strict --no-progress >/dev/null || fail "git fsck"
note "git: pushed and pulled by turns"

# Mail is delivered by both, and read by the other, whole or not at all.
cat >"$work/deliver.py" <<'PY'
import os, sys
root, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for i in range(count):
    name = f"{i}.{who}"
    with open(f"{root}/tmp/{name}", "x") as f:
        f.write(f"From: {who}\n{i}\n" + "line\n" * (i % 50))
        f.flush()
        os.fsync(f.fileno())
    os.link(f"{root}/tmp/{name}", f"{root}/new/{name}")
    os.unlink(f"{root}/tmp/{name}")
PY
mkdir -p "$a/mail/tmp" "$a/mail/new" "$a/mail/cur"
for who in a b; do
    root=$a
    [ "$who" = a ] || root=$b
    python3 "$work/deliver.py" "$root/mail" "$who" 80 &
    children+=("$!")
    eval "deliver_$who=$!"
done
python3 - "$b/mail" <<'PY' || fail "a message that is torn or missing"
import os, sys, time
root, seen = sys.argv[1], set()
until = time.monotonic() + 60
while len(seen) < 160 and time.monotonic() < until:
    for name in os.listdir(f"{root}/new"):
        number, who = name.split(".")
        with open(f"{root}/new/{name}") as f:
            text = f.read()
        assert text == f"From: {who}\n{number}\n" + "line\n" * (int(number) % 50), name
        os.rename(f"{root}/new/{name}", f"{root}/cur/{name}:2,S")
        seen.add(name)
assert len(seen) == 160, len(seen)
PY
# shellcheck disable=SC2154
wait "$deliver_a" "$deliver_b" || fail "a delivery"
[ "$(find "$a/mail/cur" -type f | wc -l) $(find "$a/mail/new" "$a/mail/tmp" -type f | wc -l)" = "160 0" ] ||
    fail "the maildir as the other mount sees it"
note "maildir: 160 messages from two mounts"

# A build on one mount is up to date on the other, and an edit there is seen here.
mkdir "$a/build"
for i in $(seq 16); do
    printf '#include "all.h"\nint f%d(void) { return %d; }\n' "$i" "$i" >"$a/build/f$i.c"
done
{ for i in $(seq 16); do echo "int f$i(void);"; done; } >"$a/build/all.h"
{
    echo '#include "all.h"'
    echo 'int main(void) { return ('
    for i in $(seq 16); do echo "f$i() +"; done
    echo '0) & 0xff; }'
} >"$a/build/main.c"
cat >"$a/build/Makefile" <<'MAKE'
objects := $(patsubst %.c,%.o,$(wildcard *.c))
program: $(objects)
	cc -o $@ $(objects)
%.o: %.c all.h
	cc -c -o $@ $<
	echo $@ >>built
MAKE
make -s -j 4 -C "$a/build"
[ "$(wc -l <"$b/build/built")" = 17 ] || fail "the objects as the other mount sees them"
code=0
"$b/build/program" || code=$?
[ "$code" = $(((16 * 17 / 2) & 255)) ] || fail "a program that was built on the other mount"
make -q -C "$b/build" || fail "not up to date on the other mount"
sed -i 's/return 7/return 107/' "$b/build/f7.c"
make -s -j 4 -C "$a/build"
[ "$(tail -n 1 "$b/build/built") $(wc -l <"$b/build/built")" = "f7.o 18" ] || fail "an edit on the other mount was not seen, or too much was"
note "make: sources and objects on two mounts"
fsck_clean
cluster_end
