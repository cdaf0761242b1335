/* What the manager reads from its store: any bytes decode or are refused, and what decodes is worth
 * its own encoding.
 *
 * Input: one byte picks the record, the rest is its value. */
#include "meta/namespace/record.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "meta/datasets/set_record.h"
#include "meta/namespace/groups_record.h"
#include "meta/namespace/voters_record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NUMBER = 4711 };

/* Too large for a stack. */
static int decode_encode_groups(struct slice bytes, struct buf *out)
{
    struct groups_record *record = malloc(sizeof(*record));
    int rv;

    CHECK(record != NULL);
    rv = groups_record_decode(bytes, record);
    if (rv == 0) {
        groups_record_encode(record, out);
    }
    free(record);
    return rv;
}

static int decode_encode_origin(struct slice bytes, struct buf *out)
{
    struct origin origin;
    int rv = origin_decode(bytes, &origin);

    if (rv == 0) {
        origin_encode(&origin, out);
    }
    return rv;
}

static int decode_encode_page(struct slice bytes, struct buf *out)
{
    struct set_page_reader reader;
    struct set_morsel morsel;
    int rv = set_page_open(&reader, NUMBER, bytes);

    if (rv == 0) {
        set_page_begin(out);
    }
    while (rv == 0 && (rv = set_page_next(&reader, &morsel)) == 1) {
        CHECK(morsel.number / SET_PAGE_MORSELS == NUMBER && morsel.donor_count <= SET_DONORS_MAX);
        set_page_put(&morsel, out);
        rv = 0;
    }
    return rv;
}

static int decode_encode(unsigned kind, struct slice bytes, struct buf *out)
{
    struct voter_seats seats;
    union {
        struct inode inode;
        struct dentry dentry;
        struct super super;
        struct counters counters;
        struct member_record member;
        struct slice plain;
        struct voters_record voters;
        struct session_record session;
        struct donor_record donor;
        struct set_head set;
        uint32_t waste;
    } record;
    int rv;

    switch (kind) {
    case 0:
        rv = inode_decode(NUMBER, bytes, &record.inode);
        if (rv == 0) {
            CHECK(record.inode.layout.stripe.width == 0 ||
                  stripe_valid(&record.inode.layout.stripe));
            CHECK(file_policy_valid(&record.inode.policy));
            inode_encode(&record.inode, out);
        }
        return rv;
    case 1:
        rv = dentry_decode(bytes, &record.dentry);
        if (rv == 0) {
            dentry_encode(&record.dentry, out);
        }
        return rv;
    case 2:
        rv = super_decode(bytes, &record.super);
        if (rv == 0) {
            super_encode(&record.super, out);
        }
        return rv;
    case 3:
        rv = counters_decode(bytes, &record.counters);
        if (rv == 0) {
            counters_encode(&record.counters, out);
        }
        return rv;
    case 4:
        rv = member_decode(NUMBER, bytes, &record.member);
        if (rv == 0) {
            member_encode(&record.member, out);
        }
        return rv;
    case 5:
        rv = voters_record_decode(bytes, &record.voters, &seats);
        if (rv == 0) {
            CHECK(voter_set_valid(&record.voters.set));
            voters_record_encode(&record.voters, &seats, out);
        }
        return rv;
    case 7:
        return decode_encode_groups(bytes, out);
    case 8:
    case 9:
        rv = session_record_decode(kind == 8 ? 0 : NUMBER, bytes, &record.session);
        if (rv == 0) {
            session_record_encode(&record.session, out);
        }
        return rv;
    case 10:
        rv = donor_decode(NUMBER, bytes, &record.donor);
        if (rv == 0) {
            donor_encode(&record.donor, out);
        }
        return rv;
    case 11:
        rv = set_head_decode(NUMBER, bytes, &record.set);
        if (rv == 0) {
            set_head_encode(&record.set, out);
        }
        return rv;
    case 12:
        return decode_encode_page(bytes, out);
    case 13:
        rv = waste_decode(bytes, &record.waste);
        if (rv == 0) {
            waste_encode(record.waste, out);
        }
        return rv;
    case 14:
        return decode_encode_origin(bytes, out);
    default: /* 6 */
        rv = plain_decode(bytes, &record.plain);
        if (rv == 0) {
            plain_encode(record.plain, out);
        }
        return rv;
    }
}

static void check_key(struct slice key)
{
    struct object_id object;
    struct slice name;
    inode_id inode;
    server_id server;
    uint32_t number;

    if (key_name_parse(key, RECORD_DENTRY, &inode, &name)) {
        struct record_key again = key_dentry(inode, name);

        CHECK(again.count == key.count && memcmp(again.bytes, key.data, key.count) == 0);
    }
    if (key_garbage_parse(key, &server, &object)) {
        struct record_key again = key_garbage(server, object);

        CHECK(again.count == key.count && memcmp(again.bytes, key.data, key.count) == 0);
    }
    if (key_waste_parse(key, &server, &inode, &number)) {
        struct record_key again = key_waste(server, inode, number);

        CHECK(again.count == key.count && memcmp(again.bytes, key.data, key.count) == 0);
    }
    if (key_map_parse(key, &inode, &number)) {
        struct record_key again = key_map(inode, number);

        CHECK(again.count == key.count && memcmp(again.bytes, key.data, key.count) == 0);
    }
    (void)key_inode_parse(key, RECORD_INODE, &inode);
    (void)key_inode_parse(key, RECORD_LOG, &inode);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf first, second;
    int rv;

    if (size == 0) {
        return 0;
    }
    check_key((struct slice){ data + 1, size - 1 });
    buf_init(&first);
    buf_init(&second);
    rv = decode_encode(data[0] % 15, (struct slice){ data + 1, size - 1 }, &first);
    CHECK(rv == MORSEL_OK || rv == MORSEL_CORRUPT || rv == MORSEL_VERSION);
    if (rv == MORSEL_OK) {
        CHECK(decode_encode(data[0] % 15, buf_slice(&first), &second) == MORSEL_OK);
        CHECK(first.count == second.count && memcmp(first.data, second.data, first.count) == 0);
    }
    buf_free(&first);
    buf_free(&second);
    return 0;
}
