#!/bin/bash
# What nobody goes on with: reservations are taken back, what was staged begins anew from its origin, scratch is emptied; what is data stays,
# and is told of; what somebody has open stays, too; and none of that begins anew with the manager.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin expiry "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 3 --session-time 2s --unfinished-expiry 0
start_mount a io_timeout=20s
a=$mnt
mkdir "$a/scratch" "$a/data"
policy "$a/scratch" class=scavenged scratch=yes
policy "$a/data" class=scavenged
mkdir "$work/www"
python3 "$(dirname "$0")/../lib/origin.py" "$work/www" "$work/port" "$work/requests" 2>"$work/log/origin" &
children+=("$!")
wait_for 60 "the web server listens" test -e "$work/port"
url=http://127.0.0.1:$(cat "$work/port")
head -c 6000000 /dev/urandom >"$work/www/staged"

# of FILE FIELD: what `morsel datasets` says of it; nothing: it is no data set.
of() {
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$a/$1")) | .$2"
}
has() {
    [ "$(of "$1" "$2")" = "$3" ]
}
size_of() {
    stat -c %s "$a/$1"
}
is_empty() {
    [ "$(size_of "$1")" = 0 ]
}
told_of() {
    [ "$(morsel status --json | jq .donors.sets_unfinished)" = "$1" ]
}
# used_nothing_but BYTES: benefactors have deleted the rest.
used_at_most() {
    [ "$(morsel donors --json | jq .used)" -le "$1" ]
}
stored() {
    [ "$(size_of "$1")" -ge "$2" ]
}

# ---- Five that nobody goes on with, and one that is whole.

cp "$work/www/staged" "$a/data/whole"
morsel reserve "$a/data/reserved" 5000000
morsel reserve "$a/data/part" 5000000
for file in data/part scratch/part; do # A reservation of which the half is stored is not sealed.
    [ -e "$a/$file" ] || morsel reserve "$a/$file" 5000000
    dd if="$work/www/staged" of="$a/$file" bs=1M count=2 conv=notrunc status=none
    wait_for 20 "$file is stored" has "$file" morsels 2
done
echo 3000000 >"$work/www/.hold"
"$bin/morsel" stage --quiet "$url/staged" "$a/data" &
stage=$!
wait_for 60 "a part is staged" stored data/staged 2097152
kill -KILL "$stage"
wait "$stage" || true
rm "$work/www/.hold"
morsel reserve "$a/data/held" 5000000
exec 8<>"$a/data/held" # It is open all the time.
[ "$(of data/staged state)" != sealed ] && [ "$(of data/part state)" != sealed ] || fail "$(morsel datasets)"
[ "$(of data/reserved state)" = reserved ] || fail "$(morsel datasets)"
[ "$(of data/held reserved)" = 5000000 ] || fail "$(morsel datasets)"
told_of 0 || fail "told of without an expiry: $(morsel status)"

# ---- The manager is told to let them go; that time passed before counts.

stop meta
start_meta --donor-report 200ms --donor-look 5s --session-time 2s --unfinished-expiry 3s 8<&-
wait_for 120 "the reservation is taken back" has data/reserved state ""
wait_for 120 "what is scratch is emptied" is_empty scratch/part
wait_for 120 "what was staged is let go" is_empty data/staged
wait_for 120 "data is told of" told_of 1
for line in "its reservation is taken back" "begins anew" "it was scratch" "it is kept"; do
    grep -q "never complete.*$line\|is not complete.*$line" "$work/log/meta" || fail "not a word of \"$line\" in the log"
done
[ "$(size_of data/part)" = 2097152 ] && has data/part morsels 2 || fail "data was let go: $(morsel datasets)"
cmp -n 2097152 "$a/data/part" "$work/www/staged" || fail "data that stays cannot be read"
[ "$(of data/part unfinished_since_s)" -gt 0 ] && [ "$(of data/whole unfinished_since_s)" = 0 ] || fail "since when: $(morsel datasets --json)"
grep -q "nothing was done to it since" <<<"$(morsel datasets)" || fail "$(morsel datasets)"
grep -q "^unfinished 1 of the data sets" <<<"$(morsel status)" || fail "$(morsel status)"
has data/held reserved 5000000 || fail "what is open was let go: $(morsel datasets)"
cmp "$work/www/staged" "$a/data/whole" || fail "what is whole was let go"
# Two copies of two morsels, and of the six of the one that is whole.
wait_for 120 "benefactors have deleted what was let go" used_at_most 17825792
note "let go"

# ---- All of them can be gone on with, or begun again.

stop meta
start_meta --donor-report 200ms --donor-look 5s --session-time 2s --unfinished-expiry 1h 8<&-
wait_for 60 "the benefactors are back" donors_here 3
[ "$(of data/staged origin)" = "$url/staged" ] || fail "the origin of what was staged is forgotten: $(morsel datasets)"
morsel stage "$url/staged" "$a/data" >"$work/out" || fail "stage goes not on: $(cat "$work/out")"
cmp "$work/www/staged" "$a/data/staged" || fail "what was staged again is not what its origin has"
has data/staged state sealed || fail "$(morsel datasets)"
morsel reserve "$a/data/reserved" 6000000
dd if="$work/www/staged" of="$a/data/reserved" bs=1M conv=notrunc status=none
wait_for 60 "what was reserved again is stored" has data/reserved state sealed
head -c 5000000 "$work/www/staged" | dd of="$a/data/part" bs=1M iflag=fullblock conv=notrunc status=none
wait_for 60 "data that stayed is complete" has data/part state sealed
cp "$work/www/staged" "$a/scratch/part"
cmp "$work/www/staged" "$a/scratch/part" || fail "what was emptied is not stored anew"
exec 8<&-
morsel fsck || fail "fsck"
note "begun again"
stop_mount a
stop_donors
cluster_end
