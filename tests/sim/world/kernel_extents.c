/* fallocate(2), lseek(2), copy_file_range(2): fs/fuse/file.c. */
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <stdlib.h>

/* fuse_file_fallocate() */
int kernel_fallocate(struct kernel_file *file, int mode, uint64_t offset, uint64_t length)
{
    struct knode *node = file->node;
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = FUSE_FALLOCATE,
                            .inode = file->inode,
                            .info = &file->info,
                            .offset = offset,
                            .length = length,
                            .flags = mode };
    bool grows = (mode & FALLOC_FL_KEEP_SIZE) == 0;
    int rv;

    klock_take(&node->lock, true);
    node->unstable = grows;
    rv = ask_and_wait(&req);
    if (rv == 0) {
        if (grows) {
            write_update_attributes(node, offset + length);
        }
        if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
            pages_punch(node, offset, length, false);
        }
        node->stale = true;
    }
    node->unstable = false;
    klock_give(&node->lock, true);
    return rv;
}

/* fuse_lseek() */
int kernel_seek(struct kernel_file *file, uint64_t offset, int whence, uint64_t *found)
{
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = FUSE_LSEEK,
                            .inode = file->inode,
                            .info = &file->info,
                            .offset = offset,
                            .flags = whence };
    int rv;

    klock_take(&file->node->lock, true);
    rv = ask_and_wait(&req);
    klock_give(&file->node->lock, true);
    *found = req.offset_to;
    return rv;
}

int kernel_ioctl(struct kernel_file *file, unsigned command, const void *in, size_t in_size,
                 void *out, size_t out_size)
{
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = FUSE_IOCTL,
                            .inode = file->inode,
                            .info = &file->info,
                            .flags = (int)command,
                            .bytes = in,
                            .size = in_size,
                            .into = out,
                            .length = out_size };

    return ask_and_wait(&req);
}

/* fuse_copy_file_range(), one request; the source is no longer than the kernel believes. */
static int copy_there(struct kernel_file *from, uint64_t from_offset, struct kernel_file *to,
                      uint64_t to_offset, size_t size, size_t *copied)
{
    struct knode *node = to->node;
    struct fuse_req req = { .kernel = from->kernel,
                            .opcode = FUSE_COPY_FILE_RANGE,
                            .inode = from->inode,
                            .info = &from->info,
                            .offset = from_offset,
                            .inode_to = to->inode,
                            .info_to = &to->info,
                            .offset_to = to_offset,
                            .length = size };
    uint64_t first = to_offset / PAGE * PAGE;
    int rv;

    klock_take(&node->lock, true);
    node->unstable = to_offset + size > node->size;
    rv = ask_and_wait(&req);
    *copied = rv == 0 ? req.count : 0;
    if (*copied > 0) {
        pages_punch(node, first, to_offset + *copied - first, true);
        write_update_attributes(node, to_offset + *copied);
    }
    node->unstable = false;
    klock_give(&node->lock, true);
    return rv;
}

/* splice_copy_file_range(), one piece, from page to page. */
static int copy_here(struct kernel_file *from, uint64_t from_offset, struct kernel_file *to,
                     uint64_t to_offset, size_t size, size_t *copied)
{
    void *bytes = malloc(size);
    int rv;

    CHECK(bytes != NULL);
    *copied = 0;
    rv = kernel_read(from, from_offset, bytes, size, copied);
    if (rv == 0 && *copied > 0) {
        rv = kernel_write(to, to_offset, bytes, *copied);
    }
    free(bytes);
    return rv;
}

int kernel_copy(struct kernel_file *from, uint64_t from_offset, struct kernel_file *to,
                uint64_t to_offset, size_t size, size_t *copied)
{
    uint64_t end = from->node->size;
    int rv;

    *copied = 0;
    if (from_offset >= end) {
        return 0;
    }
    size = size > end - from_offset ? end - from_offset : size;
    rv = copy_there(from, from_offset, to, to_offset, size, copied);
    if (rv == EOPNOTSUPP) {
        from->kernel->counts.copied_here++;
        rv = copy_here(from, from_offset, to, to_offset, size, copied);
    }
    return rv;
}
