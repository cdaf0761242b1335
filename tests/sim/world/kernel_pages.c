/* Pages of files: mm/filemap.c, fs/fuse/file.c. */
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

struct kpage *page_find(const struct knode *node, uint64_t number)
{
    return number < node->pages_count ? node->pages[number] : NULL;
}

static struct kpage *page_new(struct knode *node, uint64_t number)
{
    if (number >= node->pages_count) {
        uint64_t count = number + 64;

        node->pages = realloc(node->pages, count * sizeof(void *));
        CHECK(node->pages != NULL);
        memset(&node->pages[node->pages_count], 0, (count - node->pages_count) * sizeof(void *));
        node->pages_count = count;
    }
    CHECK(node->pages[number] == NULL);
    node->pages[number] = calloc(1, sizeof(struct kpage));
    CHECK(node->pages[number] != NULL);
    node->pages[number]->locked = true;
    return node->pages[number];
}

static void page_drop(struct knode *node, uint64_t number)
{
    free(node->pages[number]);
    node->pages[number] = NULL;
}

static void page_unlock(struct knode *node, struct kpage *page)
{
    page->locked = false;
    wake_all(&node->page_waiting);
}

bool pages_any_locked(const struct knode *node)
{
    for (uint64_t i = 0; i < node->pages_count; i++) {
        if (node->pages[i] != NULL && node->pages[i]->locked) {
            return true;
        }
    }
    return false;
}

static void drop_from(struct knode *node, uint64_t first)
{
    for (uint64_t i = first; i < node->pages_count; i++) {
        while (node->pages[i] != NULL && node->pages[i]->locked) {
            node->kernel->counts.page_waits++;
            wait_in(&node->page_waiting);
        }
        if (node->pages[i] != NULL) {
            page_drop(node, i);
        }
    }
}

void pages_invalidate(struct knode *node)
{
    drop_from(node, 0);
}

void pages_truncate(struct knode *node, uint64_t size)
{
    uint64_t number = size / PAGE;
    struct kpage *page;

    while (size % PAGE != 0 && (page = page_find(node, number)) != NULL && page->locked) {
        wait_in(&node->page_waiting);
    }
    if (size % PAGE != 0) {
        page = page_find(node, number++);
        if (page != NULL) {
            memset(page->bytes + size % PAGE, 0, PAGE - size % PAGE);
        }
    }
    drop_from(node, number);
}

void pages_punch(struct knode *node, uint64_t offset, uint64_t length, bool whole)
{
    uint64_t end = offset + length;

    for (uint64_t i = offset / PAGE; length > 0 && i <= (end - 1) / PAGE; i++) {
        uint64_t from = i * PAGE < offset ? offset - i * PAGE : 0;
        uint64_t to = end - i * PAGE < PAGE ? end - i * PAGE : PAGE;
        struct kpage *page;

        while ((page = page_find(node, i)) != NULL && page->locked) {
            wait_in(&node->page_waiting);
        }
        if (page != NULL && (whole || to - from == PAGE)) {
            page_drop(node, i);
        } else if (page != NULL) {
            memset(page->bytes + from, 0, to - from);
        }
    }
}

void pages_drop_some(struct knode *node)
{
    for (uint64_t i = 0; i < node->pages_count; i++) {
        if (node->pages[i] != NULL && !node->pages[i]->locked) {
            page_drop(node, i);
        }
    }
}

/* ---- Reading ---- */

/* Fewer bytes than were asked for: there the file ends, if nobody has said otherwise since. */
static void read_update_size(struct knode *node, uint64_t end, uint64_t version)
{
    if (version >= node->version && end < node->size && !node->unstable) {
        node->version = ++node->kernel->version;
        node->size = end;
        node->kernel->counts.short_reads++;
    }
}

/* Does not wait. */
static void pages_arrive(struct fuse_req *req)
{
    struct knode *node = req->pages_of;
    size_t pages = req->size / PAGE;

    if (req->error == 0 && req->count < req->size) {
        read_update_size(node, req->offset + req->count, req->version);
    }
    for (size_t i = 0; i < pages; i++) {
        struct kpage *page = page_find(node, req->offset / PAGE + i);

        CHECK(page != NULL && page->locked);
        if (req->error == 0) {
            memcpy(page->bytes, (uint8_t *)req->into + i * PAGE, PAGE);
            page->fresh = true;
        }
        page_unlock(node, page);
    }
    if (req->error == 0) {
        node->stale_atime = true;
    }
    free(req->into);
    knode_put(node);
}

/* A READ for `count` pages that are not there yet; it fills them when it is answered. */
static bool read_pages(struct kernel_file *file, uint64_t first, uint64_t count)
{
    struct knode *node = file->node;
    struct fuse_req *req = calloc(1, sizeof(*req));

    CHECK(req != NULL && count > 0);
    for (uint64_t i = 0; i < count; i++) {
        (void)page_new(node, first + i);
    }
    *req = (struct fuse_req){ .kernel = node->kernel,
                              .opcode = FUSE_READ,
                              .inode = node->number,
                              .own_info = file->info,
                              .offset = first * PAGE,
                              .size = count * PAGE,
                              .into = calloc(count, PAGE),
                              .end = pages_arrive,
                              .pages_of = knode_keep(node),
                              .version = node->kernel->version };
    CHECK(req->into != NULL);
    req->info = &req->own_info;
    return ask_only(req);
}

/* The pages from `first` on that are missing: as many as are wanted, and more behind them where the
 * file is read from its beginning or on; not beyond its end. */
static int read_ahead(struct kernel_file *file, uint64_t first, uint64_t wanted)
{
    struct knode *node = file->node;
    uint64_t last = (node->size - 1) / PAGE, count = wanted;

    if (first == 0 || first == node->read_last) {
        count = 2 * wanted < node->kernel->read_ahead ? 2 * wanted : node->kernel->read_ahead;
        count = count < wanted ? wanted : count;
    }
    count = count > last - first + 1 ? last - first + 1 : count;
    count = count > REQUEST_BYTES_MAX / PAGE ? REQUEST_BYTES_MAX / PAGE : count;
    for (uint64_t i = 0; i < count; i++) {
        if (page_find(node, first + i) != NULL) {
            count = i;
        }
    }
    return read_pages(file, first, count) ? 0 : ENOTCONN;
}

/* fuse_read_folio(): whoever wants the page sends for it himself. */
static int read_page(struct kernel_file *file, uint64_t number)
{
    struct knode *node = file->node;
    struct kpage *page = page_find(node, number);
    struct fuse_req req = { .kernel = node->kernel,
                            .opcode = FUSE_READ,
                            .inode = node->number,
                            .info = &file->info,
                            .offset = number * PAGE,
                            .size = PAGE,
                            .into = page->bytes };
    uint64_t version = node->kernel->version;
    int rv;

    page->locked = true;
    rv = ask_and_wait(&req);
    if (rv == 0) {
        memset(page->bytes + req.count, 0, PAGE - req.count);
        if (req.count < PAGE) {
            read_update_size(node, number * PAGE + req.count, version);
        }
        page->fresh = true;
    }
    page_unlock(node, page);
    return rv;
}

/* The page, with its bytes, unlocked; NULL and no error: it went meanwhile. */
static int page_get(struct kernel_file *file, uint64_t number, uint64_t wanted,
                    struct kpage **found)
{
    struct knode *node = file->node;
    struct kpage *page = page_find(node, number);
    int rv = 0;

    *found = NULL;
    if (page == NULL && (rv = read_ahead(file, number, wanted)) != 0) {
        return rv;
    }
    while ((page = page_find(node, number)) != NULL && page->locked) {
        wait_in(&node->page_waiting);
    }
    if (page == NULL) {
        return 0;
    }
    if (!page->fresh && (rv = read_page(file, number)) != 0) {
        return rv;
    }
    *found = page_find(node, number);
    return 0;
}

int pages_read(struct kernel_file *file, uint64_t offset, void *bytes, size_t size, size_t *got)
{
    struct knode *node = file->node;
    struct kpage *page;
    int rv = 0;

    *got = 0;
    if ((node->stale || jiffies_now() > node->jiffies_until) &&
        (rv = ask_attributes(node, &file->info, NULL)) != 0) {
        return rv;
    }
    while (*got < size && offset + *got < node->size) {
        uint64_t at = offset + *got, end = offset + size;
        uint64_t number = at / PAGE, wanted = (end + PAGE - 1) / PAGE - number;

        rv = page_get(file, number, wanted, &page);
        if (rv != 0) {
            return rv; /* read(2) says how many there were, and this to who reads on. */
        }
        if (page == NULL) {
            continue;
        }
        end = end > node->size ? node->size : end;
        end = end > (number + 1) * PAGE ? (number + 1) * PAGE : end;
        if (end <= at) {
            break;
        }
        memcpy((uint8_t *)bytes + *got, page->bytes + at % PAGE, end - at);
        *got += end - at;
        node->kernel->counts.pages_read++;
        node->read_last = number + 1;
    }
    return 0;
}

/* ---- Writing: through, at once ---- */

/* fuse_fill_write_pages(): those pages that are whole afterwards are good at once, and no longer
 * locked. At one that is not it ends. */
static size_t fill_pages(struct knode *node, uint64_t offset, const uint8_t *bytes, size_t size,
                         struct kpage **locked)
{
    size_t done = 0;

    *locked = NULL;
    while (done < size && *locked == NULL) {
        uint64_t at = offset + done, number = at / PAGE;
        size_t part = PAGE - at % PAGE < size - done ? PAGE - at % PAGE : size - done;
        struct kpage *page;

        while ((page = page_find(node, number)) != NULL && page->locked) {
            wait_in(&node->page_waiting);
        }
        page = page != NULL ? page : page_new(node, number);
        memcpy(page->bytes + at % PAGE, bytes + done, part);
        page->fresh = page->fresh || part == PAGE;
        page->locked = !page->fresh;
        if (!page->fresh) {
            *locked = page;
        } else {
            wake_all(&node->page_waiting);
        }
        done += part;
    }
    return done;
}

static void write_failed(struct knode *node, uint64_t offset, size_t size)
{
    for (uint64_t i = offset / PAGE; i <= (offset + size - 1) / PAGE; i++) {
        struct kpage *page = page_find(node, i);

        if (page != NULL) {
            page->fresh = false;
        }
    }
}

int pages_write(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size)
{
    struct knode *node = file->node;
    size_t done = 0;
    int rv = 0;

    node->unstable = node->size < offset + size;
    while (rv == 0 && done < size) {
        size_t left = size - done > REQUEST_BYTES_MAX ? REQUEST_BYTES_MAX : size - done;
        struct kpage *locked;
        struct fuse_req req = { .kernel = node->kernel,
                                .opcode = FUSE_WRITE,
                                .inode = node->number,
                                .info = &file->info,
                                .offset = offset + done,
                                .bytes = (const uint8_t *)bytes + done };

        req.size = fill_pages(node, req.offset, req.bytes, left, &locked);
        rv = ask_and_wait(&req);
        if (rv != 0) {
            write_failed(node, req.offset, req.size);
        } else if (req.count != req.size) {
            world_fail("write(2) of %zu bytes took %zu", req.size, req.count);
        }
        if (locked != NULL) {
            page_unlock(node, locked);
        }
        done += rv == 0 ? req.size : 0;
    }
    if (done > 0) {
        write_update_attributes(node, offset + done);
    }
    node->unstable = false;
    return rv;
}
