# Daemons in which allocations fail (failing_memory.c), in bash: source it behind cluster.sh.

# failing NAME START...: the daemon NAME is one in which allocations fail, when they are made to: by what is written to
# $work/run/memory-NAME (failing_memory.h).
failing() {
    local bin=$build/tests/cluster/no_memory/bin
    export MORSEL_FAILING_MEMORY=$work/run/memory-$1
    shift
    "$@"
}
