/* Source: the registries of special-purpose addresses, RFC 6890. */
#include "client/admin/visit.h"

#include <string.h>

static bool may_visit_4(const uint8_t a[4])
{
    return a[0] != 0 && a[0] != 127 && !(a[0] == 169 && a[1] == 254) && a[0] < 224;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool may_visit_6(const uint8_t a[16])
{
    static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b };

    if ((is_zero(a, 10) && a[10] == 0xff && a[11] == 0xff) || memcmp(a, nat64, 12) == 0) {
        return may_visit_4(a + 12);
    }
    if (is_zero(a, 12)) { /* ::, ::1, and an old form of IPv4 addresses. */
        return false;
    }
    return a[0] != 0xff && !(a[0] == 0xfe && (a[1] & 0xc0) == 0x80);
}

bool visit_may(const uint8_t *address, size_t count)
{
    return count == 4 ? may_visit_4(address) : count == 16 && may_visit_6(address);
}
