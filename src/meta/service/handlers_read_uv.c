/* Requests that change nothing. */
#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/datasets/evictions_uv.h"
#include "meta/service/handlers_uv.h"
#include "meta/service/identify_uv.h"

#include <stdlib.h>

static bool is_dots(struct slice name)
{
    return name.count > 0 && slice_starts_with(slice_text(".."), name);
}

/* Directories that may not be searched hide their names; "." and ".." are asked for by inode. */
static int look_up(struct request *r)
{
    const Morsel__LookupRequest *m = r->message;
    struct meta *meta = r->meta;
    struct inode parent;
    int rv;

    if (!is_dots(bytes_slice(m->name)) &&
        ((rv = ns_inode(meta->ns, m->parent, &parent, &r->err)) != 0 ||
         (rv = identify_access(meta, r->rpc, m->who, &parent, MAY_EXECUTE, &r->err)) != 0)) {
        return rv;
    }
    return ns_lookup(meta->ns, m->parent, bytes_slice(m->name), &r->found, &r->err);
}

int look_lookup(struct request *r)
{
    const Morsel__LookupRequest *m = r->message;

    r->found_status = look_up(r);
    request_touch(r, r->found_status == 0 ? r->found.id : m->parent, ACCESS_READ);
    return 0;
}

int serve_lookup(struct request *r)
{
    const Morsel__LookupRequest *m = r->message;
    const struct inode *inode = &r->found;
    struct node_reply reply;
    struct inode parent;
    bool with_parent;

    if (r->found_status != 0) {
        return r->found_status;
    }
    with_parent = leases_held(r->meta, r->rpc, m->parent) == LEASE_NONE &&
                  ns_inode(r->meta->ns, m->parent, &parent, &r->err) == 0;
    if (kv_wants(r->meta->kv)) {
        return MORSEL_AGAIN;
    }
    node_fill(r->meta, &reply, inode, true,
              leases_grant(r->meta, r->rpc, inode->id, LEASE_R, false));
    if (with_parent) {
        node_add_parent(r->meta, r->rpc, &reply, &parent);
    }
    rpc_reply(r->rpc, &reply.node.base, NULL);
    return 0;
}

int serve_getattr(struct request *r)
{
    const Morsel__GetattrRequest *m = r->message;
    struct node_reply reply;
    struct inode inode;
    int rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    node_fill(r->meta, &reply, &inode, m->layout,
              leases_grant(r->meta, r->rpc, inode.id, LEASE_R, false));
    rpc_reply(r->rpc, &reply.node.base, NULL);
    return 0;
}

int serve_readlink(struct request *r)
{
    const Morsel__ReadlinkRequest *m = r->message;
    struct node_reply reply;
    struct inode inode;
    int rv;

    if ((rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err)) != 0 ||
        (rv = ns_readlink(r->meta->ns, m->inode, &r->bytes, &r->err)) != 0) {
        return rv;
    }
    buf_put_u8(&r->bytes, 0);
    if (r->bytes.failed) {
        return MORSEL_NOMEM;
    }
    node_fill(r->meta, &reply, &inode, false, leases_held(r->meta, r->rpc, inode.id));
    reply.node.target = (char *)r->bytes.data;
    rpc_reply(r->rpc, &reply.node.base, NULL);
    return 0;
}

int look_open(struct request *r)
{
    const Morsel__OpenRequest *m = r->message;

    request_touch(r, m->inode, m->write ? ACCESS_CHANGE : ACCESS_READ);
    return 0;
}

int serve_open(struct request *r)
{
    const Morsel__OpenRequest *m = r->message;
    uint32_t rights =
        (m->write ? MAY_WRITE : 0) | (m->read ? MAY_READ : 0) | (m->execute ? MAY_EXECUTE : 0);
    struct meta *meta = r->meta;
    struct node_reply reply;
    struct inode inode;
    int rv;

    if ((rv = ns_inode(meta->ns, m->inode, &inode, &r->err)) != 0 ||
        (rv = m->for_set != INODE_NONE
                  ? source_may_open(r, &inode)
                  : identify_access(meta, r->rpc, m->who, &inode, rights, &r->err)) != 0 ||
        (rv = meta_note_open(meta, r->rpc, m->inode, m->write)) != 0) {
        return rv;
    }
    if (!m->write) {
        evictions_used(meta, m->inode, r->rpc->node_id);
    }
    node_fill(meta, &reply, &inode, true,
              leases_grant(meta, r->rpc, m->inode, m->write ? LEASE_W : LEASE_R, true));
    rpc_reply(r->rpc, &reply.node.base, NULL);
    return 0;
}

int serve_close(struct request *r)
{
    const Morsel__CloseRequest *m = r->message;
    struct session_event event = { .now_ms = meta_now_ms(r->meta), .type = SESSION_CLOSED };

    event.client = r->rpc->node_id;
    event.inodes = m->inodes;
    event.inodes_count = m->n_inodes;
    if (r->rpc->role == ROLE_CLIENT) {
        (void)meta_session_step(r->meta, &event);
    }
    return reply_empty(r);
}

/* ---- Directories ---- */

enum {
    PAGE_ENTRIES_MAX = 1024,
    ENTRY_BYTES = 24,      /* An entry without its name, packed; about. */
    ENTRY_ATTR_BYTES = 104 /* Its attributes. */
};

struct directory_page
{
    uint32_t count;
    size_t bytes, bytes_max;
    bool plus;
    struct buf names;
    size_t offsets[PAGE_ENTRIES_MAX]; /* Of the names. */
    Morsel__DirectoryEntry entries[PAGE_ENTRIES_MAX];
    Morsel__DirectoryEntry *pointers[PAGE_ENTRIES_MAX];
    Morsel__Attr attrs[PAGE_ENTRIES_MAX];
};

struct directory_page *directory_page_new(void)
{
    struct directory_page *page = calloc(1, sizeof(*page));

    if (page != NULL) {
        buf_init(&page->names);
    }
    return page;
}

void directory_page_free(struct directory_page *page)
{
    if (page != NULL) {
        buf_free(&page->names);
        free(page);
    }
}

static void page_clear(struct directory_page *page, bool plus, uint32_t bytes_max)
{
    page->count = 0;
    page->bytes = 0;
    page->plus = plus;
    page->bytes_max =
        bytes_max == 0 || bytes_max > READDIR_PAGE_BYTES ? READDIR_PAGE_BYTES : bytes_max;
    buf_clear(&page->names);
}

static bool visit_entry(void *data, struct slice name, const struct dentry *dentry)
{
    struct directory_page *page = data;
    size_t bytes = name.count + ENTRY_BYTES + (page->plus ? ENTRY_ATTR_BYTES : 0);
    Morsel__DirectoryEntry *entry = &page->entries[page->count];

    if (page->count == PAGE_ENTRIES_MAX ||
        (page->count > 0 && page->bytes + bytes > page->bytes_max)) {
        return false;
    }
    morsel__directory_entry__init(entry);
    entry->inode = dentry->inode;
    entry->type = dentry->type;
    entry->name.len = name.count;
    page->offsets[page->count] = page->names.count;
    page->pointers[page->count] = entry;
    page->count++;
    page->bytes += bytes;
    buf_put(&page->names, name.data, name.count);
    return true;
}

/* Names and attributes, once the names no longer move. What another client is changing goes without
 * attributes: whoever needs them asks for them alone, and only then they are called back. */
static int page_read(struct meta *meta, const struct rpc_request *request,
                     struct directory_page *page, struct errmsg *err)
{
    if (page->names.failed) {
        return MORSEL_NOMEM;
    }
    for (uint32_t i = 0; i < page->count && !kv_wants_enough(meta->kv); i++) {
        Morsel__DirectoryEntry *entry = &page->entries[i];
        struct inode inode;
        int rv;

        entry->name.data = page->names.data + page->offsets[i];
        if (!page->plus || lease_written_elsewhere(meta->leases, request->node_id, entry->inode)) {
            continue;
        }
        if ((rv = ns_inode(meta->ns, entry->inode, &inode, err)) == 0) {
            attr_fill(meta, &page->attrs[i], &inode);
            entry->attr = &page->attrs[i];
        } else if (rv != MORSEL_STALE && rv != MORSEL_CORRUPT && rv != MORSEL_AGAIN) {
            return rv;
        } /* An entry whose inode is damaged is listed without attributes, so that the others can be
             reached. Of those that are not in memory all are fetched together. */
    }
    return kv_wants(meta->kv) ? MORSEL_AGAIN : MORSEL_OK;
}

/* Nothing can fail any more. */
static void page_grant(struct meta *meta, const struct rpc_request *request,
                       struct directory_page *page)
{
    for (uint32_t i = 0; i < page->count; i++) {
        Morsel__DirectoryEntry *entry = &page->entries[i];

        if (entry->attr != NULL) {
            entry->lease = leases_grant(meta, request, entry->inode, LEASE_R, false);
        }
    }
}

int serve_readdir(struct request *r)
{
    const Morsel__ReaddirRequest *m = r->message;
    Morsel__ReaddirReply reply = MORSEL__READDIR_REPLY__INIT;
    struct meta *meta = r->meta;
    struct directory_page *page = meta->page;
    struct inode directory;
    Morsel__Attr attr;
    bool end;
    int rv;

    page_clear(page, m->plus, m->bytes_max);
    if ((rv = ns_inode(meta->ns, m->inode, &directory, &r->err)) != 0 ||
        (rv = identify_access(meta, r->rpc, m->who, &directory, MAY_READ, &r->err)) != 0 ||
        (rv = ns_readdir(meta->ns, m->inode, bytes_slice(m->after), visit_entry, page, &end,
                         &r->err)) != 0 ||
        (rv = page_read(meta, r->rpc, page, &r->err)) != 0) {
        return rv;
    }
    page_grant(meta, r->rpc, page);
    reply.n_entries = page->count;
    reply.entries = page->pointers;
    reply.end = end;
    attr_fill(meta, &attr, &directory);
    reply.attr = &attr;
    reply.lease = leases_grant(meta, r->rpc, directory.id, LEASE_R, false);
    reply.parent = directory.parent;
    rpc_reply(r->rpc, &reply.base, NULL);
    return 0;
}
