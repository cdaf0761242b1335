/* What we want of the kernel and libfuse does not know how to ask for: the flag is put into its
 * answer to INIT. So what libfuse reads and writes passes through here until INIT is answered.
 *
 *  - FUSE_DIRECT_IO_ALLOW_MMAP (Linux 6.6, libfuse 3.17): handles that bypass the kernel's pages
 *    can be mapped all the same.
 *  - FUSE_HANDLE_KILLPRIV_V2 (Linux 5.11): the kernel does not ask for "security.capability" before
 *    each write, a request more, and leaves it to us to take set-id bits away: WRITE and SETATTR
 *    say when, and FALLOCATE and COPY_FILE_RANGE of who is not root do it too.
 */
#include "client/fuse/mount_fuse.h"

#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* FUSE_DIRECT_IO_ALLOW_MMAP >> 32: newer than the headers of Debian 12. */
enum { DIRECT_IO_ALLOW_MMAP_2 = 1 << 4 };

/* What the upper half of the flags says, and since when. */
static const struct
{
    uint32_t flag, kernel;
} flags2_since[] = {
    { 1 << 2, MOUNT_KERNEL(6, 3) }, /* FUSE_CREATE_SUPP_GROUP */
    { 1 << 3, MOUNT_KERNEL(6, 2) }, /* FUSE_HAS_EXPIRE_ONLY */
    { DIRECT_IO_ALLOW_MMAP_2, MOUNT_KERNEL(6, 6) },
    { 1 << 5, MOUNT_KERNEL(6, 9) },              /* FUSE_PASSTHROUGH */
    { 1 << 6, MOUNT_KERNEL(6, 9) },              /* FUSE_NO_EXPORT_SUPPORT */
    { 1 << 7, MOUNT_KERNEL(6, 9) },              /* FUSE_HAS_RESEND */
    { UINT32_MAX & ~255U, MOUNT_KERNEL(6, 12) }, /* FUSE_ALLOW_IDMAP and all later ones */
};

bool mount_kernel_has(const struct mount *m, uint32_t since)
{
    return m->kernel_version == 0 || m->kernel_version >= since;
}

/* A test wants the kernel to be an older one. */
static void mask_flags(const struct mount *m, struct fuse_init_in *in)
{
    for (size_t i = 0; i < ARRAY_COUNT(flags2_since); i++) {
        if (!mount_kernel_has(m, flags2_since[i].kernel)) {
            in->flags2 &= ~flags2_since[i].flag;
        }
    }
}

static void note_init(struct mount *m, void *bytes, ssize_t size)
{
    struct fuse_in_header header;
    struct fuse_init_in in;

    if (m->init_asked || size < (ssize_t)(sizeof(header) + sizeof(in))) {
        return;
    }
    memcpy(&header, bytes, sizeof(header));
    memcpy(&in, (const char *)bytes + sizeof(header), sizeof(in));
    if (header.opcode == FUSE_INIT) {
        m->init_asked = true;
        m->init_unique = header.unique;
        mask_flags(m, &in);
        memcpy((char *)bytes + sizeof(header), &in, sizeof(in));
        m->maps_direct =
            (in.flags & FUSE_INIT_EXT) != 0 && (in.flags2 & DIRECT_IO_ALLOW_MMAP_2) != 0;
        m->strips_ids = (in.flags & FUSE_HANDLE_KILLPRIV_V2) != 0;
    }
}

static ssize_t read_request(int fd, void *buf, size_t size, void *userdata)
{
    ssize_t count = read(fd, buf, size);

    note_init(userdata, buf, count);
    return count;
}

/* The answer of libfuse, before it leaves. One of another form is left alone: then the kernel has
 * neither. */
static void ask_for_more(struct mount *m, const struct iovec *iov, int count)
{
    const struct fuse_out_header *header = iov[0].iov_base;
    struct fuse_init_out *out = count == 2 ? iov[1].iov_base : NULL;

    if (iov[0].iov_len != sizeof(*header) || header->unique != m->init_unique) {
        return;
    }
    m->init_answered = true;
    if (out == NULL || header->error != 0 || iov[1].iov_len != sizeof(*out)) {
        m->maps_direct = m->strips_ids = false;
        return;
    }
    if (m->strips_ids) {
        out->flags |= FUSE_HANDLE_KILLPRIV_V2;
    }
    if (m->maps_direct) {
        out->flags |= FUSE_INIT_EXT;
        out->flags2 |= DIRECT_IO_ALLOW_MMAP_2;
    }
}

static ssize_t write_answer(int fd, struct iovec *iov, int count, void *userdata)
{
    struct mount *m = userdata;

    if (m->init_asked && !m->init_answered) {
        ask_for_more(m, iov, count);
    }
    return writev(fd, iov, count);
}

int mount_watch_init(struct fuse_session *session)
{
    static const struct fuse_custom_io io = { .writev = write_answer, .read = read_request };

    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}
