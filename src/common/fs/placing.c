/* All that says where a file lies, in one number. */
#include "common/fs/placing.h"

#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"

enum { PLACE_NUMBERS = 5, PLACE_BYTES_MAX = 8 + 4 * (PLACE_NUMBERS + STRIPE_WIDTH_MAX) };

uint32_t placing_place(const struct placing *p)
{
    uint8_t bytes[PLACE_BYTES_MAX], *at = bytes + 8;
    const uint32_t numbers[PLACE_NUMBERS] = { p->layout_class, p->replicas, p->stripe.morsel_bytes,
                                              p->stripe.stripe_morsels, p->stripe.width };
    uint32_t sum;

    CHECK(p->stripe.width <= STRIPE_WIDTH_MAX);
    put_le64(bytes, p->body);
    for (uint32_t i = 0; i < PLACE_NUMBERS; i++, at += 4) {
        put_le32(at, numbers[i]);
    }
    for (uint32_t i = 0; i < p->stripe.width; i++, at += 4) {
        put_le32(at, p->columns[i]);
    }
    sum = crc32c(0, bytes, (size_t)(at - bytes));
    return sum != PLACE_UNKNOWN ? sum : 1;
}
