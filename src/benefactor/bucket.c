/* Tokens come with the time, and go with what is asked. */
#include "benefactor/bucket.h"

#include "common/base/check.h"

#define TOKENS_MAX (INT64_C(1) << 40) /* And no greater debt: sums do not run over. */

static void refill(struct bucket *b, uint64_t now_ms)
{
    const uint64_t span_ms = now_ms > b->at_ms ? now_ms - b->at_ms : 0;
    uint64_t more;

    b->at_ms = now_ms > b->at_ms ? now_ms : b->at_ms;
    if (b->rate == BUCKET_ENDLESS || __builtin_mul_overflow(b->rate, span_ms, &more) ||
        more / 1000 > (uint64_t)TOKENS_MAX) {
        more = (uint64_t)TOKENS_MAX * 1000;
    }
    b->tokens += (int64_t)(more / 1000);
    b->tokens = b->tokens < (int64_t)b->burst ? b->tokens : (int64_t)b->burst;
}

void bucket_init(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now_ms)
{
    CHECK(rate >= 1000 && burst > 0 && burst < (uint64_t)TOKENS_MAX);
    *b = (struct bucket){ rate, burst, (int64_t)burst, now_ms };
}

void bucket_change(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now_ms)
{
    CHECK(rate >= 1000 && burst > 0 && burst < (uint64_t)TOKENS_MAX);
    refill(b, now_ms);
    b->rate = rate;
    b->burst = burst;
    refill(b, now_ms);
}

bool bucket_take(struct bucket *b, uint64_t bytes, uint64_t now_ms)
{
    refill(b, now_ms);
    if (b->tokens <= 0) {
        return false;
    }
    if (b->rate != BUCKET_ENDLESS) {
        b->tokens -= bytes < (uint64_t)TOKENS_MAX ? (int64_t)bytes : TOKENS_MAX;
    }
    return true;
}

uint64_t bucket_wait_ms(struct bucket *b, uint64_t now_ms)
{
    refill(b, now_ms);
    return b->tokens > 0 ? 0 : ((uint64_t)(1 - b->tokens) * 1000 + b->rate - 1) / b->rate;
}
