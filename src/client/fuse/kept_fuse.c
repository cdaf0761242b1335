/* What the kernel asks about files that are held (file_uv.h, Moving): kept as it came, unread, until they are let go. When too
 * much is kept nothing more is read.
 *
 * Whoever waits longer than he should is refused: then a hold is *given up*. What is asked from then on about its files is let
 * through, and refused by them (file_give_up_place()). */
#include "client/fuse/mount_fuse.h"

#include "client/data/append_uv.h"
#include "common/base/status.h"

#include <linux/fuse.h>
#include <string.h>

/* NULL: nobody holds it, or that was given up. */
static const struct mount_hold *hold_of(const struct mount *m, inode_id inode)
{
    LIST_FOREACH(node, &m->holds)
    {
        const struct mount_hold *hold = LIST_ENTRY(node, struct mount_hold, node);

        if (!hold->given_up && (hold->inodes[0] == inode || hold->inodes[1] == inode)) {
            return hold;
        }
    }
    return NULL;
}

/* Of one write(2) that appends in several pieces some have been written: another mount may append behind it, and
 * not between. */
static bool goes_on(const struct mount *m, const struct fuse_in_header *in,
                    const struct fuse_buf *buf)
{
    struct fuse_write_in write;
    struct append_who who;
    const struct file *file = file_find(m->client, in->nodeid);

    if (in->opcode != FUSE_WRITE || file == NULL || buf->size < sizeof(*in) + sizeof(write)) {
        return false;
    }
    memcpy(&write, (const char *)buf->mem + sizeof(*in), sizeof(write));
    who = (struct append_who){ (const struct handle *)(uintptr_t)write.fh, (int32_t)in->pid,
                               write.offset };
    return append_goes_on(file, &who);
}

bool mount_keep(struct mount *m, const struct fuse_buf *buf)
{
    const struct mount_hold *hold;
    struct fuse_in_header in;

    if (list_empty(&m->holds) || buf->size < sizeof(in)) {
        return false;
    }
    memcpy(&in, buf->mem, sizeof(in));
    hold = in.opcode == FUSE_FORGET ? NULL : hold_of(m, in.nodeid);
    if (hold == NULL || (hold->settles && goes_on(m, &in, buf))) {
        return false;
    }
    CHECK(m->kept_count < MOUNT_KEPT_MAX);
    m->kept[m->kept_count++] = (struct kept_request){ payload_ref(m->receive), buf->size };
    mount_heard(m, in.pid);
    return true;
}

/* As if it came now. What takes its bytes over refers to m->receive. */
static void take_up(struct mount *m, const struct kept_request *kept)
{
    struct payload *mine = m->receive;
    struct fuse_buf buf = { .size = kept->size, .mem = kept->payload->data };

    m->receive = kept->payload;
    mount_process(m, &buf);
    payload_drop(m->receive);
    m->receive = mine;
}

/* In the order in which they came; one of them may begin the next exchange of its file. */
void mount_take_up_kept(struct mount *m)
{
    unsigned count = m->kept_count;
    struct kept_request kept[MOUNT_KEPT_MAX];

    memcpy(kept, m->kept, count * sizeof(kept[0]));
    m->kept_count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct fuse_in_header in;

        memcpy(&in, kept[i].payload->data, sizeof(in));
        if (hold_of(m, in.nodeid) != NULL) {
            m->kept[m->kept_count++] = kept[i];
        } else {
            take_up(m, &kept[i]);
        }
    }
    mount_read_on(m);
}

/* What only ends something is carried out all the same. */
static bool may_be_refused(uint32_t opcode)
{
    static const uint32_t opcodes[] = { FUSE_GETATTR,     FUSE_SETATTR,         FUSE_OPEN,
                                        FUSE_READ,        FUSE_WRITE,           FUSE_FSYNC,
                                        FUSE_SETXATTR,    FUSE_GETXATTR,        FUSE_LISTXATTR,
                                        FUSE_REMOVEXATTR, FUSE_FALLOCATE,       FUSE_LSEEK,
                                        FUSE_IOCTL,       FUSE_COPY_FILE_RANGE, FUSE_LINK };

    for (size_t i = 0; i < ARRAY_COUNT(opcodes); i++) {
        if (opcode == opcodes[i]) {
            return true;
        }
    }
    return false;
}

/* Those that were kept for one that is given up have waited long enough. */
static void refuse_kept(struct mount *m)
{
    unsigned count = m->kept_count;
    int error = client_errno(m->client, MORSEL_TIMEDOUT);

    m->kept_count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct fuse_in_header in;

        memcpy(&in, m->kept[i].payload->data, sizeof(in));
        if (hold_of(m, in.nodeid) != NULL || !may_be_refused(in.opcode)) {
            m->kept[m->kept_count++] = m->kept[i];
        } else {
            mount_refuse(m, in.unique, error);
            payload_drop(m->kept[i].payload);
        }
    }
}

/* ---- Holds ---- */

void mount_hold_begin(struct mount *m, struct mount_hold *hold, inode_id inode, inode_id other)
{
    hold->inodes[0] = inode;
    hold->inodes[1] = other;
    hold->given_up = false;
    list_init(&hold->node);
    list_push_back(&m->holds, &hold->node);
}

void mount_hold_give_up(struct mount *m, struct mount_hold *hold)
{
    hold->given_up = true;
    refuse_kept(m);
    mount_take_up_kept(m);
}

void mount_hold_end(struct mount_hold *hold)
{
    list_remove(&hold->node);
}

inode_id mount_inode_of(const struct fuse_buf *buf)
{
    struct fuse_in_header in = { .nodeid = INODE_NONE };

    memcpy(&in, buf->mem, buf->size < sizeof(in) ? 0 : sizeof(in));
    return in.nodeid;
}

/* A lock may be waited for without an end, and concerns no byte. */
bool mount_is_at(const struct mount *m, inode_id inode)
{
    LIST_FOREACH(node, &m->ops)
    {
        const struct mount_op *op = LIST_ENTRY(node, struct mount_op, node);

        if (op->inode == inode && op->kind != MOUNT_LOCK) {
            return true;
        }
    }
    return false;
}

void mount_holds_start(struct mount *m)
{
    list_init(&m->holds);
}

void mount_holds_stop(struct mount *m)
{
    while (m->kept_count > 0) {
        payload_drop(m->kept[--m->kept_count].payload);
    }
}
