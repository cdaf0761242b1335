/* Twice as many each time, as long as one stretch follows the other. */
#include "client/datasets/origin_pace.h"

uint32_t origin_pace_most(uint32_t morsel_bytes)
{
    return morsel_bytes < ORIGIN_PART_BYTES_MAX ? ORIGIN_PART_BYTES_MAX / morsel_bytes : 1;
}

uint32_t origin_pace_count(const struct origin_pace *pace, uint32_t morsel, uint32_t morsel_bytes)
{
    uint32_t most = origin_pace_most(morsel_bytes);
    uint32_t count = pace->count > 0 && morsel == pace->next ? 2 * pace->count : 1;

    return count < most ? count : most;
}

void origin_pace_took(struct origin_pace *pace, uint32_t morsel, uint32_t count)
{
    pace->next = morsel + count;
    pace->count = count;
}

void origin_pace_skip(struct origin_pace *pace, uint32_t morsel, uint32_t count)
{
    if (pace->count > 0 && morsel == pace->next) {
        pace->next += count;
    }
}
