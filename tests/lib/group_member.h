/* One member of a group, for tests: its core alone, whose others are played. */
#ifndef MORSEL_TESTS_LIB_GROUP_MEMBER_H
#define MORSEL_TESTS_LIB_GROUP_MEMBER_H

#include "iod/replica/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ID = 7, BOOT = 3, NOW = 100000 };

/* One member, with what it did last. */
struct fixture
{
    struct group group;
    struct mirror_lease leases[REPLICAS_MAX];
    struct group_actions out;
    uint64_t now_ms;
    uint64_t numbers[REPLICAS_MAX];
};

static inline void feed(struct fixture *f, struct group_event event)
{
    f->out.count = 0;
    event.now_ms = f->now_ms;
    group_step(&f->group, &event, &f->out);
}

static inline void pass(struct fixture *f, uint64_t ms)
{
    f->now_ms += ms;
    feed(f, (struct group_event){ .type = GROUP_TICK });
}

static inline void persisted(struct fixture *f)
{
    feed(f, (struct group_event){ .type = GROUP_PERSISTED });
}

static inline const struct group_action *done(const struct fixture *f, enum group_action_type type)
{
    for (uint32_t i = 0; i < f->out.count; i++) {
        if (f->out.items[i].type == type) {
            return &f->out.items[i];
        }
    }
    return NULL;
}

static inline void start_on(struct fixture *f, uint32_t count, uint32_t me,
                            const struct group_record *record, bool intent_empty)
{
    const struct mirror_lease *leases[REPLICAS_MAX];
    struct group_event event = { .type = GROUP_START, .record = record, .boot = BOOT, .start = 1 };

    memset(f, 0, sizeof(*f));
    f->now_ms = NOW;
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        mirror_lease_init(&f->leases[i], 1, NOW);
        leases[i] = &f->leases[i];
    }
    event.intent_empty = intent_empty;
    group_init(&f->group, ID, count, me, leases);
    feed(f, event);
}

static inline void start_new(struct fixture *f, uint32_t count, uint32_t me)
{
    struct group_record record;

    group_record_new(&record, count, BOOT);
    start_on(f, count, me, &record, true);
    persisted(f);
}

/* A word of `from`, in sync in epoch 1 with everybody, complete. */
static inline struct group_word word_of(struct fixture *f, uint32_t from)
{
    struct group_word w = { .group = ID, .from = from, .start = 1, .epoch = 1, .complete = true };

    w.number = ++f->numbers[from];
    w.set = (group_set)((1U << f->group.count) - 1);
    w.begun = true;
    w.verifier = 1;
    return w;
}

static inline void hear(struct fixture *f, const struct group_word *word)
{
    feed(f, (struct group_event){ .type = GROUP_WORD, .word = word });
}

/* It leads: the others, as many as there are, do what it says. */
static inline void others_follow(struct fixture *f)
{
    for (uint32_t i = 0; i < f->group.count; i++) {
        struct group_word w = word_of(f, i);

        if (i == f->group.me) {
            continue;
        }
        w.epoch = f->group.record.epoch;
        w.set = f->group.record.set;
        w.promised = f->group.leading;
        w.equal = f->group.phase >= GROUP_EQUALISING ? f->group.leading : 0;
        w.joined = f->group.phase == GROUP_COMMITTING ? f->group.leading : 0;
        w.agreed = w.joined != 0;
        hear(f, &w);
    }
}

static inline void copied(struct fixture *f)
{
    feed(f, (struct group_event){ .type = GROUP_COPIED, .round = f->group.promised });
}

/* Member 0 and the others agree. */
static inline void agree(struct fixture *f)
{
    others_follow(f); /* Heard: a round begins. */
    others_follow(f); /* Promised. */
    copied(f);
    others_follow(f); /* Equal. */
    others_follow(f); /* Joined. */
    assert_true(group_orders(&f->group));
    assert_true(group_all_joined(&f->group));
}

static inline void grant(struct fixture *f, uint32_t from)
{
    struct mirror_exceptions none = { .count = 0 };

    mirror_lease_granted(&f->leases[from], 1, f->now_ms, &none, f->now_ms);
}

#endif
