/* News for the manager of a file's size and shape: what waits, and what is being told (report.h). */
#include "client/data/report.h"

#include "common/base/check.h"

enum event { NOTE, SENT, SENT_IN_PART, END, LOSE, EVENTS };

enum { NEVER = REPORT_STATES };

static const unsigned char next[REPORT_STATES][EVENTS] = {
    /*                     note         sent              in part      end           lose */
    [REPORT_CLEAN] = { REPORT_NEWS, NEVER, NEVER, NEVER, REPORT_CLEAN },
    [REPORT_NEWS] = { REPORT_NEWS, REPORT_REPORTING, REPORT_BOTH, NEVER, REPORT_CLEAN },
    [REPORT_REPORTING] = { REPORT_BOTH, NEVER, NEVER, REPORT_CLEAN, REPORT_REPORTING },
    [REPORT_BOTH] = { REPORT_BOTH, NEVER, NEVER, REPORT_NEWS, REPORT_REPORTING },
};

bool report_has_news(const struct file_report *r)
{
    return r->state == REPORT_NEWS || r->state == REPORT_BOTH;
}

bool report_is_busy(const struct file_report *r)
{
    return r->state == REPORT_REPORTING || r->state == REPORT_BOTH;
}

bool report_has_truncation(const struct file_report *r)
{
    return r->news.truncated || r->truncation_under_way;
}

static void check(const struct file_report *r)
{
    CHECK(report_has_news(r) || (r->news.end == 0 && !r->news.truncated));
    CHECK(report_is_busy(r) || !r->truncation_under_way);
}

static void step(struct file_report *r, enum event event)
{
    unsigned char state = next[r->state][event];

    CHECK(state != NEVER);
    r->state = state;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void note_first(struct file_report *r, uint64_t now_ms)
{
    if (!report_has_news(r)) {
        report_note(r, now_ms);
    }
}

void report_note(struct file_report *r, uint64_t now_ms)
{
    step(r, NOTE);
    r->since_ms = now_ms;
}

void report_note_end(struct file_report *r, uint64_t end, uint64_t now_ms)
{
    note_first(r, now_ms);
    if (end > r->news.end) {
        r->news.end = end;
    }
}

void report_note_truncation(struct file_report *r, uint64_t size, uint64_t now_ms)
{
    note_first(r, now_ms);
    r->news.truncate_size = r->news.truncated ? min_u64(r->news.truncate_size, size) : size;
    r->news.truncated = true;
    r->news.end = min_u64(r->news.end, size);
}

void report_drop_truncation(struct file_report *r)
{
    r->news.truncated = r->news.tail_clean = false;
}

struct report_news report_say(const struct file_report *r, uint64_t limit)
{
    struct report_news said = r->news;

    said.end = min_u64(said.end, limit);
    said.truncate_size = said.truncated ? min_u64(said.truncate_size, limit) : 0;
    said.tail_clean = said.tail_clean && limit == UINT64_MAX;
    return said;
}

void report_sent(struct file_report *r, const struct report_news *said, uint64_t limit,
                 uint64_t now_ms)
{
    step(r, limit == UINT64_MAX ? SENT : SENT_IN_PART);
    r->losses_before = r->losses;
    r->truncation_under_way = said->truncated;
    r->news.strips_ids = false;
    if (limit == UINT64_MAX) {
        r->news = (struct report_news){ .end = 0 };
    } else {
        r->since_ms = now_ms;
    }
    check(r);
}

void report_end(struct file_report *r)
{
    step(r, END);
    r->truncation_under_way = false;
    check(r);
}

void report_again(struct file_report *r, const struct report_news *said, uint64_t now_ms)
{
    uint64_t end = said->end;

    if (r->losses != r->losses_before) {
        return;
    }
    report_note(r, now_ms);
    if (r->news.truncated) {
        end = min_u64(end, r->news.truncate_size);
    }
    if (said->truncated && (!r->news.truncated || r->news.truncate_size > said->truncate_size)) {
        r->news.truncated = true;
        r->news.truncate_size = said->truncate_size;
    }
    if (r->news.end < end) {
        r->news.end = end;
    }
    r->news.sparse |= said->sparse;
    r->news.tail_clean |= said->tail_clean;
    r->news.strips_ids |= said->strips_ids;
    check(r);
}

void report_lose(struct file_report *r)
{
    step(r, LOSE);
    report_drop_truncation(r);
    r->news.end = 0;
    r->losses++;
    check(r);
}
