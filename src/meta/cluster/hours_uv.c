/* Clocks for the hours of benefactors, and their records. */
#include "meta/cluster/hours_uv.h"

#include "common/base/status.h"

#include <time.h>

enum {
    KEEP_BATCH = 32, /* Records of one pulse. */
    KEEP_MS = 10000, /* So often is looked which are due, */
    MS_OF_SECOND = 1000,
    NS_OF_SECOND = 1000000000
};

static struct hours_time time_of(struct meta *meta)
{
    time_t wall = (time_t)(meta_clock_ns() / NS_OF_SECOND);
    struct tm local = { 0 };

    return (struct hours_time){
        .s = (int64_t)(meta_now_ms(meta) / MS_OF_SECOND),
        .local_s = (int64_t)wall + (localtime_r(&wall, &local) != NULL ? local.tm_gmtoff : 0)
    };
}

/* One that cannot be used is learned anew. */
static int load(void *data, const struct hours_record *record)
{
    struct meta *meta = data;
    struct hours_time now = time_of(meta);
    int rv = hours_load(&meta->hours, record, &now);

    return rv == MORSEL_CORRUPT ? 0 : rv;
}

int hours_open(struct meta *meta, struct errmsg *err)
{
    hours_init(&meta->hours);
    return ns_hours(meta->ns, load, meta, err);
}

void hours_came(struct meta *meta, donor_id id)
{
    struct hours_time now = time_of(meta);

    hours_come(&meta->hours, id, &now);
}

void hours_went(struct meta *meta, donor_id id)
{
    struct hours_time now = time_of(meta);

    hours_go(&meta->hours, id, &now);
}

uint64_t hours_away_ms(struct meta *meta, donor_id id)
{
    struct hours_time now = time_of(meta);

    return (uint64_t)hours_away_s(&meta->hours, id, &now) * MS_OF_SECOND;
}

/* What a full disk keeps from being written is written with the next hour. */
static uint32_t keep(struct meta *meta, int64_t now_s)
{
    struct hours_record records[KEEP_BATCH];
    uint32_t count = hours_keep(&meta->hours, now_s, records, KEEP_BATCH);

    for (uint32_t i = 0; i < count; i++) {
        struct meta_op op = { .kind = OP_DONOR_HOURS, .time_ns = meta_clock_ns() };
        struct errmsg err = { "" };
        int rv;

        op.hours = records[i];
        if ((rv = meta_execute(meta, &op, &err)) != 0) {
            log_debug(meta->log, "the hours of benefactor %u are not written down: %s",
                      records[i].id, status_words(rv));
        }
    }
    return count;
}

void hours_pulse(struct meta *meta, uint64_t now_ms)
{
    struct hours_time now;

    if (meta->hours_due_ms > now_ms) {
        return;
    }
    now = time_of(meta);
    hours_tick(&meta->hours, &now);
    if (keep(meta, now.s) < KEEP_BATCH) {
        meta->hours_due_ms = now_ms + KEEP_MS;
    }
}
