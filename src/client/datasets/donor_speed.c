/* Rates while something is under way, and how they are forgotten (donor_speed.h). */
#include "client/datasets/donor_speed.h"

#include "common/base/check.h"

#define NS_PER_S UINT64_C(1000000000)

enum { OF_RATE = 4, DOUBLINGS_MAX = 16 };

static uint64_t rate_of(uint64_t bytes, uint64_t took_ns)
{
    uint64_t rate = bytes > UINT64_MAX / NS_PER_S ? UINT64_MAX : bytes * NS_PER_S;

    rate /= took_ns == 0 ? 1 : took_ns;
    return rate == 0 ? 1 : rate;
}

/* What is known, twice as much with each time that it is older. */
static uint64_t remembered(const struct donor_speed *speed, uint64_t now_ns)
{
    uint64_t doublings = (now_ns - speed->measured_ns) / DONOR_SPEED_STALE_NS;

    return doublings > DOUBLINGS_MAX || speed->rate > UINT64_MAX >> doublings
               ? 0
               : speed->rate << doublings;
}

/* No more has come by now than that, with what it was asked for. */
static uint64_t at_most(const struct donor_speed *speed, uint64_t bytes, uint64_t now_ns)
{
    return rate_of(speed->came + bytes, now_ns - speed->since_ns);
}

uint64_t donor_speed_rate(const struct donor_speed *speed, uint64_t now_ns)
{
    uint64_t rate = remembered(speed, now_ns);

    if (speed->asked > 0 && now_ns - speed->since_ns >= DONOR_SPEED_STRETCH_NS) {
        uint64_t bound = at_most(speed, speed->asked, now_ns);

        return rate == 0 || bound < rate ? bound : rate;
    }
    return rate;
}

static void begin_stretch(struct donor_speed *speed, uint64_t now_ns)
{
    speed->since_ns = now_ns;
    speed->came = 0;
}

static void measured(struct donor_speed *speed, uint64_t rate, uint64_t now_ns)
{
    bool fresh = speed->rate > 0 && now_ns - speed->measured_ns < DONOR_SPEED_STALE_NS;

    speed->rate = fresh ? speed->rate - speed->rate / OF_RATE + rate / OF_RATE : rate;
    speed->measured_ns = now_ns;
}

void donor_speed_asked(struct donor_speed *speed, uint32_t bytes, uint64_t now_ns)
{
    if (speed->asked == 0) {
        begin_stretch(speed, now_ns);
    }
    speed->asked += bytes;
}

void donor_speed_ended(struct donor_speed *speed, uint32_t bytes, enum donor_speed_end how,
                       uint64_t now_ns)
{
    uint64_t took_ns = now_ns - speed->since_ns;

    CHECK(speed->asked >= bytes);
    speed->asked -= bytes;
    if (how == DONOR_SPEED_CAME) {
        speed->came += bytes;
        if (speed->asked == 0 || took_ns >= DONOR_SPEED_STRETCH_NS) {
            measured(speed, rate_of(speed->came, took_ns), now_ns);
            begin_stretch(speed, now_ns);
        }
    } else if (how == DONOR_SPEED_LEFT && took_ns >= DONOR_SPEED_STRETCH_NS) {
        uint64_t likely = at_most(speed, bytes / 2, now_ns), known = remembered(speed, now_ns);

        if (known == 0 || likely < known) {
            speed->rate = likely;
            speed->measured_ns = now_ns;
        }
    }
}

void donor_speed_best_note(struct donor_speed_best *best, const struct donor_speed *speed,
                           uint64_t now_ns)
{
    uint64_t rate = donor_speed_rate(speed, now_ns);

    if (rate >= best->rate || now_ns - best->measured_ns >= DONOR_SPEED_STALE_NS) {
        best->rate = rate;
        best->measured_ns = now_ns;
    }
}
