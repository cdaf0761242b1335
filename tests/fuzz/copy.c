/* A copy's state and its memory of operations: any bytes are refused, or are exactly what we write for
 * what was read. */
#include "common/base/check.h"
#include "iod/replica/copy_format.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_state(struct slice bytes)
{
    struct group_record record;
    struct copy_name name;
    struct buf again;

    if (copy_state_parse(bytes, &name, &record) == 0) {
        buf_init(&again);
        copy_state_put(&again, &name, &record);
        CHECK(again.count == bytes.count && memcmp(again.data, bytes.data, bytes.count) == 0);
        buf_free(&again);
    } else {
        CHECK(name.group == 0 && record.verifier == 0);
    }
}

static void same_operations(struct slice bytes)
{
    uint8_t again[COPY_OPERATION_BYTES];
    struct copy_operation op;
    group_number group;

    CHECK((copy_memory_header_parse(bytes, &group) == 0) == (group != 0));
    for (size_t at = group != 0 ? COPY_MEMORY_HEADER_BYTES : 0;
         bytes.count >= COPY_OPERATION_BYTES && at <= bytes.count - COPY_OPERATION_BYTES;
         at += COPY_OPERATION_BYTES) {
        if (copy_operation_parse(bytes.data + at, &op)) {
            copy_operation_put(again, &op);
            CHECK(memcmp(again, bytes.data + at, sizeof(again)) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = { data, size };

    same_state(bytes);
    same_operations(bytes);
    return 0;
}
