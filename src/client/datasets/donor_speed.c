/* The mean, and how it is forgotten (donor_speed.h). */
#include "client/datasets/donor_speed.h"

enum { OF_MEAN = 8, HALVINGS_MAX = 63 };

uint64_t donor_speed_ns(const struct donor_speed *speed, uint64_t now_ms)
{
    uint64_t halvings = (now_ms - speed->at_ms) / DONOR_SPEED_HALF_MS;

    return halvings > HALVINGS_MAX ? 0 : speed->mean_ns >> halvings;
}

void donor_speed_note(struct donor_speed *speed, uint64_t took_ns, bool answered, uint64_t now_ms)
{
    bool fresh = speed->mean_ns > 0 && now_ms - speed->at_ms < DONOR_SPEED_HALF_MS;

    if (!answered && took_ns <= donor_speed_ns(speed, now_ms)) {
        return;
    }
    speed->mean_ns = fresh ? ((OF_MEAN - 1) * speed->mean_ns + took_ns) / OF_MEAN : took_ns;
    speed->at_ms = now_ms;
}
