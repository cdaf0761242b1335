/* A copy is named as the one that counts (group_force.h): asked, shown, kept, told to the voter. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/vote/voter.h"
#include "meta/cluster/group_force.h"
#include "meta/cluster/groups_inner_uv.h"
#include "meta/cluster/voters_uv.h"

#include <inttypes.h>

enum {
    EPOCH_SHIFT = 27,
    VERSION_END = 1 << 20,
    NS_PER_S = 1000000000
}; /* As in iod/replica/group.h. */

/* ---- Since when a group is not well ---- */

void groups_note_unwell(struct groups_host *h)
{
    const struct groups_record *record = groups_record_now(h->meta);
    uint64_t now_ms = meta_now_ms(h->meta);

    (void)groups_look(h);
    for (uint32_t i = 0; i < record->count; i++) {
        if (mend_is_complete(&h->mend, &record->items[i])) {
            h->unwell_ms[i] = 0;
        } else if (h->unwell_ms[i] == 0) {
            h->unwell_ms[i] = now_ms;
        }
    }
}

uint64_t groups_unwell_ms(const struct groups_host *h, uint32_t at)
{
    return h->unwell_ms[at] == 0 ? 0 : meta_now_ms(h->meta) - h->unwell_ms[at] + 1;
}

/* ---- The manager's voter ---- */

/* Of all copies that were named the first one, by version, that the voter has not been told of; NULL: there is none. */
static const struct group_made *next_untaught(const struct groups_host *h)
{
    const struct groups_record *record = groups_record_now(h->meta);
    const struct group_made *next = NULL;

    for (uint32_t i = 0; i < record->count; i++) {
        const struct group_made *g = &record->items[i];

        if (g->forced > h->taught && g->forced <= h->durable &&
            (next == NULL || g->forced < next->forced)) {
            next = g;
        }
    }
    return next;
}

static void on_learned(struct voter_question *q, const struct vote_answer *answer)
{
    struct groups_host *h = CONTAINER_OF(q, struct groups_host, teaching);

    if (answer->type == VOTE_KNOWN && h->teaches > h->taught) {
        h->taught = h->teaches;
    }
    h->teaches = 0;
}

void groups_teach(struct groups_host *h)
{
    const struct group_made *g = h->teaches != 0 ? NULL : next_untaught(h);
    struct vote_request learn = { .type = VOTE_LEARN, .set_version = 1 };
    struct voter_event event = { .type = VOTER_ASKED, .request = &learn };

    if (g == NULL || h->meta->voter.voter == NULL) {
        return;
    }
    learn.voter = voter_name(h->meta->voter.voter);
    learn.epoch = g->forced << EPOCH_SHIFT;
    learn.subject.servers[0] = g->number;
    learn.value = (struct vote_value){ .count = 1, .bytes = { (uint8_t)(1U << g->forced_place) } };
    learn.before = learn.value; /* Nobody asks what was before: it is far below. */
    h->teaches = g->forced;
    h->teaching.answered = on_learned;
    voter_uv_ask(&h->meta->voter, &event, &h->teaching);
}

/* Its servers are not told of a copy that was named before the voter is. */
bool groups_force_known(const struct groups_host *h, server_id server)
{
    const struct groups_record *record = groups_record_now(h->meta);

    for (uint32_t i = 0; i < record->count; i++) {
        if (record->items[i].forced > h->taught && group_concerns(&record->items[i], server)) {
            return false;
        }
    }
    return true;
}

/* ---- What is asked for ---- */

static void refuse(const struct group_made *g, server_id server, struct force_answer answer,
                   struct errmsg *err)
{
    switch (answer.no) {
    case FORCE_YES:
        return;
    case FORCE_NOT_HELD:
        errmsg_set(err, "server %u has no copy of group %u: `morsel status` lists its servers",
                   server, g->number);
        return;
    case FORCE_GIVEN_AWAY:
        errmsg_set(err, "server %u lost its place in group %u, and server %u has it now", server,
                   g->number, answer.about);
        return;
    case FORCE_DOWN:
        errmsg_set(
            err,
            "server %u is down, or has not said yet how its copy of group %u is: start it first",
            server, g->number);
        return;
    case FORCE_CLOSED:
        errmsg_set(err, "the copy of group %u on server %u is closed; `morsel status` says why",
                   g->number, server);
        return;
    case FORCE_UNHEARD:
        errmsg_set(err,
                   "server %u has not said yet how its copy of group %u is: try again in a moment",
                   answer.about, g->number);
        return;
    case FORCE_SERVED:
        errmsg_set(err,
                   "the copy of group %u on server %u serves: nothing has to be forced, the others "
                   "are brought up to date by themselves",
                   g->number, answer.about);
        return;
    case FORCE_BETTER:
        errmsg_set(err,
                   "the copy of group %u on server %u has lost nothing: name that one, if it does "
                   "not go on by itself",
                   g->number, answer.about);
        return;
    case FORCE_REACHED:
        errmsg_set(err,
                   "server %u is not heard here, and other servers reach it: it runs, and may "
                   "serve group %u; mend its way to the manager, or stop it first",
                   answer.about, g->number);
        return;
    case FORCE_WAITS:
        errmsg_set(err,
                   "the servers that are needed for group %u are there: it goes on by itself in a "
                   "moment, or see `morsel status` for what they wait for",
                   g->number);
        return;
    }
}

int groups_force(struct meta *meta, group_number number, server_id server, uint64_t version,
                 struct errmsg *err)
{
    struct groups_host *h = meta->groups;
    const struct groups_record *now = groups_record_now(meta);
    const struct group_made *g = groups_record_find(now, number);
    struct force_answer answer;
    int rv;

    if (g == NULL) {
        errmsg_set(err, "there is no group %u: `morsel status` shows those that are not well",
                   number);
        return MORSEL_INVAL;
    }
    answer = group_force_ask(groups_look(h), g, server, voters_can_decide(meta));
    if (answer.no != FORCE_YES) {
        refuse(g, server, answer, err);
        return MORSEL_INVAL;
    }
    if (version == 0) {
        return 0;
    }
    if (version != now->version || now->version + 1 >= VERSION_END) {
        errmsg_set(err, "the groups have changed since that was shown: look again");
        return MORSEL_INVAL;
    }
    *h->next = *now;
    h->next->version++;
    group_force_make(&h->next->items[g - now->items], server, h->next->version,
                     meta_clock_ns() / NS_PER_S);
    if ((rv = groups_keep(h, h->next, err)) == 0) {
        log_warning(
            meta->log,
            "group %u: by command the copy on server %u counts from now on, whatever others "
            "had: what was written and is not there is lost; the others begin without a byte",
            number, server);
    }
    return rv;
}

/* ---- What is shown ---- */

void groups_force_fill(struct meta *meta, group_number number, Morsel__RecoverReply *reply,
                       struct force_shown *shown)
{
    struct groups_host *h = meta->groups;
    const struct groups_record *record = groups_record_now(meta);
    const struct group_made *g = groups_record_find(record, number);

    reply->version = record->version;
    reply->unwell_ms = g == NULL ? 0 : groups_unwell_ms(h, (uint32_t)(g - record->items));
    for (uint32_t i = 0; g != NULL && i < g->now.count; i++) {
        const struct member *m = members_find(&meta->members, g->now.servers[i]);
        const struct copy_said *said = group_force_said(groups_look(h), g, g->now.servers[i]);
        Morsel__ForceCopy *to = &shown->items[reply->n_copies];

        if (m == NULL) {
            continue;
        }
        morsel__force_copy__init(to);
        to->server = m->record.id;
        to->up = m->up;
        to->away_ms = m->up ? 0 : groups_away_ms(meta, m);
        if (said != NULL && m->up) {
            to->copy = &shown->copies[reply->n_copies];
            groups_copy_say(to->copy, said);
        }
        shown->pointers[reply->n_copies++] = to;
    }
    reply->copies = shown->pointers;
}
