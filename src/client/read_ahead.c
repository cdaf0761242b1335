#include "client/read_ahead.h"

#include <string.h>

void read_ahead_init(struct read_ahead *r, uint32_t window_max)
{
    memset(r, 0, sizeof(*r));
    r->window_max = window_max;
}

static bool follows(const struct read_ahead *r, uint64_t offset)
{
    return offset + READ_AHEAD_SLACK_BYTES >= r->next && offset <= r->next + READ_AHEAD_SLACK_BYTES;
}

struct read_ahead_advice read_ahead_step(struct read_ahead *r, uint64_t offset, uint32_t length)
{
    struct read_ahead_advice advice = { .sequential = false };
    uint64_t end = offset + length;
    bool exact = offset == r->next;

    if (!(r->window > 0 ? follows(r, offset) : exact)) {
        r->window = 0;
        r->next = end;
        r->fetched = end;
        return advice;
    }
    advice.sequential = true;
    r->window = r->window == 0 ? READ_AHEAD_FIRST_BYTES : r->window * 2;
    if (r->window > r->window_max) {
        r->window = r->window_max;
    }
    if (end > r->next) {
        r->next = end;
    }
    if (r->fetched < r->next) {
        r->fetched = r->next;
    }
    advice.from = r->fetched;
    advice.to = r->next + r->window;
    if (advice.to < advice.from) {
        advice.to = advice.from;
    }
    r->fetched = advice.to;
    return advice;
}
