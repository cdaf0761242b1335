/* What the kernel may still hold of one inode (kernel_known.h). */
#include "client/coherence/kernel_known.h"

#include <stddef.h>

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

bool kernel_known_is_forgotten(const struct kernel_known *k)
{
    return k != NULL && k->entries == 0;
}
