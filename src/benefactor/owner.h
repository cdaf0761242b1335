/* What the owner has said while the benefactor ran (`morsel donate set`, `pause`), and what holds of it.
 *
 * Pure. It is kept in the donated directory, for the next start; control_uv.c has the file. Two can say how much is
 * donated and how much stays free: the settings of the program (configuration file and command line), and the owner with
 * `morsel donate set`. The last word holds, whoever had it. A start cannot see when settings were written, but whether they
 * have changed: so with each word of the owner goes what the settings were when he said it. As long as they say the same,
 * his word holds; when they say something else, they were changed since then, they hold, and his word is forgotten. Each
 * of the two shares is judged by itself.
 *
 *     SERVES --pause--> PAUSED --resume, or its time is over--> SERVES
 *
 * A pause has a length, or lasts until it is ended. While the program runs its end is on a clock that only goes on; behind
 * a restart it is found by the wall clock. That one may have jumped: what is left is never more than the pause's length,
 * and one that says that the pause has not begun yet is not believed.
 *
 * The text that is kept, each line once, in this order:
 *
 *   format = 1
 *   donate = 30% instead of 53687091200
 *   keep-free = - instead of -
 *   pause = 1732642234000 for 1800000
 *
 * "-": not said. The pause began at that time (milliseconds since the epoch) for so many milliseconds, 0 until it is
 * ended; "0 for 0": there is none.
 */
#ifndef MORSEL_BENEFACTOR_OWNER_H
#define MORSEL_BENEFACTOR_OWNER_H

#include "benefactor/donation.h"
#include "common/base/types.h"

enum {
    OWNER_FORMAT = 1,
    OWNER_TEXT_BYTES_MAX = 256, /* With the zero at the end. */
    OWNER_SHARE_TEXT_MAX = 24   /* Of owner_share_text(), with the zero. */
};

/* A word of the owner, and what the settings were when he said it. */
struct owner_word
{
    bool said; /* False: all else is 0. */
    struct donation_share share, settings;
};

/* What is kept. */
struct owner_kept
{
    struct owner_word donate, keep_free;
    uint64_t pause_at_ms; /* By the wall clock; 0: it is not paused. */
    uint64_t pause_ms;    /* 0: until it is resumed. */
};

struct owner
{
    struct owner_kept kept;
    struct donation_wish settings;
    uint64_t pause_end_ms; /* On the clock that only goes on; UINT64_MAX: until it is resumed. */
};

/* At the start: `kept` is what was read, all zero when there was nothing; `wall_ms` is the wall clock, `now_ms` one that only goes
 * on. True: something of it has passed, and it should be written anew. */
bool owner_begin(struct owner *o, const struct owner_kept *kept,
                 const struct donation_wish *settings, uint64_t wall_ms, uint64_t now_ms);

/* What holds. */
void owner_wish(const struct owner *o, struct donation_wish *wish);

/* The owner says something; NULL: of this he says nothing. */
void owner_set(struct owner *o, const struct donation_share *donate,
               const struct donation_share *keep_free);

/* For so long, 0: until he resumes; in place of a pause that there is. */
void owner_pause(struct owner *o, uint64_t pause_ms, uint64_t wall_ms, uint64_t now_ms);
void owner_resume(struct owner *o);
bool owner_is_paused(const struct owner *o);

/* True: the pause is over, from now on. */
bool owner_tick(struct owner *o, uint64_t now_ms);

/* Of a pause that will end by itself, what is left; otherwise 0. */
uint64_t owner_pause_left_ms(const struct owner *o, uint64_t now_ms);

/* "30%", or a number of bytes. */
void owner_share_text(const struct donation_share *share, char text[OWNER_SHARE_TEXT_MAX]);

/* The text, terminated. Returns its length without the zero. */
size_t owner_format(const struct owner_kept *kept, char text[OWNER_TEXT_BYTES_MAX]);

/* Read it; `path` is the directory, for the words. MORSEL_CORRUPT: owner_format() does not write this. MORSEL_VERSION: a
 * newer format. In both cases `kept` is zero. */
int owner_parse(struct slice bytes, const char *path, struct owner_kept *kept, struct errmsg *err);

#endif
