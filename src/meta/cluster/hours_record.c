/* Hours of benefactors, as bytes. */
#include "meta/cluster/hours_record.h"

#include "common/base/status.h"

#include <string.h>

enum { HOURS_RECORD_VERSION = 1 };

void hours_encode(const struct hours_record *record, struct buf *out)
{
    buf_put_u8(out, HOURS_RECORD_VERSION);
    buf_put(out, record->share, sizeof(record->share));
    for (uint32_t i = 0; i < HOURS_ABSENCES; i++) {
        buf_put_u16(out, record->absences[i]);
    }
    buf_put_u64(out, (uint64_t)record->left_local_s);
    buf_put_u32(out, record->missed);
}

int hours_decode(donor_id id, struct slice bytes, struct hours_record *record)
{
    struct reader r;
    struct slice share;
    uint8_t version;

    memset(record, 0, sizeof(*record));
    record->id = id;
    reader_init(&r, bytes.data, bytes.count);
    version = reader_u8(&r);
    if (r.failed || version == 0) {
        return MORSEL_CORRUPT;
    }
    if (version > HOURS_RECORD_VERSION) {
        return MORSEL_VERSION;
    }
    share = reader_bytes(&r, sizeof(record->share));
    if (!r.failed) {
        memcpy(record->share, share.data, share.count);
    }
    for (uint32_t i = 0; i < HOURS_ABSENCES; i++) {
        record->absences[i] = reader_u16(&r);
    }
    record->left_local_s = (int64_t)reader_u64(&r);
    record->missed = reader_u32(&r);
    return reader_done(&r) && id != 0 && record->left_local_s >= 0 &&
                   record->missed <= HOURS_MISSED_MAX
               ? 0
               : MORSEL_CORRUPT;
}
