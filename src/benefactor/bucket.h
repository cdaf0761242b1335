/* A token bucket: how many bytes may go now.
 *
 * Pure. Tokens are bytes; they come at a rate, up to a burst. Whoever finds any takes as many as he needs, also more than there
 * are: the debt is waited for by the next one. So a request may be larger than the burst, and over any time from t0 to t1 no more
 * goes than burst + rate * (t1 - t0) + the largest request.
 */
#ifndef MORSEL_BENEFACTOR_BUCKET_H
#define MORSEL_BENEFACTOR_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#define BUCKET_ENDLESS UINT64_MAX /* A rate: there are always tokens. */

struct bucket
{
    uint64_t
        rate; /* Bytes a second, at least 1000: of one it has less than a byte is lost each time it is asked. */
    uint64_t burst; /* Bytes, not 0; less than 2^40. */
    int64_t tokens;
    uint64_t at_ms;
};

/* Full. `now_ms`: of a clock that only goes on. */
void bucket_init(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now_ms);

/* Another rate from now on. A debt stays; what is beyond the new burst is gone. */
void bucket_change(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now_ms);

/* Take `bytes`. False: there are no tokens, and none were taken. */
bool bucket_take(struct bucket *b, uint64_t bytes, uint64_t now_ms);

/* So long until there are tokens; 0: there are. */
uint64_t bucket_wait_ms(struct bucket *b, uint64_t now_ms);

#endif
