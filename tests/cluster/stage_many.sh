#!/bin/bash
# morsel stage -r and --list: each file of a directory, or of a list, becomes a data set with its origin; what is complete is skipped by the next
# run, what was interrupted goes on, and what does not come is told by the exit code, and keeps nothing else from coming.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin stage_many "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 2
start_mount a io_timeout=20s
a=$mnt
mkdir "$a/set" "$a/list"
policy "$a/set" class=scavenged
policy "$a/list" class=scavenged
mkdir "$work/www"
python3 "$(dirname "$0")/../lib/origin.py" "$work/www" "$work/port" "$work/requests" 2>"$work/log/origin" &
children+=("$!")
wait_for 60 "the web server listens" test -e "$work/port"
url=http://127.0.0.1:$(cat "$work/port")
# stages CODE ARGUMENTS...: what it says is in out and err.
stages() {
    local wanted=$1 code=0
    shift
    morsel stage "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = "$wanted" ] || fail "stage $* ends with $code, not $wanted: $(cat "$work/out" "$work/err")"
}
# says WORDS: in its one line of errors.
says() {
    [ "$(wc -l <"$work/err")" = 1 ] && grep -q -- "$1" "$work/err" || fail "not a word of \"$1\": $(cat "$work/err")"
}
counts() {
    jq -r '"\(.fetched) \(.were_complete) \(.failed) \(.left_out)"' "$work/out"
}

# ---- A directory.

src="$work/src"
mkdir -p "$src/b/deep/er" "$src/empty"
for name in a "b/with blank" "b/50% + more#1" "b/deep/er/grün"; do
    head -c 1500000 /dev/urandom >"$src/$name"
done
: >"$src/b/zero"
ln -s ../empty "$src/b/elsewhere"
ln -s ../a "$src/b/link"
mkfifo "$src/pipe"
stages 0 --json -r "$src" "$a/set"
[ "$(counts)" = "5 0 0 3" ] || fail "stage -r says: $(cat "$work/out")"
[ -d "$a/set/empty" ] && [ ! -e "$a/set/b/elsewhere" ] && [ ! -e "$a/set/pipe" ] || fail "other things came than files and directories: $(find "$a/set")"
for name in a "b/with blank" "b/50% + more#1" "b/deep/er/grün" b/zero; do
    cmp "$src/$name" "$a/set/$name" || fail "$name is not what was staged"
done
grep -qF "file://$src/b/50%25%20%2B%20more%231" <<<"$(morsel layout "$a/set/b/50% + more#1")" || fail "it does not have its origin"
stages 0 --json -r "file://$src" "$a/set"
[ "$(jq -r '[.files[] | .fetched] | add' "$work/out")" = 0 ] || fail "what is complete is fetched again: $(cat "$work/out")"
note "a directory"

# One that does not come keeps no other from coming.
echo new >"$src/a2"
rm "$a/set/b/deep/er/grün"
echo mine >"$a/set/a2"
stages 1 --json -r "$src" "$a/set"
says "was not staged"
[ "$(jq -r .failed "$work/out")" = 1 ] && cmp "$src/b/deep/er/grün" "$a/set/b/deep/er/grün" || fail "one did not come, and others: $(cat "$work/out")"
rm "$a/set/a2"
touch -d "2001-02-03 04:05:06" "$src/a"
stages 1 -r "$src" "$a/set"
says "has changed since"
grep -q "2 files were fetched, 3 were complete, 1 did not come; 3 that are" "$work/out" || fail "stage -r says: $(cat "$work/out")"
stages 0 --fresh --quiet -r "$src" "$a/set"
[ ! -s "$work/out" ] || fail "--quiet is not: $(cat "$work/out")"
stages 2 -r "$url/" "$a/set"
says "--list FILE"
stages 2 -r "$src/a" "$a/set"
says "no directory"
stages 2 -r "$src" "$work"
says "MorselFS"
stages 2 -r "$a" "$a/set"
says "which is to be staged"
stages 2 -r "$src"
note "what does not come"

# ---- A list: interrupted in the middle of its second file, and gone on with.

for name in one two three; do
    head -c 7000000 /dev/urandom >"$work/www/$name"
done
printf '# what we need\n%s/one\n\n%s/two\n%s/three\n' "$url" "$url" "$url" >"$work/list"
stages 2 --list "$work/list" "$work"
printf '%s/one\n%s/moved/one\n' "$url" "$url" >"$work/twice"
stages 2 --list "$work/twice" "$a/list"
says "are called one"
printf '%s/one\ngopher://x/y\n' "$url" >"$work/wrong"
stages 2 --list "$work/wrong" "$a/list"
says "line 2 .*no URL"
[ -z "$(ls -A "$a/list")" ] || fail "a list that is wrong was begun"
cp "$work/list" "$work/first"
sed -i '/two\|three/d' "$work/first"
stages 0 --quiet --list "$work/first" "$a/list"
echo 5000000 >"$work/www/.hold"
"$bin/morsel" stage --quiet --list "$work/list" "$a/list" &
stage=$!
half() {
    [ "$(stat -c %s "$a/list/two" 2>/dev/null || echo 0)" -ge 4194304 ]
}
wait_for 60 "half of the second file is there" half
kill -KILL "$stage"
wait "$stage" || true
rm "$work/www/.hold"
stages 0 --json --list - "$a/list" <"$work/list"
[ "$(counts)" = "2 1 0 0" ] || fail "--list behind an interruption says: $(cat "$work/out")"
[ "$(jq -r '.files[1].resumed_at' "$work/out")" -ge 4194304 ] || fail "the second file did not go on: $(cat "$work/out")"
for name in one two three; do
    cmp "$work/www/$name" "$a/list/$name" || fail "$name is not what its origin has"
done
printf '%s/nothing\n%s/one\n' "$url" "$url" >"$work/list"
rm "$a/list/one"
stages 1 --list "$work/list" "$a/list"
says 404
cmp "$work/www/one" "$a/list/one" || fail "one did not come, and the next one neither"
note "a list"
fsck_clean
cluster_end
