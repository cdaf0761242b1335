#include "client/read_ahead.h"

#include <string.h>

void read_ahead_init(struct read_ahead *r, uint32_t window_max)
{
    memset(r, 0, sizeof(*r));
    r->window_max = window_max;
    for (unsigned i = 1; i < READ_AHEAD_STREAMS; i++) {
        r->streams[i].next =
            UINT64_MAX; /* Only the first is taken to begin at the start of the file. */
    }
}

static bool goes_on(const struct read_ahead_stream *s, uint64_t offset)
{
    if (s->window == 0) {
        return offset == s->next;
    }
    return offset + READ_AHEAD_SLACK_BYTES >= s->next && offset <= s->next + READ_AHEAD_SLACK_BYTES;
}

/* The stream that the read continues, the closest where there are several; NULL: none. */
static struct read_ahead_stream *find(struct read_ahead *r, uint64_t offset)
{
    struct read_ahead_stream *found = NULL;
    uint64_t closest = UINT64_MAX;

    for (unsigned i = 0; i < READ_AHEAD_STREAMS; i++) {
        struct read_ahead_stream *s = &r->streams[i];
        uint64_t distance = offset > s->next ? offset - s->next : s->next - offset;

        if (goes_on(s, offset) && distance < closest) {
            closest = distance;
            found = s;
        }
    }
    return found;
}

static void begin(struct read_ahead *r, uint64_t end)
{
    struct read_ahead_stream *oldest = &r->streams[0];

    for (unsigned i = 1; i < READ_AHEAD_STREAMS; i++) {
        if (r->streams[i].turn < oldest->turn) {
            oldest = &r->streams[i];
        }
    }
    *oldest = (struct read_ahead_stream){ .next = end, .fetched = end, .turn = r->turn };
}

/* What is fetched ahead is for all of them. */
static uint32_t share(const struct read_ahead *r)
{
    uint32_t active = 0;

    for (unsigned i = 0; i < READ_AHEAD_STREAMS; i++) {
        const struct read_ahead_stream *s = &r->streams[i];

        active += s->window > 0 && s->turn + READ_AHEAD_IDLE_TURNS > r->turn;
    }
    return r->window_max / (active == 0 ? 1 : active);
}

struct read_ahead_advice read_ahead_step(struct read_ahead *r, uint64_t offset, uint32_t length)
{
    struct read_ahead_advice advice = { .sequential = false };
    struct read_ahead_stream *s = find(r, offset);
    uint64_t end = offset + length;
    uint32_t limit;

    r->turn++;
    if (s == NULL) {
        begin(r, end);
        return advice;
    }
    advice.sequential = true;
    s->turn = r->turn;
    s->window = s->window == 0 ? READ_AHEAD_FIRST_BYTES : s->window * 2;
    limit = share(r);
    if (s->window > limit) {
        s->window = limit;
    }
    if (end > s->next) {
        s->next = end;
    }
    if (s->fetched < s->next) {
        s->fetched = s->next;
    }
    advice.from = s->fetched;
    advice.to = s->next + s->window;
    if (advice.to < advice.from) {
        advice.to = advice.from;
    }
    s->fetched = advice.to;
    return advice;
}
