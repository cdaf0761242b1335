/* What the manager is to hear of a file's size and shape, and what it is being told. Pure.
 *
 * One report (SIZE_REPORT) at a time is under way. What it says is no news any more when it is sent, and
 * is news again when the manager did not take it and it is worth another try.
 *
 *            note         sent              end
 *   CLEAN --------> NEWS ------> REPORTING ------> CLEAN     CLEAN      the manager knows everything
 *                    | ^             |                       NEWS       something waits to be told
 *       sent in part | | end         | note                  REPORTING  all of it is being told
 *                    v |             |                       BOTH       something is, something waits
 *                    BOTH <----------'
 *
 *   again: NEWS, behind an end     lose: NEWS -> CLEAN, BOTH -> REPORTING
 *
 * Always: while nothing waits to be told, there is neither an end of writes nor a truncation to
 * tell. */
#ifndef MORSEL_CLIENT_DATA_REPORT_H
#define MORSEL_CLIENT_DATA_REPORT_H

#include <stdbool.h>
#include <stdint.h>

enum report_state { REPORT_CLEAN, REPORT_NEWS, REPORT_REPORTING, REPORT_BOTH, REPORT_STATES };

/* What is told. */
struct report_news
{
    uint64_t end;           /* Where writes end; 0: there were none. */
    uint64_t truncate_size; /* Of a truncation. */
    bool truncated;  /* The file was, to `truncate_size`, before it was written up to `end`. */
    bool tail_clean; /* Objects hold nothing beyond the end, where they may have. */
    bool sparse;     /* A hole was left, or space beyond the end. */
    bool strips_ids; /* Set-id bits are gone. */
};

/* Zeroed: CLEAN. To be looked into, and changed by the functions below alone, but for the bits of
 * `news` that say nothing of sizes, and `due` and `complained`. */
struct file_report
{
    enum report_state state;
    struct report_news news;   /* What waits. */
    uint64_t since_ms;         /* For so long; of what is left, since a report told a part. */
    bool truncation_under_way; /* What is being told says so of a truncation. */
    unsigned losses;           /* How often news were lost, */
    unsigned losses_before;    /* and how often when what is being told was sent. */
    bool due;                  /* The caller's: another one goes as soon as this has ended. */
    bool complained;           /* The caller's: the log knows that the manager does not take it. */
};

bool report_has_news(const struct file_report *r); /* NEWS, BOTH */
bool report_is_busy(const struct file_report *r);  /* REPORTING, BOTH */

/* Is a truncation among what the manager is not known to know? */
bool report_has_truncation(const struct file_report *r);

/* There is something to tell, since now. */
void report_note(struct file_report *r, uint64_t now_ms);

/* Likewise: it was written up to `end`; nothing, if it is written further. Only the first of news
 * begins their time. */
void report_note_end(struct file_report *r, uint64_t end, uint64_t now_ms);

/* Likewise: it was truncated to `size`, and what was written behind that is no news any more. */
void report_note_truncation(struct file_report *r, uint64_t size, uint64_t now_ms);

/* It was not truncated after all. */
void report_drop_truncation(struct file_report *r);

/* What a report would say now. Behind `limit` nothing may be told yet; UINT64_MAX: there is none. */
struct report_news report_say(const struct file_report *r, uint64_t limit);

/* NEWS only: it is sent, and says so. With a limit all of it stays news, but for the set-id bits:
 * what lies behind the limit is not told. */
void report_sent(struct file_report *r, const struct report_news *said, uint64_t limit,
                 uint64_t now_ms);

/* What is being told has ended. If the manager did not take it, and will perhaps: report_again()
 * behind this makes it news, unless news were lost since it was sent: others may have truncated the
 * file then. */
void report_end(struct file_report *r);
void report_again(struct file_report *r, const struct report_news *said, uint64_t now_ms);

/* What waits is not going to be told. What is being told may arrive. */
void report_lose(struct file_report *r);

#endif
