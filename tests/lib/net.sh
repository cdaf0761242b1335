# shellcheck shell=bash disable=SC2154,SC2034 # address_of is cluster.sh's
# A net of hosts whose ways to one another can be cut, each by itself and in one direction; source it behind cluster.sh.
#
#   start_net                       a router, joined to this host
#   join_net NAME...                a host for each of these daemons (meta, iodN, mount-X), which are started there from now on; they are called by the
#                                   same names here, and this host `here`
#   cut_way FROM TO                 what FROM sends to TO vanishes. `all`: to, or from, everybody
#   cut_between A B, cut_off NAME   both ways; from everybody
#   mend_net                        nothing is cut any more
#
# The router drops what is cut, as a switch would that has lost a cable: nobody is told, and no address becomes unreachable for its own host.

start_net() {
    local lock taken net=1
    router=mfs$$router
    declare -gA host_of=()
    command -v ip >/dev/null || skip "ip(8) is missing; install iproute2"
    ip netns add "$router" 2>/dev/null || skip "network namespaces cannot be made here"
    hosts+=("$router")
    ip netns exec "$router" sysctl -q net.ipv4.ip_forward=1
    exec {lock}>"${TMPDIR:-/tmp}/morsel-hosts.lock"
    flock "$lock"
    forget_dead_hosts
    taken=$(ip -o -4 address)
    while [[ $taken == *" 10.213.$net."* ]]; do
        net=$((net + 1))
    done
    net_prefix=10.213.$net
    ip link add "mfs$$o" type veth peer name here netns "$router" || fail "no veth pair"
    plug here "mfs$$o"
    exec {lock}>&-
}

# plug NAME DEVICE [NAMESPACE]: the device gets the next address, and the way to all others.
plug() {
    local device=$2 there=(ip)
    [ $# -lt 3 ] || there=(ip -n "$3")
    host_of[$1]=$net_prefix.$((${#host_of[@]} + 1))
    "${there[@]}" address add "${host_of[$1]}/32" dev "$device"
    "${there[@]}" link set "$device" up
    "${there[@]}" route add "$net_prefix.254/32" dev "$device" src "${host_of[$1]}"
    "${there[@]}" route add "$net_prefix.0/24" via "$net_prefix.254" src "${host_of[$1]}"
    ip -n "$router" address add "$net_prefix.254/32" dev "$1"
    ip -n "$router" link set "$1" up
    ip -n "$router" route add "${host_of[$1]}/32" dev "$1"
}

join_net() {
    local name
    for name; do
        lives_on[$name]=mfs$$$name
        ip netns add "${lives_on[$name]}" || fail "no namespace for $name"
        hosts+=("${lives_on[$name]}")
        ip link add "$name" netns "$router" type veth peer name net0 netns "${lives_on[$name]}" || fail "no veth pair"
        ip -n "${lives_on[$name]}" link set lo up
        plug "$name" net0 "${lives_on[$name]}"
        address_of[$name]=${host_of[$name]}:0
    done
}

cut_way() {
    local from=all to=all
    [ "$1" = all ] || from=${host_of[$1]}
    [ "$2" = all ] || to=${host_of[$2]}
    ip -n "$router" rule add from "$from" to "$to" blackhole priority 100
}

cut_between() {
    cut_way "$1" "$2"
    cut_way "$2" "$1"
}

cut_off() {
    cut_way "$1" all
    cut_way all "$1"
}

mend_net() {
    while ip -n "$router" rule del priority 100 2>/dev/null; do :; done
}
