#!/bin/bash
# The owner of a desktop and his benefactor (morsel donate): what he says holds at once, the manager hears it, and a restart keeps it; he pauses, and
# lets it leave. Nobody else can.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin donate "$1"
[ "$(id -u)" = 0 ] || skip "needs root for another user's programs"
# shellcheck disable=SC2153 # of cluster.sh
[ -x "$bin/morsel-benefactor" ] || fail "$bin/morsel-benefactor is missing; build it first"

MIB=1048576
desk=$work/desk
manners=() # As on a desktop.
start_desk() {
    start_daemon desk "$bin/morsel-benefactor" --data-dir "$desk" --manager "$manager" --donate 64M --keep-free 0 --listen 0.0.0.0:0 "${manners[@]}" "$@"
}
donate() {
    timeout 60 "$bin/morsel" donate "$@" --data-dir "$desk"
}
# says JQ-FILTER: what the owner is told now.
says() {
    donate status --json >"$work/status" || fail "no status"
    jq -e "$1" "$work/status" >/dev/null || fail "not so: $1: $(jq -c . "$work/status")"
}
donors_say() {
    morsel donors --json >"$work/donors" && jq -e "$1" "$work/donors" >/dev/null
}
# heard JQ-FILTER: by the manager, within the time.
heard() {
    within 60 donors_say "$1" || fail "the manager has not heard it: $1: $(jq -c . "$work/donors")"
}
# refused CODE WORDS ARGUMENTS...: it fails so, with these words, in one line.
refused() {
    local code=0 expected=$1 words=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = "$expected" ] || fail "$*: exit code $code, not $expected: $(cat "$work/err")"
    grep -q -- "$words" "$work/err" || fail "$*: does not say \"$words\": $(cat "$work/err")"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$*: more than a line: $(cat "$work/err")"
    [ ! -s "$work/out" ] || fail "$*: something on standard output: $(cat "$work/out")"
}

start_meta --donor-report 1h --donor-look 2h # What is heard was said because of the owner.
refused 3 'no benefactor runs with' donate status
start_desk
heard ".here == 1 and .donated == 64 * $MIB"
says ".state == \"gives\" and .donated == 64 * $MIB and .said.donate_by == \"its settings\" and .cluster.joined and .cluster.id == 1"
donate status >"$work/text"
says '.pace.why != "" and .pace.held == 0'
grep -q '  pace  ' "$work/text" || fail "the owner does not read how fast it may go: $(cat "$work/text")"
[ "$(ps -o cls= -p "${pid_of[desk]}" | tr -d ' ')" = IDL ] || fail "it takes processors as others do"
if command -v ionice >/dev/null; then
    [ "$(ionice -p "${pid_of[desk]}")" = idle ] || fail "it takes the disk as others do: $(ionice -p "${pid_of[desk]}")"
fi
grep -q "^$desk gives 64.0 MiB; so for" "$work/text" || fail "the owner reads: $(cat "$work/text")"
stop desk
manners=(--no-gentle) # Beside busy programs it would be long about what follows.
start_desk

# ---- His word holds, the manager hears it soon, and a restart keeps it: in order, and by force.

set_to_half() {
    local began
    donate set 64M >/dev/null
    heard ".donated == 64 * $MIB"
    began=$(now_ms)
    donate set 32M >"$work/text"
    heard ".donated == 32 * $MIB"
    took=$(($(now_ms) - began))
}
in_time 10000 "that the manager hears of less" set_to_half # A report comes once an hour.
grep -q "gives 32.0 MiB" "$work/text" || fail "what he said is not in the answer: $(cat "$work/text")"
donate set --keep-free=99% >/dev/null
heard '.donated == 0'
donate set 40M --keep-free=1% >/dev/null
heard ".donated == 40 * $MIB"
stop desk
start_desk
says ".donated == 40 * $MIB and .said.donate_by == \"morsel donate set\" and .said.keep_free == \"1%\""
donate set 24M >/dev/null
crash desk
refused 3 'ended without a word' donate status
start_desk
says ".donated == 24 * $MIB"
heard ".here == 1 and .donated == 24 * $MIB"

# The settings that are changed afterwards are the later word; of the free space they say the same as before.
stop desk
start_desk --donate 48M
says ".donated == 48 * $MIB and .said.donate_by == \"its settings\" and .said.keep_free == \"1%\""
stop desk
start_desk
says ".donated == 64 * $MIB"
note "his word holds"

# ---- Paused: there is room for nothing; a restart does not end it.

donate pause 1h >"$work/text"
grep -q "^$desk is paused for another 60 min: nothing is taken" "$work/text" || fail "the owner reads: $(cat "$work/text")"
heard '.donated == 0 and .donors[0].state == "paused"'
[ "$(morsel donors | grep -c ' paused ')" = 1 ] || fail "the administrator does not see that it is paused: $(morsel donors)"
crash desk
start_desk
says '.paused and .paused_left_ms > 3000000 and .paused_left_ms <= 3600000'
heard '.here == 1 and .donated == 0 and .donors[0].state == "paused"'
donate resume >/dev/null
heard ".donated == 64 * $MIB and .donors[0].state == \"here\""
donate pause 5s >/dev/null # It ends by itself, and the manager hears that, too.
heard '.donors[0].state == "paused"'
heard ".donated == 64 * $MIB and .donors[0].state == \"here\""
donate pause >/dev/null
stop desk
start_desk
says '.paused and .paused_left_ms == 0'
donate resume >/dev/null
note "it has paused"

# ---- Nobody else: not another user, not with a key of his own, not with a copy.

mkdir "$work/programs" "$work/home"
cp "$bin/morsel" "$work/programs"
chown -R 65534:65534 "$work/home"
stranger=(setpriv --reuid=65534 --regid=65534 --clear-groups env "HOME=$work/home" timeout 60 "$work/programs/morsel" donate)
refused 1 "another user's: ask its benefactor as that user or as root" "${stranger[@]}" leave --data-dir "$desk"
refused 3 "no benefactor runs with $work/home/.local/share/morselfs" "${stranger[@]}" status
chmod 755 "$desk" # Even if he may look into the directory.
refused 1 "another user's" "${stranger[@]}" leave --data-dir "$desk"
chmod 700 "$desk"
mkdir "$work/forged"
touch "$work/forged/lock"
sed -e "s/^lock = .*/lock = $(stat -c %i "$work/forged/lock")/" -e 's/^secret = .*/secret = 000102030405060708090a0b0c0d0e0f/' "$desk/key" >"$work/forged/key"
chown -R 65534:65534 "$work/forged"
refused 1 'only who can read the donated directory may' "${stranger[@]}" leave --data-dir "$work/forged"
cp -a "$desk" "$work/copy"
refused 3 'no benefactor runs with' timeout 60 "$bin/morsel" donate leave --data-dir "$work/copy"
says '.donated > 0'
note "strangers were refused"

# ---- Wrong arguments.

refused 2 'give status, set, pause, resume or leave' donate give
refused 2 'donate needs arguments' donate
refused 2 'say how much' donate set
refused 2 '"lots" is no part of a disk' donate set lots
refused 2 'keep-free: "-1" is no part' donate set 5G --keep-free=-1
refused 2 'takes no "5G"' donate resume 5G
refused 2 '"5x" is no time' donate pause 5x
refused 2 '"0" is no time' donate pause 0
refused 2 'at most 11 days' donate pause 9999h
refused 2 'belongs to donate set' donate pause --keep-free=5G
says ".donated == 64 * $MIB and (.paused | not)"

# ---- What is kept was damaged: it does not start, and says what to do.

donate set 16M >/dev/null
stop desk
echo nonsense >>"$desk/owner"
code=0
timeout 60 "$bin/morsel-benefactor" --data-dir "$desk" --manager "$manager" --donate 64M --keep-free 0 --listen 127.0.0.1:0 >"$work/log/damaged" 2>&1 || code=$?
[ "$code" = 1 ] || fail "with a damaged file: exit code $code"
grep -q "error: $desk/owner, .* is damaged: delete the file" "$work/log/damaged" || fail "it does not say what to do"
rm "$desk/owner"
start_desk
says ".donated == 64 * $MIB"

# ---- It leaves: the manager knows when the command is back, and it has ended well, so that nobody starts it again.

donate leave >"$work/text"
donors_say '.here == 0 and .donors[0].state == "away"' || fail "the manager does not know that it has left: $(cat "$work/donors")"
grep -q 'the benefactor has ended' "$work/text" || fail "the owner reads: $(cat "$work/text")"
code=0
wait "${pid_of[desk]}" || code=$?
unset "pid_of[desk]"
[ "$code" = 0 ] || fail "a benefactor that left ended with exit code $code: systemd would start it again"
[ ! -e "$desk/key" ] || fail "the key is left"
refused 3 'no benefactor runs with' donate status
start_desk # He may change his mind.
heard ".here == 1 and .donated == 64 * $MIB"
stop desk
cluster_end
