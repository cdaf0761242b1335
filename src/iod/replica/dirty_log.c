/* Two sets: what is open, and what was given in this session. */
#include "iod/replica/dirty_log.h"

#include "common/base/check.h"

bool dirty_log_init(struct dirty_log *l, uint32_t objects_max, uint32_t spans_max)
{
    *l = (struct dirty_log){ .session = 0 };
    l->open = changed_new(objects_max, spans_max, BLOCK_BYTES);
    l->given = changed_new(objects_max, spans_max, BLOCK_BYTES);
    return l->open != NULL && l->given != NULL;
}

void dirty_log_free(struct dirty_log *l)
{
    changed_free(l->open);
    changed_free(l->given);
    *l = (struct dirty_log){ .session = 0 };
}

void dirty_log_check(const struct dirty_log *l)
{
    changed_check(l->open);
    changed_check(l->given);
    CHECK_IMPLIES(l->session == 0, !l->under_way && changed_empty(l->given));
    CHECK_IMPLIES(l->under_way, l->number > 0);
}

void dirty_log_add(struct dirty_log *l, const struct change *change)
{
    changed_add(l->open, change);
}

void dirty_log_add_all(struct dirty_log *l, const struct changed *from)
{
    changed_add_all(l->open, from);
}

void dirty_log_copy(const struct dirty_log *l, struct changed *to)
{
    changed_add_all(to, l->open);
    changed_add_all(to, l->given);
    if (l->under_way) {
        changed_add(to, &l->piece);
    }
}

/* ---- Recovery ---- */

void dirty_log_stop(struct dirty_log *l)
{
    changed_add_all(l->open, l->given);
    changed_clear(l->given);
    if (l->under_way) {
        changed_add(l->open, &l->piece);
    }
    l->under_way = false;
    l->session = 0;
}

void dirty_log_begin(struct dirty_log *l, uint64_t session)
{
    CHECK(session != 0);
    if (session != l->session) {
        dirty_log_stop(l);
        l->session = session;
        l->number = 0;
    }
}

bool dirty_log_take(struct dirty_log *l, struct change *piece)
{
    if (l->session == 0 || l->under_way ||
        !changed_take(l->open, DIRTY_PIECE_BYTES_MAX, &l->piece)) {
        return false;
    }
    *piece = l->piece;
    l->under_way = true;
    l->number++;
    return true;
}

void dirty_log_answered(struct dirty_log *l, uint64_t session, uint64_t number)
{
    if (session == l->session && number == l->number && l->under_way) {
        changed_add(l->given, &l->piece);
        l->under_way = false;
    }
}

bool dirty_log_all_given(const struct dirty_log *l, uint64_t session)
{
    return session != 0 && session == l->session && !l->under_way && changed_empty(l->open);
}

void dirty_log_settle(struct dirty_log *l)
{
    changed_clear(l->open);
    changed_clear(l->given);
    l->under_way = false;
    l->session = 0;
}

enum dirty_verdict dirty_intake_judge(struct dirty_intake *in, uint64_t session, uint64_t number)
{
    if (session != in->session || session == 0 || number == 0 || number > in->number + 1) {
        return DIRTY_STALE;
    }
    if (number <= in->number) {
        return number == in->number ? DIRTY_AGAIN : DIRTY_STALE;
    }
    in->number = number;
    return DIRTY_TAKE;
}

enum generation_verdict generation_judge(uint64_t here, uint64_t named, bool deletion)
{
    CHECK(named != 0);
    if (deletion) {
        return here != 0 && here <= named ? GENERATION_DELETE : GENERATION_NOTHING;
    }
    if (here > named) {
        return GENERATION_REFUSE;
    }
    return here == 0 || here == named ? GENERATION_DO : GENERATION_RENEW;
}
