/* What the kernel may still hold of one inode (kernel_known.h). */
#include "client/coherence/kernel_known.h"

#include <stddef.h>

static const uint64_t late_ns = 1000000000;

void kernel_known_attr(struct kernel_known *k, uint64_t until_ns)
{
    if (k != NULL && k->attr_until_ns < until_ns) {
        k->attr_until_ns = until_ns;
    }
}

void kernel_known_names(struct kernel_known *k, uint64_t until_ns)
{
    if (k != NULL && k->names_until_ns < until_ns) {
        k->names_until_ns = until_ns;
    }
}

void kernel_known_entry(struct kernel_known *k, uint64_t now_ns, bool kept)
{
    if (k != NULL) {
        k->entries++;
        k->entry_ns = kept ? now_ns : k->entry_ns;
    }
}

void kernel_known_forgot(struct kernel_known *k, uint64_t count)
{
    if (k != NULL) {
        k->entries = k->entries > count ? k->entries - count : 0;
    }
}

uint64_t kernel_known_entry_ns(const struct kernel_known *k)
{
    return k == NULL || k->entries == 0 ? 0 : k->entry_ns;
}

struct kernel_stale kernel_known_stale(const struct kernel_known *k, bool open,
                                       enum lease_mode keeps, uint64_t now_ns)
{
    uint64_t entry_ns = kernel_known_entry_ns(k);

    return (struct kernel_stale){ .attr = open || k->attr_until_ns > now_ns,
                                  .pages = open && keeps == LEASE_NONE,
                                  .names = k->names_until_ns > now_ns,
                                  .unknown_until_ns = entry_ns > 0 ? entry_ns + late_ns : 0 };
}

bool kernel_known_is_forgotten(const struct kernel_known *k)
{
    return k != NULL && k->entries == 0;
}
