#!/bin/bash
# Copies that are damaged behind a benefactor's back: a mount that finds one reads another and tells the manager, which has it looked at. What is wrong is
# deleted and made anew. One that gives out something else than it has is named, gets nothing new, and what it has goes elsewhere; the last copy never goes.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin donor_damage "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"

own="$(dirname "$0")/datasets.py"
MORSELS=12
copies=2
set_of() {
    printf '%016x' "$(getfattr --absolute-names --only-values -n user.morsel.layout "$a/set/$1" | grep -oE 'set=[0-9]+' | cut -d= -f2)"
}
# copies_of NAME: "DONOR MORSEL" of each object.
copies_of() { # Files may go while it looks.
    { find "$work"/donor*/objects -name "$(set_of "$1").*" 2>/dev/null || true; } | sed -E "s|.*/(donor[0-9]+)/objects/.*\.([0-9]+)\$|\1 \2|" | sort
}
at_donor() {
    copies_of "$1" | awk -v d="$2" '$1 == d { print $2 }'
}
object() {
    find "$work/$1/objects" -name "$(set_of "$2").$3" 2>/dev/null || true
}
# on_disks NAME: there are as many of each as there shall be, or more (one that was restarted was missed for a moment); all_copies: and the manager says
# so of all.
on_disks() {
    [ "$(copies_of "$1" | cut -d' ' -f2 | sort | uniq -c | awk -v n="$copies" '$1 >= n' | wc -l)" = "$MORSELS" ]
}
all_copies() {
    on_disks "$1" && status_is '.morsels_short == 0'
}
status_is() {
    { morsel status --json || true; } | jq -e ".donors | $1" >/dev/null
}
donors_say() {
    morsel donors --json | jq -e "$1" >/dev/null
}
counts_at_least() {
    [ "$(counter "$1")" -ge "$2" ]
}
# firsts_of NAME: "DONOR MORSEL" of each morsel, with the copy that a mount asks first that knows nothing (set_choice.h).
firsts_of() {
    morsel layout --all --json "$a/set/$1" | jq -r '.. | objects | select(has("donors") and has("morsel")) | "donor\(.donors[.morsel % (.donors | length)]) \(.morsel)"'
}
# most_first NAME: the benefactor that is asked first for most of them; and in wrong[] these.
most_first() {
    firsts_of "$1" >"$work/firsts"
    bad_one=$(cut -d' ' -f1 "$work/firsts" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
    mapfile -t wrong < <(awk -v d="$bad_one" '$1 == d { print $2 }' "$work/firsts")
    [ ${#wrong[@]} -ge 3 ] || fail "nobody is asked first for three: $(xargs <"$work/firsts")"
}
# sums_of NAME: of the files of wrong[] at $bad_one.
sums_of() {
    local morsel file
    for morsel in "${wrong[@]}"; do
        file=$(object "$bad_one" "$1" "$morsel")
        [ -z "$file" ] || echo "$morsel $(sha256sum <"$file" | cut -c1-16)"
    done | sort
}
# is_mended NAME: all copies are there, and no file is as it was in $work/before.
is_mended() {
    all_copies "$1" && [ -z "$(comm -12 "$work/before" <(sums_of "$1"))" ]
}
# was_found NAME MORSEL: its file at $bad_one is other than in $work/before, or gone: who read ahead for another morsel has found it.
was_found() {
    local record
    record=$(grep "^$2 " "$work/before") || return 1
    [ "$(sums_of "$1" | grep "^$2 ")" != "$record" ]
}
# find_wrong NAME COUNTER MORSEL...: a mount that has nothing reads each of them, gets what was written, and the manager has it looked at. Who is slow just
# then is overtaken by the other copy, and not found: then another mount reads it. Whoever reads ahead may have found the next ones, too.
is_distrusted() {
    status_is "any(.distrusted[]; .id == ${id:-0} and .why == \"lied\")"
}
find_wrong() {
    local name=$1 counted=$2 morsel before try
    shift 2
    for morsel; do
        before=$(counter "$counted")
        for try in {1..100}; do
            if was_found "$name" "$morsel" || is_distrusted; then break; fi # Nobody reads from it any more.
            start_mount reader io_timeout=20s
            cmp -n 1048576 -i $((morsel * 1048576)) "$work/copy" "$mnt/set/$name" || fail "morsel $morsel of $name is not what was written"
            if [ "$(mount_counter "$mnt" set_copies_wrong)" -gt 0 ]; then
                wait_for 60 "somebody has looked at morsel $morsel of $name at $bad_one" counts_at_least "$counted" $((before + 1))
                stop_mount reader
                break
            fi
            [ "$try" -lt 100 ] || fail "morsel $morsel of $name at $bad_one was never asked for"
            stop_mount reader
        done
    done
}
# reads_well NAME WHEN: every byte, by a mount that has nothing.
reads_well() {
    start_mount reader io_timeout=20s
    cmp "$work/copy" "$mnt/set/$1" || fail "$1 is not what was written: $2"
    stop_mount reader
}

start_donors 4 --repair-after 2s
start_mount a io_timeout=20s
a=$mnt
mkdir "$a/set"
policy "$a/set" class=scavenged replicas=2 stripe_width=4
head -c $((MORSELS * 1048576 - 12345)) /dev/urandom >"$work/copy"
store_file() {
    cp "$work/copy" "$a/set/$1"
    wait_for 60 "all copies of $1 are there" on_disks "$1"
}

# ---- A byte is another one: every byte is right, nothing fails, and the copy is made anew.

store_file flipped
most_first flipped
for morsel in "${wrong[@]}"; do
    python3 "$own" damage "$(object "$bad_one" flipped "$morsel")" $((4096 + 7 * morsel + 1000))
done
sums_of flipped >"$work/before"
find_wrong flipped copies_bad "${wrong[@]}"
wait_for 60 "all copies are there again, and right" is_mended flipped
reads_well flipped "its copies were mended"
grep -q 'damaged or missing' "$work/log/meta" || fail "the manager's log says nothing"
donors_say "any(.donors[]; .damaged == ${#wrong[@]} and .distrusted == false)" || fail "not told: $(morsel donors)" # It is one incident.
note "flipped bytes are mended"

# ---- Its own checksums are right, and it is another morsel: two are exchanged. And one is cut.

store_file exchanged
most_first exchanged
wrong=("${wrong[@]:0:3}")
one=$(object "$bad_one" exchanged "${wrong[0]}") two=$(object "$bad_one" exchanged "${wrong[1]}") three=$(object "$bad_one" exchanged "${wrong[2]}")
stop "$bad_one"
cp "$one" "$work/kept"
cat "$two" >"$one"
cat "$work/kept" >"$two"
start_donor "$bad_one"
wait_for 60 "it is back" donors_here 4
truncate -s 8192 "$three" # What is cut while it does not run it finds by itself when it starts.
sums_of exchanged >"$work/before"
find_wrong exchanged copies_bad "${wrong[@]}"
wait_for 60 "all copies are there again, and right" is_mended exchanged
reads_well exchanged "its copies were mended"
note "exchanged and cut files are mended"

# ---- The last copy is damaged: EIO for exactly that morsel, and it stays, for the disk may come to read it right again.

copies=1
policy "$a/set" class=scavenged replicas=1 stripe_width=4
store_file single
holder=$(copies_of single | awk '$2 == 5 { print $1 }')
last=$(object "$holder" single 5)
cp "$last" "$work/right"
python3 "$own" damage "$last" 5000
bad=$(counter copies_bad)
start_mount reader io_timeout=2s
lost=$(python3 "$own" ranges "$mnt/set/single" "$work/copy" 1048576) || fail "damaged bytes were read"
[ "$lost" = 5 ] || fail "EIO for morsels '$lost', where only morsel 5 is damaged"
wait_for 60 "its benefactor has looked" counts_at_least copies_bad $((bad + 1))
[ -e "$last" ] || fail "the last copy was deleted"
{ morsel status --unavailable || true; } >"$work/text"
grep -q "1 of $MORSELS morsels, 1.0 MiB; at benefactor ${holder#donor}; of 1 the last copy is here, and damaged" "$work/text" || fail "not listed: $(cat "$work/text")"
cat "$work/right" >"$last"
stop_mount reader
reads_well single "the disk reads it right again"
note "the last copy stays"

# ---- One says that its copies are right, and others get something else from it: a bad network before it.

copies=2
policy "$a/set" class=scavenged replicas=2 stripe_width=4
store_file lied
most_first lied
wrong=("${wrong[@]:0:3}")
port=${address_of[$bad_one]##*:}
join_net liar
mkfifo "$work/run/relay.ready"
python3 "$(dirname "$0")/../lib/relay.py" "/run/netns/${lives_on[liar]}" "$port" --at "${host_of[liar]}" --to "${host_of[$bad_one]}" --ready "$work/run/relay.ready" --damage "$work/damage" 2>"$work/log/relay" &
children+=("$!")
read -r -t 60 _ <"$work/run/relay.ready" || fail "the relay does not listen: $(cat "$work/log/relay")"
stop "$bad_one"
start_donor "$bad_one" --advertise "${host_of[liar]}:$port"
wait_for 60 "it is back" donors_here 4
id=$(morsel donors --json | jq ".donors[] | select(.address == \"${host_of[liar]}:$port\") | .id")
[ -n "$id" ] || fail "it is not at the relay: $(morsel donors)"
: >"$work/damage"
: >"$work/before" # Its files are right.
find_wrong lied copies_lied "${wrong[@]}"
is_distrusted || fail "it is not distrusted: $(morsel status)"
morsel donors >"$work/text"
grep -q "distrusted for .*others get something else" "$work/text" || fail "not named: $(cat "$work/text")"
grep -q "Benefactor $id .* is not trusted" <<<"$(morsel status || true)" || fail "not named in status"
emptied() {
    [ "$(at_donor lied "$bad_one" | wc -l)" = 0 ] && on_disks lied
}
wait_for 120 "what it had is elsewhere, and nothing of it there" emptied
store_file behind
[ "$(at_donor behind "$bad_one" | wc -l)" = 0 ] || fail "one that is distrusted got something new"
reads_well lied "what it had is elsewhere"
at_single=$(at_donor single "$bad_one" | wc -l)
rm "$work/damage"
morsel donors trust "$id" >/dev/null || fail "it cannot be trusted again"
status_is '.distrusted == []' || fail "it is distrusted still"
if morsel donors trust 77 2>/dev/null; then fail "one that is not there is trusted"; fi
store_file again
[ "$(at_donor again "$bad_one" | wc -l)" -gt 0 ] || fail "it is trusted, and gets nothing"
reads_well single "of which there is one copy ($at_single of it were at the liar)"
note "a liar is named and emptied"

stop_donors
cluster_end
