/* Comparisons of copies: which are wanted, and how far servers have said that they are. In memory alone. */
#include "common/base/status.h"
#include "common/daemon/datadir_file.h"
#include "meta/cluster/groups_inner_uv.h"

#include <inttypes.h>
#include <stdlib.h>

static struct group_verify *find(const struct groups_host *h, group_number group)
{
    for (size_t i = 0; i < h->verifies_count; i++) {
        if (h->verifies[i].group == group) {
            return &h->verifies[i];
        }
    }
    return NULL;
}

/* As many as there are groups, at most. NULL: out of memory. */
static struct group_verify *find_or_add(struct groups_host *h, group_number group)
{
    struct group_verify *v = find(h, group);

    if (v == NULL && h->verifies_count == h->verifies_room) {
        size_t room = groups_record_now(h->meta)->count;
        struct group_verify *more = realloc(h->verifies, room * sizeof(*more));

        if (more == NULL) {
            return NULL;
        }
        h->verifies = more;
        h->verifies_room = room;
    }
    return v != NULL ? v : &h->verifies[h->verifies_count++];
}

int groups_verify(struct meta *meta, group_number group, uint64_t *run_out, uint32_t *count_out,
                  struct errmsg *err)
{
    struct groups_host *h = meta->groups;
    const struct groups_record *record = groups_record_now(meta);

    *count_out = 0;
    random_bytes(run_out, sizeof(*run_out));
    *run_out |= 1;
    for (uint32_t i = 0; i < record->count; i++) {
        struct group_verify *v;

        if (group != 0 && record->items[i].number != group) {
            continue;
        }
        v = find_or_add(h, record->items[i].number);
        if (v == NULL) {
            return MORSEL_NOMEM;
        }
        *v = (struct group_verify){ .group = record->items[i].number };
        v->asked_ms = meta_now_ms(meta);
        morsel__verify_state__init(&v->said);
        v->said.group = v->group;
        v->said.run = *run_out;
        ++*count_out;
    }
    if (group != 0 && *count_out == 0) {
        errmsg_set(err, "there is no group %u: `morsel status --json` lists them", group);
        return MORSEL_INVAL;
    }
    return 0;
}

static void log_done(struct meta *meta, const Morsel__VerifyState *s)
{
    log_info(meta->log,
             "group %u: its copies were compared: %" PRIu64 " objects, %" PRIu64 " bytes; %" PRIu64
             " blocks did not match their checksums, %" PRIu64
             " places differed with right ones; %" PRIu64 " were repaired, %" PRIu64 " not",
             s->group, s->objects, s->bytes, s->damaged, s->differing, s->repaired, s->broken);
}

void groups_verified(struct meta *meta, server_id server, Morsel__VerifyState *const *said,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct group_verify *v = find(meta->groups, said[i]->group);

        if (v == NULL || v->said.run != said[i]->run || v->said.done) {
            continue;
        }
        v->said = *said[i];
        v->said.base.n_unknown_fields = 0;
        v->said.base.unknown_fields = NULL;
        v->said.server = server;
        if (v->said.done) {
            log_done(meta, &v->said);
        }
    }
}

bool groups_verify_told(struct meta *meta, server_id server, Morsel__HeartbeatReply *reply)
{
    const struct groups_record *record = groups_record_now(meta);
    struct groups_host *h = meta->groups;

    if (h->verifies_count == 0) {
        return true;
    }
    reply->verify_group = calloc(h->verifies_count, sizeof(*reply->verify_group));
    reply->verify_run = calloc(h->verifies_count, sizeof(*reply->verify_run));
    for (uint32_t i = 0;
         i < record->count && reply->verify_group != NULL && reply->verify_run != NULL; i++) {
        const struct group_verify *v = find(h, record->items[i].number);

        if (v != NULL && !v->said.done && group_concerns(&record->items[i], server) &&
            reply->n_verify_group < SERVER_GROUPS_MAX) {
            reply->verify_group[reply->n_verify_group++] = v->group;
            reply->verify_run[reply->n_verify_run++] = v->said.run;
        }
    }
    return reply->verify_group != NULL && reply->verify_run != NULL;
}

bool groups_verify_fill(const struct groups_host *h, group_number group, Morsel__VerifyState *to)
{
    const struct group_verify *v = find(h, group);

    if (v != NULL) {
        *to = v->said;
        to->asked_ms = meta_now_ms(h->meta) - v->asked_ms;
    }
    return v != NULL;
}
