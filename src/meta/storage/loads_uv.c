/* A queue before libuv's pool. */
#include "meta/storage/loads_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>

struct load
{
    struct list node;
    struct loads_uv *loads;
    struct rpc_request *request;
    load_again again; /* NULL: nobody waits any more. */
    uint64_t subject;
    unsigned tries;
    struct kv_wanted wanted;
    struct buf loaded;
    uv_work_t work;
};

static void load_free(struct load *load)
{
    kv_wanted_free(&load->wanted);
    buf_free(&load->loaded);
    free(load);
}

/* While it waits. */
static size_t bytes_of(const struct load *load)
{
    return load->wanted.bytes.count + load->loaded.count;
}

static void go_on(struct loads_uv *l);

/* ---- In the pool ---- */

static void on_work(uv_work_t *work)
{
    struct load *load = work->data;
    struct kv *kv = load->loads->kv;

    kv->load(kv, &load->wanted, &load->loaded);
}

/* ---- On the loop ---- */

static void try_again(struct load *load)
{
    struct loads_uv *l = load->loads;
    uint64_t now_ns = uv_hrtime();
    unsigned tries = l->tries;

    CHECK(l->kv->wanted == &l->wanted);
    if (load->request != NULL) {
        rpc_request_worked(load->request, now_ns, now_ns); /* It waited until now. */
    }
    loads_begin(l);
    l->tries = load->tries + 1;
    l->wanted.loaded = &load->loaded;
    if (l->tries == LOADS_TRIES_MAX) {
        l->impatient++;
        (void)kv_be_patient(l->kv);
    }
    load->again(l->data, load->request, load->subject);
    l->kv->wanted = &l->wanted;
    l->wanted.loaded = NULL;
    l->tries = tries;
}

static void on_work_done(uv_work_t *work, int uv_status)
{
    struct load *load = work->data;
    struct loads_uv *l = load->loads;

    CHECK(uv_status == 0); /* It is never cancelled. */
    list_remove(&load->node);
    l->running_count--;
    l->loads++;
    go_on(l);
    if (load->again != NULL) {
        try_again(load);
    }
    load_free(load);
    if (l->closed != NULL && l->running_count == 0) {
        l->closed(l->data);
    }
}

static void go_on(struct loads_uv *l)
{
    struct list *node;

    while (l->running_count < LOADS_RUNNING_MAX && (node = list_pop_front(&l->waiting)) != NULL) {
        struct load *load = LIST_ENTRY(node, struct load, node);
        int rv;

        l->waiting_count--;
        l->waiting_bytes -= bytes_of(load);
        l->running_count++;
        list_push_back(&l->running, &load->node);
        rv = uv_queue_work(l->loop, &load->work, on_work, on_work_done);
        CHECK(rv == 0);
    }
}

static struct load *load_new(struct loads_uv *l, struct rpc_request *request, load_again again,
                             uint64_t subject)
{
    struct load *load = calloc(1, sizeof(*load));

    if (load == NULL) {
        return NULL;
    }
    list_init(&load->node);
    load->loads = l;
    load->request = request;
    load->again = again;
    load->subject = subject;
    load->tries = l->tries;
    load->work.data = load;
    kv_wanted_init(&load->wanted);
    buf_init(&load->loaded);
    buf_put(&load->wanted.bytes, l->wanted.bytes.data, l->wanted.bytes.count);
    if (l->wanted.loaded != NULL) { /* What the tries before have walked. */
        buf_put(&load->loaded, l->wanted.loaded->data, l->wanted.loaded->count);
    }
    return load;
}

bool loads_wait(struct loads_uv *l, struct rpc_request *request, load_again again, uint64_t subject)
{
    bool full = l->waiting_count == LOADS_WAITING_MAX || l->waiting_bytes >= LOADS_BYTES_MAX;
    bool hopeless = full || l->closing || l->wanted.bytes.failed;
    struct load *load = hopeless ? NULL : load_new(l, request, again, subject);

    kv_wanted_clear(&l->wanted);
    if (load != NULL) {
        list_push_back(&l->waiting, &load->node);
        l->waiting_count++;
        l->waiting_bytes += bytes_of(load);
        go_on(l);
    } else if (request != NULL) {
        rpc_reply_failure(request,
                          l->closing ? MORSEL_SHUTDOWN
                          : full     ? MORSEL_OVERLOAD
                                     : MORSEL_NOMEM,
                          full ? "too many requests wait for the manager's disk" : NULL);
    }
    return load != NULL;
}

void loads_begin(struct loads_uv *l)
{
    kv_wanted_clear(&l->wanted);
}

/* ---- Those that are not waited for any more ---- */

static bool is_of(const struct load *load, client_id client)
{
    return client == 0 || (load->request != NULL && load->request->role == ROLE_CLIENT &&
                           load->request->node_id == client);
}

static void refuse(struct load *load, int status)
{
    struct rpc_request *request = load->request;

    load->again = NULL;
    load->request = NULL;
    if (request != NULL) {
        rpc_reply_failure(request, status, NULL);
    }
}

/* Those of the client; 0: all. */
static void drop(struct loads_uv *l, client_id client, int status)
{
    struct list mine;
    struct list *node;

    LIST_FOREACH(at, &l->running)
    {
        struct load *load = LIST_ENTRY(at, struct load, node);

        if (is_of(load, client)) {
            refuse(load, status);
        }
    }
    list_init(&mine);
    LIST_FOREACH_SAFE(at, &l->waiting)
    {
        const struct load *load = LIST_ENTRY(at, struct load, node);

        if (is_of(load, client)) {
            list_remove(at);
            list_push_back(&mine, at);
            l->waiting_count--;
            l->waiting_bytes -= bytes_of(load);
        }
    }
    while ((node = list_pop_front(&mine)) != NULL) {
        struct load *load = LIST_ENTRY(node, struct load, node);

        refuse(load, status);
        load_free(load);
    }
}

void loads_gone(struct loads_uv *l, client_id client)
{
    drop(l, client, MORSEL_NO_SESSION);
}

void loads_refuse(struct loads_uv *l, int status)
{
    l->closing = true;
    drop(l, 0, status);
}

/* ---- Beginning and end ---- */

void loads_init(struct loads_uv *l, uv_loop_t *loop, struct kv *kv, void *data)
{
    *l = (struct loads_uv){ .loop = loop, .kv = kv, .data = data };
    kv_wanted_init(&l->wanted);
    list_init(&l->waiting);
    list_init(&l->running);
    kv->wanted = &l->wanted;
}

void loads_close(struct loads_uv *l, void (*closed)(void *data))
{
    CHECK(l->closing && list_empty(&l->waiting));
    l->kv->wanted = NULL;
    kv_wanted_free(&l->wanted);
    l->closed = closed;
    if (l->running_count == 0) {
        closed(l->data);
    }
}
