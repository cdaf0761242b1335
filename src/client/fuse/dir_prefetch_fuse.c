/* Directories that are looked up name by name are read as a whole, in the background: what follows
 * then needs no round trip.
 *
 * It begins when PREFETCH_MISSES look-ups in a directory of which we hold the lease had to ask the
 * manager, and ends after PREFETCH_PAGES pages, when the lease is lost, or with the directory,
 * which is complete then. */
#include "client/fuse/mount_fuse.h"

#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { PREFETCH_MISSES = 4, PREFETCH_PAGES = 4, PREFETCHES_MAX = 4 };

struct prefetch
{
    struct meta_call call;
    struct mount *mount;
    inode_id inode;
    unsigned pages;
    uint64_t listing; /* meta_cache_listing() when the first page came. */
    size_t after_length;
    uint8_t after[NAME_BYTES_MAX];
};

static void next_page(struct prefetch *p);

static void end(struct prefetch *p)
{
    p->mount->prefetches--;
    free(p);
}

static void on_page(struct meta_call *call, int status, void *message)
{
    struct prefetch *p = CONTAINER_OF(call, struct prefetch, call);
    const Morsel__ReaddirReply *page = message;
    struct meta_cache *cache = p->mount->client->cache;
    const Morsel__DirectoryEntry *last;

    if (status != 0 || meta_cache_listing(cache, p->inode) == 0) {
        end(p);
        return;
    }
    if (p->pages++ == 0) {
        p->listing = meta_cache_listing(cache, p->inode);
    }
    mount_learn_page(p->mount, p->inode, p->listing, page);
    last = page->n_entries == 0 ? NULL : page->entries[page->n_entries - 1];
    if (page->end || last == NULL || last->name.len > NAME_BYTES_MAX ||
        p->pages == PREFETCH_PAGES) {
        end(p);
        return;
    }
    p->after_length = last->name.len;
    memcpy(p->after, last->name.data, last->name.len);
    next_page(p);
}

static void next_page(struct prefetch *p)
{
    Morsel__ReaddirRequest request = MORSEL__READDIR_REQUEST__INIT;

    request.inode = p->inode;
    request.plus = true;
    request.after = (ProtobufCBinaryData){ p->after_length, p->after };
    if (meta_call_start(&p->call, p->mount->client, MSG_READDIR, &request.base,
                        &morsel__readdir_reply__descriptor, on_page) != 0) {
        end(p);
    }
}

void mount_prefetch(struct mount *m, inode_id directory)
{
    struct meta_cache *cache = m->client->cache;
    struct prefetch *p;

    if (m->prefetches == PREFETCHES_MAX || meta_cache_misses(cache, directory) < PREFETCH_MISSES ||
        meta_cache_listing(cache, directory) == 0 || (p = calloc(1, sizeof(*p))) == NULL) {
        return;
    }
    meta_cache_note_prefetch(cache, directory);
    m->prefetches++;
    p->mount = m;
    p->inode = directory;
    next_page(p);
}
