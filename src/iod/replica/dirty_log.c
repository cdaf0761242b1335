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
    CHECK_IMPLIES(l->session == 0, l->under_way == 0 && !l->has_rest && changed_empty(l->given));
    CHECK(l->under_way <= RECOVERY_PIECES_MAX && l->under_way <= l->number);
}

void dirty_log_add(struct dirty_log *l, const struct change *change)
{
    changed_add(l->open, change);
}

void dirty_log_add_all(struct dirty_log *l, const struct changed *from)
{
    changed_add_all(l->open, from);
}

const struct change *dirty_log_piece(const struct dirty_log *l, uint64_t number)
{
    return number <= l->number && number + l->under_way > l->number
               ? &l->pieces[number % RECOVERY_PIECES_MAX]
               : NULL;
}

bool dirty_log_each_under_way(const struct dirty_log *l,
                              bool (*visit)(void *data, const struct change *change), void *data)
{
    for (uint32_t i = 0; i < l->under_way; i++) {
        if (!visit(data, dirty_log_piece(l, l->number - i))) {
            return false;
        }
    }
    return !l->has_rest || visit(data, &l->rest);
}

static bool add_one(void *data, const struct change *change)
{
    changed_add(data, change);
    return true;
}

static void add_under_way(const struct dirty_log *l, struct changed *to)
{
    (void)dirty_log_each_under_way(l, add_one, to);
}

void dirty_log_copy(const struct dirty_log *l, struct changed *to)
{
    changed_add_all(to, l->open);
    changed_add_all(to, l->given);
    add_under_way(l, to);
}

/* ---- Recovery ---- */

void dirty_log_drop(struct dirty_log *l)
{
    add_under_way(l, l->open);
    l->under_way = 0;
    l->has_rest = false;
}

void dirty_log_stop(struct dirty_log *l)
{
    changed_add_all(l->open, l->given);
    changed_clear(l->given);
    dirty_log_drop(l);
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

/* Everything is a piece of its own: what is before it must not be answered with it. */
static bool may_take(const struct dirty_log *l)
{
    const struct change everything = { .everything = true };

    return l->session != 0 && l->under_way < RECOVERY_PIECES_MAX &&
           (l->under_way == 0 || !changed_covers(l->open, &everything));
}

bool dirty_log_take(struct dirty_log *l, struct change *piece)
{
    if (!may_take(l)) {
        return false;
    }
    if (l->has_rest) {
        *piece = l->rest;
        l->has_rest = false;
    } else if (!changed_take(l->open, OBJECT_BYTES_MAX, piece)) {
        return false;
    }
    l->number++;
    l->under_way++;
    l->pieces[l->number % RECOVERY_PIECES_MAX] = *piece;
    return true;
}

/* The rest comes next, so that what was open when a lap of replica.h began is given before what changes
 * meanwhile. */
void dirty_log_cut(struct dirty_log *l, uint64_t number, uint64_t end)
{
    struct change *piece = &l->pieces[number % RECOVERY_PIECES_MAX];
    struct change rest = *piece;

    CHECK(dirty_log_piece(l, number) == piece && !piece->everything && end < OBJECT_BYTES_MAX);
    CHECK(piece->whole || (piece->span.start < end && end < piece->span.end));
    rest.whole = false;
    rest.span.start = end;
    rest.span.end = piece->whole ? OBJECT_BYTES_MAX : piece->span.end;
    piece->whole = false;
    piece->span.end = end;
    if (l->has_rest) {
        changed_add(l->open, &rest);
    } else {
        l->rest = rest;
        l->has_rest = true;
    }
}

void dirty_log_answered(struct dirty_log *l, uint64_t session, uint64_t number)
{
    if (session != l->session || dirty_log_piece(l, number) == NULL) {
        return;
    }
    while (dirty_log_piece(l, number) != NULL) {
        changed_add(l->given, dirty_log_piece(l, l->number - l->under_way + 1));
        l->under_way--;
    }
}

bool dirty_log_all_given(const struct dirty_log *l, uint64_t session)
{
    return session != 0 && session == l->session && l->under_way == 0 && !l->has_rest &&
           changed_empty(l->open);
}

void dirty_log_settle(struct dirty_log *l)
{
    changed_clear(l->open);
    changed_clear(l->given);
    l->under_way = 0;
    l->has_rest = false;
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
