#!/bin/bash
# Bad input: whatever is wrong, there is exactly one clear line on standard error, the exit code is not zero,
# and everything is left as it was.
#
#   tests/cluster/badinput.sh BUILD
set -euo pipefail

bin=$(cd "$1" && pwd)/bin
work=$(mktemp -d /tmp/morsel-badinput-XXXXXX)
# shellcheck source=tests/lib/ours.sh
. "$(dirname "$0")/../lib/ours.sh"
pids=()
bad=0
checks=0

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    local pid
    umount -l "$work/busy" 2>/dev/null || true
    umount -l "$work/full" 2>/dev/null || true
    kill_ours TERM "${pids[@]}"
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    chmod -R u+rwX "$work"
    rm -rf "$work"
}
trap cleanup EXIT

# Everything below a directory: names, types, modes, contents. Not the times, which a lock touches, LevelDB's log
# for people, and the list of starts of an object store, which grows with each.
snapshot() {
    (cd "$1" && find . ! -name LOG ! -name LOG.old -printf '%y %m %U %p %l\n' | LC_ALL=C sort &&
        find . -type f ! -name LOG ! -name LOG.old ! -name epochs -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum)
}

# refuse NAME PATTERN DIRECTORY COMMAND...: DIRECTORY must not change ("-": none is looked at).
refuse() {
    local name=$1 pattern=$2 directory=$3 code=0 lines
    shift 3
    checks=$((checks + 1))
    [ "$directory" = - ] || snapshot "$directory" >"$work/before"
    timeout -k 5 60 "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    lines=$(wc -l <"$work/err")
    if [ "$code" = 0 ] || [ "$code" -ge 124 ]; then
        complain "$name" "exit code $code"
    elif [ "$lines" != 1 ]; then
        complain "$name" "$lines lines on standard error"
    elif ! grep -qE -- "$pattern" "$work/err"; then
        complain "$name" "the line does not match: $pattern"
    elif [ "$directory" != - ] && ! snapshot "$directory" | diff "$work/before" - >"$work/diff"; then
        complain "$name" "the directory was changed: $(head -n 3 "$work/diff" | tr '\n' ' ')"
    fi
}

complain() {
    printf 'FAIL %s: %s\n' "$1" "$2"
    sed 's/^/     | /' "$work/err" | head -n 5
    bad=1
}

# start DAEMON NAME OPTIONS...: in the background, until it serves; its address is left in $address.
start() {
    local program=$1 name=$2
    shift 2
    mkfifo "$work/ready"
    MORSEL_READY_FD=9 "$bin/$program" "$@" 9>"$work/ready" 2>>"$work/$name.log" &
    pids+=($!)
    if ! read -r -t 60 address <"$work/ready"; then
        echo "FAIL $name does not start:"
        cat "$work/$name.log"
        exit 1
    fi
    rm "$work/ready"
}

stop_last() {
    local pid=${pids[-1]}
    kill "$pid"
    wait "$pid" || true
    unset 'pids[-1]'
}

meta=("$bin/morsel-meta" --log-level=error --listen=127.0.0.1:0)
iod=("$bin/morsel-iod" --log-level=error --listen=127.0.0.1:0)
donor=("$bin/morsel-benefactor" --log-level=error --listen=127.0.0.1:0 --donate=1M)
mount=("$bin/morsel-mount")
morsel=("$bin/morsel")

# ---- Options and configuration files, of every program

for program in morsel-meta morsel-iod morsel-benefactor morsel-mount; do
    refuse "$program unknown option" 'unknown option.*--help' - "$bin/$program" --no-such-option
    refuse "$program missing value" 'needs a value' - "$bin/$program" --config
    refuse "$program missing file" '/nonexistent.*No such file' - "$bin/$program" --config=/nonexistent
    refuse "$program file is a directory" 'Is a directory' - "$bin/$program" --config="$work"
    printf '[%s]\n\nno-such-key = 1\n' "$program" >"$work/$program.conf"
    refuse "$program unknown key" "$program.conf:3: unknown key \"no-such-key\"" - \
        "$bin/$program" --config="$work/$program.conf"
    printf '[%s]\nlog-level = info\nlog-level = info\n' "$program" >"$work/$program.conf"
    refuse "$program key twice" "$program.conf:3: .*twice" - "$bin/$program" --config="$work/$program.conf"
    printf '[no-such-program]\nx = 1\n' >"$work/$program.conf"
    refuse "$program unknown section" "$program.conf:2: .*section" - "$bin/$program" --config="$work/$program.conf"
    head -c 300 /dev/urandom >"$work/$program.conf"
    refuse "$program binary file" "$program.conf:[0-9]+: " - "$bin/$program" --config="$work/$program.conf"
    operands=()
    [ "$program" != morsel-mount ] || operands=(127.0.0.1:1 /nonexistent)
    refuse "$program bad level" 'log-level' - "$bin/$program" --log-level=loud "${operands[@]}"
done
for program in morsel-meta morsel-iod morsel-benefactor; do
    refuse "$program operand" 'unexpected argument "x"' - "$bin/$program" x
done
refuse "benefactor without donate" 'donate.*50G.*30%' - "$bin/morsel-benefactor" --data-dir="$work/d0"
for share in 5X 101% -1% 3.5% all; do
    refuse "benefactor donates $share" "donate: \"$share\".*50G.*30%" - "$bin/morsel-benefactor" --data-dir="$work/d0" --donate="$share"
    refuse "benefactor keeps $share" "keep-free: \"$share\".*50G.*30%" - "${donor[@]}" --data-dir="$work/d0" --keep-free="$share"
done
refuse "benefactor without a home" 'HOME.*data-dir' - env -u HOME -u XDG_DATA_HOME setpriv --reuid=65534 --clear-groups "${donor[@]}"
[ ! -e "$work/d0" ] || complain "benefactor" "bad options left something behind"
refuse "command missing" '--help' - "${morsel[@]}"
refuse "command unknown" 'unknown command "x"' - "${morsel[@]}" x
refuse "command option unknown" 'unknown option' - "${morsel[@]}" status --repair
refuse "command operand missing" 'needs arguments' - "${morsel[@]}" layout
refuse "command bad time" 'not a time' - "${morsel[@]}" status --timeout=soon
refuse "policy without value" 'KEY=VALUE' - "${morsel[@]}" setpolicy / replicas
refuse "policy unknown" 'unknown policy "colour"' - "${morsel[@]}" setpolicy / colour=red
refuse "policy out of range" 'morsel_size "3M" is not valid' - "${morsel[@]}" setpolicy / morsel_size=3M
refuse "policy elsewhere" 'not on a mounted MorselFS' - "${morsel[@]}" setpolicy / replicas=1
refuse "layout elsewhere" 'not on a mounted MorselFS' - "${morsel[@]}" layout /etc/passwd
refuse "layout missing" 'No such file' - "${morsel[@]}" layout /nonexistent

# ---- Addresses

for address in nope 127.0.0.1 127.0.0.1: 127.0.0.1:99999 127.0.0.1:x '[::1:5' ''; do
    mkdir -p "$work/fresh"
    refuse "meta listens at \"$address\"" 'address' - "$bin/morsel-meta" --data-dir="$work/fresh/m" --listen="$address"
    refuse "iod listens at \"$address\"" 'address' - "$bin/morsel-iod" --data-dir="$work/fresh/i" \
        --listen="$address" --manager=127.0.0.1:1
    refuse "benefactor listens at \"$address\"" 'address' - "${donor[@]}" --data-dir="$work/fresh/d" --listen="$address"
    refuse "benefactor's manager is \"$address\"" 'address|manager' - "${donor[@]}" --data-dir="$work/fresh/d" --manager="$address"
    [ -z "$address" ] || refuse "benefactor advertises \"$address\"" 'address' - "${donor[@]}" --data-dir="$work/fresh/d" --advertise="$address"
    refuse "iod's manager is \"$address\"" 'address|manager' - "${iod[@]}" --data-dir="$work/fresh/i" --manager="$address"
    [ -z "$address" ] || refuse "command's manager is \"$address\"" 'address' - "${morsel[@]}" status --manager="$address"
    mkdir -p "$work/point"
    refuse "mount's manager is \"$address\"" 'address|manager' "$work/point" "${mount[@]}" "$address" "$work/point"
    [ -z "$(ls -A "$work/fresh")" ] || complain "bad address \"$address\"" "left something behind"
    rm -rf "$work/fresh"
done
refuse "nobody listens" 'cannot be reached' - "${morsel[@]}" status --manager=127.0.0.1:1 --timeout=300ms
refuse "address of another machine" '203.0.113.1' - "$bin/morsel-meta" --data-dir="$work/m0" --listen=203.0.113.1:7460
rm -rf "$work/m0"

# ---- Two clusters to be wrong about

start morsel-meta a --data-dir="$work/a" --listen=127.0.0.1:0
a=$address
start morsel-meta b --data-dir="$work/b" --listen=127.0.0.1:0
b=$address
start morsel-iod a1 --data-dir="$work/a1" --listen=127.0.0.1:0 --manager="$a"
refuse "directory in use" 'in use' - "${iod[@]}" --data-dir="$work/a1" --manager="$a"
refuse "directory of a running manager" 'in use' - "${meta[@]}" --data-dir="$work/a"
refuse "manager is a server" "$address" - "${morsel[@]}" status --manager="$address" --timeout=2s
refuse "port in use" "$address|in use" - "$bin/morsel-iod" --data-dir="$work/a2" --listen="$address" --manager="$a"
rm -rf "$work/a2"
stop_last

refuse "server of another cluster" 'cluster' "$work/a1" "${iod[@]}" --data-dir="$work/a1" --manager="$b"

# ---- Data directories

mkdir "$work/things"
echo mine >"$work/things/diary"
mkdir "$work/newer" "$work/damaged" "$work/short"
cp -a "$work/a1/." "$work/newer"
sed -i 's/^format = .*/format = 99/' "$work/newer/identity"
cp -a "$work/a1/." "$work/damaged"
head -c 200 /dev/urandom >"$work/damaged/identity"
cp -a "$work/a1/." "$work/short"
truncate -s 10 "$work/short/identity"
mkdir "$work/files"
touch "$work/files/file"
for program in meta iod donor; do
    declare -n command=$program
    options=()
    [ $program = meta ] || options=(--manager="$a")
    refuse "$program on other things" "$work/things" "$work/things" "${command[@]}" --data-dir="$work/things" "${options[@]}"
    refuse "$program on a newer format" "$work/newer.*(99|newer|role)" "$work/newer" "${command[@]}" --data-dir="$work/newer" "${options[@]}"
    refuse "$program on a damaged identity" "$work/damaged" "$work/damaged" "${command[@]}" --data-dir="$work/damaged" "${options[@]}"
    refuse "$program on a cut identity" "$work/short" "$work/short" "${command[@]}" --data-dir="$work/short" "${options[@]}"
    refuse "$program on a file" "$work/files/file" "$work/files" "${command[@]}" --data-dir="$work/files/file" "${options[@]}"
    refuse "$program without parent" 'nonexistent' - "${command[@]}" --data-dir=/nonexistent/x/y "${options[@]}"
    unset -n command
done
refuse "manager on a server's directory" "$work/a1" "$work/a1" "${meta[@]}" --data-dir="$work/a1"

# The manager of cluster b ends; copies of its database are damaged in turn.
kill "${pids[1]}"
wait "${pids[1]}" || true
refuse "benefactor on a manager's directory" "$work/b" "$work/b" "${donor[@]}" --data-dir="$work/b" --manager="$a"
refuse "server on a manager's directory" "$work/b" "$work/b" "${iod[@]}" --data-dir="$work/b" --manager="$a"
while read -r file; do
    rm -rf "$work/copy"
    cp -a "$work/b" "$work/copy"
    truncate -s 3 "$work/copy/$file"
    refuse "database without $file" "$work/copy" "$work/copy" "${meta[@]}" --data-dir="$work/copy"
done < <(cd "$work/b" && find . -name CURRENT -o -name 'MANIFEST-*')

# ---- Full disk

if [ "$(id -u)" = 0 ]; then
    mkdir "$work/full"
    mount -t tmpfs -o size=64k tmpfs "$work/full"
    head -c 1M /dev/zero >"$work/full/ballast" 2>/dev/null || true
    refuse "manager on a full disk" 'No space left|no space left|full' - "${meta[@]}" --data-dir="$work/full/m"
    [ ! -e "$work/full/m/identity" ] || complain "manager on a full disk" "left an identity"
    rm "$work/full/ballast" # What is left does not stand in the way of a second try.
    mount -o remount,size=64m "$work/full"
    start morsel-meta full --data-dir="$work/full/m" --listen=127.0.0.1:0
    stop_last
    umount "$work/full"
fi

# ---- Mount points

mkdir -p "$work/point" "$work/busy"
refuse "mount without point" '--help|needs|mount point|MOUNTPOINT' - "${mount[@]}" "$a"
refuse "mount point missing" "$work/none" - "${mount[@]}" "$a" "$work/none"
refuse "mount point is a file" "$work/files/file" "$work/files" "${mount[@]}" "$a" "$work/files/file"
refuse "mount option unknown" 'colour' "$work/point" "${mount[@]}" -o colour=red "$a" "$work/point"
refuse "mount option out of range" 'io_timeout' "$work/point" "${mount[@]}" -o io_timeout=never "$a" "$work/point"
refuse "manager away" '127.0.0.1:1' "$work/point" "${mount[@]}" -o io_timeout=1 127.0.0.1:1 "$work/point"
if [ -c /dev/fuse ] && [ "$(id -u)" = 0 ]; then
    start morsel-iod a1 --data-dir="$work/a1" --listen=127.0.0.1:0 --manager="$a"
    "${mount[@]}" "$a" "$work/busy" 2>>"$work/mount.log"
    refuse "mount point in use" "$work/busy" - "${mount[@]}" "$a" "$work/busy"
    umount "$work/busy"
fi

if [ "$bad" = 0 ]; then
    echo "badinput: $checks wrong inputs, each refused with one line"
fi
exit "$bad"
