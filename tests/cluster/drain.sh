#!/bin/bash
# A server is made ready to be stopped for good: groups leave it by themselves, files with one copy by `morsel recopy`, and nobody says that it has left
# before nothing needs it: no copy, no object, and no file that may write there. Then it is stopped and taken out, and all is there.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin drain "$1"
start_cluster 4 --lease-time 2s --heartbeat 300ms --rebuild-after 0
start_mount a
a=$mnt
start_mount b
b=$mnt
seen_up() {
    wait_for 60 "all servers are up" servers_up "$1"
}
seen_up 4
mkdir "$a/one" "$a/wide" "$a/two"
policy "$a/one" replicas=1 stripe_width=1
policy "$a/wide" replicas=1 stripe_width=3
policy "$a/two" replicas=2
seen_well

# ---- What is there ----

cat >"$work/make.py" <<'PY'
import os, random, sys
top, MIB = sys.argv[1], 1 << 20
chance = random.Random(5)
for i in range(12):
    for name, size in (("one", 0 if i < 4 else chance.randrange(1, 200000)), ("wide", chance.choice((0, 10, 5000, 3 * MIB + i))), ("two", 50000 + i)):
        with open(f"{top}/{name}/{i}", "wb") as f:
            f.write(chance.randbytes(size))
fd = os.open(f"{top}/wide/holes", os.O_RDWR | os.O_CREAT, 0o444)
os.pwrite(fd, chance.randbytes(100000), 5 * MIB + 77)
os.ftruncate(fd, 64 * MIB + 3)
os.link(f"{top}/wide/holes", f"{top}/wide/has two names")
PY
python3 "$work/make.py" "$a"
find "$a" -type f -exec sync {} +
looks() {
    (cd "$1" && find . -type f -printf '%P %i %m %n %U %s %T@ ' -exec sha256sum {} \; | sort)
}
looks "$a" >"$work/before"

# Files with one copy of which a column belongs to server $1: their inodes, each once.
needing() {
    find "$a" -type f -exec getfattr --absolute-names --only-values -n user.morsel.layout {} \; -printf ' inode=%i\n' |
        grep 'replicas=1 ' | grep -E "servers=([0-9]+,)*$1(,[0-9]+)* " | sed 's/.*inode=//' | sort -u
}
# leaving FILTER: what `morsel recover status` says of server 2.
leaving() {
    morsel recover status --json | jq -r ".leaving[] | select(.server == 2) | $1" || true
}
says() {
    [ "$(leaving "$1")" = "$2" ]
}
server() {
    morsel status --json | jq -r ".servers[] | select(.id == 2) | $1" || true
}
has_left() {
    [ "$(server .has_left)" = true ]
}
recopy() {
    timeout 120 "$bin/morsel" recopy --json --manager="$manager" "$@" >"$work/said" 2>"$work/recopy.err"
}
said() {
    [ "$(jq -r "$1" "$work/said")" = "$2" ] || fail "expected $1 = $2: $(cat "$work/said" "$work/recopy.err")"
}
files=$(needing 2 | wc -l)
kept=$(needing 1 | wc -l)
names=$(needing 2 | grep -cx "$(stat -c %i "$a/wide/holes")" || true) # That one is counted twice: it has two names.
[ "$files" -gt 6 ] && [ "$kept" -gt 6 ] || fail "$files files need server 2, $kept server 1"

# Not before somebody says so.
recopy --dry-run "$a" || fail "dry run: $(cat "$work/said" "$work/recopy.err")"
said .files_wanted 0

# ---- The groups leave, and the files are counted ----

# One that has no name any more needs it as well, until it is closed.
for i in {1..40}; do
    exec 7<>"$a/one/unnamed"
    ! grep -qx "$(stat -c %i "$a/one/unnamed")" <<<"$(needing 2)" || break
    rm "$a/one/unnamed"
    [ "$i" -lt 40 ] || fail "no new file lies on server 2"
done
rm "$a/one/unnamed"
morsel iod drain 2 >"$work/out"
grep -q 'morsel recopy MOUNTPOINT' "$work/out" || fail "drain does not say what to do: $(cat "$work/out")"
wait_for 120 "server 2 has no place in a group" says .places 0
wait_for 60 "the files with one copy are counted" says .files "$((files + 1))"
seen_well
[ "$(leaving .has_left)" = false ] || fail "server 2 has left with $files files on it: $(morsel recover status)"
morsel recover status >"$work/out"
grep -qE "server +2 .*has left its groups; $((files + 1)) files with one copy need it still \(.*morsel recopy MOUNTPOINT" "$work/out" || fail "recover status: $(cat "$work/out")"
morsel iod list >"$work/out"
grep -qE "^ +2 .*leaves: $((files + 1)) files" "$work/out" || fail "iod list: $(cat "$work/out")"

# Nothing new gets there, also not what is copied from there: such a file would lie where its source does.
one=$(needing 2 | while read -r inode; do find "$a/one" -inum "$inode" -size +0; done | head -n 1)
[ -n "$one" ] || fail "no file with bytes lies on server 2 alone"
for i in {1..8}; do
    cp "$one" "$a/one/copy$i"
    head -c 1000 /dev/zero >"$a/one/new$i"
done
find "$a/one" -type f -exec sync {} +
[ "$(needing 2 | wc -l)" = "$files" ] || fail "new files lie on a server that is to leave"
rm "$a"/one/copy? "$a"/one/new?
note "$files files of one copy are on a server that is to leave"

# ---- The files leave ----

recopy --dry-run "$a" || fail "dry run: $(cat "$work/said" "$work/recopy.err")"
said .files_wanted "$((files + names))"

# Not while it is away: there is nowhere to read them from. (What a file with holes takes it would have to be asked, too.)
crash iod2
is_down() {
    [ "$(server .up)" = false ]
}
wait_for 60 "server 2 is down" is_down
recopy --dry-run "$a/one" || fail "dry run: $(cat "$work/said" "$work/recopy.err")"
said .files_wanted 0
grep -q 'start it, then' <<<"$(morsel recover status)" || fail "it is not said that server 2 must be up: $(morsel recover status)"
start_iod 2 7>&-
seen_up 4

recopy "$a" || fail "recopy: $(cat "$work/said" "$work/recopy.err")"
said .files_done "$files"
said '.left | length' 0
[ "$(needing 2 | wc -l)" = 0 ] || fail "files need server 2 still: $(needing 2)"
looks "$a" | cmp - "$work/before" || fail "files are not what they were"
looks "$b" | cmp - "$work/before" || fail "files are not what they were, through another mount"
recopy "$a"
said .files_wanted 0

# The one that has no name is left, although the server may have no object by now.
wait_for 60 "all but what is open is gone" says '[.files, .objects] | map(tostring) | join(" ")' "1 0"
sleep 2 # Several looks, each of which might be wrong.
! has_left || fail "server 2 has left while somebody has a file open that writes there"
exec 7>&-
wait_for 90 "server 2 has left, and says so" has_left
[ -z "$(find "$work/iod2/objects" -type f)" ] || fail "server 2 still has objects: $(find "$work/iod2/objects" -type f | head -n 3)"
morsel recover status >"$work/out"
grep -qE 'server +2 .*has left: it holds nothing' "$work/out" || fail "recover status: $(cat "$work/out")"
note "server 2 has left"

# A manager that starts again does not say so before it has looked.
crash meta
start_meta
seen_up 4
wait_for 90 "server 2 has left, and says so once more" has_left

# ---- It is stopped for good ----

stop iod2
wait_for 60 "server 2 is down" is_down
morsel iod remove 2 >"$work/out" || fail "server 2 is not removed: $(cat "$work/out")"
grep -q 'server 2 is removed' "$work/out" || fail "iod remove: $(cat "$work/out")"
drop_caches
looks "$b" | cmp - "$work/before" || fail "files are not what they were without server 2"

# What is written to files that had nothing yet lands, too.
for i in {0..11}; do
    head -c 300000 /dev/urandom >"$work/more"
    timeout 60 cp "$work/more" "$b/one/$i" && timeout 60 cp "$work/more" "$b/wide/$i" || fail "file $i cannot be written without server 2"
    sync "$b/one/$i" "$b/wide/$i"
    cmp "$work/more" "$a/one/$i" && cmp "$work/more" "$a/wide/$i" || fail "file $i is not what was written"
done
fsck_clean
cluster_end
