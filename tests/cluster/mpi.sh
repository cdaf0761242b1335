#!/bin/bash
# MPI-IO programs, unchanged, with MPICH and Open MPI: ranks on three mounts, each in a network namespace of its own as if on its own host.
# Contiguous, strided (data sieving), collective, atomic mode, shared file pointers; every byte is compared.
#
#   mpi.sh BUILD SOURCE
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin mpi "$1"
source=$2/tests/mpi
command -v mpicc.mpich >/dev/null && command -v mpicc.openmpi >/dev/null || skip "MPICH or Open MPI is missing; install mpich and libopenmpi-dev"
start_host h1
export UCX_TLS=self,sm # All ranks are on this machine, and other tests make and remove network devices meanwhile.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mounts=()
listen_for_host
start_cluster 2
for name in h1 h2 h3; do
    [ "$name" = h1 ] || start_host "$name"
    # Each host has its link; the daemons are reached over the first one.
    [ "$name" = h1 ] || ip -n "mfs$$$name" route add default via "$host_address"
    on_host=(nsenter "--net=/run/netns/mfs$$$name")
    inject=("${on_host[@]}")
    start_mount "$name"
    inject=()
    mounts+=("$mnt")
done
mkdir "$work/common"
list=$(IFS=,; echo "${mounts[*]}")

# job IMPLEMENTATION MODE [MPIRUN OPTIONS]
job() {
    local implementation=$1 mode=$2
    shift 2
    timeout 600 "mpirun.$implementation" -n 5 "$@" "$source/on_mounts.sh" "$work/common" "$list" \
        "$work/program.$implementation" --mib 2 --mode "$mode" "$work/common/file.$implementation" >"$work/out" 2>&1 ||
        fail "$implementation $mode: $(tail -n 5 "$work/out")"
    grep -q "^$mode 5 " "$work/out" || fail "$implementation $mode said nothing: $(cat "$work/out")"
}

for implementation in mpich openmpi; do
    "mpicc.$implementation" -O2 -o "$work/program.$implementation" "$source/morsel_mpi_io.c"
    for mode in block collective strided strided-all atomic shared; do
        # Open MPI's own OMPIO takes no locks in atomic mode: docs/mpi.md.
        [ "$implementation $mode" = "openmpi atomic" ] || job "$implementation" "$mode"
    done
    note "$implementation: all modes"
done
# Open MPI carries ROMIO too.
for mode in block strided atomic shared; do
    job openmpi "$mode" --mca io romio321
done
note "Open MPI with ROMIO"
cluster_end
