/* What the set of voters is, for those who ask: daemons, `morsel status`, and who takes a server away. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "meta/cluster/voters_inner_uv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Who is there ---- */

/* So many of the set answer, not counting that server (UINT32_MAX: all count). Has it a vote? */
static uint32_t count_there(const struct voters_host *h, server_id without, bool *votes)
{
    const struct voter_set *set = &h->voters.now.set;
    uint32_t there = 0;

    *votes = false;
    for (uint32_t i = 0; i < h->roll.count; i++) {
        const struct voter_roll_item *item = &h->roll.items[i];
        const struct member *member = members_find(&h->meta->members, item->server);

        *votes |= item->server == without && voter_roll_state(item, set) != VOTER_JOINS;
        there += item->server != without && voter_roll_state(item, set) == VOTER_VOTES &&
                 (item->server == 0 || (member != NULL && member->up));
    }
    return there;
}

bool voters_can_decide(const struct meta *meta)
{
    const struct voters_host *h = meta->voters;
    bool votes;

    return count_there(h, UINT32_MAX, &votes) >= voter_majority(h->voters.now.set.count);
}

int voters_may_lose(const struct meta *meta, server_id server, struct errmsg *err)
{
    const struct voters_host *h = meta->voters;
    const struct voter_set *set = &h->voters.now.set;
    bool votes;
    uint32_t there = count_there(h, server, &votes), needed = voter_half(set->count);

    if (!votes || there >= needed) {
        return 0;
    }
    errmsg_set(err,
               "server %u votes, and its vote can be taken away only when %u of the %u voters "
               "answer: %u %s without it; bring others back first",
               server, needed, set->count, there, there == 1 ? "does" : "do");
    return MORSEL_INVAL;
}

/* ---- What is told ---- */

static const char *address_of(const struct meta *meta, server_id server)
{
    const struct member *member = server != 0 ? members_find(&meta->members, server) : NULL;

    return member != NULL ? member->record.address : "";
}

uint64_t voters_mark(struct meta *meta)
{
    struct voters_host *h = meta->voters;
    const struct voter_set *set = &h->voters.now.set;
    uint32_t crc = 0;

    if (h->voters.state == VOTERS_COMMITTING) {
        return 0;
    }
    if (h->mark_set == set->version && h->mark_members == meta->members.version) {
        return h->mark;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        const char *address;
        server_id server = 0;

        (void)voter_roll_server(&h->roll, set->ids[i], &server);
        address = address_of(meta, server);
        crc = crc32c(crc, &set->ids[i], sizeof(set->ids[i]));
        crc = crc32c(crc, &server, sizeof(server));
        crc = crc32c(crc, address, strlen(address) + 1);
    }
    h->mark_set = set->version;
    h->mark_members = meta->members.version;
    h->mark = set->version << 32 | crc;
    return h->mark;
}

/* One piece of memory. */
struct told
{
    Morsel__VoterSet set;
    Morsel__Voter *pointers[VOTERS_MAX];
    Morsel__Voter voters[VOTERS_MAX];
};

Morsel__VoterSet *voters_told(struct meta *meta)
{
    const struct voters_host *h = meta->voters;
    const struct voter_set *set = &h->voters.now.set;
    uint64_t mark = voters_mark(meta);
    struct told *t = mark != 0 ? malloc(sizeof(*t)) : NULL;

    if (t == NULL) {
        return NULL;
    }
    morsel__voter_set__init(&t->set);
    t->set.mark = mark;
    t->set.version = set->version;
    t->set.n_voters = set->count;
    t->set.voters = t->pointers;
    for (uint32_t i = 0; i < set->count; i++) {
        Morsel__Voter *voter = t->pointers[i] = &t->voters[i];

        morsel__voter__init(voter);
        voter->id = set->ids[i];
        (void)voter_roll_server(&h->roll, voter->id, &voter->server);
        voter->address = (char *)(uintptr_t)address_of(meta, voter->server);
    }
    return &t->set;
}

void voters_told_free(Morsel__VoterSet *told)
{
    free(told);
}

/* Has it been asked, and not answered to the end? */
static bool is_awaited(const struct voters *v, voter_id id)
{
    const struct voter_set *asked = v->state == VOTERS_READING ? &v->now.set : &v->now.next;
    uint32_t at = voter_set_find(asked, id);

    return (v->state == VOTERS_READING || v->state == VOTERS_WRITING) && at < asked->count &&
           !v->places[at].done;
}

static int compare_servers(const void *a, const void *b)
{
    const Morsel__VoterStatus *x = a, *y = b;

    return x->server < y->server ? -1 : x->server > y->server;
}

void voters_status_fill(struct meta *meta, Morsel__VotersStatus *status,
                        Morsel__VoterStatus *voters, Morsel__VoterStatus **pointers)
{
    const struct voters_host *h = meta->voters;
    const struct voters *v = &h->voters;

    morsel__voters_status__init(status);
    status->version = v->now.set.version;
    /* On its way to the disk it is no more than a change that is under way. */
    status->next = v->state == VOTERS_COMMITTING ? v->now.set.version : v->now.next.version;
    status->step = v->state;
    status->version_known = v->version_seen > v->now.version_last ? v->version_seen : 0;
    status->voters = pointers;
    status->n_voters = h->roll.count;
    for (uint32_t i = 0; i < h->roll.count; i++) {
        const struct voter_roll_item *item = &h->roll.items[i];
        Morsel__VoterStatus *voter = &voters[i];

        morsel__voter_status__init(voter);
        voter->id = item->id;
        voter->server = item->server;
        voter->state = voter_roll_state(item, &v->now.set);
        voter->awaited = is_awaited(v, item->id);
    }
    qsort(voters, h->roll.count, sizeof(voters[0]), compare_servers);
    for (uint32_t i = 0; i < h->roll.count; i++) {
        pointers[i] = &voters[i];
    }
}
