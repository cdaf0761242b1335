#!/bin/bash
# What happens to benefactors does not happen to data sets: killed, frozen, stopped, restarted in the middle of writing and reading; files on
# their disks damaged, exchanged, and put back as they were before. What nobody has who is here says EIO, exactly that, and is there again when one is back.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin datasets_lost "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 4
start_mount a io_timeout=20s
a=$mnt
mkdir "$a/set"
policy "$a/set" class=scavenged
own="$(dirname "$0")/datasets.py"
head -c 12345678 /dev/urandom >"$work/copy" # Twelve morsels.
mkfifo "$work/go"

# set_of NAME: its number, as in names of files on a benefactor's disk.
set_of() {
    printf '%016x' "$(getfattr --absolute-names --only-values -n user.morsel.layout "$a/set/$1" | grep -oE 'set=[0-9]+' | cut -d= -f2)"
}
# copies_of NAME: "DONOR MORSEL" of each object.
copies_of() {
    local set
    set=$(set_of "$1")
    find "$work"/donor*/objects -name "$set.*" | sed -E "s|.*/(donor[0-9]+)/objects/.*\.([0-9]+)\$|\1 \2|" | sort
}
has_two_copies() {
    [ "$(copies_of "$1" | wc -l)" = 24 ] && [ "$(copies_of "$1" | cut -d' ' -f2 | sort | uniq -c | awk '$1 != 2' | wc -l)" = 0 ]
}
# reads_well NAME: through a mount that knows nothing of it.
reads_well() {
    start_mount fresh io_timeout=20s
    cmp "$work/copy" "$mnt/set/$1" || fail "$1 is not what was written: $2"
    stop_mount fresh
}
wrong_copies() {
    mount_counter "$mnt" set_copies_wrong
}
# rewrite FILE WITH: the same file on a disk has other bytes.
rewrite() {
    cat "$2" >"$1"
}
# start_write NAME: the beginning of the copy is written, and the rest when finish_write says so.
start_write() {
    {
        head -c 5000000 "$work/copy"
        read -r <"$work/go"
        tail -c +5000001 "$work/copy"
    } >"$a/set/$1" &
    writer=$!
    wait_for 60 "the first morsels are stored" some_stored "$1"
}
some_stored() {
    [ "$(copies_of "$1" 2>/dev/null | wc -l)" -ge 8 ]
}
finish_write() {
    echo go >"$work/go"
    wait "$writer" || fail "who wrote failed"
}

# ---- Killed in the middle of a write: what it did not take goes elsewhere.

cp "$work/copy" "$a/set/before"
wait_for 60 "there are two copies of each" has_two_copies before # One that was slow may have taken what is elsewhere then: it is deleted.
start_write killed
crash donor1
finish_write
reads_well killed "a benefactor was killed while it was written"
start_donor donor1
wait_for 60 "it is back" donors_here 4
start_write frozen
kill -STOP "${pid_of[donor2]}"
finish_write
reads_well frozen "a benefactor was frozen while it was written"
kill -CONT "${pid_of[donor2]}"
wait_for 60 "it is back" donors_here 4
start_write restarted
crash donor3
start_donor donor3
finish_write
wait_for 60 "it is back" donors_here 4
reads_well restarted "a benefactor was killed and came back while it was written"
note "killed, frozen and restarted while it is written"

# ---- And of reads; also in order. Whoever is there has it.

for name in before killed frozen restarted; do
    reads_well "$name" "all are here"
done
for i in 1 2 3 4; do
    start_mount reader io_timeout=20s
    exec {file}<"$mnt/set/before"
    head -c 3000000 <&"$file" >"$work/read"
    case $i in
    1 | 2) crash "donor$i" ;;
    3) kill -STOP "${pid_of[donor$i]}" ;;
    4) stop "donor$i" ;;
    esac
    cat <&"$file" >>"$work/read"
    exec {file}<&-
    cmp "$work/copy" "$work/read" || fail "what was read while donor$i went is not what was written"
    stop_mount reader
    reads_well before "without donor$i"
    if [ "$i" = 3 ]; then
        kill -CONT "${pid_of[donor$i]}"
    else
        start_donor "donor$i"
    fi
    wait_for 60 "donor$i is back" donors_here 4
done
note "killed, frozen and stopped while it is read"

# ---- What only they have who are away: EIO, exactly that; and there again when one is back.

mapfile -t two < <(copies_of before | awk '$2 == 0 { print $1 }')
for name in "${two[@]}"; do
    crash "$name"
done
wait_for 60 "two are away" donors_here 2
expected=$(copies_of before | awk -v a="${two[0]}" -v b="${two[1]}" '{ here[$2] += $1 != a && $1 != b } END { for (m in here) if (!here[m]) print m }' | sort -n | xargs)
start_mount reader io_timeout=10s
lost=$(python3 "$own" ranges "$mnt/set/before" "$work/copy" 1048576) || fail "reading what is left"
[ "$lost" = "$expected" ] || fail "EIO for morsels '$lost', where '$expected' were on those that are away"
head -c 1000000 "$work/copy" >"$work/small"
cp "$work/small" "$a/set/two" || fail "with two benefactors nothing can be stored"
start_donor "${two[0]}"
wait_for 60 "one is back" donors_here 3
[ -z "$(python3 "$own" ranges "$mnt/set/before" "$work/copy" 1048576)" ] || fail "not all is there again behind the return of one that had it"
cmp "$work/small" "$mnt/set/two"
stop_mount reader
start_donor "${two[1]}"
wait_for 60 "all are back" donors_here 4
note "EIO for what is away"

# ---- Files on a benefactor's disk: a byte is another one; two are exchanged; one is of before. Nobody reads that. What a reader finds is made anew
# (donor_damage), so that what it was the last to have may be read behind that.

mapfile -t at1 < <(copies_of before | awk '$1 == "donor1" { print $2 }')
[ ${#at1[@]} -gt 0 ] || fail "donor1 has nothing of the file: $(copies_of before)"
set=$(set_of before)
stop donor1
object() {
    find "$work/$1/objects" -name "$2.$3"
}
for morsel in "${at1[@]}"; do
    python3 "$own" damage "$(object donor1 "$set" "$morsel")" $((4096 + 7 * morsel + 1000))
done
start_donor donor1
wait_for 60 "it is back" donors_here 4
start_mount reader io_timeout=20s
cmp "$work/copy" "$mnt/set/before" || fail "damaged bytes were read"
wrong=$(wrong_copies)
stop_mount reader
other=$(copies_of before | awk -v m="${at1[0]}" '$2 == m && $1 != "donor1" { print $1 }') # Without that one they are asked for.
stop "$other"
start_mount reader io_timeout=10s
lost=$(python3 "$own" ranges "$mnt/set/before" "$work/copy" 1048576) || fail "damaged bytes were read"
for morsel in $lost; do
    [[ " ${at1[*]} " == *" $morsel "* ]] || fail "EIO for morsel $morsel, of which a good copy is here"
done
[ $((wrong + $(wrong_copies))) -gt 0 ] || fail "nobody has seen that the copies of donor1 are damaged"
stop_mount reader
start_donor "$other"
wait_for 60 "it is back" donors_here 4
note "damaged bytes are not read"

mapfile -t at4 < <(copies_of before | awk '$1 == "donor4" { print $2 }')
[ ${#at4[@]} -gt 1 ] || fail "donor4 has not two morsels of the file: $(copies_of before)"
stop donor4
for ((i = 0; i + 1 < ${#at4[@]}; i += 2)); do
    one=$(object donor4 "$set" "${at4[i]}") next=$(object donor4 "$set" "${at4[i + 1]}")
    cp "$one" "$work/kept"
    rewrite "$one" "$next"
    rewrite "$next" "$work/kept"
done
start_donor donor4
wait_for 60 "it is back" donors_here 4
damaged_too=$(copies_of before | awk '$1 == "donor1" || $1 == "donor4"' | cut -d' ' -f2 | sort -n | uniq -d | xargs)
start_mount reader io_timeout=10s
lost=$(python3 "$own" ranges "$mnt/set/before" "$work/copy" 1048576) || fail "exchanged morsels were read"
for morsel in $lost; do
    [[ " $damaged_too " == *" $morsel "* ]] || fail "EIO for morsel $morsel, of which a good copy is here"
done
stop_mount reader
note "exchanged morsels are not read"

head -c 4194304 "$work/copy" >"$work/version1"
tail -c 4194304 "$work/copy" >"$work/version2"
exec {file}<>"$a/set/versions"
cat "$work/version1" >&"$file"
sync "$a/set/versions"
set=$(set_of versions)
for i in 1 2 3 4; do
    for morsel in 0 1 2 3; do
        found=$(object "donor$i" "$set" "$morsel")
        [ -z "$found" ] || cp "$found" "$work/old.donor$i.$morsel"
    done
done
dd if="$work/version2" of="/dev/fd/$file" bs=1M conv=notrunc status=none
exec {file}>&-
cmp "$work/version2" "$a/set/versions"
# Two get back what they had before: of morsel 0 one of them has a copy, and the other one is with somebody else. So all is still there.
mapfile -t has < <(copies_of versions | awk '$2 == 0 { print $1 }')
[ "${#has[@]}" = 2 ] || fail "not two copies of morsel 0: $(copies_of versions)"
back=("${has[0]}") stay=("${has[1]}")
for name in donor1 donor2 donor3 donor4; do
    if [[ " ${has[*]} " == *" $name "* ]]; then
        continue
    elif [ ${#back[@]} = 1 ]; then
        back+=("$name")
    else
        stay+=("$name")
    fi
done
put_back=0
for name in "${back[@]}"; do
    stop "$name"
    for morsel in 0 1 2 3; do
        found=$(object "$name" "$set" "$morsel")
        other=$(copies_of versions | awk -v m="$morsel" -v a="${stay[0]}" -v b="${stay[1]}" '$2 == m && ($1 == a || $1 == b)' | wc -l)
        if [ -n "$found" ] && [ "$other" -gt 0 ] && [ -e "$work/old.$name.$morsel" ]; then
            rewrite "$found" "$work/old.$name.$morsel"
            put_back=$((put_back + 1))
        fi
    done
    start_donor "$name"
done
[ "$put_back" -gt 0 ] || fail "no copy of before was put back: $(ls "$work"/old.*); $(copies_of versions)"
wait_for 60 "they are back" donors_here 4
start_mount reader io_timeout=10s
cmp "$work/version2" "$mnt/set/versions" || fail "bytes of an older version were read"
wrong=$(wrong_copies)
stop_mount reader
for name in "${stay[@]}"; do
    stop "$name" # Now only those are here that are of before.
done
wait_for 60 "two are here" donors_here 2
start_mount reader io_timeout=10s
lost=$(python3 "$own" ranges "$mnt/set/versions" "$work/version2" 1048576) || fail "bytes of an older version were read"
[ $((wrong + $(wrong_copies))) -gt 0 ] || fail "nobody has seen that copies are of before; EIO for '$lost'"
for name in "${stay[@]}"; do
    start_donor "$name"
done
wait_for 60 "they are back" donors_here 4
stop_mount reader
note "older versions are not read"

# ---- More than a third of all that is given, and more than there is.

expect_error "Disk quota exceeded" dd if=/dev/zero of="$a/set/large" bs=1M count=400 conv=fsync status=none
rm "$a/set/large"
stop_donors
cluster_end
