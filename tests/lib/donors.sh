# shellcheck shell=bash disable=SC2154,SC2034 # of cluster.sh and net.sh
# Benefactors for tests of what is stored on them, each a host of its own; source it behind net.sh.
#
#   start_donors N [OPTIONS]        the manager (with OPTIONS), and benefactors donor1 to donorN, which it knows
#   start_donor NAME [OPTIONS]      one of them (again)
#   stop_donors                     all that run, in order
#   stage_stopped PATH FILE         "morsel stage PATH FILE" stands still when a part of FILE is there; it is $stage, and $work/stage what it says

donor_mib=256 # Each gives so much.

start_donor() {
    local name=$1
    shift
    start_daemon "$name" "$bin/morsel-benefactor" --data-dir "$work/$name" --manager "$manager" --donate "${donor_mib}M" --keep-free 0 --no-gentle "$@"
}

# donors_here N: so many are here.
donors_here() {
    [ "$(morsel donors --json | jq .here)" = "$1" ]
}

start_donors() {
    local i count=$1 names=()
    command -v jq >/dev/null || skip "jq(1) is missing"
    [ -x "$bin/morsel-benefactor" ] || fail "$bin/morsel-benefactor is missing; build it first"
    for ((i = 1; i <= count; i++)); do
        names+=("donor$i")
    done
    start_net
    join_net "${names[@]}"
    address_of[meta]=${host_of[here]}:0
    start_meta --donor-report 200ms --donor-look 5s "${@:2}" # On a busy machine one that is well may be silent for a second, and nothing is put there then.
    for ((i = 1; i <= count; i++)); do
        start_donor "donor$i"
    done
    wait_for 60 "$count benefactors are here" donors_here "$count"
}

stop_donors() {
    local name
    for name in "${!pid_of[@]}"; do
        case $name in donor*) stop "$name" ;; esac
    done
}

# Where it was through before that was seen, once more.
stage_stopped() {
    local try
    for try in {1..20}; do
        "$bin/morsel" stage --quiet "$1" "$2" >"$work/stage" 2>&1 &
        stage=$!
        children+=("$stage")
        until [ "$(stat -c %s "$2" 2>/dev/null || echo 0)" -gt 0 ]; do
            kill -0 "$stage" || fail "staging $1: $(cat "$work/stage")"
        done
        kill -STOP "$stage" 2>/dev/null || true
        [ "$(stat -c %s "$2")" = "$(stat -c %s "$1")" ] || return 0
        kill -CONT "$stage" 2>/dev/null || true
        wait "$stage" || fail "staging $1, try $try: $(cat "$work/stage")"
        rm "$2"
    done
    fail "$1 was staged too fast for this test"
}
