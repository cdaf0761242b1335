/* A benefactor that leaves with a deadline: until when it stays, and what became of it.
 *
 * Pure. `now_ms` is of a clock that only goes on. The manager has copied to others what it has (src/meta/datasets/repair.h), and says
 * with each answer to a report how much of that is left.
 *
 *     STAYS --begin--> LEAVES --nothing is left, nobody can take the rest, or the deadline--> OVER --heard, or LINGER_MS--> (ends)
 *       ^                |
 *       +----cancel------+
 *
 * It is not kept: whoever is killed meanwhile and starts again stays.
 */
#ifndef MORSEL_BENEFACTOR_LEAVING_H
#define MORSEL_BENEFACTOR_LEAVING_H

#include <stdbool.h>
#include <stdint.h>

enum { LEAVING_LINGER_MS = 2000 }; /* So long the owner's command may ask how it ended. */

enum leaving_state { LEAVING_STAYS, LEAVING_LEAVES, LEAVING_OVER };

enum leaving_end {
    LEAVING_NOW,   /* At once, as was asked. */
    LEAVING_ALL,   /* All has its copies elsewhere. */
    LEAVING_STUCK, /* But for what nobody can take. */
    LEAVING_LATE   /* The deadline. */
};

/* As the manager says it: DonorLeft of meta.proto. */
struct leaving_left
{
    bool counted; /* Otherwise only what was moved is known. */
    uint64_t wanted, wanted_bytes, only, stuck, stuck_bytes, moved, moved_bytes;
};

struct leaving
{
    enum leaving_state state;
    enum leaving_end end; /* OVER: how. */
    uint64_t due_ms, over_ms;
    bool heard;
    struct leaving_left left;    /* At the last answer; */
    uint64_t moved, moved_bytes; /* by managers before that one. */
};

/* For `in_ms` at most; 0: it is over at once. Once more: the deadline is another one. */
void leaving_begin(struct leaving *l, uint64_t in_ms, uint64_t now_ms);

/* False: it does not leave, or it is too late. */
bool leaving_cancel(struct leaving *l);

/* The manager says how it is. */
void leaving_told(struct leaving *l, const struct leaving_left *left);

/* `used` bytes are here. True: it is over now. */
bool leaving_tick(struct leaving *l, uint64_t used, uint64_t now_ms);

/* The owner has been told how it is. */
void leaving_heard(struct leaving *l);

/* Is it over, and does nobody want to hear of it? */
bool leaving_may_end(const struct leaving *l, uint64_t now_ms);

/* "all", "stuck", "late" or "now"; "": it is not over. */
const char *leaving_end_word(const struct leaving *l);

#endif
