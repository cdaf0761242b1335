/* What the kernel may still hold of one inode: attributes and names that it may use until then, and
 * answers of ours that made it know the inode and that it has not forgotten.
 *
 * Pure; kept beside the lease (meta_cache_kernel()), for what was told under one is to be dropped with
 * it. Of an inode that is not in that table nothing is kept: all of these allow NULL. Times are
 * uv_hrtime().
 */
#ifndef MORSEL_CLIENT_COHERENCE_KERNEL_KNOWN_H
#define MORSEL_CLIENT_COHERENCE_KERNEL_KNOWN_H

#include "common/fs/lease_mode.h"

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: nothing. */
struct kernel_known
{
    uint64_t attr_until_ns;
    uint64_t names_until_ns; /* Entries of the directory. */
    uint64_t entries;        /* Answers that make the kernel know it, less what it forgot. */
    uint64_t entry_ns;       /* When it was last given one with a time-out. */
};

/* The kernel was given attributes (entries of the directory) that it may use until then. */
void kernel_known_attr(struct kernel_known *k, uint64_t until_ns);
void kernel_known_names(struct kernel_known *k, uint64_t until_ns);

/* One more answer that makes the kernel know the inode is on its way to it; `kept`: with a time-out.
 */
void kernel_known_entry(struct kernel_known *k, uint64_t now_ns, bool kept);

/* The kernel has forgotten the inode, and `count` such answers with it. */
void kernel_known_forgot(struct kernel_known *k, uint64_t count);

/* When the last one was given that has a time-out and may not be forgotten yet; 0: there is none. */
uint64_t kernel_known_entry_ns(const struct kernel_known *k);

/* What goes with the lease, but for what `keeps` covers; `open`: the file is open here. */
struct kernel_stale
{
    bool attr, pages, names;
    /* 0, or: until then an inode that the kernel does not know may be one of which it has not heard
     * yet, for whoever asked runs again and takes in our answer within that time. */
    uint64_t unknown_until_ns;
};

struct kernel_stale kernel_known_stale(const struct kernel_known *k, bool open,
                                       enum lease_mode keeps, uint64_t now_ns);

/* Has it forgotten the inode with every answer that it was given? False of NULL. */
bool kernel_known_is_forgotten(const struct kernel_known *k);

#endif
