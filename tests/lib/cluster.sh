# A cluster of real daemons for a test, in bash: source it, then
#
#   cluster_begin NAME BUILD        a directory $work, traps; BUILD/bin has the programs
#   start_cluster N [OPTIONS]       morsel-meta (with OPTIONS; --lease-time 1s where a lease period is waited for) and N morsel-iod,
#                                   ready; the manager's address in $manager
#                                   New files have one copy where no policy says otherwise; new_copies=auto before it, or new_copies=
#                                   for what users get who say nothing
#   start_mount NAME [OPTIONS]      a mount at $work/mnt/NAME, ready
#   start_host NAME                 a network namespace with a link of its own to this one: $host_address is ours on it; with
#                                   inject=("${on_host[@]}") a daemon runs there. cut_link, mend_link NAME
#   start_near_and_far [OPTIONS]    a mount here at $near, and one (with OPTIONS) on the host far at $far
#   start_relay HOST OPTIONS        what mounts on HOST send to daemons that run by now goes through a relay (relay.py), its process in $relay
#   own_disk NAME SIZE              before the daemon NAME starts: its directory lies on an ext4 of its own
#   lose_power NAME                 NAME's machine is reset: what was not synced is gone from its own disk, and when NAME is
#                                   started again it finds another boot id. The mounts live on
#   new_boot NAME                   only that: NAME will find another boot id at its next start
#   ...
#   cluster_end                     unmount, stop everything in order, look through the logs
#
# A test that ends otherwise has failed: the logs are printed. In every case all processes are stopped by their ids, mounts
# and loop devices let go, and $work is removed.

set -euo pipefail
# shellcheck source=tests/lib/skip.sh
. "$(dirname "${BASH_SOURCE[0]}")/skip.sh"
# shellcheck source=tests/lib/ours.sh
. "$(dirname "${BASH_SOURCE[0]}")/ours.sh"

cluster_begin() {
    test_name=$1
    started_ms=$(now_ms)
    build=$(cd "$2" && pwd)
    bin=$build/bin
    work=$(mktemp -d "${TMPDIR:-/tmp}/morsel-$test_name-XXXXXX")
    chmod 755 "$work"
    mkdir "$work/log" "$work/mnt" "$work/run"
    declare -gA pid_of=() address_of=() boot_of=() lives_on=() # lives_on: a network namespace for a daemon (net.sh).
    loop_mounts=()
    hosts=()
    declare -gA host_address_of=()
    test_seed=${MORSEL_SEED:-1} # Of what the test draws.
    RANDOM=$test_seed
    meta_options=()
    new_copies=1 # Most tests look at where the bytes of a file are, and say themselves when it is to have copies.
    children=() # Processes of the test itself that must not outlive it.
    manager=
    ended=no
    again="MORSEL_SEED=$test_seed ctest --test-dir $build -R '^cluster/${MORSEL_TEST:-$test_name}\$' --output-on-failure"
    inject=() # A command in front of each daemon, for tests that change its world.
    # A daemon's leak report would come at its end and be lost with an unusual exit code otherwise.
    # Of who allocated and freed, eight callers: to note thirty takes a tenth of a daemon's time.
    export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0:malloc_context_size=8} UBSAN_OPTIONS=print_stacktrace=1
    trap cluster_cleanup EXIT
    trap 'exit 130' INT TERM
    for program in morsel-meta morsel-iod morsel-mount morsel; do
        [ -x "$bin/$program" ] || fail "$bin/$program is missing; build it first"
    done
    [ -c /dev/fuse ] || skip "/dev/fuse is missing"
}

note() {
    printf '%s [%6.2f s] %s\n' "$test_name" "$(elapsed)" "$*"
}

elapsed() {
    awk "BEGIN { print $(now_ms) / 1000 - $started_ms / 1000 }"
}

now_ms() {
    echo $((${EPOCHREALTIME/./} / 1000))
}

fail() {
    printf 'FAILED: %s\n' "$*"
    exit 1
}

# skip REASON: it cannot run here. tests/lib/skip.sh says when that is a failure.
skip() {
    ended=yes
    skip_test "cluster/$test_name" "$*"
}

# shellcheck disable=SC2317 # called by the trap
cluster_cleanup() {
    local code=$? name directory
    trap - EXIT INT TERM
    trap '' PIPE # Nobody may be reading any more; what was started must end all the same.
    set +e
    kill_ours KILL "${children[@]}"
    kill_ours CONT "${pid_of[@]}" # A mount that is stopped would hold up whoever looks at it.
    for directory in "$work"/mnt/*; do
        ! grep -qF " $directory " /proc/mounts || umount -l "$directory" 2>/dev/null # Asking the mount might take long.
    done
    kill_ours KILL "${pid_of[@]}"
    for name in "${!pid_of[@]}"; do
        wait "${pid_of[$name]}" 2>/dev/null
    done
    for directory in "${loop_mounts[@]}"; do
        umount -l "$directory" 2>/dev/null
    done
    for name in "${hosts[@]}"; do
        ip netns del "$name" 2>/dev/null
    done
    if [ "$ended" != yes ]; then
        printf 'the same again: %s\n' "$again"
    fi
    if [ "$ended" != yes ] && [ -d "$work/log" ]; then
        for name in "$work"/log/*; do
            printf -- '---- %s\n' "${name##*/}"
            tail -n 60 "$name"
        done
    fi
    if [ -n "${KEEP:-}" ]; then
        echo "kept: $work"
    else
        rm -rf --one-file-system "$work"
    fi
    [ "$code" != 0 ] || [ "$ended" = yes ] || code=1
    exit "$code"
}

# within SECONDS COMMAND...: tries it until it succeeds; false when the time is over. What is asked again and again is not searched for leaks each
# time: that is a third of what it costs to ask.
within() {
    local deadline=$(($(now_ms) + $1 * 1000)) tries=0
    shift
    until ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "$@" >/dev/null 2>&1; do
        [ "$(now_ms)" -lt "$deadline" ] || return 1
        sleep "0.$((++tries < 10 ? 0 : 1))5"
    done
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds. For what nobody tells us about. SECONDS are a net for an idle machine; a busy one has
# three times as many. Where they are promised, `within` is asked.
wait_for() {
    local seconds=$1 what=$2
    shift 2
    within "$((3 * seconds))" "$@" || fail "not within the time: $what"
}

# in_time LIMIT_MS WHAT COMMAND...: it leaves in $took how long WHAT took, and one try of three keeps to the limit. A busy machine is late now and
# then; who waits for something that he should not wait for is late each time.
in_time() {
    local try limit=$1 what=$2
    shift 2
    for try in 1 2 3; do
        "$@"
        [ "$took" -ge "$limit" ] || return 0
        note "$what took $took ms, try $try"
    done
    fail "$what took $took ms, and must not take $limit"
}

# start_daemon NAME PROGRAM OPTIONS...: in the background; waits for its word that it serves, and keeps the address it names.
start_daemon() {
    local name=$1 fifo=$work/run/$1.ready address=
    shift
    [ -z "${pid_of[$name]:-}" ] || fail "$name runs already"
    rm -f "$fifo"
    mkfifo "$fifo"
    local world=()
    [ -z "${lives_on[$name]:-}" ] || world+=(nsenter "--net=/run/netns/${lives_on[$name]}")
    [ -z "${boot_of[$name]:-}" ] || world+=(unshare -m --propagation private "${boot_of[$name]}")
    MORSEL_READY_FD=9 "${world[@]}" "${inject[@]}" "$@" 9>"$fifo" >>"$work/log/$name" 2>&1 </dev/null &
    pid_of[$name]=$!
    read -r -t 60 address <"$fifo" || fail "$name did not get ready: $(tail -n 3 "$work/log/$name")"
    address_of[$name]=$address
}

# start_meta [OPTIONS]: without any it gets those of the time before.
start_meta() {
    [ $# = 0 ] || meta_options=("$@")
    start_daemon meta "$bin/morsel-meta" --data-dir "$work/meta" --listen "${address_of[meta]:-127.0.0.1:0}" \
        ${new_copies:+--replicas "$new_copies"} "${meta_options[@]}"
    manager=${address_of[meta]}
}

# start_iod N OPTIONS...
start_iod() {
    local number=$1
    shift
    start_daemon "iod$number" "$bin/morsel-iod" --data-dir "$work/iod$number" \
        --listen "${address_of[iod$number]:-127.0.0.1:0}" --manager "$manager" --reserve 0 "$@"
}

start_cluster() {
    local i count=$1
    shift
    start_meta "$@"
    for ((i = 1; i <= count; i++)); do
        start_iod "$i"
    done
    wait_for 60 "$count servers are up" servers_up "$count"
}

count_up() {
    morsel status --json | grep -oE '"up": *true' | wc -l
}

# servers_up N: the manager knows N servers that answer.
servers_up() {
    [ "$(count_up)" = "$1" ]
}

# All that run are with the manager, which may have started just now.
running_are_up() {
    local running
    running=$(printf '%s\n' "${!pid_of[@]}" | grep -c '^iod') || true
    [ "$(count_up)" -ge "$running" ]
}

# jq of Debian 12 takes 40 ms of processor time before it reads a byte, and a run asks it some thousand times; gojq speaks the same language.
jq() {
    gojq "$@"
}

# The morsel command against this cluster.
morsel() {
    local command=$1
    shift
    timeout 120 "$bin/morsel" "$command" --manager "$manager" "$@"
}

# A host NAME: a network namespace, joined to ours by a veth pair.
# What a test left that was killed with SIGKILL. The name of a network namespace begins with the id of its test.
forget_dead_hosts() {
    local name id
    for name in /run/netns/mfs[0-9]*; do
        name=${name##*/} id=${name#mfs}
        id=${id%%[!0-9]*}
        [ -e "/proc/${id:-self}" ] || ip netns delete "$name" 2>/dev/null || true
    done
}

start_host() {
    local name=mfs$$$1 net=1 lock taken
    command -v ip >/dev/null || skip "ip(8) is missing; install iproute2"
    ip netns add "$name" 2>/dev/null || skip "network namespaces cannot be made here"
    hosts+=("$name")
    # Several tests may look for a net that is free.
    exec {lock}>"${TMPDIR:-/tmp}/morsel-hosts.lock"
    flock "$lock"
    forget_dead_hosts
    taken=$(ip -o -4 address)
    while [[ $taken == *" 10.213.$net."* ]]; do
        net=$((net + 1))
    done
    ip link add "${name}o" type veth peer name "${name}i" netns "$name" || fail "no veth pair"
    host_address=10.213.$net.1
    ip address add "$host_address/24" dev "${name}o"
    exec {lock}>&-
    host_address_of[$1]=$host_address
    ip link set "${name}o" up
    ip -n "$name" address add "${host_address%.1}.2/24" dev "${name}i"
    ip -n "$name" link set "${name}i" up
    ip -n "$name" link set lo up
    on_host=(nsenter "--net=/run/netns/$name")
}

# Daemons that are started from here on listen where the host that was made last can reach them.
listen_for_host() {
    local name
    for name in meta iod1 iod2; do address_of[$name]=$host_address:0; done
}

cut_link() {
    ip link set "mfs$$${1}o" down
}

mend_link() {
    ip link set "mfs$$${1}o" up
}

# start_mount NAME [OPTIONS]: OPTIONS as behind mount -o, and those in MOUNT_OPTIONS too. Its directory is left in $mnt.
start_mount() {
    local name=$1 options=${2:-}
    options=$options${options:+${MOUNT_OPTIONS:+,}}${MOUNT_OPTIONS:-}
    mnt=$work/mnt/$name
    mkdir -p "$mnt"
    start_daemon "mount-$name" "$bin/morsel-mount" "$manager" "$mnt" -f ${options:+-o "$options"}
    mountpoint -q "$mnt" || fail "$mnt is no mount point although the mount said that it serves"
}

start_near_and_far() {
    start_mount near
    near=$mnt
    inject=(nsenter "--net=/run/netns/mfs$$"far)
    start_mount far "${1:-}"
    # shellcheck disable=SC2034 # for the test
    far=$mnt
    inject=()
}

start_relay() {
    local network=/run/netns/mfs$$$1
    shift
    mkfifo "$work/run/relay.ready"
    python3 "$(dirname "${BASH_SOURCE[0]}")/relay.py" "$network" "${address_of[@]##*:}" --ready "$work/run/relay.ready" "$@" 2>"$work/log/relay" &
    relay=$!
    children+=("$relay")
    read -r -t 60 _ <"$work/run/relay.ready" || fail "the relay does not listen: $(cat "$work/log/relay")"
}

# counter NAME [ADDRESS]: what a daemon has counted; the manager, if no other is named.
counter() {
    local name=$1
    shift
    morsel stats "$@" | awk -v name="$name" '$1 == name { print $2 }'
}

# counter_is NAME VALUE [ADDRESS]: to be waited for.
counter_is() {
    local name=$1 value=$2
    shift 2
    [ "$(counter "$name" "$@")" = "$value" ]
}

# mount_counter DIRECTORY NAME: of the mount, and so of what it has sent.
mount_counter() {
    getfattr --absolute-names --only-values -n user.morsel.statistics "$1" | awk -v name="$2" '$1 == name { print $2 }'
}

# opens_alone DIRECTORY FILE FLAGS: does the mount open the file without asking anybody? Then it holds the lease.
opens_alone() {
    local before
    before=$(mount_counter "$1" opens_local)
    python3 -c 'import os, sys; os.close(os.open(sys.argv[1], getattr(os, sys.argv[2])))' "$1/$2" "$3"
    [ "$(mount_counter "$1" opens_local)" != "$before" ]
}

# unmount DIRECTORY: a program that has said its last word holds its files until it has ended, which takes a moment on a busy machine.
unmount() {
    local said deadline=$(($(now_ms) + 60000))
    until said=$(umount "$1" 2>&1); do
        if [[ $said != *"target is busy"* || $(now_ms) -ge $deadline ]]; then
            fail "${said:-umount of $1}; processes: $(timeout 10 fuser -m "$1" 2>/dev/null)"
        fi
        sleep 0.05
    done
}

# stop_mount NAME: unmount; the process must end well, with everything flushed.
stop_mount() {
    unmount "$work/mnt/$1"
    ends_well "mount-$1"
}

# ends_well NAME: the process ends by itself with exit code 0.
ends_well() {
    local name=$1 code=0 pid=${pid_of[$1]}
    timeout 120 tail --pid="$pid" -s 0.05 -f /dev/null || kill -ABRT "$pid" 2>/dev/null || true
    wait "$pid" || code=$?
    unset "pid_of[$name]"
    [ "$code" = 0 ] || fail "$name ended with exit code $code: $(tail -n 5 "$work/log/$name")"
}

# stop NAME: SIGTERM, and an orderly end.
stop() {
    kill -TERM "${pid_of[$1]}"
    ends_well "$1"
}

# crash NAME: SIGKILL.
crash() {
    kill -KILL "${pid_of[$1]}" 2>/dev/null || true # It may have ended for a reason of its own.
    wait "${pid_of[$1]}" 2>/dev/null || true
    unset "pid_of[$1]"
}

# Let the mounts' pages of the kernel go, so that reads ask the servers.
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true
}

# fsck_clean: metadata and objects agree.
fsck_clean() {
    wait_for 60 "the servers are with the manager" running_are_up
    morsel fsck >"$work/fsck" 2>&1 || fail "fsck: $(cat "$work/fsck")"
}

check_logs() {
    if grep -lE 'Sanitizer|runtime error:|internal error, please report' "$work"/log/* 2>/dev/null; then
        fail "a daemon broke; see its log"
    fi
}

cluster_end() {
    local name
    for name in "${!pid_of[@]}"; do
        case $name in mount-*) stop_mount "${name#mount-}" ;; esac
    done
    for name in "${!pid_of[@]}"; do
        case $name in iod*) stop "$name" ;; esac
    done
    [ -z "${pid_of[meta]:-}" ] || stop meta
    check_logs
    ended=yes
    note "passed"
}

# loop_mount DIRECTORY SIZE [IMAGE]: an ext4 of its own, made when the image is not there yet.
loop_mount() {
    local image=${3:-$1.image}
    mkdir -p "$1"
    if [ ! -e "$image" ]; then
        truncate -s "$2" "$image"
        mkfs.ext4 -q -F "$image"
    fi
    mount -o loop "$image" "$1" 2>/dev/null || skip "loop devices cannot be mounted here"
    loop_mounts+=("$1")
}

# own_disk NAME SIZE: of the daemon meta or iodN. Whoever is to lose his power lives in a test with own_mounts.
own_disk() {
    [ "$(id -u)" = 0 ] || skip "needs root for loop devices"
    loop_mount "$work/disk-$1" "$2"
    mkdir -p "$work/disk-$1/data"
    ln -sfn "$work/disk-$1/data" "$work/$1"
}

# new_boot NAME: from now on the daemon finds another boot id when it starts, in a mount namespace of its own.
new_boot() {
    local count
    unshare -m true 2>/dev/null || skip "needs mount namespaces"
    boots=$((${boots:-0} + 1))
    count=$boots
    printf '%08x-0000-4000-8000-%012x\n' "$count" "$$" >"$work/run/boot_id-$count"
    cat >"$work/run/boot-$count" <<END
#!/bin/sh
# A copy of somebody's mount in this namespace would outlive his umount.
while read -r _ directory _; do
    case \$directory in
        "$work/disk-$1") ;;
        */morsel-*) umount -l "\$directory" ;;
    esac
done </proc/mounts
mount --bind "$work/run/boot_id-$count" /proc/sys/kernel/random/boot_id && exec "\$@"
END
    chmod +x "$work/run/boot-$count"
    boot_of[$1]=$work/run/boot-$count
}

# mount_afresh DIRECTORY: as long as the kernel has not put away the copy of who was just killed, it is the same file system, shut down.
mount_afresh() {
    mount -o loop "$1.image" "$1" || return
    touch "$1/alive" && rm "$1/alive" && return
    umount "$1"
    return 1
}

# lose_power NAME: see above; start_meta or start_iod brings it back.
lose_power() {
    local name=$1 disk=$work/disk-$1
    "$bin/powercut" "$disk" || fail "the file system of $name does not shut down"
    crash "$name"
    unmount "$disk"
    within 60 mount_afresh "$disk" || fail "the disk of $name cannot be mounted again"
    new_boot "$name"
}

# policy DIRECTORY KEY=VALUE...
policy() {
    local directory=$1
    shift
    # Servers have a few heartbeats to take over groups that are new, and those are short here: then it is asked for again, as the command says.
    within 20 policy_is_set "$directory" "$@" || true
    grep -q "^done$" "$work/policy" || fail "setpolicy $directory $*: $(cat "$work/policy")"
}
policy_is_set() {
    morsel setpolicy "$@" >"$work/policy" 2>&1 && echo "done" >>"$work/policy" && return
    ! grep -q "have taken over their groups" "$work/policy"
}

# expect_errno NAME COMMAND...: fails, saying NAME (words of strerror).
expect_error() {
    local words=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        fail "succeeded, expected '$words': $*"
    fi
    grep -qF "$words" "$work/out" || fail "expected '$words' of '$*'; got: $(cat "$work/out")"
}
