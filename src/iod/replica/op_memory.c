/* A table of operations, and one of clients, each with the list of its own. */
#include "iod/replica/op_memory.h"

#include "common/base/check.h"
#include "common/base/list.h"
#include "common/base/status.h"
#include "common/base/table.h"

#include <stdlib.h>

struct client
{
    UT_hash_handle hh;
    client_id id;
    op_sequence ended;
    uint64_t until_ms; /* Nothing of it comes later. */
    bool unnamed;      /* As with an operation. */
    struct list ops;
};

struct op
{
    UT_hash_handle hh;
    struct list node; /* Of its client's. */
    uint64_t key[2];
    struct client *client;
    uint64_t until_ms;
    struct op_answer answer;
    bool running;
    bool doubt;   /* A hand-over is under way, or has broken off; */
    bool unnamed; /* the other one has not named it. */
};

struct op_memory
{
    uint32_t clients_max, ops_max;
    struct op *ops;
    struct client *clients;
    uint32_t unsure;   /* Operations that are answered by MORSEL_UNSURE. */
    uint64_t sweep_ms; /* Before that nothing more is over. */
    bool takes_over;
};

struct op_memory *op_memory_new(uint32_t clients_max, uint32_t ops_max)
{
    struct op_memory *m = calloc(1, sizeof(*m));

    CHECK(clients_max >= 1 && ops_max >= 1);
    if (m != NULL) {
        m->clients_max = clients_max;
        m->ops_max = ops_max;
    }
    return m;
}

static struct op_answer answer_of(const struct op *op)
{
    return op->doubt ? (struct op_answer){ MORSEL_UNSURE, op->answer.verifier } : op->answer;
}

static bool is_unsure(const struct op *op)
{
    return !op->running && answer_of(op).status == MORSEL_UNSURE;
}

static void remove_op(struct op_memory *m, struct op *op)
{
    CHECK(m->ops != NULL);
    m->unsure -= is_unsure(op);
    list_remove(&op->node);
    HASH_DEL(m->ops, op);
    free(op);
}

static void remove_client(struct op_memory *m, struct client *c)
{
    CHECK(m->clients != NULL);
    LIST_FOREACH_SAFE(node, &c->ops)
    {
        remove_op(m, LIST_ENTRY(node, struct op, node));
    }
    HASH_DEL(m->clients, c);
    free(c);
}

void op_memory_clear(struct op_memory *m)
{
    while (m->clients != NULL) {
        remove_client(m, m->clients);
    }
    m->sweep_ms = 0;
    m->takes_over = false;
}

void op_memory_free(struct op_memory *m)
{
    if (m != NULL) {
        op_memory_clear(m);
        free(m);
    }
}

static struct client *find_client(const struct op_memory *m, client_id id)
{
    struct client *c;

    HASH_FIND(hh, m->clients, &id, sizeof(id), c);
    return c;
}

static struct op *find_op(const struct op_memory *m, struct op_id id)
{
    uint64_t key[2] = { id.client, id.number };
    struct op *op;

    HASH_FIND(hh, m->ops, key, sizeof(key), op);
    return op;
}

enum op_verdict op_memory_find(const struct op_memory *m, struct op_id id, struct op_answer *answer)
{
    const struct op *op = find_op(m, id);
    const struct client *c = find_client(m, id.client);

    if (op != NULL && op->running) {
        return OP_RUNNING;
    }
    if (c != NULL && id.number <= c->ended) {
        return OP_OVER;
    }
    if (op == NULL) {
        return OP_NEW;
    }
    *answer = answer_of(op);
    return OP_DONE;
}

/* ---- Room ---- */

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What is over goes, and clients of which nothing is left. */
static void sweep(struct op_memory *m, uint64_t now_ms)
{
    struct client *c, *next;

    m->sweep_ms = UINT64_MAX;
    HASH_ITER(hh, m->clients, c, next)
    {
        LIST_FOREACH_SAFE(node, &c->ops)
        {
            struct op *op = LIST_ENTRY(node, struct op, node);

            if (!op->running && op->until_ms < now_ms) {
                remove_op(m, op);
            } else if (!op->running) {
                m->sweep_ms = smaller_of(m->sweep_ms, op->until_ms);
            }
        }
        if (list_empty(&c->ops) && c->until_ms < now_ms) {
            remove_client(m, c);
        } else {
            m->sweep_ms = smaller_of(m->sweep_ms, c->until_ms);
        }
    }
}

static bool is_full(const struct op_memory *m, client_id client)
{
    return HASH_COUNT(m->ops) >= m->ops_max ||
           (find_client(m, client) == NULL && HASH_COUNT(m->clients) >= m->clients_max);
}

static struct client *add_client(struct op_memory *m, client_id id)
{
    struct client *c = find_client(m, id);

    if (c != NULL || HASH_COUNT(m->clients) >= m->clients_max ||
        (c = calloc(1, sizeof(*c))) == NULL) {
        return c;
    }
    c->id = id;
    list_init(&c->ops);
    HASH_ADD(hh, m->clients, id, sizeof(c->id), c);
    if (!TABLE_ADDED(c)) {
        free(c);
        return NULL;
    }
    return c;
}

static struct op *add_op(struct op_memory *m, struct op_id id, uint64_t until_ms)
{
    struct client *c = add_client(m, id.client);
    struct op *op;

    if (c == NULL || HASH_COUNT(m->ops) >= m->ops_max || (op = calloc(1, sizeof(*op))) == NULL) {
        return NULL;
    }
    op->key[0] = id.client;
    op->key[1] = id.number;
    HASH_ADD(hh, m->ops, key, sizeof(op->key), op);
    if (!TABLE_ADDED(op)) {
        free(op);
        return NULL;
    }
    op->client = c;
    op->until_ms = until_ms;
    c->until_ms = c->until_ms > until_ms ? c->until_ms : until_ms;
    m->sweep_ms = smaller_of(m->sweep_ms, until_ms);
    list_init(&op->node);
    list_push_back(&c->ops, &op->node);
    return op;
}

/* ---- What happens to operations ---- */

bool op_memory_begin(struct op_memory *m, struct op_id id, uint64_t not_after_ms, uint64_t now_ms)
{
    struct op *op = find_op(m, id);

    CHECK(id.number != 0);
    if (op != NULL) {
        return true;
    }
    if (is_full(m, id.client) && now_ms > m->sweep_ms) {
        sweep(m, now_ms);
    }
    op = add_op(m, id, not_after_ms + OP_MEMORY_MARGIN_MS);
    if (op == NULL) {
        return false;
    }
    op->running = true;
    return true;
}

void op_memory_end(struct op_memory *m, struct op_id id, struct op_answer answer)
{
    struct op *op = find_op(m, id);

    if (op != NULL) {
        m->unsure -= is_unsure(op);
        op->running = op->doubt = op->unnamed = false;
        op->answer = answer;
        m->unsure += is_unsure(op);
        if (id.number <= op->client->ended) {
            remove_op(m, op);
        }
    }
}

void op_memory_drop(struct op_memory *m, struct op_id id)
{
    struct op *op = find_op(m, id);

    if (op != NULL && op->running) {
        remove_op(m, op);
    }
}

void op_memory_ended(struct op_memory *m, client_id client, op_sequence ended)
{
    struct client *c = find_client(m, client);

    if (c == NULL || ended <= c->ended) {
        return;
    }
    c->ended = ended;
    LIST_FOREACH_SAFE(node, &c->ops)
    {
        struct op *op = LIST_ENTRY(node, struct op, node);

        if (!op->running && op->key[1] <= ended) {
            remove_op(m, op);
        }
    }
}

/* ---- Handing over ---- */

static bool each_of(const struct client *c, bool (*visit)(void *data, const struct op_known *known),
                    void *data)
{
    struct op_known known = { .op = { c->id, 0 }, .ended = c->ended, .until_ms = c->until_ms };

    if (!visit(data, &known)) {
        return false;
    }
    LIST_FOREACH(node, &c->ops)
    {
        const struct op *op = LIST_ENTRY(node, struct op, node);

        known.op.number = op->key[1];
        known.until_ms = op->until_ms;
        known.answer = answer_of(op);
        if (!op->running && !visit(data, &known)) {
            return false;
        }
    }
    return true;
}

bool op_memory_each(const struct op_memory *m,
                    bool (*visit)(void *data, const struct op_known *known), void *data)
{
    struct client *c, *next;

    HASH_ITER(hh, m->clients, c, next)
    {
        if (!each_of(c, visit, data)) {
            return false;
        }
    }
    return true;
}

void op_memory_stop(struct op_memory *m)
{
    struct op *op, *next;

    HASH_ITER(hh, m->ops, op, next)
    {
        if (op->running) {
            remove_op(m, op);
        }
    }
}

void op_memory_doubt(struct op_memory *m)
{
    struct client *c, *next;

    op_memory_stop(m);
    m->takes_over = true;
    HASH_ITER(hh, m->clients, c, next)
    {
        c->unnamed = true;
        LIST_FOREACH(node, &c->ops)
        {
            struct op *op = LIST_ENTRY(node, struct op, node);

            m->unsure += !is_unsure(op);
            op->doubt = op->unnamed = true;
        }
    }
}

static void forget_unnamed(struct op_memory *m)
{
    struct client *c, *next;

    HASH_ITER(hh, m->clients, c, next)
    {
        LIST_FOREACH_SAFE(node, &c->ops)
        {
            struct op *op = LIST_ENTRY(node, struct op, node);

            if (op->unnamed) {
                remove_op(m, op);
            }
        }
        if (c->unnamed && list_empty(&c->ops)) {
            remove_client(m, c);
        }
    }
}

void op_memory_settle(struct op_memory *m)
{
    struct op *op, *next;

    forget_unnamed(m);
    HASH_ITER(hh, m->ops, op, next)
    {
        m->unsure -= is_unsure(op);
        op->doubt = false;
        m->unsure += is_unsure(op);
    }
    m->takes_over = false;
}

static bool load(struct op_memory *m, const struct op_known *known)
{
    struct client *c = add_client(m, known->op.client);
    struct op *op;

    if (c == NULL) {
        return false;
    }
    c->unnamed = false;
    c->until_ms = c->until_ms > known->until_ms ? c->until_ms : known->until_ms;
    op_memory_ended(m, known->op.client, known->ended);
    op = find_op(m, known->op);
    if (known->op.number <= c->ended || (op != NULL && !op->unnamed)) {
        return true;
    }
    if (op == NULL && (op = add_op(m, known->op, known->until_ms)) == NULL) {
        return false;
    }
    m->unsure -= is_unsure(op);
    op->doubt = m->takes_over;
    op->unnamed = false;
    op->until_ms = known->until_ms;
    op->answer = known->answer;
    m->unsure += is_unsure(op);
    m->sweep_ms = smaller_of(m->sweep_ms, op->until_ms);
    return true;
}

bool op_memory_load(struct op_memory *m, const struct op_known *known)
{
    if (load(m, known)) {
        return true;
    }
    forget_unnamed(m);
    return load(m, known);
}

bool op_memory_is_sure(const struct op_memory *m)
{
    return m->unsure == 0;
}

uint32_t op_memory_count(const struct op_memory *m)
{
    return HASH_COUNT(m->ops);
}

void op_memory_check(const struct op_memory *m)
{
    struct client *c, *next;
    uint32_t count = 0, unsure = 0;

    CHECK(HASH_COUNT(m->ops) <= m->ops_max && HASH_COUNT(m->clients) <= m->clients_max);
    HASH_ITER(hh, m->clients, c, next)
    {
        LIST_FOREACH(node, &c->ops)
        {
            const struct op *op = LIST_ENTRY(node, struct op, node);

            CHECK(op->client == c && op->key[0] == c->id);
            CHECK(op->running || op->key[1] > c->ended);
            CHECK(!(op->running && op->doubt));
            CHECK(!op->unnamed || op->doubt);
            count++;
            unsure += is_unsure(op);
        }
    }
    CHECK(count == HASH_COUNT(m->ops) && unsure == m->unsure);
}
