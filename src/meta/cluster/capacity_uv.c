/* Requests that wait for what the servers say of their space, and the limit of that wait. */
#include "meta/cluster/capacity_uv.h"

#include "common/base/status.h"
#include "meta/meta_uv.h"

#include <stdlib.h>

struct capacity_wait
{
    struct list node;
    struct rpc_request *request;
    void (*answer)(struct meta *meta, struct rpc_request *request);
    uint64_t number; /* Servers that have looked since this round began say what is wanted. */
    uint64_t until_ms;
};

/* Is its answer worth waiting for? Older servers do not know the question. */
static bool is_asked(const struct member *member)
{
    return member->up && member->connected && member->disk.device != 0;
}

static bool all_have_told(const struct meta *meta, uint64_t number)
{
    for (uint32_t i = 0; i < meta->members.count; i++) {
        const struct member *member = &meta->members.items[i];

        if (is_asked(member) && member->measured < number) {
            return false;
        }
    }
    return true;
}

static void arm(struct meta *meta);

static void go_on(struct meta *meta)
{
    struct capacity_uv *c = &meta->capacity;

    while (!list_empty(&c->waiting)) {
        struct capacity_wait *wait = LIST_ENTRY(c->waiting.next, struct capacity_wait, node);

        if (!all_have_told(meta, wait->number) && uv_now(meta->loop) < wait->until_ms) {
            break;
        }
        list_remove(&wait->node);
        wait->answer(meta, wait->request);
        free(wait);
    }
    arm(meta);
}

static void on_timer(uv_timer_t *timer)
{
    go_on(timer->data);
}

static void arm(struct meta *meta)
{
    struct capacity_uv *c = &meta->capacity;
    uint64_t now_ms = uv_now(meta->loop), until_ms;

    if (list_empty(&c->waiting)) {
        (void)uv_timer_stop(&c->timer);
        return;
    }
    until_ms = LIST_ENTRY(c->waiting.next, struct capacity_wait, node)->until_ms;
    (void)uv_timer_start(&c->timer, on_timer, until_ms > now_ms ? until_ms - now_ms : 0, 0);
}

void capacity_start(struct meta *meta)
{
    list_init(&meta->capacity.waiting);
    (void)uv_timer_init(meta->loop, &meta->capacity.timer);
    meta->capacity.timer.data = meta;
}

static void ask_servers(struct meta *meta, uint64_t number)
{
    Morsel__SpaceWanted wanted = MORSEL__SPACE_WANTED__INIT;

    wanted.number = number;
    for (uint32_t i = 0; i < meta->members.count; i++) {
        const struct member *member = &meta->members.items[i];

        if (is_asked(member)) {
            (void)rpc_push(meta->server, ROLE_IOD, member->record.id, MSG_SPACE_WANTED,
                           &wanted.base);
        }
    }
}

void capacity_ask(struct meta *meta, struct rpc_request *request,
                  void (*answer)(struct meta *meta, struct rpc_request *request))
{
    struct capacity_uv *c = &meta->capacity;
    struct capacity_wait *wait = calloc(1, sizeof(*wait));

    if (wait == NULL) {
        rpc_reply_failure(request, MORSEL_OVERLOAD, NULL);
        return;
    }
    wait->request = request;
    wait->answer = answer;
    wait->number = ++c->number;
    wait->until_ms = uv_now(meta->loop) + CAPACITY_WAIT_MS;
    list_init(&wait->node);
    list_push_back(&c->waiting, &wait->node);
    ask_servers(meta, wait->number);
    go_on(meta);
}

void capacity_told(struct meta *meta)
{
    go_on(meta);
}

void capacity_refuse_waiting(struct meta *meta, int status)
{
    struct list *node;

    while ((node = list_pop_front(&meta->capacity.waiting)) != NULL) {
        struct capacity_wait *wait = LIST_ENTRY(node, struct capacity_wait, node);

        rpc_reply_failure(wait->request, status, NULL);
        free(wait);
    }
}

static void answer_statfs(struct meta *meta, struct rpc_request *request)
{
    Morsel__StatfsReply reply = MORSEL__STATFS_REPLY__INIT;

    members_space(&meta->members, &reply.bytes_total, &reply.bytes_free);
    reply.inodes = ns_counters(meta->ns)->inodes;
    rpc_reply(request, &reply.base, NULL);
}

void handle_statfs(struct meta *meta, struct rpc_request *request)
{
    capacity_ask(meta, request, answer_statfs);
}
