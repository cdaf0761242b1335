/* Requests that wait for what the servers say of their space, and the limit of that wait. */
#include "meta/cluster/capacity_uv.h"

#include "common/base/status.h"
#include "meta.pb-c.h"

#include <stdlib.h>

struct capacity_wait
{
    struct list node;
    struct rpc_request *request;
    capacity_answer answer;
    void *data;
    uint64_t number; /* Servers that have looked since this round began say what is wanted. */
    uint64_t until_ms;
};

/* Is its answer worth waiting for? Older servers do not know the question. */
static bool is_asked(const struct member *member)
{
    return member->up && member->connected && member->disk.device != 0;
}

static bool all_have_told(const struct capacity_uv *c, uint64_t number)
{
    for (uint32_t i = 0; i < c->members->count; i++) {
        const struct member *member = &c->members->items[i];

        if (is_asked(member) && member->measured < number) {
            return false;
        }
    }
    return true;
}

static void arm(struct capacity_uv *c);

static void go_on(struct capacity_uv *c)
{
    while (!list_empty(&c->waiting)) {
        struct capacity_wait *wait = LIST_ENTRY(c->waiting.next, struct capacity_wait, node);

        if (!all_have_told(c, wait->number) && uv_now(c->loop) < wait->until_ms) {
            break;
        }
        list_remove(&wait->node);
        wait->answer(wait->data, wait->request);
        free(wait);
    }
    arm(c);
}

static void on_timer(uv_timer_t *timer)
{
    go_on(CONTAINER_OF(timer, struct capacity_uv, timer));
}

static void arm(struct capacity_uv *c)
{
    uint64_t now_ms = uv_now(c->loop), until_ms;

    if (list_empty(&c->waiting)) {
        (void)uv_timer_stop(&c->timer);
        return;
    }
    until_ms = LIST_ENTRY(c->waiting.next, struct capacity_wait, node)->until_ms;
    (void)uv_timer_start(&c->timer, on_timer, until_ms > now_ms ? until_ms - now_ms : 0, 0);
}

void capacity_start(struct capacity_uv *c, uv_loop_t *loop, struct members *members)
{
    c->loop = loop;
    c->members = members;
    list_init(&c->waiting);
    (void)uv_timer_init(loop, &c->timer);
}

static void ask_servers(const struct capacity_uv *c, struct rpc_server *server, uint64_t number)
{
    Morsel__SpaceWanted wanted = MORSEL__SPACE_WANTED__INIT;

    wanted.number = number;
    for (uint32_t i = 0; i < c->members->count; i++) {
        const struct member *member = &c->members->items[i];

        if (is_asked(member)) {
            (void)rpc_push(server, ROLE_IOD, member->record.id, MSG_SPACE_WANTED, &wanted.base);
        }
    }
}

void capacity_ask(struct capacity_uv *c, struct rpc_server *server, struct rpc_request *request,
                  capacity_answer answer, void *data)
{
    struct capacity_wait *wait = calloc(1, sizeof(*wait));

    if (wait == NULL) {
        rpc_reply_failure(request, MORSEL_OVERLOAD, NULL);
        return;
    }
    wait->request = request;
    wait->answer = answer;
    wait->data = data;
    wait->number = ++c->number;
    wait->until_ms = uv_now(c->loop) + CAPACITY_WAIT_MS;
    list_init(&wait->node);
    list_push_back(&c->waiting, &wait->node);
    ask_servers(c, server, wait->number);
    go_on(c);
}

void capacity_told(struct capacity_uv *c)
{
    go_on(c);
}

void capacity_refuse_waiting(struct capacity_uv *c, int status)
{
    struct list *node;

    while ((node = list_pop_front(&c->waiting)) != NULL) {
        struct capacity_wait *wait = LIST_ENTRY(node, struct capacity_wait, node);

        rpc_reply_failure(wait->request, status, NULL);
        free(wait);
    }
}
