#!/bin/bash
# Groups as whoever runs the servers sees them: a policy of copies that cannot be kept is refused with words, one that can waits until files may lie on
# its groups, `morsel layout` and `morsel status` name their servers, and say what is at risk while one is away; all of it behind a restart, too.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin groups "$1"

# says FILTER: holds for what `morsel status --json` prints.
says() {
    (morsel status --json || true) | jq -e "$1" >/dev/null # Its exit code says that something is not well.
}
all_well() {
    says ".health == \"healthy\" and (.groups | length) == $1 and all(.groups[]; .told and .well and .copies == [])"
}
# refused FILE WORDS...: that policy is, and the command says why.
refused() {
    local replicas=$1
    shift
    if morsel setpolicy "$work/mnt/c/d" replicas="$replicas" 2>"$work/refusal"; then
        fail "a policy of $replicas copies was taken"
    fi
    grep -q "$*" "$work/refusal" || fail "the refusal does not say \"$*\": $(cat "$work/refusal")"
}
layout() {
    (morsel layout --json "$work/mnt/c/d/$1" || true) | jq -c "$2"
}

start_meta
start_iod 1
start_mount c
mkdir "$work/mnt/c/d"
refused 2 "2 copies need 2 storage servers that are up"
says '.groups == []' || fail "a policy that was refused has left groups: $(morsel status --json)"
start_iod 2
start_iod 3
morsel setpolicy "$work/mnt/c/d" replicas=2
[ "$(morsel getpolicy --json "$work/mnt/c/d" | jq '[.. | .replicas? // empty] | unique')" ] || fail "getpolicy: $(morsel getpolicy --json "$work/mnt/c/d")"
note "a policy"

# A file made just behind lies on the groups, over all servers.
echo x >"$work/mnt/c/d/file"
[ "$(layout file '.[0] | [.replicas, .stripe_width, (.columns | map(.servers | length) | unique)]')" = '[2,3,[2]]' ] ||
    fail "the file does not lie on three groups of two: $(layout file .)"
[ "$(layout file '[.[0].columns[].servers[]] | sort')" = '[1,1,2,2,3,3]' ] || fail "the servers do not take turns: $(layout file .)"
wait_for 60 "all groups are well" all_well 3
grep -qE '^copies +3 groups of servers, all copies are complete$' <<<"$(morsel status)" || fail "status: $(morsel status)"
says '[.groups[].servers] == [[1,2],[2,3],[3,1]]' || fail "not the ring: $(morsel status --json)"
note "a file on groups"

# One is away: each of its groups is named, with what is at risk.
crash iod3
wait_for 60 "those that are left go on without it" says 'all(.groups[1:][]; any(.copies[]; .state == "standalone" and .serves))'
grep -qE '^ +group 2 \(servers 2, 3\): only one copy has all of it; server 2 goes on without the others; server 3' <<<"$(morsel status || true)" ||
    fail "status: $(morsel status)"
within 60 says '[.groups[] | select(any(.copies[]; .server == 3 and .trouble == "its server is down" and .serves == false)) | .number] == [2,3]' ||
    fail "the loss is not seen: $(morsel status --json)"
says '.health == "degraded" and .groups[0].well' || fail "status: $(morsel status --json)"
grep -qE '^ +group 2 \(servers 2, 3\): .*server 3: its server is down' <<<"$(morsel status || true)" || fail "status: $(morsel status)"
if morsel layout "$work/mnt/c/d/file" >"$work/shown"; then fail "layout does not say by its exit code that a server is down"; fi
grep -qE '^ +3 .* down +copy, in group 2$' "$work/shown" || fail "layout: $(cat "$work/shown")"
start_iod 3
wait_for 60 "all groups are well again" all_well 3
note "a server away"

# The manager comes back, and the servers after one another: no group is made anew, and files have theirs.
crash meta
start_meta
wait_for 60 "all groups are well behind a restart" all_well 3
echo y >"$work/mnt/c/d/second"
[ "$(layout second '[.[0].columns[].servers[]] | sort')" = '[1,1,2,2,3,3]' ] || fail "behind a restart: $(layout second .)"
if grep -q 'takes two of the votes' <<<"$(morsel status)"; then fail "everything is on one machine, and nobody can help it: $(morsel status)"; fi
inject=(unshare --uts sh -c 'hostname another && exec "$@"' sh)
start_iod 4
inject=()
wait_for 60 "the new one has groups" all_well 5
grep -q '^The manager runs on the machine of server [123] ' <<<"$(morsel status)" || fail "the manager shares a machine with servers, and there are others: $(morsel status)"
note "a restart, and a new server"

# Objects of a deleted file that come back on one server, which orders one of their groups and not the other one: found, and collected.
printf -v inode '%016x' "$(stat -c %i "$work/mnt/c/d/file")"
objects() {
    find "$work/iod$1/objects" -name "$inode.*"
}
collected() {
    local i
    for i in 1 2 3; do [ -z "$(objects "$i")" ] || return 1; done
}
sync "$work/mnt/c/d/file"
head -c 3M /dev/urandom >"$work/mnt/c/d/file"
objects 2 >"$work/kept"
[ "$(wc -l <"$work/kept")" = 2 ] || fail "server 2 has other objects of the file than two: $(cat "$work/kept")"
tar -cPf "$work/kept.tar" -T "$work/kept"
rm "$work/mnt/c/d/file"
wait_for 60 "the objects of the deleted file are collected" collected
wait_for 60 "the manager knows that they are" says '[.. | .garbage? | numbers] == [0]'
# Behind an orderly end of all nothing is in doubt, so what an older disk brings back stays there.
stop iod1
wait_for 60 "server 2 goes on without server 1" says 'any(.groups[0].copies[]; .state == "standalone" and .serves)'
for i in 2 3 4; do stop "iod$i"; done
tar -xPf "$work/kept.tar"
for i in 1 2 3 4; do start_iod "$i"; done
wait_for 60 "all groups are well, and a disk is an older one" all_well 5
if morsel fsck >"$work/found"; then fail "fsck finds nothing: $(cat "$work/found")"; fi
grep -q "server 2: object $inode.256 belongs to no file" "$work/found" || fail "fsck: $(cat "$work/found")"
morsel fsck --repair >"$work/found" || [ $? = 4 ] || fail "fsck --repair: $(cat "$work/found")"
grep -q '^fsck: repaired: ' "$work/found" || fail "fsck --repair: $(cat "$work/found")"
wait_for 60 "what came back is collected" collected
fsck_clean
note "objects that came back"
cluster_end
