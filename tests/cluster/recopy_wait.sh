#!/bin/bash
# morsel recopy --no-pause --wait: files that other mounts have open for writing are left at first, and moved when they are closed there, by their programs or with
# the end of their mount; nothing of what is written meanwhile is lost, however often they are tried. It ends when its time is over, or by a signal.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin recopy_wait "$1"
start_cluster 2 --lease-time 1s --session-time 2s
start_mount here
here=$mnt
start_mount one
one=$mnt
start_mount two
two=$mnt

# start_recopy OPTIONS... PATH: beside; its process in $recopying.
start_recopy() {
    trap '' USR1 # It may be asked how far it is before it listens.
    "$bin/morsel" recopy --no-pause --json --manager="$manager" "$@" >"$work/said" 2>"$work/recopy.err" &
    recopying=$!
    trap - USR1
    children+=("$recopying")
}
has_ended() {
    ! kill -0 "$recopying" 2>/dev/null
}
# ends_with CODE: the recopy, in time.
ends_with() {
    local code=0
    wait_for 300 "the end of recopy" has_ended
    wait "$recopying" || code=$?
    [ "$code" = "$1" ] || fail "recopy ended with $code, not $1: $(cat "$work/said" "$work/recopy.err")"
}
expect_said() {
    [ "$(jq -r "$1" "$work/said")" = "$2" ] || fail "expected $1 = $2: $(cat "$work/said" "$work/recopy.err")"
}
# waits_for COUNT: so it says when it is asked.
waits_for() {
    kill -USR1 "$recopying"
    grep -q "waiting for $1 that are in use" "$work/recopy.err"
}
copies_of() { # FILE
    getfattr --absolute-names --only-values -n user.morsel.layout "$1" | grep -o 'replicas=[0-9]'
}
sessions_are() {
    [ "$(morsel status --json | jq .sessions)" = "$1" ]
}
nothing_to_delete() {
    [ "$(morsel status --json | jq .garbage)" = 0 ]
}
mkdir "$here/files"
policy "$here/files" replicas=2
seen_well
policy "$here/files" replicas=1 stripe_width=1

# ---- Writers on two other mounts ----

cat >"$work/write.py" <<'PY'
"""Writes to files of a directory in several ways until it hears the name of each, closes them in that order, and leaves what they must be beside."""
import mmap, os, random, sys, threading
top, models, who = sys.argv[1:4]
KIB, BLOCK = 1024, 4096
SIZE = 256 * KIB

def overwrite(fd, model, chance, state):
    at, count = chance.randrange(SIZE - 9000), chance.randrange(1, 9000)
    data = chance.randbytes(count)
    assert os.pwrite(fd, data, at) == count
    model[at:at + count] = data
    if chance.random() < 0.1:
        os.fsync(fd)
    assert os.pread(fd, 20000, at) == model[at:at + 20000], "reads something else than it has written"

def append(fd, model, chance, state):
    data = chance.randbytes(chance.randrange(1, 3000))
    if len(model) > 4 * SIZE:
        os.ftruncate(fd, 100)
        del model[100:]
    assert os.pwrite(fd, data, len(model)) == len(data)
    model += data

def mapped(fd, model, chance, state):
    if "map" not in state:
        state["map"] = mmap.mmap(fd, SIZE)
    at, data = chance.randrange(SIZE - 500), chance.randbytes(500)
    state["map"][at:at + 500] = data
    model[at:at + 500] = data
    if chance.random() < 0.05:
        state["map"].flush()

def blocks(fd, model, chance, state): # Those of this mount, of a file of which the other mount writes the others.
    at = 2 * BLOCK * chance.randrange(SIZE // BLOCK // 2) + (BLOCK if who == "two" else 0)
    data = chance.randbytes(BLOCK)
    assert os.pwrite(fd, data, at) == BLOCK
    model[at:at + BLOCK] = data

stops = {}
def work(how, fd, name):
    chance, state, model = random.Random(f"{who} {name}"), {}, bytearray(os.pread(fd, 8 * SIZE, 0))
    while not stops[name].wait(0.003):
        how(fd, model, chance, state)
    if "map" in state:
        state["map"].flush()
        state["map"].close()
    os.close(fd)
    with open(f"{models}/{name}.{who}", "wb") as f:
        f.write(model)

broken = []
threading.excepthook = lambda args: (broken.append(args), sys.__excepthook__(args.exc_type, args.exc_value, args.exc_traceback))
threads = {}
for name, how in ((f"{who}.overwrite", overwrite), (f"{who}.append", append), (f"{who}.mapped", mapped), ("both", blocks)):
    stops[name] = threading.Event()
    threads[name] = threading.Thread(target=work, args=(how, os.open(f"{top}/{name}", os.O_RDWR), name))
for thread in threads.values():
    thread.start()
print("ready", flush=True)
for name in sys.stdin:
    stops[name.strip()].set()
    threads[name.strip()].join()
    print("closed", flush=True)
    if all(stop.is_set() for stop in stops.values()):
        break
for thread in threads.values():
    thread.join()
sys.exit(bool(broken))
PY
names=()
for who in one two; do
    for how in overwrite append mapped; do
        names+=("$who.$how")
    done
done
for name in "${names[@]}" both idle; do
    head -c 262144 /dev/urandom >"$here/files/$name"
done
idle_sum=$(sha256sum <"$here/files/idle")
mkdir "$work/models"
declare -A writer=() say=() hear=()
for who in one two; do
    mkfifo "$work/run/say.$who" "$work/run/hear.$who"
    python3 "$work/write.py" "${!who}/files" "$work/models" "$who" <"$work/run/say.$who" >"$work/run/hear.$who" 2>"$work/write.$who.err" &
    writer[$who]=$!
    children+=("${writer[$who]}")
    exec {fd}>"$work/run/say.$who"
    say[$who]=$fd
    exec {fd}<"$work/run/hear.$who"
    hear[$who]=$fd
    read -r -t 60 word <&"$fd"
    [ "$word" = ready ] || fail "writer $who: $word"
done
# close_file WHO NAME: the writer ends with that file.
close_file() {
    local word=
    echo "$2" >&"${say[$1]}"
    read -r -t 60 word <&"${hear[$1]}" || true
    [ "$word" = closed ] || fail "writer $1: $word $(cat "$work/write.$1.err")"
}
policy "$here/files" replicas=2
start_recopy --wait=7s "$here/files" # While nobody closes anything: what is in nobody's way is done, and the time ends.
began=$(now_ms)
ends_with 1
[ $(($(now_ms) - began)) -ge 7000 ] || fail "the time was over before it had begun"
expect_said .files_wanted 8
expect_said .files_done 1
expect_said '[.left[].busy] | length' 7
expect_said '[.left[].busy] | all' true
expect_said '[.left[].writers | split(", ") | length] | sort | map(tostring) | add' 1111112 # One file has two writers.
expect_said '[.left[] | select(.path | contains("/one.")).writers] | unique | length' 1
expect_said '[.left[].writers | split(", ")[]] | unique | length' 2
[ "$(copies_of "$here/files/idle")" = replicas=2 ] || fail "what nobody has open was not done"
note "the time is over"

start_recopy --wait=200s "$here/files"
wait_for 60 "that recopy waits" waits_for 7
close_file one one.overwrite
close_file one both # The other mount has it open still.
close_file two two.append
wait_for 60 "that five are left" waits_for 5
[ "$(copies_of "$here/files/one.overwrite")" = replicas=2 ] || fail "what is closed was not done"
[ "$(copies_of "$here/files/both")" = replicas=1 ] || fail "what another mount writes to was moved"
for who in one two; do
    for name in both "$who.append" "$who.mapped" "$who.overwrite"; do
        [ -e "$work/models/$name.$who" ] || close_file "$who" "$name"
    done
    wait "${writer[$who]}" || fail "writer $who: $(cat "$work/write.$who.err")"
done
ends_with 0
expect_said .files_done 7
for name in "${names[@]}"; do
    [ "$(copies_of "$here/files/$name")" = replicas=2 ] || fail "$name was not done"
    for mount in "$here" "$one" "$two"; do
        cmp "$mount/files/$name" "$work/models/$name.${name%%.*}" || fail "$mount/files/$name is not what was written"
    done
done
cat >"$work/both.py" <<'PY'
import sys
file, one, two = (open(path, "rb").read() for path in sys.argv[1:])
BLOCK = 4096
for at in range(0, len(file), BLOCK):
    assert file[at:at + BLOCK] == (two if at // BLOCK % 2 else one)[at:at + BLOCK], f"at {at}"
PY
python3 "$work/both.py" "$two/files/both" "$work/models/both.one" "$work/models/both.two" || fail "what two mounts wrote to is not what they wrote"
[ "$(sha256sum <"$one/files/idle")" = "$idle_sum" ] || fail "what nobody wrote to is not what it was"
fsck_clean
note "each file was done when it was closed"

# ---- A mount that ends, and a signal ----

policy "$here/files" replicas=1
exec {held}<>"$one/files/idle"
exec {other}<>"$two/files/both"
start_recopy --wait=200s "$here/files"
wait_for 60 "that recopy waits" waits_for 2
crash mount-two
exec {other}>&-
wait_for 60 "the end of the session" sessions_are 2
wait_for 60 "that the file of the mount that has ended is done" waits_for 1
kill -INT "$recopying"
ends_with 1
expect_said .stopped true
expect_said .files_done 7
expect_said '.left[0].path' "$here/files/idle"
exec {held}>&-
umount -l "$two"

# ---- More than are kept in mind ----

policy "$here/files" replicas=2
mkdir "$here/many" && policy "$here/many" replicas=1
python3 - "$here/many" <<'PY'
import os, sys
for i in range(1020):
    with open(f"{sys.argv[1]}/{i}", "w") as f:
        f.write(str(i))
PY
policy "$here/many" replicas=2
mkfifo "$work/run/keep" "$work/run/kept"
python3 -c '
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
fds = [os.open(f"{sys.argv[1]}/{i}", os.O_RDWR) for i in range(1020)]
print("open", flush=True)
sys.stdin.readline()' "$one/many" <"$work/run/keep" >"$work/run/kept" &
keeper=$!
children+=("$keeper")
exec {keep}>"$work/run/keep" {kept}<"$work/run/kept"
read -r -t 60 _ <&"$kept"
start_recopy --wait=200s "$here/many"
wait_for 120 "that it waits for all" waits_for 1020
echo >&"$keep"
wait "$keeper"
ends_with 0
expect_said .files_done 1020
[ "$(cat "$here"/many/* | sha256sum)" = "$(for file in "$here"/many/*; do printf %s "${file##*/}"; done | sha256sum)" ] || fail "files are not what they were"
wait_for 60 "what the files had before is deleted" nothing_to_delete
fsck_clean
cluster_end
