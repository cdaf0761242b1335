#!/bin/bash
# One rank of an MPI job, as if each rank ran on a host of its own whose mount lies at the same place: in a mount namespace, the
# directory COMMON is the RANK-th of MOUNTS (in turn).
#
#   mpirun -n N on_mounts.sh COMMON MOUNT[,MOUNT...] PROGRAM ARGUMENTS...
set -euo pipefail
common=$1
IFS=, read -r -a mounts <<<"$2"
shift 2
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}
# shellcheck disable=SC2016 # expanded by the inner shell
exec unshare --mount sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' - "${mounts[rank % ${#mounts[@]}]}" "$common" "$@"
