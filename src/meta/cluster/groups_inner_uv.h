/* What the files of the groups' host share: keeping and telling (groups_keep_uv.c), who gets places
 * (groups_mend_uv.c), space is evened out (groups_rebalance_uv.c), which copy was named (groups_force_uv.c), status (groups_status_uv.c), and
 * comparisons (groups_verify_uv.c). */
#ifndef MORSEL_META_CLUSTER_GROUPS_INNER_UV_H
#define MORSEL_META_CLUSTER_GROUPS_INNER_UV_H

#include "meta/cluster/copies_rule.h"
#include "meta/cluster/group_mend.h"
#include "meta/cluster/groups_uv.h"

/* How the rebuilding of a copy began, as its server told it first; and how much there was to come then, as far as that is known by now. */
struct rebuild_begin
{
    group_number group;
    uint64_t since_ms, bytes_left;
    uint64_t given; /* copy_said.bytes_given, then. */
};

/* A comparison of copies that somebody has asked for. */
struct group_verify
{
    group_number group;
    uint64_t asked_ms;
    Morsel__VerifyState said; /* As a server said last. */
};

struct groups_host
{
    struct meta *meta;
    struct group_roll roll;
    struct groups_record *next; /* Room for a plan. */
    struct mend_world mend;     /* Room for what is known. */
    struct rebuild_begin
        *begins[SERVERS_MAX]; /* By place among the members: as many as its copies. */
    char (*addresses)[MEMBER_ADDRESS_BYTES_MAX + 1]; /* By place among the members: at which its
                                                        groups look for it. */
    bool ahead_of_us[SERVERS_MAX]; /* Likewise: it knows of a newer table than there is. */
    struct sync_waiter waiter;
    uint64_t persisting; /* Version that is on its way to the disk; 0: none. */
    uint64_t durable;    /* Version that is on disk, and told. */
    server_id ahead;     /* The last that knew of a newer table than there is; 0: none. */
    bool parking;        /* groups_want() or groups_default() has just said MORSEL_AGAIN. */
    bool patient;        /* Nobody waits any more: what is not told is refused. */
    uint32_t rule;       /* How many copies new files get (copies_rule.h). */
    uint64_t waited;     /* Version of the table for whose groups somebody has waited in vain;
                            UINT64_MAX: nobody has. */
    struct list parked;
    uint64_t unwell_ms
        [GROUPS_KEPT_MAX]; /* By place in the record: since when, by meta_now_ms(); 0: it is well. */
    uint64_t taught;       /* The manager's voter knows of all copies that were named up to it. */
    uint64_t teaches;      /* It is being told of the one of that version; 0: of none. */
    struct voter_question teaching;
    uv_timer_t timer;
    uv_timer_t mend_timer;
    struct group_verify *verifies; /* Of each group the last one. */
    size_t verifies_count, verifies_room;
    struct rebalance_shown *shown; /* A plan; NULL: none was. */
    uint32_t handles;              /* Still to be closed. */
    void (*closed)(struct meta *meta);
};

const struct groups_record *groups_record_now(const struct meta *meta);

/* 0: it is in effect, and told when it is on disk. `record` may be the host's `next`. */
int groups_keep(struct groups_host *h, const struct groups_record *record, struct errmsg *err);

/* Make all groups that are wanted, for the servers that are up. */
void groups_plan(struct groups_host *h);

/* What is known just now, for group_mend.h. */
struct mend_world *groups_look(struct groups_host *h);

/* False: nobody has asked for one. */
bool groups_verify_fill(const struct groups_host *h, group_number group, Morsel__VerifyState *to);

/* ---- groups_rebalance_uv.c ---- */

void groups_move_say(Morsel__RebalanceMove *to, group_number group, server_id from, server_id taker,
                     uint64_t bytes);
void groups_rebalance_free(struct groups_host *h);

/* ---- groups_force_uv.c ---- */

void groups_note_unwell(struct groups_host *h);
uint64_t groups_unwell_ms(const struct groups_host *h, uint32_t at); /* 0: it is well. */

/* The manager's voter hears of copies that were named; until it has, their servers are not told. */
void groups_teach(struct groups_host *h);
bool groups_force_known(const struct groups_host *h, server_id server);

/* How long it has been away, and what a copy has said, in the words of the wire. */
uint64_t groups_away_ms(struct meta *meta, const struct member *m);
void groups_copy_say(Morsel__CopyState *to, const struct copy_said *from);

/* Tell the members who is to leave. */
void groups_mark_leavers(struct groups_host *h);

/* A moment has passed. */
void groups_mend_tick(uv_timer_t *timer);

/* `holders` are borrowed. */
void groups_fill(Morsel__Group *to, const struct group_made *from, struct group_holders *holders);

#endif
