/* Requests that change nothing. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/service/identify_uv.h"
#include "meta/service/reply_uv.h"

#include <stdlib.h>
#include <string.h>

static bool is_dots(struct slice name)
{
    return name.count > 0 && name.count <= 2 && memcmp(name.data, "..", name.count) == 0;
}

/* Directories that may not be searched hide their names; "." and ".." are asked for by inode. */
static int look_up(struct meta *meta, const struct rpc_request *request,
                   const Morsel__LookupRequest *m, struct inode *inode, struct errmsg *err)
{
    struct inode parent;
    int rv;

    if (!is_dots(bytes_slice(m->name)) &&
        ((rv = ns_inode(meta->ns, m->parent, &parent, err)) != 0 ||
         (rv = identify_access(meta, request, m->who, &parent, MAY_EXECUTE, err)) != 0)) {
        return rv;
    }
    return ns_lookup(meta->ns, m->parent, bytes_slice(m->name), inode, err);
}

void handle_lookup(struct meta *meta, struct rpc_request *request)
{
    Morsel__LookupRequest *m = rpc_request_unpack(request, &morsel__lookup_request__descriptor);
    struct node_reply reply;
    struct errmsg err = { "" };
    struct inode inode;
    inode_id parent;
    int rv;

    if (m == NULL) {
        return;
    }
    parent = m->parent;
    rv = look_up(meta, request, m, &inode, &err);
    message_free(m);
    if (!leases_touch_one(meta, request, rv == 0 ? inode.id : parent, ACCESS_READ)) {
        return;
    }
    if (rv != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    node_fill(meta, &reply, &inode, true, leases_grant(meta, request, inode.id, LEASE_R, false));
    if (leases_held(meta, request, parent) == LEASE_NONE) {
        (void)node_add_parent(meta, request, &reply, parent);
    }
    rpc_reply(request, &reply.node.base, NULL);
}

void handle_getattr(struct meta *meta, struct rpc_request *request)
{
    Morsel__GetattrRequest *m = rpc_request_unpack(request, &morsel__getattr_request__descriptor);
    struct node_reply reply;
    struct errmsg err = { "" };
    struct inode inode;
    inode_id id;
    bool layout;
    int rv;

    if (m == NULL) {
        return;
    }
    layout = m->layout;
    id = m->inode;
    message_free(m);
    if (!leases_touch_one(meta, request, id, ACCESS_READ)) {
        return;
    }
    if ((rv = ns_inode(meta->ns, id, &inode, &err)) != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    node_fill(meta, &reply, &inode, layout, leases_grant(meta, request, id, LEASE_R, false));
    rpc_reply(request, &reply.node.base, NULL);
}

void handle_readlink(struct meta *meta, struct rpc_request *request)
{
    Morsel__ReadlinkRequest *m = rpc_request_unpack(request, &morsel__readlink_request__descriptor);
    struct node_reply reply;
    struct errmsg err = { "" };
    struct inode inode;
    struct buf target;
    int rv;

    if (m == NULL) {
        return;
    }
    buf_init(&target);
    if ((rv = ns_inode(meta->ns, m->inode, &inode, &err)) == 0 &&
        (rv = ns_readlink(meta->ns, m->inode, &target, &err)) == 0) {
        buf_put_u8(&target, 0);
        rv = target.failed ? MORSEL_NOMEM : 0;
    }
    if (rv == 0) {
        node_fill(meta, &reply, &inode, false, leases_held(meta, request, inode.id));
        reply.node.target = (char *)target.data;
        rpc_reply(request, &reply.node.base, NULL);
    } else {
        reply_error(meta, request, rv, &err);
    }
    buf_free(&target);
    message_free(m);
}

static void open_inode(struct meta *meta, struct rpc_request *request, const Morsel__OpenRequest *m)
{
    enum lease_mode wanted = m->write ? LEASE_W : LEASE_R;
    uint32_t rights =
        (m->write ? MAY_WRITE : 0) | (m->read ? MAY_READ : 0) | (m->execute ? MAY_EXECUTE : 0);
    struct node_reply reply;
    struct errmsg err = { "" };
    struct inode inode;
    int rv;

    if (!leases_touch_one(meta, request, m->inode,
                          wanted == LEASE_W ? ACCESS_CHANGE : ACCESS_READ)) {
        return;
    }
    if ((rv = ns_inode(meta->ns, m->inode, &inode, &err)) == 0 &&
        (rv = identify_access(meta, request, m->who, &inode, rights, &err)) == 0) {
        rv = meta_note_open(meta, request, m->inode, wanted == LEASE_W);
    }
    if (rv != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    node_fill(meta, &reply, &inode, true, leases_grant(meta, request, m->inode, wanted, true));
    rpc_reply(request, &reply.node.base, NULL);
}

void handle_open(struct meta *meta, struct rpc_request *request)
{
    Morsel__OpenRequest *m = rpc_request_unpack(request, &morsel__open_request__descriptor);

    if (m != NULL) {
        open_inode(meta, request, m);
        message_free(m);
    }
}

void handle_close(struct meta *meta, struct rpc_request *request)
{
    Morsel__CloseRequest *m = rpc_request_unpack(request, &morsel__close_request__descriptor);
    struct session_event event = { .now_ms = meta_now_ms(meta), .type = SESSION_CLOSED };

    if (m == NULL) {
        return;
    }
    event.client = request->node_id;
    event.inodes = m->inodes;
    event.inodes_count = m->n_inodes;
    if (request->role == ROLE_CLIENT) {
        (void)meta_session_step(meta, &event);
    }
    message_free(m);
    rpc_reply(request, NULL, NULL);
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
static int page_finish(struct meta *meta, const struct rpc_request *request,
                       struct directory_page *page, struct errmsg *err)
{
    if (page->names.failed) {
        return MORSEL_NOMEM;
    }
    for (uint32_t i = 0; i < page->count; i++) {
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
            entry->lease = leases_grant(meta, request, entry->inode, LEASE_R, false);
        } else if (rv != MORSEL_STALE && rv != MORSEL_CORRUPT) {
            return rv;
        } /* An entry whose inode is damaged is listed without attributes, so that the others can be
             reached. */
    }
    return 0;
}

void handle_readdir(struct meta *meta, struct rpc_request *request)
{
    Morsel__ReaddirRequest *m = rpc_request_unpack(request, &morsel__readdir_request__descriptor);
    Morsel__ReaddirReply reply = MORSEL__READDIR_REPLY__INIT;
    struct directory_page *page = meta->page;
    struct errmsg err = { "" };
    struct inode directory;
    Morsel__Attr attr;
    bool end;
    int rv;

    if (m == NULL) {
        return;
    }
    if (!leases_touch_one(meta, request, m->inode, ACCESS_READ)) {
        message_free(m);
        return;
    }
    page_clear(page, m->plus, m->bytes_max);
    if ((rv = ns_inode(meta->ns, m->inode, &directory, &err)) == 0 &&
        (rv = identify_access(meta, request, m->who, &directory, MAY_READ, &err)) == 0 &&
        (rv = ns_readdir(meta->ns, m->inode, bytes_slice(m->after), visit_entry, page, &end,
                         &err)) == 0) {
        rv = page_finish(meta, request, page, &err);
    }
    message_free(m);
    if (rv != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    reply.n_entries = page->count;
    reply.entries = page->pointers;
    reply.end = end;
    attr_fill(meta, &attr, &directory);
    reply.attr = &attr;
    reply.lease = leases_grant(meta, request, directory.id, LEASE_R, false);
    reply.parent = directory.parent;
    rpc_reply(request, &reply.base, NULL);
}
