/* A window that doubles while a reader goes on where it stopped, as far as rate and round trip want. */
#include "client/data/read_ahead.h"

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

static bool is_active(const struct read_ahead *r, const struct read_ahead_stream *s)
{
    return s->window > 0 && s->turn + READ_AHEAD_IDLE_TURNS > r->turn;
}

/* What is fetched ahead is for all of them. */
static uint32_t share(const struct read_ahead *r)
{
    uint32_t active = 0;

    for (unsigned i = 0; i < READ_AHEAD_STREAMS; i++) {
        active += is_active(r, &r->streams[i]);
    }
    return r->window_max / (active == 0 ? 1 : active);
}

static void measure(struct read_ahead_stream *s, uint64_t now_us, uint64_t advanced)
{
    uint64_t passed_us = now_us - s->since_us;

    if (s->since_us == 0 || passed_us >= READ_AHEAD_RATE_US) {
        uint64_t rate = s->since_us == 0 ? 0 : s->bytes * 1000000 / passed_us;

        s->rate = s->rate == 0 ? rate : (s->rate + rate) / 2;
        s->since_us = now_us;
        s->bytes = 0;
    }
    s->bytes += advanced;
}

/* What the stream reads while a few fetches are made: more would only fill memory. */
static uint32_t useful(const struct read_ahead_stream *s, const struct read_ahead_clock *clock,
                       uint32_t bound)
{
    uint64_t bytes = s->rate * clock->fetch_us / 1000000 * READ_AHEAD_ROUND_TRIPS;

    if (bytes == 0 || bytes >= bound) {
        return bound;
    }
    if (bytes < READ_AHEAD_FIRST_BYTES) {
        return bound < READ_AHEAD_FIRST_BYTES ? bound : READ_AHEAD_FIRST_BYTES;
    }
    return (uint32_t)bytes;
}

/* How many steps of the distance can be made from `offset` without leaving the numbers. */
static uint32_t steps_left(const struct read_ahead_stride *s, uint64_t offset, uint32_t count)
{
    uint64_t step = s->distance < 0 ? (uint64_t)-s->distance : (uint64_t)s->distance;
    uint64_t room = s->distance < 0 ? offset : INT64_MAX - offset;

    return room / step < count ? (uint32_t)(room / step) : count;
}

/* True: the reader is strided. */
static bool stride_step(struct read_ahead *r, uint64_t offset, uint32_t length,
                        struct read_ahead_advice *advice)
{
    struct read_ahead_stride *s = &r->stride;
    int64_t distance = (int64_t)(offset - s->last);
    uint32_t most = length == 0 ? 0 : r->window_max / length;
    uint32_t count;

    s->last = offset;
    if (distance == 0 || distance != s->distance || length != s->length) {
        s->distance = distance;
        s->length = length;
        s->times = s->window = s->ahead = 0;
        return false;
    }
    s->ahead -= s->ahead > 0; /* This read was one of them. */
    if (++s->times < 2 || offset > INT64_MAX || (distance > 0 && distance < 2 * (int64_t)length)) {
        return false;
    }
    s->window = s->window == 0 ? 2 : 2 * s->window;
    most = most < READ_AHEAD_STRIDED_MAX ? most : READ_AHEAD_STRIDED_MAX;
    s->window = s->window < most ? s->window : most;
    count = steps_left(s, offset, s->window);
    if (count > s->ahead) {
        advice->first = offset + (uint64_t)(s->distance * (int64_t)(s->ahead + 1));
        advice->distance = s->distance;
        advice->count = count - s->ahead;
        s->ahead = count;
    }
    return true;
}

struct read_ahead_advice read_ahead_step(struct read_ahead *r, const struct read_ahead_clock *clock,
                                         uint64_t offset, uint32_t length)
{
    struct read_ahead_advice advice = { .sequential = false };
    struct read_ahead_stream *s;
    uint64_t end = offset + length;
    uint32_t limit;

    r->turn++;
    if (stride_step(r, offset, length, &advice)) {
        return advice;
    }
    s = find(r, offset);
    if (s == NULL) {
        begin(r, end);
        return advice;
    }
    advice.sequential = true;
    s->turn = r->turn;
    measure(s, clock->now_us, end > s->next ? end - s->next : 0);
    s->window = s->window == 0 ? READ_AHEAD_FIRST_BYTES : s->window * 2;
    limit = useful(s, clock, share(r));
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
    advice.next = s->next;
    advice.window = s->window;
    advice.bound = limit;
    return advice;
}

void read_ahead_stopped(struct read_ahead *r, uint64_t to, uint64_t at)
{
    for (unsigned i = 0; i < READ_AHEAD_STREAMS; i++) {
        struct read_ahead_stream *s = &r->streams[i];

        if (s->turn == r->turn && s->fetched == to && at < to) {
            s->fetched = at;
        }
    }
}

bool read_ahead_left(const struct read_ahead *r, unsigned i, uint64_t *from, uint64_t *to)
{
    const struct read_ahead_stream *s = &r->streams[i];

    *from = s->fetched;
    *to = s->next + s->window;
    return is_active(r, s) && *from < *to;
}

void read_ahead_reached(struct read_ahead *r, unsigned i, uint64_t at)
{
    r->streams[i].fetched = at;
}
