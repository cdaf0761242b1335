# shellcheck shell=bash
# The numbers of processes that have ended are given to others, and with a few tests side by side the kernel comes round all 32,768 in minutes. So
# what a script has noted of a process that it began may mean somebody else's by the time it cleans up. The shell knows which it still has.

# kill_ours SIGNAL PID...: those of them that run still, and are jobs of this shell.
kill_ours() {
    local signal=$1 running pid
    shift
    running=$(jobs -rp && jobs -sp)
    running=" ${running//$'\n'/ } "
    for pid in "$@"; do
        [[ $running != *" $pid "* ]] || kill "-$signal" "$pid" 2>/dev/null || true
    done
}

# own_mounts "$@": begins the script anew where nobody else sees what it mounts. A process that gets mounts of its own, as `ip netns exec` makes one, takes
# a copy of all that it sees; and a file system that has lost its power is found shut down by whoever mounts it as long as somebody has a copy.
own_mounts() {
    [ -z "${MORSEL_OWN_MOUNTS:-}" ] && [ "$(id -u)" = 0 ] || return 0
    MORSEL_OWN_MOUNTS=yes exec unshare --mount --propagation private "$0" "$@"
}
