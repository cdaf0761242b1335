/* The host of two members: records and words are carried out at once, all else is kept for the test. */
#include "tests/lib/replica_pair.h"

#include "common/base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BOOT = 3, NOW = 100000 };

static void hear(struct pair *p, uint32_t from)
{
    struct group_word word;

    group_word(&p->members[from].group, &word);
    replica_heard(&p->members[1 - from], &word, p->now_ms);
}

static bool show(struct pair *p, uint32_t i)
{
    struct shown *shown = &p->shown[i];
    struct replica_action *a = &shown->items[shown->count];

    if (!replica_next(&p->members[i], p->now_ms, a)) {
        return false;
    }
    if (a->type == REPLICA_WORD) {
        hear(p, i);
    } else if (a->type == REPLICA_RECORD) {
        p->records[i] = a->record;
        replica_recorded(&p->members[i], p->now_ms);
    } else if (a->type == REPLICA_SEND) {
        assert_true(p->mail_count < MAIL_MAX);
        p->to[p->mail_count] = a->member;
        p->mail[p->mail_count++] = a->message;
        if (a->message.type == REPLICA_PIECE && !p->reads) {
            replica_gave(&p->members[i], a->member, &a->message, 0);
        }
    } else {
        if (a->type == REPLICA_NOTE) {
            shown->notes[shown->count] = a->notes[0];
        }
        assert_true(++shown->count < SHOWN_MAX);
    }
    return true;
}

void pair_drain(struct pair *p)
{
    while (show(p, 0) || show(p, 1)) {
    }
    replica_check(&p->members[0]);
    replica_check(&p->members[1]);
}

struct replica_action pair_pop(struct pair *p, uint32_t i, enum replica_action_type type)
{
    struct shown *shown = &p->shown[i];
    struct replica_action a = shown->items[0];

    assert_true(shown->count > 0);
    assert_int_equal(a.type, type);
    shown->count--;
    memmove(shown->items, shown->items + 1, shown->count * sizeof(shown->items[0]));
    memmove(shown->notes, shown->notes + 1, shown->count * sizeof(shown->notes[0]));
    return a;
}

struct replica_message pair_fetch_mail(struct pair *p, enum replica_message_type type)
{
    struct replica_message m = p->mail[0];

    assert_true(p->mail_count > 0);
    assert_int_equal(m.type, type);
    p->mail_count--;
    memmove(p->mail, p->mail + 1, p->mail_count * sizeof(p->mail[0]));
    memmove(p->to, p->to + 1, p->mail_count * sizeof(p->to[0]));
    return m;
}

bool pair_give(struct pair *p, uint32_t to, const struct replica_message *m, uint64_t token)
{
    bool kept = replica_receive(&p->members[to], m, token, p->now_ms);

    pair_drain(p);
    return kept;
}

void pair_deliver(struct pair *p, enum replica_message_type type, uint64_t token)
{
    uint32_t to = p->to[0];
    struct replica_message m = pair_fetch_mail(p, type);

    (void)pair_give(p, to, &m, token);
}

void pair_start(struct pair *p, uint32_t i)
{
    const struct mirror_lease *leases[REPLICAS_MAX];
    struct replica_setup setup = { .id = 7, .count = MEMBERS, .me = i };

    for (uint32_t k = 0; k < REPLICAS_MAX; k++) {
        mirror_lease_init(&p->leases[i][k], ++p->starts, p->now_ms);
        leases[k] = &p->leases[i][k];
    }
    setup.leases = leases;
    setup.clients_max = 8;
    setup.objects_max = 4 * REPLICA_PAGE_MAX;
    setup.ops_max = setup.spans_max = 64;
    assert_true(replica_init(&p->members[i], &setup));
}

void pair_begin(struct pair *p, uint32_t i)
{
    struct group_record record = p->records[i];

    replica_start(&p->members[i], &record, BOOT, ++p->starts, p->now_ms);
}

void pair_note_and_sync_all(struct pair *p)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        while (p->shown[i].count > 0) {
            struct replica_action a = pair_pop(p, i, p->shown[i].items[0].type);

            if (a.type == REPLICA_SYNC_HERE) {
                replica_synced(&p->members[i], a.id, p->now_ms);
            } else if (a.type == REPLICA_REWRITE) {
                replica_rewritten(&p->members[i], p->now_ms);
            }
            pair_drain(p);
        }
    }
}

static bool are_joined(const struct pair *p)
{
    return p->members[0].group.joined != 0 && p->members[1].group.joined != 0;
}

/* They have agreed, and nothing is open. */
static void open_pair(struct pair *p)
{
    memset(p, 0, sizeof(*p));
    p->now_ms = NOW;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        group_record_new(&p->records[i], MEMBERS, BOOT);
        pair_start(p, i);
        pair_begin(p, i);
    }
    pair_drain(p);
    for (unsigned k = 0; k < 100 && !(are_joined(p) && p->shown[0].count == 0); k++) {
        pair_note_and_sync_all(p);
        while (p->mail_count > 0) {
            pair_deliver(p, p->mail[0].type, 0);
        }
    }
    assert_true(are_joined(p));
    pair_note_and_sync_all(p);
    assert_int_equal(p->mail_count, 0);
}

void pair_free(struct pair *p)
{
    replica_free(&p->members[0]);
    replica_free(&p->members[1]);
    free(p);
}

struct pair *pair_new(void)
{
    struct pair *p = calloc(1, sizeof(*p));

    CHECK(p != NULL);
    open_pair(p);
    return p;
}

void pair_ask(struct pair *p, op_sequence number, uint64_t token)
{
    struct order_change change = { .op = { 1, number }, .object = { 5, 0 }, .generation = 1 };

    change.span = (struct span){ 0, 4096 };
    change.not_after_ms = LATE_MS;
    change.verifier = 1;
    assert_int_equal(replica_change(&p->members[0], &change, token), ORDER_YES);
    pair_drain(p);
}

void pair_noted(struct pair *p, uint32_t i)
{
    (void)pair_pop(p, i, REPLICA_NOTE);
    replica_noted(&p->members[i]);
    pair_drain(p);
}

void pair_applied(struct pair *p, uint32_t i)
{
    replica_applied(&p->members[i], pair_pop(p, i, REPLICA_APPLY).id);
    pair_drain(p);
}

void pair_write_everywhere(struct pair *p, op_sequence number, bool first)
{
    pair_ask(p, number, 100 + number);
    pair_deliver(p, REPLICA_FORWARD, 200 + number);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (first) {
            pair_noted(p, i);
        }
        pair_applied(p, i);
    }
    assert_int_equal(pair_pop(p, 1, REPLICA_RELEASE).token, 200 + number);
    assert_int_equal(p->shown[0].count, 0); /* Not all have it. */
    pair_deliver(p, REPLICA_ACK, 0);
    assert_int_equal(pair_pop(p, 0, REPLICA_ANSWER).token, 100 + number);
}
