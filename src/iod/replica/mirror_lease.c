/* Who holds what for how long (mirror_lease.h). */
#include "iod/replica/mirror_lease.h"

#include "common/base/check.h"

void mirror_lease_init(struct mirror_lease *l, uint64_t start, uint64_t now_ms)
{
    CHECK(start != 0);
    *l = (struct mirror_lease){ .start = start, .ask_ms = now_ms };
    l->granted_until_ms = now_ms + MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS;
}

uint64_t mirror_lease_deadline_ms(const struct mirror_lease *l)
{
    return l->ask_ms;
}

void mirror_lease_ask(struct mirror_lease *l, uint64_t now_ms)
{
    l->ask_ms = now_ms + MIRROR_LEASE_RENEW_MS;
}

void mirror_lease_hurry(struct mirror_lease *l)
{
    l->ask_ms = 0;
}

void mirror_lease_grant(struct mirror_lease *l, uint64_t now_ms)
{
    l->granted_until_ms = now_ms + MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS;
}

void mirror_lease_void(struct mirror_lease *l)
{
    l->granted_until_ms = 0;
}

void mirror_lease_granted(struct mirror_lease *l, uint64_t start, uint64_t asked_ms,
                          const struct mirror_exceptions *exceptions, uint64_t now_ms)
{
    if (start != l->start || asked_ms > now_ms || asked_ms < l->asked_ms ||
        exceptions->count > MIRROR_LEASE_EXCEPTIONS_MAX) {
        return;
    }
    l->asked_ms = asked_ms;
    l->exceptions = *exceptions;
}

bool mirror_lease_held(const struct mirror_lease *l, group_id group, uint64_t since_ms,
                       uint64_t now_ms)
{
    return l->asked_ms != 0 && l->asked_ms >= since_ms && now_ms >= l->asked_ms &&
           now_ms - l->asked_ms < MIRROR_LEASE_MS && !mirror_exceptions_has(&l->exceptions, group);
}

void mirror_exceptions_add(struct mirror_exceptions *exceptions, group_id group)
{
    if (exceptions->count == MIRROR_LEASE_EXCEPTIONS_MAX) {
        exceptions->all = true;
    } else {
        exceptions->groups[exceptions->count++] = group;
    }
}

bool mirror_exceptions_has(const struct mirror_exceptions *exceptions, group_id group)
{
    for (uint32_t i = 0; i < exceptions->count; i++) {
        if (exceptions->groups[i] == group) {
            return true;
        }
    }
    return exceptions->all;
}
