#!/bin/bash
# PostgreSQL's data directory inside a mount: initdb, pgbench, a crash of the server, amcheck.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin postgres "$1"
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$pg" ] && id postgres >/dev/null 2>&1 || skip "PostgreSQL is not installed"
[ "$(id -u)" = 0 ] || skip "needs root to become the user postgres"
start_cluster 4
start_mount a allow_other
mkdir "$mnt/pg" "$work/socket"
chown postgres "$mnt/pg" "$work/socket"

as_postgres() {
    (cd "$work/socket" && timeout 300 runuser -u postgres -- "$@")
}
server() {
    as_postgres "$pg/pg_ctl" -D "$mnt/pg/data" -l "$work/socket/log" -w -t 60 \
        -o "-c listen_addresses= -k $work/socket -c shared_buffers=16MB" "$@" >"$work/log/pg_ctl" 2>&1
}
query() {
    as_postgres "$pg/psql" -X -q -A -t -h "$work/socket" -d postgres -c "$1"
}

as_postgres "$pg/initdb" -D "$mnt/pg/data" -A trust --locale=C >"$work/log/initdb" 2>&1 || fail "initdb"
note "initdb"
server start || fail "the server does not start: $(tail -n 5 "$work/socket/log")"
as_postgres "$pg/pgbench" -h "$work/socket" -i -s 1 -q postgres >"$work/log/pgbench" 2>&1 || fail "pgbench -i"
as_postgres "$pg/pgbench" -h "$work/socket" -c 4 -T 5 postgres >>"$work/log/pgbench" 2>&1 || fail "pgbench"
note "$(grep -E '^tps' "$work/log/pgbench")"
before=$(query "SELECT count(*) || ' ' || sum(delta) FROM pgbench_history")
server stop -m immediate || fail "immediate stop" # As a crash: recovery reads the log.
server start || fail "the server does not recover: $(tail -n 5 "$work/socket/log")"
[ "$(query "SELECT count(*) || ' ' || sum(delta) FROM pgbench_history")" = "$before" ] || fail "transactions are lost"
[ "$(query "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(tbalance) FROM pgbench_tellers)")" = t ] ||
    fail "the sums differ"
query "CREATE EXTENSION amcheck" && query "SELECT bt_index_check(c.oid, true) FROM pg_class c WHERE relname LIKE 'pgbench%pkey'" \
    >/dev/null || fail "amcheck"
server stop -m fast || fail "stop"
fsck_clean
cluster_end
