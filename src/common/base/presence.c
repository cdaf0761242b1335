/* Leaves out every gap between two looks that is longer than it should be. */
#include "common/base/presence.h"

#include "common/base/check.h"

void presence_init(struct presence *p, uint64_t clock_ms)
{
    *p = (struct presence){ .seen_ms = clock_ms };
}

uint64_t presence_now_ms(struct presence *p, uint64_t clock_ms)
{
    uint64_t gap_ms = clock_ms - p->seen_ms;

    CHECK(clock_ms >= p->seen_ms);
    if (gap_ms > PRESENCE_GAP_MS) {
        p->away_ms += gap_ms;
        p->gaps++;
    }
    p->seen_ms = clock_ms;
    return clock_ms - p->away_ms;
}
