/* Queues before libuv's pool: one for each client, one for what is urgent, one for writes. */
#include "meta/storage/loads_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/table.h"

#include <stdlib.h>

struct load
{
    struct list node;
    struct loads_uv *loads;
    struct rpc_request *request;
    load_again again; /* NULL: nobody waits any more. */
    uint64_t subject;
    struct kv_wanted wanted;
    uv_work_t work;
};

/* Those of one client that wait; 0: of nobody in particular. There is one only while it has some. */
struct load_turn
{
    struct list node;
    client_id who;
    struct list loads; /* Oldest first. */
    UT_hash_handle hh;
};

static void load_free(struct load *load)
{
    kv_wanted_free(&load->wanted);
    free(load);
}

static void go_on(struct loads_uv *l);

/* ---- In the pool ---- */

static void on_work(uv_work_t *work)
{
    struct load *load = work->data;
    struct kv *kv = load->loads->kv;

    if (load->wanted.room) {
        kv->make_room(kv);
    } else {
        kv->load(kv, &load->wanted);
    }
}

/* ---- Queues ---- */

static bool wants_room(const struct load *load)
{
    return load->wanted.room;
}

static bool is_urgent(const struct load *load)
{
    return load->request != NULL && load->request->role == ROLE_IOD;
}

static client_id who_of(const struct load *load)
{
    return load->request != NULL && load->request->role == ROLE_CLIENT ? load->request->node_id : 0;
}

static struct load_turn *turn_of(struct loads_uv *l, client_id who)
{
    struct load_turn *turn;

    HASH_FIND(hh, l->by_who, &who, sizeof(who), turn);
    if (turn != NULL || (turn = calloc(1, sizeof(*turn))) == NULL) {
        return turn;
    }
    turn->who = who;
    list_init(&turn->node);
    list_init(&turn->loads);
    HASH_ADD(hh, l->by_who, who, sizeof(turn->who), turn);
    if (!TABLE_ADDED(turn)) {
        free(turn);
        return NULL;
    }
    list_push_back(&l->turns, &turn->node);
    return turn;
}

static void turn_end(struct loads_uv *l, struct load_turn *turn)
{
    CHECK(l->by_who != NULL); /* It is there. */
    list_remove(&turn->node);
    HASH_DEL(l->by_who, turn);
    free(turn);
}

/* False: out of memory. */
static bool push(struct loads_uv *l, struct load *load)
{
    struct list *queue = wants_room(load) ? &l->roomless : is_urgent(load) ? &l->urgent : NULL;

    if (queue == NULL) {
        struct load_turn *turn = turn_of(l, who_of(load));

        if (turn == NULL) {
            return false;
        }
        queue = &turn->loads;
    }
    list_push_back(queue, &load->node);
    l->waiting_count++;
    l->waiting_bytes += load->wanted.bytes.count;
    return true;
}

static void leave_queue(struct loads_uv *l, struct load *load)
{
    list_remove(&load->node);
    l->waiting_count--;
    l->waiting_bytes -= load->wanted.bytes.count;
}

/* The next one that may run; NULL: there is none. */
static struct load *next(struct loads_uv *l)
{
    uint32_t reading = l->running_count - l->making_room;
    struct list *node = list_front(&l->roomless);
    struct load_turn *turn;
    struct load *load;

    if (node != NULL && !l->making_room) {
        return LIST_ENTRY(node, struct load, node);
    }
    node = list_front(&l->urgent);
    if (node != NULL && reading < LOADS_RUNNING_MAX + LOADS_URGENT_MAX) {
        return LIST_ENTRY(node, struct load, node);
    }
    if (reading >= LOADS_RUNNING_MAX || (node = list_pop_front(&l->turns)) == NULL) {
        return NULL;
    }
    turn = LIST_ENTRY(node, struct load_turn, node);
    load = LIST_ENTRY(list_front(&turn->loads), struct load, node);
    list_push_back(&l->turns, node);
    return load;
}

/* It has left its client's queue. */
static void turn_over(struct loads_uv *l, client_id who)
{
    struct load_turn *turn;

    HASH_FIND(hh, l->by_who, &who, sizeof(who), turn);
    if (turn != NULL && list_empty(&turn->loads)) {
        turn_end(l, turn);
    }
}

/* ---- On the loop ---- */

static void try_again(struct load *load)
{
    struct loads_uv *l = load->loads;
    uint64_t now_ns = uv_hrtime();
    unsigned tries = l->wanted.tries;

    CHECK(l->kv->wanted == &l->wanted);
    if (load->request != NULL) {
        rpc_request_worked(load->request, now_ns, now_ns); /* It waited until now. */
    }
    loads_begin(l);
    l->wanted.tries = load->wanted.tries + !wants_room(load);
    if (!wants_room(load) && l->wanted.tries == LOADS_TRIES_MAX) {
        l->impatient++;
        (void)kv_be_patient(l->kv);
    }
    load->again(l->data, load->request, load->subject);
    l->kv->wanted = &l->wanted;
    l->wanted.tries = tries;
}

/* There is room: others who wait for it need not have it made once more each. */
static void let_others_write(struct loads_uv *l)
{
    struct list *node;

    for (unsigned i = 0; i < LOADS_WRITES_AT_ONCE && (node = list_front(&l->roomless)) != NULL &&
                         l->kv->has_room(l->kv);
         i++) {
        struct load *load = LIST_ENTRY(node, struct load, node);

        leave_queue(l, load);
        try_again(load);
        load_free(load);
    }
}

static void on_work_done(uv_work_t *work, int uv_status)
{
    struct load *load = work->data;
    struct loads_uv *l = load->loads;
    bool room = wants_room(load);

    CHECK(uv_status == 0); /* It is never cancelled. */
    list_remove(&load->node);
    l->running_count--;
    if (room) {
        l->making_room = false;
        l->rooms++;
    } else {
        l->loads++;
        go_on(l);
    }
    if (load->again != NULL) {
        try_again(load);
    }
    load_free(load);
    if (room) { /* Behind those for whom it was made. */
        let_others_write(l);
        go_on(l);
    }
    if (l->closed != NULL && l->running_count == 0) {
        l->closed(l->data);
    }
}

static void go_on(struct loads_uv *l)
{
    struct load *load;

    while ((load = next(l)) != NULL) {
        int rv;

        leave_queue(l, load);
        turn_over(l, who_of(load));
        l->making_room = l->making_room || wants_room(load);
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
    load->work.data = load;
    kv_wanted_init(&load->wanted);
    load->wanted.tries = l->wanted.tries;
    load->wanted.room = l->wanted.room;
    buf_put(&load->wanted.bytes, l->wanted.bytes.data, l->wanted.bytes.count);
    if (load->wanted.bytes.failed || !push(l, load)) {
        load_free(load);
        return NULL;
    }
    return load;
}

bool loads_wait(struct loads_uv *l, struct rpc_request *request, load_again again, uint64_t subject)
{
    bool full = l->waiting_count == LOADS_WAITING_MAX || l->waiting_bytes >= LOADS_BYTES_MAX;
    bool hopeless = full || l->closing || l->wanted.bytes.failed;
    bool waits = !hopeless && load_new(l, request, again, subject) != NULL;

    kv_wanted_clear(&l->wanted);
    if (waits) {
        go_on(l);
    } else if (request != NULL) {
        rpc_reply_failure(request,
                          l->closing ? MORSEL_SHUTDOWN
                          : full     ? MORSEL_OVERLOAD
                                     : MORSEL_NOMEM,
                          full ? "too many requests wait for the manager's disk" : NULL);
    }
    return waits;
}

void loads_begin(struct loads_uv *l)
{
    kv_wanted_clear(&l->wanted);
}

/* ---- Those that are not waited for any more ---- */

static void refuse(struct load *load, int status)
{
    struct rpc_request *request = load->request;

    load->again = NULL;
    load->request = NULL;
    if (request != NULL) {
        rpc_reply_failure(request, status, NULL);
    }
}

static void refuse_queue(struct loads_uv *l, struct list *queue, int status)
{
    struct list *node;

    while ((node = list_front(queue)) != NULL) {
        struct load *load = LIST_ENTRY(node, struct load, node);

        leave_queue(l, load);
        refuse(load, status);
        load_free(load);
    }
}

static void refuse_turn(struct loads_uv *l, struct load_turn *turn, int status)
{
    refuse_queue(l, &turn->loads, status);
    turn_end(l, turn);
}

static void refuse_roomless(struct loads_uv *l, client_id client, int status)
{
    struct list mine;

    list_init(&mine);
    LIST_FOREACH_SAFE(node, &l->roomless)
    {
        struct load *load = LIST_ENTRY(node, struct load, node);

        if (who_of(load) == client) {
            list_remove(node);
            list_push_back(&mine, node);
        }
    }
    refuse_queue(l, &mine, status);
}

void loads_gone(struct loads_uv *l, client_id client)
{
    struct load_turn *turn;

    if (client == 0) {
        return; /* Nobody in particular. */
    }
    LIST_FOREACH(node, &l->running)
    {
        struct load *load = LIST_ENTRY(node, struct load, node);

        if (who_of(load) == client) {
            refuse(load, MORSEL_NO_SESSION);
        }
    }
    refuse_roomless(l, client, MORSEL_NO_SESSION);
    HASH_FIND(hh, l->by_who, &client, sizeof(client), turn);
    if (turn != NULL) {
        refuse_turn(l, turn, MORSEL_NO_SESSION);
    }
}

void loads_refuse(struct loads_uv *l, int status)
{
    struct list *node;

    l->closing = true;
    LIST_FOREACH(at, &l->running)
    {
        refuse(LIST_ENTRY(at, struct load, node), status);
    }
    refuse_queue(l, &l->urgent, status);
    refuse_queue(l, &l->roomless, status);
    while ((node = list_front(&l->turns)) != NULL) {
        refuse_turn(l, LIST_ENTRY(node, struct load_turn, node), status);
    }
}

/* ---- Beginning and end ---- */

void loads_init(struct loads_uv *l, uv_loop_t *loop, struct kv *kv, void *data)
{
    *l = (struct loads_uv){ .loop = loop, .kv = kv, .data = data };
    kv_wanted_init(&l->wanted);
    list_init(&l->turns);
    list_init(&l->urgent);
    list_init(&l->roomless);
    list_init(&l->running);
    kv->wanted = &l->wanted;
}

void loads_close(struct loads_uv *l, void (*closed)(void *data))
{
    CHECK(l->closing && list_empty(&l->turns) && list_empty(&l->urgent) &&
          list_empty(&l->roomless));
    l->kv->wanted = NULL;
    kv_wanted_free(&l->wanted);
    l->closed = closed;
    if (l->running_count == 0) {
        closed(l->data);
    }
}
