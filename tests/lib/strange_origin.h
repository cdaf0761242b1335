/* Origins as a faulty mount may say them, for tests that draw operations. */
#ifndef TESTS_LIB_STRANGE_ORIGIN_H
#define TESTS_LIB_STRANGE_ORIGIN_H

#include "common/fs/origin.h"
#include "meta/namespace/op.h"

#include <stdio.h>
#include <string.h>

/* One of a few for the first set of the file, mostly; among them some that no origin is; of `which` 0 the end is missing. */
static inline void strange_origin(struct meta_op *op, inode_id file, uint64_t which,
                                  struct buf *out)
{
    struct origin origin;

    origin_init(&origin);
    (void)snprintf(origin.url, sizeof(origin.url), "%s", which == 1 ? "gopher:/h/x" : "http://h/x");
    origin.url[7] = (char)('a' + which % 3);
    origin.size = which % 2 == 0 ? ORIGIN_SIZE_UNKNOWN : which << 20;
    origin.modified_s = which % 5 == 0 ? ORIGIN_TIME_UNKNOWN : 1;
    origin_encode(&origin, out);
    op->set_origin.inode = file;
    op->set_origin.set = file + (which == 2);
    op->set_origin.record = buf_slice(out);
    op->set_origin.record.count -= which == 0;
}

#endif
