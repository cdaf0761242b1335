/* The end of an iteration of the loop, deadlines, beginning and end, clocks. */
#include "common/base/status.h"
#include "common/rpc/rpc_internal_uv.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PER_MS = 1000000 };

static void on_prepare(uv_prepare_t *prepare)
{
    struct rpc *rpc = prepare->data;
    struct list *node;

    rpc_calls_run_ended(rpc);
    while ((node = list_front(&rpc->dirty)) != NULL) {
        struct conn *conn = LIST_ENTRY(node, struct conn, dirty_node);

        conn_ref(conn);
        conn_flush(conn);
        conn_go_on(conn);
        conn_drop(conn);
    }
}

static void on_deadline(uv_timer_t *timer)
{
    struct rpc *rpc = timer->data;

    rpc->armed_ms = UINT64_MAX;
    rpc_calls_expire(rpc);
    rpc_arm(rpc);
}

void rpc_arm(struct rpc *rpc)
{
    const struct heap_node *first = heap_min(&rpc->deadlines);
    uint64_t now = uv_now(rpc->loop), due_ms = first == NULL ? UINT64_MAX : first->key;

    if (!list_empty(&rpc->ended)) {
        due_ms =
            now; /* The prepare handle may have run: the loop must not wait before their ends. */
    }
    if (rpc->closing || due_ms >= rpc->armed_ms) {
        return;
    }
    rpc->armed_ms = due_ms;
    (void)uv_timer_start(&rpc->deadline, on_deadline, due_ms > now ? due_ms - now : 0, 0);
}

int rpc_new(uv_loop_t *loop, const struct rpc_options *options, struct rpc **rpc_out)
{
    struct rpc *rpc = calloc(1, sizeof(*rpc));

    *rpc_out = NULL;
    if (rpc == NULL) {
        return MORSEL_NOMEM;
    }
    rpc->payloads = payload_pool_new(options->payload_idle_bytes_max);
    if (rpc->payloads == NULL) {
        free(rpc);
        return MORSEL_NOMEM;
    }
    rpc->loop = loop;
    rpc->role = options->role;
    rpc->node_id = options->node_id;
    rpc->cluster_id = options->cluster_id;
    (void)snprintf(rpc->program, sizeof(rpc->program), "%s", options->program);
    if (uv_random(NULL, NULL, &rpc->start_id, sizeof(rpc->start_id), 0, NULL) != 0) {
        rpc->start_id = uv_hrtime();
    }
    rpc->start_id |= 1; /* 0 means "none". */
    heap_init(&rpc->deadlines);
    list_init(&rpc->ended);
    list_init(&rpc->dirty);
    list_init(&rpc->peers);
    list_init(&rpc->servers);
    (void)uv_prepare_init(loop, &rpc->prepare);
    (void)uv_timer_init(loop, &rpc->deadline);
    rpc->prepare.data = rpc->deadline.data = rpc;
    rpc->handles = 2;
    rpc->armed_ms = UINT64_MAX;
    (void)uv_prepare_start(&rpc->prepare, on_prepare);
    uv_unref((uv_handle_t *)&rpc->prepare);
    *rpc_out = rpc;
    return MORSEL_OK;
}

void rpc_handle_gone(void *data)
{
    struct rpc *rpc = data;

    CHECK(rpc->handles > 0);
    if (--rpc->handles > 0) {
        return;
    }
    CHECK(rpc->closing);
    CHECK(list_empty(&rpc->ended));
    heap_free(&rpc->deadlines);
    payload_pool_free(rpc->payloads);
    if (rpc->closed != NULL) {
        rpc->closed(rpc->closed_data);
    }
    free(rpc);
}

static void on_handle_closed(uv_handle_t *handle)
{
    rpc_handle_gone(handle->data);
}

void rpc_close(struct rpc *rpc, void (*closed)(void *data), void *data)
{
    CHECK(!rpc->closing);
    rpc->closing = true;
    rpc->closed = closed;
    rpc->closed_data = data;
    rpc_servers_close(rpc);
    rpc_peers_close(rpc);
    rpc_calls_run_ended(rpc);
    uv_close((uv_handle_t *)&rpc->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&rpc->deadline, on_handle_closed);
}

uint64_t rpc_start_id(const struct rpc *rpc)
{
    return rpc->start_id;
}

void rpc_set_node_id(struct rpc *rpc, uint64_t node_id)
{
    rpc->node_id = node_id;
}

void rpc_set_cluster_id(struct rpc *rpc, const struct cluster_id *id)
{
    rpc->cluster_id = *id;
}

const struct cluster_id *rpc_cluster_id(const struct rpc *rpc)
{
    return &rpc->cluster_id;
}

bool cluster_id_equal(const struct cluster_id *a, const struct cluster_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool cluster_id_known(const struct cluster_id *id)
{
    static const struct cluster_id none;

    return !cluster_id_equal(id, &none);
}

struct payload_pool *rpc_payloads(struct rpc *rpc)
{
    return rpc->payloads;
}

uv_loop_t *rpc_loop(struct rpc *rpc)
{
    return rpc->loop;
}

uint64_t rpc_now_ms(const struct rpc *rpc)
{
    return uv_now(rpc->loop);
}

void rpc_set_lease(struct rpc *rpc, const uint64_t *until_ns, const uint64_t *number)
{
    rpc->lease_until_ns = until_ns;
    rpc->lease_epoch = number;
}

uint64_t rpc_boot_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t rpc_boot_ms(void)
{
    return rpc_boot_ns() / NS_PER_MS;
}

const struct rpc_statistics *rpc_statistics(const struct rpc *rpc)
{
    return &rpc->statistics;
}
