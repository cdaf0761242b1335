#include "tests/lib/ns_fixture.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"

#include <string.h>

static bool is_open(void *data, inode_id inode)
{
    const struct ns_fixture *f = data;

    return inode < NS_FIXTURE_INODES && f->open[inode];
}

static void on_name_changed(void *data, inode_id parent, struct slice name,
                            const struct dentry *dentry, int change)
{
    const struct ns_fixture *f = data;

    if (f->fsck != NULL) {
        fsck_name_changed(f->fsck, parent, name, dentry, change);
    }
}

int ns_fixture_reopen(struct ns_fixture *f)
{
    struct ns_hooks hooks = { .is_open = is_open, .name_changed = on_name_changed, .data = f };

    ns_close(f->ns);
    f->err.text[0] = 0;
    return ns_open(f->kv, &hooks, &f->ns, &f->err);
}

void ns_fixture_open(struct ns_fixture *f, uint64_t seed)
{
    struct meta_op op = { .kind = OP_FORMAT };
    int rv;

    memset(f, 0, sizeof(*f));
    prng_seed(&f->prng, seed);
    f->kv = kv_forgetful_open(&f->prng);
    CHECK(f->kv != NULL);
    rv = ns_fixture_reopen(f);
    CHECK(rv == 0);
    memset(op.format.cluster.bytes, 7, sizeof(op.format.cluster.bytes));
    ns_must(f, op);
    rv = f->kv->sync(f->kv, NULL);
    CHECK(rv == 0);
}

void ns_fixture_close(struct ns_fixture *f)
{
    ns_close(f->ns);
    f->kv->close(f->kv);
}

int ns_fixture_run(struct ns_fixture *f, struct meta_op *op)
{
    op->time_ns = ++f->time_ns;
    return ns_execute(f->ns, op, &f->err);
}

struct slice text(const char *s)
{
    return (struct slice){ (const uint8_t *)s, strlen(s) };
}

struct meta_op op_make(inode_id parent, const char *name, uint32_t mode)
{
    struct meta_op op = { .kind = OP_CREATE };

    op.make.parent = parent;
    op.make.name = text(name);
    op.make.mode = mode;
    if (mode_is_regular(mode)) {
        op.make.layout.class = CLASS_DURABLE;
        op.make.layout.replicas = 1;
        op.make.layout.stripe = (struct stripe){ MORSEL_BYTES_DEFAULT, 1, 2 };
        op.make.layout.servers[0] = 1;
        op.make.layout.servers[1] = 2;
    } else if (mode_is_symlink(mode)) {
        op.make.link_target = text("somewhere");
    }
    return op;
}

struct meta_op op_unlink(inode_id parent, const char *name, bool directory)
{
    struct meta_op op = { .kind = OP_UNLINK };

    op.unlink.parent = parent;
    op.unlink.name = text(name);
    op.unlink.directory = directory;
    return op;
}

struct meta_op op_rename(inode_id parent, const char *name, inode_id new_parent,
                         const char *new_name, uint32_t flags)
{
    struct meta_op op = { .kind = OP_RENAME };

    op.rename.parent = parent;
    op.rename.name = text(name);
    op.rename.new_parent = new_parent;
    op.rename.new_name = text(new_name);
    op.rename.flags = flags;
    return op;
}

struct meta_op op_link(inode_id inode, inode_id parent, const char *name)
{
    struct meta_op op = { .kind = OP_LINK };

    op.link.inode = inode;
    op.link.new_parent = parent;
    op.link.new_name = text(name);
    return op;
}

struct meta_op op_xattr(inode_id inode, const char *name, struct slice value)
{
    struct meta_op op = { .kind = OP_XATTR };

    op.xattr.inode = inode;
    op.xattr.name = text(name);
    op.xattr.value = value;
    return op;
}

inode_id ns_must_make(struct ns_fixture *f, inode_id parent, const char *name, uint32_t mode)
{
    struct meta_op op = op_make(parent, name, mode);
    int rv = ns_fixture_run(f, &op);

    CHECK(rv == 0);
    return op.target;
}

void ns_must(struct ns_fixture *f, struct meta_op op)
{
    int rv = ns_fixture_run(f, &op);

    CHECK(rv == 0);
}

struct inode ns_must_inode(struct ns_fixture *f, inode_id id)
{
    struct inode inode;
    int rv = ns_inode(f->ns, id, &inode, &f->err);

    CHECK(rv == 0);
    return inode;
}
