/* Members that hold up changes (replica.h): what the log and `morsel status` say of them, and clients that wait where the
 * disk hangs. */
#include "common/base/status.h"
#include "iod/replica/copy_inner_uv.h"

#include <inttypes.h>

static bool has_others(const struct copy *copy)
{
    const struct group *g = &copy->replica->group;

    return (g->record.set & ~group_slow(g)) != 0;
}

static void name_slow(const struct copy *copy, uint32_t member)
{
    const struct copy_setup *s = &copy->setup;
    bool ours = member == s->me;

    log_warning(s->server->log,
                "group %u: %sstorage server %u%s holds up changes, for more than %" PRIu64
                " ms: %s; look at its disk and its link to the other servers",
                s->number, ours ? "this server, " : "", s->servers[member], ours ? "," : "",
                s->slow_limit_ms,
                has_others(copy)
                    ? "the others are to go on without it, and bring it up to date when "
                      "it is fast again"
                    : "no other one is there that has everything, so all wait for it");
}

/* The answer may never come from here: the pool, or the disk below it, may not come back. What was carried out
 * here is for others to say, who are asked for the same operation. */
static void send_clients_on(struct copy *copy)
{
    LIST_FOREACH_SAFE(node, &copy->tickets)
    {
        ticket_refuse(LIST_ENTRY(node, struct ticket, node), MORSEL_NOT_HERE, NULL);
    }
}

void copy_look_at_slow(struct copy *copy)
{
    const struct group *g = &copy->replica->group;
    group_set slow = group_slow(g), news = slow & (group_set)~copy->slow;
    bool left = group_is_out(g);

    for (uint32_t i = 0; i < copy->setup.count; i++) {
        if ((news >> i & 1) != 0) {
            name_slow(copy, i);
        }
    }
    if (left && !copy->left) {
        send_clients_on(copy);
    }
    copy->slow = slow;
    copy->left = left;
}

uint64_t copy_lag_ms(const struct copy *copy)
{
    return replica_lag_ms(copy->replica);
}

void copy_slow_words(const struct copy *copy, struct errmsg *words)
{
    const struct copy_setup *s = &copy->setup;
    const struct group *g = &copy->replica->group;
    group_set out = group_left_slow(g), slow = group_slow(g);
    uint32_t member = 0;

    words->text[0] = '\0';
    while (member < s->count && ((out | slow) >> member & 1) == 0) {
        member++;
    }
    if (member == s->count || s->servers[member] == 0) {
        return;
    }
    if (member == s->me) {
        errmsg_set(words, "its disk holds up changes, for more than %" PRIu64 " ms: look at it",
                   s->slow_limit_ms);
    } else if ((out >> member & 1) != 0) {
        errmsg_set(words,
                   "goes on without server %u, which held up changes for more than %" PRIu64
                   " ms: look at its disk and its link; it is taken back by itself",
                   s->servers[member], s->slow_limit_ms);
    } else {
        errmsg_set(words,
                   "waits for server %u, which holds up changes, for more than %" PRIu64
                   " ms: look at its disk and its link",
                   s->servers[member], s->slow_limit_ms);
    }
}
