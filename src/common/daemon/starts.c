/* The marks of starts: what the manager takes, and what a server says and keeps. */
#include "common/daemon/starts.h"

#include "common/base/check.h"

static bool is_ahead(const struct starts_known *known, const struct starts_word *word)
{
    return known->count != 0 && word->count > known->count;
}

/* Of a mark behind `confirmed`, the mark that has `count`. */
static uint64_t count_behind(uint64_t count, uint64_t confirmed, uint64_t mark)
{
    return confirmed == mark ? count : count + 1;
}

static enum starts_verdict hear_proposal(struct starts_known *known, const struct starts_word *word,
                                         bool *by_pending)
{
    if (known->confirmed != word->confirmed && known->confirmed != word->pending) {
        if (!is_ahead(known, word)) {
            return STARTS_OLD;
        }
        *known = (struct starts_known){ .confirmed = word->confirmed,
                                        .tentative = word->mark,
                                        .count = word->count };
        return STARTS_TAKEN_OVER;
    }
    *by_pending = known->confirmed != word->confirmed;
    known->tentative = word->mark;
    return STARTS_TAKEN;
}

/* One that says no count leaves none behind, lest it be taken for that of another mark. */
static struct starts_known confirmed_by(const struct starts_word *word)
{
    bool told = word->count != 0 || word->confirmed == 0;

    return (struct starts_known){
        .confirmed = word->mark,
        .count = told ? count_behind(word->count, word->confirmed, word->mark) : 0
    };
}

static enum starts_verdict hear_confirmation(struct starts_known *known,
                                             const struct starts_word *word)
{
    if (known->confirmed == word->mark) {
        return STARTS_TAKEN; /* Its answer was lost, or it is here again. */
    }
    if (known->tentative == word->mark) {
        *known = confirmed_by(word);
        return STARTS_TAKEN;
    }
    if (known->confirmed == word->confirmed) {
        return STARTS_AGAIN;
    }
    if (!is_ahead(known, word)) {
        return STARTS_OLD;
    }
    if (word->confirmed != word->mark) {
        return STARTS_AGAIN; /* It has not been let in yet: the first step takes it over. */
    }
    *known = confirmed_by(word);
    return STARTS_TAKEN_OVER;
}

enum starts_verdict starts_hear(struct starts_known *known, const struct starts_word *word,
                                bool *by_pending)
{
    *by_pending = false;
    if (word->mark == 0) {
        return known->confirmed == 0 ? STARTS_TAKEN : STARTS_OLD;
    }
    return word->confirms ? hear_confirmation(known, word) : hear_proposal(known, word, by_pending);
}

struct starts_word start_word(const struct start *start, const struct starts_kept *kept)
{
    return (struct starts_word){ .mark = start->mark,
                                 .confirmed = kept->confirmed,
                                 .pending = kept->pending,
                                 .count = kept->count,
                                 .confirms = start->step != START_ASKS };
}

bool start_taken(struct start *start, struct starts_kept *kept, bool by_pending)
{
    CHECK(start->mark != 0);
    switch (start->step) {
    case START_ASKS:
        if (by_pending) { /* That start was let in, and did not live to count itself. */
            kept->count = count_behind(kept->count, kept->confirmed, kept->pending);
            kept->confirmed = kept->pending;
        }
        kept->pending = start->mark;
        start->step = START_CONFIRMS;
        return true;
    case START_CONFIRMS:
        *kept = (struct starts_kept){ .confirmed = start->mark,
                                      .count =
                                          count_behind(kept->count, kept->confirmed, start->mark) };
        start->step = START_LET_IN;
        return true;
    case START_LET_IN:
        break;
    }
    return false;
}

void start_again(struct start *start)
{
    if (start->step == START_CONFIRMS) {
        start->step = START_ASKS;
    }
}
