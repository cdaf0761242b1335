/* Leases on the wire: modes and times that both sides count with (docs/leases.md). Pure. */
#ifndef MORSEL_COMMON_FS_LEASE_MODE_H
#define MORSEL_COMMON_FS_LEASE_MODE_H

#include <assert.h>
#include <stdint.h>

/* Ordered: a higher mode allows what a lower one does. */
enum lease_mode {
    LEASE_NONE = 0,
    LEASE_R = 1, /* Cache; others may too. */
    LEASE_W = 2  /* Write changes back later; nobody else has any lease. */
};

enum {
    LEASE_MS =
        5000, /* Lease period of a client's leases behind its last answered question, unless the
                        manager was started with another one; what "not told" means */
    LEASE_MS_MIN = 500,
    LEASE_MS_MAX = 60000, /* So long others wait for a mount that is cut off */
    LEASE_MARGIN_MS =
        500, /* The client stops so much earlier: drift of its clock against the manager's */
    LEASE_RENEW_MS = 1600,  /* An idle client asks so often */
    LEASE_FLUSH_MS = 20000, /* A holder that says that it is writing back, and of whose bytes none
                               lands for so long, is fenced */
    LEASE_QUIET_MS = 1000 /* After a recall for a change nothing is granted but to OPEN and MAKE */
};

static_assert(
    LEASE_FLUSH_MS + 2 * LEASE_MS <= 30000,
    "who waits for a holder outlives it, its lease period included, within an io_timeout");
static_assert(LEASE_RENEW_MS * 3 <= LEASE_MS, "two renewals may be lost");
static_assert(LEASE_MARGIN_MS * 10 >= LEASE_MS, "10 % of drift");

/* The same for a lease period of `lease_period_ms` (LEASE_MS_MIN to LEASE_MS_MAX), in proportion. */
static inline uint32_t lease_margin_ms(uint32_t lease_period_ms)
{
    return (uint32_t)((uint64_t)lease_period_ms * LEASE_MARGIN_MS / LEASE_MS);
}

static inline uint32_t lease_renew_ms(uint32_t lease_period_ms)
{
    return (uint32_t)((uint64_t)lease_period_ms * LEASE_RENEW_MS / LEASE_MS);
}

#endif
