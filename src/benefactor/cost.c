/* Differences of counts over the time between. */
#include "benefactor/cost.h"

/* A count that has become smaller has begun anew. */
static uint64_t rate(uint64_t before, uint64_t now, uint64_t span_ms)
{
    const uint64_t more = now > before ? now - before : 0;

    return more / span_ms * 1000 + more % span_ms * 1000 / span_ms;
}

void cost_look(struct cost *c, const struct cost_counts *counts, uint64_t now_ms)
{
    const uint64_t span_ms = now_ms > c->at_ms ? now_ms - c->at_ms : 0;

    if (c->looked && span_ms < COST_SPAN_MS) {
        return;
    }
    if (c->looked) {
        c->rate = (struct cost_counts){
            .cpu_us = rate(c->counts.cpu_us, counts->cpu_us, span_ms),
            .read = rate(c->counts.read, counts->read, span_ms),
            .written = rate(c->counts.written, counts->written, span_ms),
            .received = rate(c->counts.received, counts->received, span_ms),
            .sent = rate(c->counts.sent, counts->sent, span_ms),
        };
    }
    c->looked = true;
    c->at_ms = now_ms;
    c->counts = *counts;
}
