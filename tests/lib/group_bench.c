/* The servers answer as they are told; the client is as much of a mount as calls need. */
#include "tests/lib/group_bench.h"

#include "client/coherence/lease_uv.h"
#include "common/base/status.h"
#include "data.pb-c.h"
#include "replica.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The rest of the client ---- */

static struct fixture *fixture_of(const struct client *client)
{
    return CONTAINER_OF((struct client *)(uintptr_t)client, struct fixture, client);
}

struct rpc_peer *client_peer(struct client *client, server_id id)
{
    return id >= 1 && id <= SERVERS ? fixture_of(client)->members[id - 1].peer : NULL;
}

const char *servers_address(struct client *client, server_id id)
{
    return client_peer(client, id) != NULL ? fixture_of(client)->members[id - 1].address : NULL;
}

void servers_note_silent(struct client *client, server_id id)
{
    if (id <= SERVERS) {
        fixture_of(client)->members[id - 1].silent = true;
    }
}

bool servers_is_heard(const struct client *client, server_id id)
{
    return id <= SERVERS && fixture_of(client)->members[id - 1].heard;
}

bool servers_is_silent(const struct client *client, server_id id)
{
    return id <= SERVERS && fixture_of(client)->members[id - 1].silent;
}

void servers_refresh(struct client *client)
{
    fixture_of(client)->refreshed++;
}

uint64_t lease_epoch(const struct client *client)
{
    return fixture_of(client)->epoch;
}

uint64_t lease_until_ns(const struct client *client)
{
    return fixture_of(client)->until_ns;
}

bool client_is_ending(const struct client *client)
{
    return fixture_of(client)->ending;
}

/* ---- The servers ---- */

static void handle(void *data, struct rpc_request *request)
{
    struct member *m = data;
    Morsel__HandOnRequest *h =
        request->type == MSG_HAND_ON
            ? rpc_request_unpack(request, &morsel__hand_on_request__descriptor)
            : NULL;
    Morsel__WriteRequest *w =
        rpc_unpack(&morsel__write_request__descriptor, h != NULL ? h->body.data : request->body,
                   h != NULL ? h->body.len : request->body_count);

    assert_non_null(w);
    assert_true(h == NULL || (h->request == MSG_WRITE && h->client == 0));
    assert_true(m->count < SEEN_MAX);
    m->seen[m->count++] =
        (struct seen){ .number = w->number,
                       .ended = w->ended,
                       .verifier = w->verifier,
                       .size = w->offset,
                       .not_after = request->not_after,
                       .again = w->again,
                       .handed_on = h != NULL,
                       .first = request->payload != NULL ? request->payload->data[0] : 0 };
    morsel__write_request__free_unpacked(w, NULL);
    if (h != NULL) {
        morsel__hand_on_request__free_unpacked(h, NULL);
    }
    switch (m->says) {
    case ANSWERS:
        rpc_reply(request, NULL, NULL);
        break;
    case IS_NOT_HERE:
        rpc_reply_failure(request, MORSEL_NOT_HERE, NULL);
        break;
    case IS_TOO_LATE:
        rpc_reply_failure(request, MORSEL_TOO_LATE, NULL);
        break;
    case IS_SILENT:
        m->heard = m->talks;
        m->held[m->held_count++] = request;
    }
}

static struct rpc *rpc_make(struct fixture *f, enum rpc_role role, uint64_t id)
{
    struct rpc_options options = {
        .role = role, .node_id = id, .payload_idle_bytes_max = 1 << 20, .program = "test"
    };
    struct rpc *rpc;

    options.cluster_id.bytes[0] = 1;
    assert_int_equal(rpc_new(&f->loop, &options, &rpc), 0);
    return rpc;
}

void member_start(struct member *m, const char *address)
{
    struct rpc_server_hooks hooks = { .handle = handle, .data = m };
    struct errmsg err = { "" };

    m->rpc = rpc_make(m->f, ROLE_IOD, (uint64_t)(m - m->f->members) + 1);
    if (rpc_listen(m->rpc, address, &hooks, &m->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
    (void)snprintf(m->address, sizeof(m->address), "%s", rpc_server_address(m->server));
}

void run_until(struct fixture *f, const unsigned *counter, unsigned value)
{
    while (*counter < value) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
}

static void on_closed(void *data)
{
    ++*(unsigned *)data;
}

/* What it was asked goes unanswered. */
void member_kill(struct member *m)
{
    unsigned closed = m->f->closed;

    rpc_close(m->rpc, on_closed, &m->f->closed);
    m->rpc = NULL;
    while (m->held_count > 0) {
        rpc_reply(m->held[--m->held_count], NULL, NULL);
    }
    run_until(m->f, &m->f->closed, closed + 1);
}

static void on_tick(uv_timer_t *timer)
{
    client_groups_tick(&((struct fixture *)timer->data)->client);
}

int group_bench_begin(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    Morsel__Group group = MORSEL__GROUP__INIT;
    uint32_t servers[SERVERS] = { 1, 2 };

    assert_int_equal(uv_loop_init(&f->loop), 0);
    (void)uv_timer_init(&f->loop, &f->tick);
    f->tick.data = f;
    (void)uv_timer_start(&f->tick, on_tick, 5, 5);
    f->until_ns = rpc_boot_ns() + 3600 * NS_PER_S;
    f->epoch = 1;
    f->client.loop = &f->loop;
    f->client.rpc = rpc_make(f, ROLE_CLIENT, 7);
    rpc_set_lease(f->client.rpc, &f->until_ns, &f->epoch);
    for (unsigned i = 0; i < SERVERS; i++) {
        f->members[i].f = f;
        f->members[i].heard = true;
        member_start(&f->members[i], "127.0.0.1:0");
        assert_int_equal(
            rpc_peer_new(f->client.rpc, f->members[i].address, &f->members[i].peer, NULL), 0);
    }
    assert_int_equal(client_groups_open(&f->client), 0);
    group.number = GROUP;
    group.servers = servers;
    group.n_servers = SERVERS;
    assert_int_equal(client_groups_learn(&f->client, &group), 0);
    f->group = client_groups_find(&f->client, GROUP);
    assert_non_null(f->group);
    *state = f;
    return 0;
}

int group_bench_end(void **state)
{
    struct fixture *f = *state;
    unsigned closed;

    for (unsigned i = 0; i < SERVERS; i++) {
        if (f->members[i].rpc != NULL) {
            member_kill(&f->members[i]);
        }
    }
    (void)uv_timer_stop(&f->tick); /* There is nothing to tick for any more. */
    client_groups_close(&f->client);
    closed = f->closed;
    rpc_close(f->client.rpc, on_closed, &f->closed);
    run_until(f, &f->closed, closed + 1);
    uv_close((uv_handle_t *)&f->tick, NULL);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

/* ---- Calls ---- */

static void on_done(struct group_call *group, int status, struct rpc_reply *reply)
{
    struct call *call = CONTAINER_OF(group, struct call, group);

    (void)reply;
    call->f->ended++;
    call->f->status = status;
    call->f->took_ms = (rpc_boot_ns() - call->started_ns) / 1000000;
    assert_non_null(group_call_address(group));
}

void group_bench_start(struct fixture *f, struct call *call, bool changes, uint64_t timeout_ms,
                       uint64_t offset)
{
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    struct payload *payload = payload_new(rpc_payloads(f->client.rpc), 100);
    struct rpc_piece piece = { payload, 0, 100 };
    unsigned ended = f->ended;

    memset(payload->data, (int)offset, 100);
    request.offset = offset;
    call->f = f;
    uv_update_time(&f->loop);
    call->started_ns = rpc_boot_ns();
    call->group.changes = changes;
    call->group.timeout_ms = timeout_ms;
    assert_int_equal(group_call_start(&call->group, &f->client, f->group, MSG_WRITE, &request.base,
                                      changes ? &piece : NULL, on_done),
                     0);
    payload_drop(payload);
    assert_int_equal(f->ended, ended);
}

int group_bench_change(struct fixture *f, uint64_t offset)
{
    static struct call call;

    call = (struct call){ 0 };
    group_bench_start(f, &call, true, CALL_MS, offset);
    run_until(f, &f->ended, f->ended + 1);
    return f->status;
}

void assert_same(const struct seen *a, const struct seen *b)
{
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->ended, b->ended);
    assert_true(a->verifier == b->verifier);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->first, b->first);
    assert_false(a->again || b->again); /* The group's memory says so, not we. */
    /* Servers tell their clocks in different moments, and drift is allowed for. */
    assert_in_range((int32_t)(a->not_after - b->not_after) + 1000, 0, 2000);
}
