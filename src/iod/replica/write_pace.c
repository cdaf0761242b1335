/* A ring of clients that wait, and a bound that follows what recovery gets done. */
#include "iod/replica/write_pace.h"

#include "common/base/check.h"

#include <stdlib.h>

enum { US_PER_S = 1000000 };

void write_pace_init(struct write_pace *p)
{
    *p = (struct write_pace){ .rate = 0 };
    list_init(&p->ring);
}

/* ---- The bound ---- */

static void begin_looking(struct write_pace *p, uint64_t gave, uint64_t grown, uint64_t now_us)
{
    p->looking = true;
    p->gave = p->grown = p->let = p->seconds = 0;
    p->let_now = 0;
    p->gave_before = gave;
    p->grown_before = grown;
    p->looked_us = now_us;
}

/* What it would be, in bytes a second; 0: none is needed. */
static double wanted(const struct write_pace *p, uint32_t share)
{
    double most = p->gave * share / 100, rate;

    if (p->gave <= 0 || p->grown <= 0 || (p->rate == 0 && p->grown <= most) ||
        p->seconds * US_PER_S < WRITE_SETTLED_US) {
        return 0;
    }
    rate = p->let / p->grown * most / p->seconds;
    return rate > WRITE_RATE_MIN ? rate : WRITE_RATE_MIN;
}

/* A bound that would let through much more than comes is none. */
static void set_rate(struct write_pace *p, double rate)
{
    double step = (double)p->rate * WRITE_STEP_PERCENT / 100;

    if (rate <= 0 || (p->rate != 0 && list_empty(&p->ring) && rate * p->seconds > 2 * p->let)) {
        p->rate = 0;
        return;
    }
    if (p->rate != 0) {
        double least = (double)p->rate * 100 / WRITE_STEP_PERCENT;

        rate = rate > step ? step : rate < least ? least : rate;
    }
    p->rate = (uint64_t)rate;
}

void write_pace_look(struct write_pace *p, const struct replica_progress *progress, uint64_t now_us)
{
    uint64_t gave = progress->gave, grown = progress->grown;
    uint64_t took_us = now_us - p->looked_us;
    double keep = (double)WRITE_SPAN_US / (double)(WRITE_SPAN_US + took_us);

    if (!p->looking || gave < p->gave_before || grown < p->grown_before) {
        begin_looking(p, gave, grown, now_us);
        return;
    }
    if (now_us < p->looked_us + WRITE_LOOK_US) {
        return;
    }
    p->gave = p->gave * keep + (double)(gave - p->gave_before);
    p->grown = p->grown * keep + (double)(grown - p->grown_before);
    p->let = p->let * keep + (double)p->let_now;
    p->let_now = 0;
    p->gave_before = gave;
    p->grown_before = grown;
    p->looked_us = now_us;
    p->seconds = p->seconds * keep + (double)took_us / US_PER_S;
    set_rate(p, wanted(p, progress->share));
}

void write_pace_stop(struct write_pace *p)
{
    p->looking = false;
    p->rate = 0;
}

/* ---- Who waits ---- */

static void count(struct write_pace *p, uint64_t bytes, uint64_t now_us)
{
    uint64_t oldest_us = now_us > WRITE_CREDIT_US ? now_us - WRITE_CREDIT_US : 0;

    p->let_now += bytes;
    if (p->rate == 0) {
        p->next_us = now_us;
        return;
    }
    p->next_us = p->next_us > oldest_us ? p->next_us : oldest_us;
    p->next_us += (uint64_t)((double)bytes * US_PER_S / (double)p->rate);
    if (p->next_us > now_us + WRITE_WAIT_US) {
        p->next_us =
            now_us + WRITE_WAIT_US; /* Those who waited for too long are not made up for. */
    }
}

static struct write_client *client_of(struct write_pace *p, client_id id, uint64_t now_us)
{
    struct write_client *c;

    HASH_FIND(hh, p->clients, &id, sizeof(id), c);
    if (c != NULL || (c = calloc(1, sizeof(*c))) == NULL) {
        return c;
    }
    c->id = id;
    c->let_us = now_us;
    list_init(&c->node);
    list_init(&c->waiting);
    HASH_ADD(hh, p->clients, id, sizeof(c->id), c);
    if (!TABLE_ADDED(c)) {
        free(c);
        return NULL;
    }
    list_push_back(&p->ring, &c->node);
    return c;
}

bool write_pace_enter(struct write_pace *p, struct write_wait *wait, client_id client,
                      uint64_t bytes, uint64_t now_us)
{
    struct write_client *c;

    *wait = (struct write_wait){ .bytes = bytes, .since_us = now_us };
    list_init(&wait->node);
    if (list_empty(&p->ring) && (p->rate == 0 || p->next_us <= now_us)) {
        count(p, bytes, now_us);
        return true;
    }
    c = client_of(p, client, now_us);
    if (c == NULL) { /* No memory: it goes on. */
        count(p, bytes, now_us);
        return true;
    }
    wait->client = c;
    list_push_back(&c->waiting, &wait->node);
    return false;
}

void write_pace_leave(struct write_pace *p, struct write_wait *wait)
{
    struct write_client *c = wait->client;

    if (c == NULL) {
        return;
    }
    list_remove(&wait->node);
    wait->client = NULL;
    if (list_empty(&c->waiting)) {
        list_remove(&c->node);
        HASH_DEL(p->clients, c);
        free(c);
    }
}

static struct write_wait *oldest(const struct write_client *c)
{
    return LIST_ENTRY(list_front(&c->waiting), struct write_wait, node);
}

/* When it goes on whatever the bound is. */
static uint64_t latest_us(const struct write_client *c)
{
    uint64_t turn_us = c->let_us + WRITE_TURN_US, wait_us = oldest(c)->since_us + WRITE_WAIT_US;

    return turn_us < wait_us ? turn_us : wait_us;
}

static struct write_wait *let(struct write_pace *p, struct write_client *c, uint64_t now_us)
{
    struct write_wait *wait = oldest(c);

    count(p, wait->bytes, now_us);
    c->let_us = now_us;
    list_remove(&c->node);
    list_push_back(&p->ring, &c->node);
    write_pace_leave(p, wait);
    return wait;
}

struct write_wait *write_pace_next(struct write_pace *p, uint64_t now_us)
{
    if (!list_empty(&p->ring) && (p->rate == 0 || p->next_us <= now_us)) {
        return let(p, LIST_ENTRY(list_front(&p->ring), struct write_client, node), now_us);
    }
    LIST_FOREACH(node, &p->ring)
    {
        struct write_client *c = LIST_ENTRY(node, struct write_client, node);

        if (latest_us(c) <= now_us) {
            return let(p, c, now_us);
        }
    }
    return NULL;
}

uint64_t write_pace_due_us(const struct write_pace *p)
{
    uint64_t due_us = list_empty(&p->ring) ? UINT64_MAX : p->rate == 0 ? 0 : p->next_us;

    LIST_FOREACH(node, &p->ring)
    {
        uint64_t late_us = latest_us(LIST_ENTRY(node, struct write_client, node));

        due_us = late_us < due_us ? late_us : due_us;
    }
    return due_us;
}

void write_pace_check(const struct write_pace *p)
{
    unsigned ring = 0;

    LIST_FOREACH(node, &p->ring)
    {
        const struct write_client *c = LIST_ENTRY(node, struct write_client, node);

        CHECK(!list_empty(&c->waiting));
        LIST_FOREACH(each, &c->waiting)
        {
            CHECK(LIST_ENTRY(each, struct write_wait, node)->client == c);
        }
        ring++;
    }
    CHECK(ring == HASH_COUNT(p->clients));
}
