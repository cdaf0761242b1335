/* Two copies of a group, their cores with the messages between them, driven by hand. */
#ifndef MORSEL_TESTS_REPLICA_PAIR_H
#define MORSEL_TESTS_REPLICA_PAIR_H

#include "iod/replica/replica.h"

enum { MEMBERS = 2, LATE_MS = 1000000, MAIL_MAX = 64, SHOWN_MAX = 256 };

/* What a member was shown, but for what is carried out at once: records and words. */
struct shown
{
    uint32_t count;
    struct replica_action items[SHOWN_MAX];
    struct dirty_record notes[SHOWN_MAX]; /* The first of a NOTE. */
};

struct pair
{
    struct replica members[MEMBERS];
    struct mirror_lease leases[MEMBERS][REPLICAS_MAX];
    struct group_record records[MEMBERS];
    struct shown shown[MEMBERS];
    uint32_t mail_count;
    struct replica_message mail[MAIL_MAX];
    uint32_t to[MAIL_MAX];
    uint64_t now_ms, starts;
    bool reads; /* What the host is to send of an object stays with it. */
};

/* They have agreed, and nothing is open. */
struct pair *pair_new(void);
void pair_free(struct pair *p);

/* All that there is to do is shown. */
void pair_drain(struct pair *p);

/* The next one that the member was shown; it is of that type. */
struct replica_action pair_pop(struct pair *p, uint32_t i, enum replica_action_type type);

/* The next message, of that type, taken out; given to a member, who keeps its token or not; both. */
struct replica_message pair_fetch_mail(struct pair *p, enum replica_message_type type);
bool pair_give(struct pair *p, uint32_t to, const struct replica_message *m, uint64_t token);
void pair_deliver(struct pair *p, enum replica_message_type type, uint64_t token);

/* A member that was freed is there again; begins with what it has recorded. */
void pair_start(struct pair *p, uint32_t i);
void pair_begin(struct pair *p, uint32_t i);
void pair_note_and_sync_all(struct pair *p);

/* Who orders is asked to write 4 KiB of an object; the NOTE, the APPLY that a member was shown is done. */
void pair_ask(struct pair *p, op_sequence number, uint64_t token);
void pair_noted(struct pair *p, uint32_t i);
void pair_applied(struct pair *p, uint32_t i);

/* Token 100 + number of who orders, 200 + number of who takes. `first`: in that region. */
void pair_write_everywhere(struct pair *p, op_sequence number, bool first);

#endif
