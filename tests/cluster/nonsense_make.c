#include "nonsense_make.h"

#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/rpc/frame.h"
#include "data.pb-c.h"
#include "dataset.pb-c.h"
#include "meta.pb-c.h"
#include "replica.pb-c.h"
#include "vote.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RUNS_MAX = 65536, BODY_AIM_BYTES = 900 << 10 };

static const uint64_t numbers[] = {
    0,
    1,
    2,
    3,
    255,
    256,
    4095,
    4096,
    4097,
    1U << 20,
    FRAME_PAYLOAD_BYTES_MAX,
    FRAME_PAYLOAD_BYTES_MAX + 1,
    INT32_MAX,
    (uint64_t)INT32_MAX + 1,
    UINT32_MAX - 1,
    UINT32_MAX,
    (uint64_t)UINT32_MAX + 1,
    OBJECT_BYTES_MAX - 1,
    OBJECT_BYTES_MAX,
    OBJECT_BYTES_MAX + 1,
    INT64_MAX - 1,
    INT64_MAX,
    (uint64_t)INT64_MAX + 1,
    UINT64_MAX - 4095,
    UINT64_MAX - 1,
    UINT64_MAX,
};

static const struct text
{
    const char *data;
    size_t count;
    size_t repeat; /* That often. */
} texts[] = {
    { "", 0, 1 },
    { "a", 1, 1 },
    { "b", 1, 1 },
    { "\0", 1, 1 },
    { "\0", 1, 16 },
    { "\xff", 1, 8 },
    { "\xff", 1, 16 },
    { "/", 1, 1 },
    { ".", 1, 1 },
    { "..", 2, 1 },
    { "a/b", 3, 1 },
    { "a\0b", 3, 1 },
    { "x", 1, 254 },
    { "x", 1, 255 },
    { "x", 1, 256 },
    { "x", 1, 4095 },
    { "x", 1, 4096 },
    { "x", 1, 65536 },
    { "x", 1, 65537 },
    { "x", 1, 900000 },
    { "user.x", 6, 1 },
    { "system.posix_acl_access", 23, 1 },
    { "system.posix_acl_default", 24, 1 },
    { "trusted.morsel", 14, 1 },
    { "security.capability", 19, 1 },
    { "\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x04\0\x05\0\xff\xff\xff\xff\x20\0\x05\0\xff\xff\xff"
      "\xff",
      28, 1 },
    { "\x02\0\0\0", 4, 1 },
    { "\x02\0\0\0\x02\0\xff\xff\xff\xff\xff\xff", 12, 1 },
};

static const size_t counts[] = { 0, 1, 2, 3, 64, 65, 256, 1024, 4096, 4097, RUNS_MAX };

const struct request_type request_types[] = {
    { &morsel__read_request__descriptor, MSG_READ, true },
    { &morsel__write_request__descriptor, MSG_WRITE, true },
    { &morsel__truncate_request__descriptor, MSG_TRUNCATE, true },
    { &morsel__punch_request__descriptor, MSG_PUNCH, true },
    { &morsel__seek_request__descriptor, MSG_SEEK, true },
    { &morsel__sync_request__descriptor, MSG_SYNC, true },
    { &morsel__delete_request__descriptor, MSG_DELETE, true },
    { &morsel__object_stat_request__descriptor, MSG_OBJECT_STAT, true },
    { &morsel__object_list_request__descriptor, MSG_OBJECT_LIST, true },
    { &morsel__allocate_request__descriptor, MSG_ALLOCATE, true },
    { &morsel__copy_request__descriptor, MSG_COPY, true },
    { &morsel__empty__descriptor, MSG_STATISTICS, true },
    { &morsel__empty__descriptor, MSG_CLOCK, true },
    { &morsel__empty__descriptor, MSG_STATISTICS, false },
    { &morsel__session_request__descriptor, MSG_SESSION, false },
    { &morsel__lookup_request__descriptor, MSG_LOOKUP, false },
    { &morsel__getattr_request__descriptor, MSG_GETATTR, false },
    { &morsel__setattr_request__descriptor, MSG_SETATTR, false },
    { &morsel__create_request__descriptor, MSG_CREATE, false },
    { &morsel__unlink_request__descriptor, MSG_UNLINK, false },
    { &morsel__rename_request__descriptor, MSG_RENAME, false },
    { &morsel__link_request__descriptor, MSG_LINK, false },
    { &morsel__readlink_request__descriptor, MSG_READLINK, false },
    { &morsel__readdir_request__descriptor, MSG_READDIR, false },
    { &morsel__open_request__descriptor, MSG_OPEN, false },
    { &morsel__close_request__descriptor, MSG_CLOSE, false },
    { &morsel__size_report_request__descriptor, MSG_SIZE_REPORT, false },
    { &morsel__set_layout_request__descriptor, MSG_SET_LAYOUT, false },
    { &morsel__exchange_request__descriptor, MSG_EXCHANGE, false },
    { &morsel__pause_request__descriptor, MSG_PAUSE, false },
    { &morsel__paused_request__descriptor, MSG_PAUSED, false },
    { &morsel__xattr_get_request__descriptor, MSG_XATTR_GET, false },
    { &morsel__xattr_set_request__descriptor, MSG_XATTR_SET, false },
    { &morsel__xattr_list_request__descriptor, MSG_XATTR_LIST, false },
    { &morsel__statfs_request__descriptor, MSG_STATFS, false },
    { &morsel__fsync_request__descriptor, MSG_FSYNC, false },
    { &morsel__policy_request__descriptor, MSG_POLICY, false },
    { &morsel__return_request__descriptor, MSG_RETURN, false },
    { &morsel__lock_request__descriptor, MSG_LOCK, false },
    { &morsel__lock_cancel__descriptor, MSG_LOCK_CANCEL, false },
    { &morsel__members_request__descriptor, MSG_MEMBERS, false },
    { &morsel__register_request__descriptor, MSG_REGISTER, false },
    { &morsel__heartbeat_request__descriptor, MSG_HEARTBEAT, false },
    { &morsel__status_request__descriptor, MSG_STATUS, false },
    { &morsel__fsck_request__descriptor, MSG_FSCK, false },
    { &morsel__fsck_objects__descriptor, MSG_FSCK_OBJECTS, false },
    { &morsel__writers_request__descriptor, MSG_WRITERS, false },
    { &morsel__donor_join_request__descriptor, MSG_DONOR_JOIN, false },
    { &morsel__donor_report_request__descriptor, MSG_DONOR_REPORT, false },
    { &morsel__donor_list_request__descriptor, MSG_DONOR_LIST, false },
    { &morsel__donor_forget_request__descriptor, MSG_DONOR_FORGET, false },
    { &morsel__donor_held_request__descriptor, MSG_DONOR_HELD, false },
    { &morsel__donor_fetched_request__descriptor, MSG_DONOR_FETCHED, false },
    { &morsel__set_place_request__descriptor, MSG_SET_PLACE, false },
    { &morsel__set_stored_request__descriptor, MSG_SET_STORED, false },
    { &morsel__set_seal_request__descriptor, MSG_SET_SEAL, false },
    { &morsel__set_map_request__descriptor, MSG_SET_MAP, false },
    { &morsel__set_claim_request__descriptor, MSG_SET_CLAIM, false },
    { &morsel__set_returned_request__descriptor, MSG_SET_RETURNED, false },
    { &morsel__set_list_request__descriptor, MSG_SET_LIST, false },
    { &morsel__vote_request__descriptor, MSG_VOTE, true },
    { &morsel__vote_request__descriptor, MSG_VOTE, false },
    { &morsel__votes_read_request__descriptor, MSG_VOTES_READ, true },
    { &morsel__votes_carry_request__descriptor, MSG_VOTES_CARRY, true },
    { &morsel__group_words__descriptor, MSG_GROUP_WORDS, true },
    { &morsel__mirror_lease_request__descriptor, MSG_MIRROR_LEASE, true },
    { &morsel__replica_message__descriptor, MSG_REPLICA, true },
    { &morsel__probe_request__descriptor, MSG_PROBE, true },
    { &morsel__hand_on_request__descriptor, MSG_HAND_ON, true },
};

const size_t request_types_count = ARRAY_COUNT(request_types);

/* ---- Plausible values ---- */

/* What a field of this name usually holds; 0 for the others. */
static uint64_t plausible_number(const struct maker *m, const char *field)
{
    static const struct
    {
        const char *field;
        uint64_t value;
    } plain[] = {
        { "length", 4096 },
        { "mode", S_IFREG | 0644 },
        { "how", 0 },
        { "type", 2 },

        { "server", 1 },
        { "group", 1 },
        { "from", 1 },
        { "epoch", 1 },
        { "round", 1 },
        { "set", 3 },
        { "bytes_total", 1 << 20 },
        { "bytes_free", 1 << 20 },
        { "size", 8192 },
        { "valid", 1 },
        { "count_max", 16 },
        { "instance", 7 },
    };

    if (strcmp(field, "inode") == 0 || strcmp(field, "like") == 0) {
        return m->inode;
    }
    if (strcmp(field, "parent") == 0 || strcmp(field, "new_parent") == 0) {
        return m->directory;
    }
    if (strcmp(field, "client") == 0) {
        return m->client;
    }
    if (strcmp(field, "sequence") == 0) {
        return m->sequence;
    }
    if (strcmp(field, "answered") == 0) {
        return m->sequence - 1;
    }
    if (strcmp(field, "number") == 0) {
        return m->number;
    }
    if (strcmp(field, "end") == 0) {
        return UINT64_MAX;
    }
    for (size_t i = 0; i < ARRAY_COUNT(plain); i++) {
        if (strcmp(field, plain[i].field) == 0) {
            return plain[i].value;
        }
    }
    return 0;
}

/* Each token is one of its own: a server that nobody has seen. */
static struct text plausible_text(struct maker *m, const char *field)
{
    if (strcmp(field, "name") == 0) {
        return (struct text){ "a", 1, 1 };
    }
    if (strcmp(field, "new_name") == 0) {
        return (struct text){ "b", 1, 1 };
    }
    if (strcmp(field, "token") == 0) {
        memcpy(m->token, &m->number, sizeof(m->number));
        return (struct text){ m->token, sizeof(m->token), 1 };
    }
    if (strcmp(field, "address") == 0) {
        return (struct text){ "127.0.0.1:9", 11, 1 };
    }
    return (struct text){ "", 0, 1 };
}

/* ---- Choosing ---- */

/* Which of `choices` values a place takes; SIZE_MAX: the plausible one. */
static size_t choose(struct maker *m, size_t choices)
{
    size_t place = m->places++;

    if (m->prng != NULL) {
        return prng_below(m->prng, 100) < m->plausible_percent ? SIZE_MAX
                                                               : prng_below(m->prng, choices);
    }
    if (place != m->place) {
        return SIZE_MAX;
    }
    m->choices = choices;
    return m->choice;
}

static void *room(struct maker *m, size_t bytes)
{
    void *at;

    bytes = (bytes + 15) / 16 * 16;
    CHECK(m->used + bytes <= sizeof(m->memory));
    at = m->memory + m->used;
    memset(at, 0, bytes);
    m->used += bytes;
    return at;
}

static uint64_t make_number(struct maker *m, const char *field)
{
    size_t choice = choose(m, ARRAY_COUNT(numbers));

    return choice == SIZE_MAX ? plausible_number(m, field) : numbers[choice];
}

static struct text make_text(struct maker *m, const char *field, uint8_t **data)
{
    size_t choice = choose(m, ARRAY_COUNT(texts));
    struct text text = choice == SIZE_MAX ? plausible_text(m, field) : texts[choice];

    if (text.count * text.repeat > BODY_AIM_BYTES - m->aim) {
        text.repeat = 1;
    }
    m->aim += text.count * text.repeat;
    *data = room(m, text.count * text.repeat + 1);
    for (size_t i = 0; i < text.repeat; i++) {
        memcpy(*data + i * text.count, text.data, text.count);
    }
    text.count *= text.repeat;
    return text;
}

static ProtobufCMessage *make_message(struct maker *m, const ProtobufCMessageDescriptor *type);

static size_t bytes_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return sizeof(uint32_t);
    }
}

static void make_value(struct maker *m, const ProtobufCFieldDescriptor *field, void *at)
{
    ProtobufCBinaryData *bytes = at;
    uint8_t *data;

    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)at = make_number(m, field->name);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
        *(uint32_t *)at = (uint32_t)make_number(m, field->name);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = choose(m, 2) == 1;
        break;
    case PROTOBUF_C_TYPE_BYTES:
        bytes->len = make_text(m, field->name, &data).count;
        bytes->data = data;
        break;
    case PROTOBUF_C_TYPE_STRING:
        (void)make_text(m, field->name, &data);
        *(char **)at = (char *)data;
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)at =
            choose(m, 1) == 0
                ? NULL
                : make_message(m, (const ProtobufCMessageDescriptor *)field->descriptor);
        break;
    default:
        CHECK(!"the protocol has a type of field that this test does not know");
    }
}

/* A list: its first three are made one by one, the others are the first two by turns, so that each
 * name in it comes twice. */
static void make_list(struct maker *m, const ProtobufCFieldDescriptor *field,
                      ProtobufCMessage *message)
{
    size_t bytes = bytes_of(field->type), choice = choose(m, ARRAY_COUNT(counts));
    size_t count = choice == SIZE_MAX ? 1 : counts[choice], weight = bytes;
    uint8_t *items;

    if (field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_BYTES) {
        weight = 100;
    }
    while (count * weight > BODY_AIM_BYTES - m->aim) {
        count /= 2;
    }
    m->aim += count * weight;
    items = room(m, count * bytes + 1);
    for (size_t i = 0; i < count; i++) {
        if (i < 3) {
            make_value(m, field, items + i * bytes);
            if (field->type == PROTOBUF_C_TYPE_MESSAGE && *(void **)(items + i * bytes) == NULL) {
                count = i; /* A list has no gaps. */
                break;
            }
        } else {
            memcpy(items + i * bytes, items + i % 2 * bytes, bytes);
        }
    }
    *(size_t *)((uint8_t *)message + field->quantifier_offset) = count;
    *(void **)((uint8_t *)message + field->offset) = items;
}

static ProtobufCMessage *make_message(struct maker *m, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = room(m, type->sizeof_message);

    protobuf_c_message_init(type, message);
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];

        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            make_list(m, field, message);
        } else {
            make_value(m, field, (uint8_t *)message + field->offset);
        }
    }
    return message;
}

const ProtobufCMessage *maker_run(struct maker *m, const struct request_type *type)
{
    m->used = m->aim = m->places = m->choices = 0;
    return make_message(m, type->body);
}
