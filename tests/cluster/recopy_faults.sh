#!/bin/bash
# morsel recopy while the manager's machine is reset around its exchanges, while the mount through which it copies is killed, and beside
# fsck --repair. Each file is what it was, whoever reads it; each server alone shows it; and nothing is left over.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/replicas.sh
. "$(dirname "$0")/../lib/replicas.sh"
cluster_begin recopy_faults "$1"
own_disk meta 200M
start_cluster 2 --lease-time 1s --session-time 2s
start_mount a
a=$mnt
start_mount b
b=$mnt

cat >"$work/make.py" <<'PY'
import os, random, sys
top, chance = sys.argv[1], random.Random(int(sys.argv[2]))
for i in range(60):
    directory = f"{top}/d{i % 4}"
    os.makedirs(directory, exist_ok=True)
    fd = os.open(f"{directory}/f{i}", os.O_RDWR | os.O_CREAT)
    for _ in range(chance.randrange(4)):
        os.pwrite(fd, chance.randbytes(chance.randrange(1, 60000)), chance.randrange(3 << 20))
    os.fsync(fd)
    os.close(fd)
    if i % 10 == 0:
        os.link(f"{directory}/f{i}", f"{top}/too{i}")
PY
# A directory whose policy is on the manager's disk.
ask_copies() {
    policy "$1" "replicas=$2" stripe_width=2
    python3 -c 'import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDONLY))' "$1"
}
mkdir "$a/tree"
ask_copies "$a/tree" 2
seen_well # Groups are made when somebody asks for them.
ask_copies "$a/tree" 1
python3 "$work/make.py" "$a/tree" "$test_seed"
python3 -c 'import os, sys
for path, _, _ in os.walk(sys.argv[1]):
    os.fsync(os.open(path, os.O_RDONLY))' "$a/tree"
(cd "$a/tree" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$work/sums"

same_as_before() {
    (cd "$b/tree" && sha256sum --quiet -c "$work/sums") || fail "$1: a file is not what it was"
    [ "$(cd "$b/tree" && find . -type f | wc -l)" = "$(wc -l <"$work/sums")" ] || fail "$1: other files are there"
}

nothing_to_delete() {
    [ "$(morsel status --json | jq .garbage)" = 0 ]
}

nothing_is_left_over() {
    wait_for 60 "what the files had before is deleted" nothing_to_delete
    fsck_clean
}

# recopy_behind DIRECTORY: it runs, its process in $recopy.
recopy_behind() {
    timeout 100 "$bin/morsel" recopy --json --manager="$manager" "$1" >"$work/said" 2>"$work/said.err" &
    recopy=$!
}

# How many files it did, where it could say so.
done_files() {
    jq .files_done "$work/said" 2>/dev/null || echo 0
}

recopies() {
    kill -0 "$recopy" 2>/dev/null
}

a_moment() { # That the seed draws: nothing is waited for.
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
}

# To the end, with nobody in the way.
recopy_rest() {
    local tries
    for tries in 1 2 3; do
        ! timeout 100 "$bin/morsel" recopy --json --manager="$manager" "$1" >"$work/said" 2>"$work/said.err" || return 0
        note "recopy again, behind try $tries: $(jq -c '.left[0]' "$work/said")"
        sleep 1 # What was under way when the manager went away may still land for a lease period.
    done
    fail "recopy: $(cat "$work/said" "$work/said.err")"
}

# ---- The manager's power ----

cuts=0 behind=0
for copies in 2 1; do
    ask_copies "$a/tree" "$copies"
    recopy_behind "$a/tree"
    for _ in 1 2 3; do
        a_moment
        recopies || break
        cuts=$((cuts + 1))
        lose_power meta
        start_meta
        wait_for 60 "the servers are with the manager" running_are_up
    done
    wait "$recopy" || true
    behind=$((behind + $(done_files)))
    same_as_before "the manager lost its power"
    seen_well
    recopy_rest "$a/tree"
    same_as_before "behind losses of power"
done
[ "$cuts" -ge 3 ] || fail "the manager lost its power only $cuts times while files were copied"
nothing_is_left_over
note "the manager lost its power $cuts times, $behind files were done beside"

# ---- The mount ----

kills=0
for round in 1 2 3 4; do
    ask_copies "$a/tree" $((round % 2 + 1))
    start_mount "c$round"
    recopy_behind "$mnt/tree"
    a_moment
    ! recopies || kills=$((kills + 1))
    crash "mount-c$round"
    umount -l "$mnt"
    wait "$recopy" || true
    same_as_before "a mount was killed"
done
[ "$kills" -ge 2 ] || fail "only $kills mounts were killed while they copied"
ask_copies "$a/tree" 2
seen_well
recopy_rest "$a/tree"
same_as_before "behind mounts that were killed"
nothing_is_left_over
note "$kills mounts were killed while they copied"

# ---- fsck --repair ----

mends() {
    while [ ! -e "$work/enough" ]; do
        timeout 60 "$bin/morsel" fsck --repair --manager="$manager" >>"$work/mended" 2>&1 || true
        echo >>"$work/mends"
    done
}
mends &
mender=$!
children+=("$mender")
for copies in 1 2; do
    ask_copies "$a/tree" "$copies"
    recopy_rest "$a/tree"
    same_as_before "fsck --repair ran beside"
done
: >"$work/enough"
wait "$mender" || true
[ "$(wc -l <"$work/mends")" -ge 3 ] || fail "fsck ran only $(wc -l <"$work/mends") times"
nothing_is_left_over
for away in 1 2; do
    seen_well
    crash "iod$away"
    drop_caches
    same_as_before "without server $away"
    start_iod "$away"
done
seen_well
copies_are_equal
note "fsck --repair ran $(wc -l <"$work/mends") times beside it"
cluster_end
