#!/bin/bash
# A file of class scavenged that is being stored is truncated, again and again, while what is left of its last morsel is on its way to benefactors that
# stand still: nothing that was cut off comes back when it grows again, neither on the mount that does it nor on another one.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin datasets_cut "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 2
start_mount a io_timeout=60s
a=$mnt
start_mount b io_timeout=60s
b=$mnt
mkdir "$a/set"
policy "$a/set" class=scavenged
own="$(dirname "$0")/datasets.py"

# donors SIGNAL
donors() {
    kill "-$1" "${pid_of[donor1]}" "${pid_of[donor2]}"
}
# cuts NAME END SIZE...: as a program does that has the file open all the time.
cuts() {
    local name=$1 said writer
    coproc cut { exec python3 "$own" cuts "$a/set/$name" "$work/$name" "${@:2}"; }
    # shellcheck disable=SC2154 # of coproc
    writer=$cut_PID
    exec {in}<&"${cut[0]}" {out}>&"${cut[1]}"
    read -r -t 60 said <&"$in" && [ "$said" = written ] || fail "$name: it was not written"
    donors STOP
    echo go >&"$out"
    read -r -t 60 said <&"$in" && [ "$said" = cut ] || fail "$name: what was cut off is back on its mount, at once"
    donors CONT
    cmp "$work/$name" "$b/set/$name" || fail "$name: what was cut off is back on another mount"
    echo go >&"$out"
    wait "$writer" || fail "$name: what was cut off is back on its mount"
    exec {in}<&- {out}>&-
    cmp "$work/$name" "$a/set/$name" || fail "$name: it is not what it was when it was closed"
    cmp "$work/$name" "$b/set/$name" || fail "$name: it is not what it was when it was closed, on another mount"
    expect_error "Operation not permitted" truncate -s 10 "$a/set/$name"
    wait_for 60 "both benefactors are here" donors_here 2
    note "$name"
}

mib=1048576
cuts same_morsel $((2 * mib)) $((mib + 500000)) $((mib + 200000))
cuts three_times $((2 * mib)) $((mib + 700000)) $((mib + 1)) $((mib + 500000)) $((mib + 300000))
cuts whole_morsel $((2 * mib)) $((mib + 500000)) "$mib"
cuts morsel_before $((4 * mib)) $((2 * mib + 500000)) 300000 $((3 * mib + 77))

# The manager stands still while it is asked for the second cut, until that is interrupted. It may have made it all the same: then what was on its way of
# before, to benefactors that stand still, does not come back.
coproc cut { exec python3 "$own" interrupted "$a/set/interrupted" "$work/interrupted" $((4 * mib)) $((3 * mib + 300000)) $((mib + 77)); }
# shellcheck disable=SC2154 # of coproc
writer=$cut_PID
exec {in}<&"${cut[0]}" {out}>&"${cut[1]}"
# says WORD
says() {
    local said
    read -r -t 60 said <&"$in" && [ "$said" = "$1" ] || fail "it says \"$said\" where it was to say \"$1\""
}
says written
donors STOP
echo go >&"$out"
says cut
kill -STOP "${pid_of[meta]}"
echo go >&"$out"
says interrupted
kill -CONT "${pid_of[meta]}"
donors CONT
echo go >&"$out"
says grown
echo go >&"$out"
wait "$writer" || fail "what was cut off by a truncation that was interrupted is back"
exec {in}<&- {out}>&-
cmp "$work/interrupted" "$a/set/interrupted" || fail "interrupted: it is not what it was when it was closed"
cmp "$work/interrupted" "$b/set/interrupted" || fail "interrupted: it is not what it was when it was closed, on another mount"
note "interrupted"
stop_donors
cluster_end
