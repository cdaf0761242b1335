/* The operation log: any bytes decode or are refused, and a decoded operation encodes to one that
 * decodes alike. */
#include "meta/namespace/op.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf first, second;
    struct meta_op op;
    int rv = op_decode((struct slice){ data, size }, &op);

    CHECK(rv == MORSEL_OK || rv == MORSEL_CORRUPT || rv == MORSEL_VERSION);
    if (rv != MORSEL_OK) {
        return 0;
    }
    CHECK(op_kind_name(op.kind) != NULL);
    if (op.kind == OP_COLLECTED || op.kind == OP_GARBAGE) {
        for (size_t i = 0; i < op_objects_count(op.objects.objects); i++) {
            (void)op_object_at(op.objects.objects, i);
        }
    }
    buf_init(&first);
    buf_init(&second);
    op_encode(&op, &first);
    CHECK(op_decode(buf_slice(&first), &op) == MORSEL_OK);
    op_encode(&op, &second);
    CHECK(first.count == second.count && memcmp(first.data, second.data, first.count) == 0);
    buf_free(&first);
    buf_free(&second);
    return 0;
}
