/* Encodes and decodes keys and values of the store; each decoder refuses what it does not know. */
#include "meta/namespace/record.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"

#include <string.h>

static void put_be(struct record_key *key, uint64_t value, unsigned bytes)
{
    CHECK(key->count + bytes <= sizeof(key->bytes));
    for (unsigned i = bytes; i-- > 0;) {
        key->bytes[key->count++] = (uint8_t)(value >> (8 * i));
    }
}

static struct record_key key_of(enum record_kind kind)
{
    struct record_key key;

    key.bytes[0] = (uint8_t)kind;
    key.count = 1;
    return key;
}

static struct record_key key_of_number(enum record_kind kind, uint64_t number)
{
    struct record_key key = key_of(kind);

    put_be(&key, number, 8);
    return key;
}

static struct record_key key_of_name(enum record_kind kind, inode_id inode, struct slice name)
{
    struct record_key key = key_of_number(kind, inode);

    CHECK(name.count <= NAME_BYTES_MAX);
    if (name.count > 0) {
        memcpy(key.bytes + key.count, name.data, name.count);
        key.count += name.count;
    }
    return key;
}

struct slice record_key_slice(const struct record_key *key)
{
    return (struct slice){ key->bytes, key->count };
}

struct record_key key_super(void)
{
    return key_of(RECORD_SUPER);
}

struct record_key key_counters(void)
{
    return key_of(RECORD_COUNTERS);
}

struct record_key key_inode(inode_id inode)
{
    return key_of_number(RECORD_INODE, inode);
}

struct record_key key_dentry(inode_id parent, struct slice name)
{
    return key_of_name(RECORD_DENTRY, parent, name);
}

struct record_key key_target(inode_id inode)
{
    return key_of_number(RECORD_TARGET, inode);
}

struct record_key key_xattr(inode_id inode, struct slice name)
{
    return key_of_name(RECORD_XATTR, inode, name);
}

struct record_key key_unsynced(inode_id inode)
{
    return key_of_number(RECORD_UNSYNCED, inode);
}

struct record_key key_orphan(inode_id inode)
{
    return key_of_number(RECORD_ORPHAN, inode);
}

struct record_key key_body(inode_id body)
{
    return key_of_number(RECORD_BODY, body);
}

struct record_key key_garbage(server_id server, struct object_id object)
{
    struct record_key key = key_of(RECORD_GARBAGE);

    put_be(&key, server, 4);
    put_be(&key, object.inode, 8);
    put_be(&key, object.column, 4);
    return key;
}

struct record_key key_member(server_id server)
{
    struct record_key key = key_of(RECORD_MEMBER);

    put_be(&key, server, 4);
    return key;
}

struct record_key key_donor(donor_id donor)
{
    struct record_key key = key_of(RECORD_DONOR);

    put_be(&key, donor, 4);
    return key;
}

struct record_key key_hours(donor_id donor)
{
    struct record_key key = key_of(RECORD_HOURS);

    put_be(&key, donor, 4);
    return key;
}

struct record_key key_set(uint64_t set)
{
    return key_of_number(RECORD_SET, set);
}

struct record_key key_origin(uint64_t set)
{
    return key_of_number(RECORD_ORIGIN, set);
}

struct record_key key_map(uint64_t set, uint32_t page)
{
    struct record_key key = key_of_number(RECORD_MAP, set);

    put_be(&key, page, 4);
    return key;
}

struct record_key key_waste(donor_id donor, uint64_t set, uint32_t morsel)
{
    struct record_key key = key_of(RECORD_WASTE);

    put_be(&key, donor, 4);
    put_be(&key, set, 8);
    put_be(&key, morsel, 4);
    return key;
}

struct record_key key_holder(uint64_t lease_epoch)
{
    return key_of_number(RECORD_HOLDER, lease_epoch);
}

struct record_key key_session(client_id client)
{
    return key_of_number(RECORD_SESSION, client);
}

struct record_key key_voters(void)
{
    return key_of(RECORD_VOTERS);
}

struct record_key key_groups(void)
{
    return key_of(RECORD_GROUPS);
}

struct record_key key_log(uint64_t sequence)
{
    return key_of_number(RECORD_LOG, sequence);
}

static uint64_t get_be(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

bool key_inode_parse(struct slice key, enum record_kind kind, inode_id *inode)
{
    if (key.count != 9 || key.data[0] != (uint8_t)kind) {
        return false;
    }
    *inode = get_be(key.data + 1, 8);
    return true;
}

bool key_name_parse(struct slice key, enum record_kind kind, inode_id *inode, struct slice *name)
{
    if (key.count < 10 || key.count > RECORD_KEY_BYTES_MAX || key.data[0] != (uint8_t)kind) {
        return false;
    }
    *inode = get_be(key.data + 1, 8);
    *name = (struct slice){ key.data + 9, key.count - 9 };
    return true;
}

bool key_garbage_parse(struct slice key, server_id *server, struct object_id *object)
{
    if (key.count != 17 || key.data[0] != RECORD_GARBAGE) {
        return false;
    }
    *server = (server_id)get_be(key.data + 1, 4);
    object->inode = get_be(key.data + 5, 8);
    object->column = (uint32_t)get_be(key.data + 13, 4);
    return true;
}

bool key_map_parse(struct slice key, uint64_t *set, uint32_t *page)
{
    if (key.count != 13 || key.data[0] != RECORD_MAP) {
        return false;
    }
    *set = get_be(key.data + 1, 8);
    *page = (uint32_t)get_be(key.data + 9, 4);
    return true;
}

bool key_waste_parse(struct slice key, donor_id *donor, uint64_t *set, uint32_t *morsel)
{
    if (key.count != 17 || key.data[0] != RECORD_WASTE) {
        return false;
    }
    *donor = (donor_id)get_be(key.data + 1, 4);
    *set = get_be(key.data + 5, 8);
    *morsel = (uint32_t)get_be(key.data + 13, 4);
    return true;
}

/* Read the version byte and check that this program knows it. */
static int version_up_to(struct reader *r, uint8_t newest, uint8_t *version)
{
    *version = reader_u8(r);
    if (r->failed || *version == 0) {
        return MORSEL_CORRUPT;
    }
    return *version > newest ? MORSEL_VERSION : 0;
}

static int version_check(struct reader *r)
{
    uint8_t version;

    return version_up_to(r, RECORD_VERSION, &version);
}

static int all_read(const struct reader *r)
{
    return reader_done(r) ? 0 : MORSEL_CORRUPT;
}

/* Beside the class, in the same byte: a layout's flag, or a policy's answer. */
enum { CLASS_MASK = 0x0f, SCRATCH_SHIFT = 4 };

void file_layout_encode(const struct file_layout *layout, struct buf *out)
{
    CHECK(stripe_valid(&layout->stripe));
    buf_put_u8(out, (uint8_t)(layout->class | (uint32_t)layout->scratch << SCRATCH_SHIFT));
    buf_put_u8(out, (uint8_t)layout->replicas);
    buf_put_u32(out, layout->stripe.morsel_bytes);
    buf_put_u16(out, (uint16_t)layout->stripe.stripe_morsels);
    buf_put_u8(out, (uint8_t)layout->stripe.width);
    for (uint32_t i = 0; layout->class != CLASS_SCAVENGED && i < layout->stripe.width; i++) {
        buf_put_u32(out, layout->replicas > 1 ? layout->groups[i] : layout->servers[i]);
    }
}

bool file_layout_decode(struct reader *r, struct file_layout *layout)
{
    uint8_t class = reader_u8(r);

    layout->class = class & CLASS_MASK;
    layout->scratch = class >> SCRATCH_SHIFT == 1;
    layout->replicas = reader_u8(r);
    layout->stripe.morsel_bytes = reader_u32(r);
    layout->stripe.stripe_morsels = reader_u16(r);
    layout->stripe.width = reader_u8(r);
    if (r->failed || class >> SCRATCH_SHIFT > 1 || layout->class > CLASS_SCAVENGED ||
        layout->replicas < 1 || layout->replicas > REPLICAS_MAX || !stripe_valid(&layout->stripe)) {
        return false;
    }
    for (uint32_t i = 0; layout->class != CLASS_SCAVENGED && i < layout->stripe.width; i++) {
        uint32_t where = reader_u32(r);

        layout->servers[i] = layout->replicas > 1 ? 0 : where;
        layout->groups[i] = layout->replicas > 1 ? where : 0;
        if (layout->groups[i] >= PLACING_GROUPS_MAX || (layout->replicas > 1 && where == 0)) {
            return false;
        }
    }
    return !r->failed;
}

void file_policy_encode(const struct file_policy *policy, struct buf *out)
{
    buf_put_u8(out, (uint8_t)(policy->class | policy->scratch << SCRATCH_SHIFT));
    buf_put_u8(out, (uint8_t)policy->replicas);
    buf_put_u32(out, policy->morsel_bytes);
    buf_put_u16(out, (uint16_t)policy->stripe_morsels);
    buf_put_u8(out, (uint8_t)policy->width);
}

void file_policy_decode(struct reader *r, struct file_policy *policy)
{
    uint8_t class = reader_u8(r);

    policy->class = class & CLASS_MASK;
    policy->scratch = class >> SCRATCH_SHIFT;
    policy->replicas = reader_u8(r);
    policy->morsel_bytes = reader_u32(r);
    policy->stripe_morsels = reader_u16(r);
    policy->width = reader_u8(r);
}

bool file_policy_valid(const struct file_policy *policy)
{
    struct stripe s = { policy->morsel_bytes ? policy->morsel_bytes : MORSEL_BYTES_DEFAULT,
                        policy->stripe_morsels ? policy->stripe_morsels : 1,
                        policy->width ? policy->width : 1 };

    return stripe_valid(&s) && policy->class <= CLASS_SCAVENGED &&
           policy->replicas <= REPLICAS_MAX && policy->scratch <= POLICY_YES;
}

bool file_policy_empty(const struct file_policy *policy)
{
    return policy->class == CLASS_INHERIT && policy->replicas == 0 && policy->morsel_bytes == 0 &&
           policy->stripe_morsels == 0 && policy->width == 0 && policy->scratch == POLICY_UNSAID;
}

void inode_encode(const struct inode *inode, struct buf *out)
{
    buf_put_u8(out, inode->body != INODE_NONE ? INODE_VERSION_BODY : RECORD_VERSION);
    buf_put_u32(out, inode->mode);
    buf_put_u32(out, inode->nlink);
    buf_put_u32(out, inode->uid);
    buf_put_u32(out, inode->gid);
    buf_put_u64(out, (uint64_t)inode->atime_ns);
    buf_put_u64(out, (uint64_t)inode->mtime_ns);
    buf_put_u64(out, (uint64_t)inode->ctime_ns);
    buf_put_u64(out, inode->version);
    buf_put_u8(out, (uint8_t)inode->flags);
    if (mode_is_regular(inode->mode)) {
        buf_put_u64(out, inode->size);
        buf_put_u64(out, inode->reach);
        buf_put_u64(out, inode->data_version);
        file_layout_encode(&inode->layout, out);
        if ((inode->flags & INODE_TAILED) != 0) {
            buf_put_u64(out, inode->tail);
        }
        if (inode->body != INODE_NONE) {
            buf_put_u64(out, inode->body);
        }
    } else if (mode_is_directory(inode->mode)) {
        buf_put_u64(out, inode->parent);
        buf_put_u64(out, inode->entries);
        file_policy_encode(&inode->policy, out);
    } else {
        buf_put_u64(out, inode->size);
        buf_put_u64(out, inode->rdev);
    }
}

static bool mode_valid(uint32_t mode)
{
    switch (mode_type(mode)) {
    case S_IFIFO:
    case S_IFCHR:
    case S_IFDIR:
    case S_IFBLK:
    case S_IFREG:
    case S_IFLNK:
    case S_IFSOCK:
        return (mode & ~(uint32_t)(S_IFMT | MODE_BITS)) == 0;
    default:
        return false;
    }
}

static bool inode_tail_decode(struct reader *r, struct inode *inode)
{
    if (mode_is_regular(inode->mode)) {
        inode->size = reader_u64(r);
        inode->reach = reader_u64(r);
        inode->data_version = reader_u64(r);
        if (inode->size > INT64_MAX || inode->reach > INT64_MAX ||
            !file_layout_decode(r, &inode->layout)) {
            return false;
        }
        inode->tail = (inode->flags & INODE_TAILED) != 0 ? reader_u64(r) : 0;
        return true;
    }
    if (mode_is_directory(inode->mode)) {
        inode->parent = reader_u64(r);
        inode->entries = reader_u64(r);
        file_policy_decode(r, &inode->policy);
        return file_policy_valid(&inode->policy);
    }
    inode->size = reader_u64(r);
    inode->rdev = reader_u64(r);
    return true;
}

static bool inode_body_decode(struct reader *r, struct inode *inode)
{
    inode->body = reader_u64(r);
    return mode_is_regular(inode->mode) && inode->body != INODE_NONE && inode->body != inode->id;
}

int inode_decode(inode_id id, struct slice bytes, struct inode *inode)
{
    struct reader r;
    uint8_t version;
    int rv;

    memset(inode, 0, sizeof(*inode));
    inode->id = id;
    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_up_to(&r, INODE_VERSION_BODY, &version)) != 0) {
        return rv;
    }
    inode->mode = reader_u32(&r);
    inode->nlink = reader_u32(&r);
    inode->uid = reader_u32(&r);
    inode->gid = reader_u32(&r);
    inode->atime_ns = (int64_t)reader_u64(&r);
    inode->mtime_ns = (int64_t)reader_u64(&r);
    inode->ctime_ns = (int64_t)reader_u64(&r);
    inode->version = reader_u64(&r);
    inode->flags = reader_u8(&r);
    if (!mode_valid(inode->mode) || (inode->flags & ~(uint32_t)INODE_FLAGS_KNOWN) != 0 ||
        !inode_tail_decode(&r, inode) ||
        (version == INODE_VERSION_BODY && !inode_body_decode(&r, inode))) {
        return MORSEL_CORRUPT;
    }
    return all_read(&r);
}

void body_owner_encode(inode_id file, struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put_u64(out, file);
}

int body_owner_decode(struct slice bytes, inode_id *file)
{
    struct reader r;
    int rv;

    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    *file = reader_u64(&r);
    return *file == INODE_NONE ? MORSEL_CORRUPT : all_read(&r);
}

void dentry_encode(const struct dentry *dentry, struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put_u64(out, dentry->inode);
    buf_put_u16(out, (uint16_t)mode_type(dentry->type));
}

int dentry_decode(struct slice bytes, struct dentry *dentry)
{
    struct reader r;
    int rv;

    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    dentry->inode = reader_u64(&r);
    dentry->type = reader_u16(&r);
    if (dentry->inode == INODE_NONE || !mode_valid(dentry->type) ||
        (dentry->type & MODE_BITS) != 0) {
        return MORSEL_CORRUPT;
    }
    return all_read(&r);
}

void super_encode(const struct super *super, struct buf *out)
{
    buf_put_u8(out, super->auto_copies ? SUPER_VERSION_COPIES : RECORD_VERSION);
    buf_put_u32(out, super->store_version);
    buf_put(out, super->cluster.bytes, sizeof(super->cluster.bytes));
    buf_put_u64(out, (uint64_t)super->made_ns);
}

int super_decode(struct slice bytes, struct super *super)
{
    struct reader r;
    struct slice cluster;
    uint8_t version;
    int rv;

    memset(super, 0, sizeof(*super));
    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_up_to(&r, SUPER_VERSION_COPIES, &version)) != 0) {
        return rv;
    }
    super->auto_copies = version == SUPER_VERSION_COPIES;
    super->store_version = reader_u32(&r);
    if (!r.failed && super->store_version > STORE_VERSION) {
        return MORSEL_VERSION;
    }
    cluster = reader_bytes(&r, sizeof(super->cluster.bytes));
    super->made_ns = (int64_t)reader_u64(&r);
    if (r.failed || super->store_version == 0) {
        return MORSEL_CORRUPT;
    }
    memcpy(super->cluster.bytes, cluster.data, cluster.count);
    return all_read(&r);
}

void counters_encode(const struct counters *counters, struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put_u64(out, counters->sequence);
    buf_put_u64(out, counters->inode_next);
    buf_put_u64(out, counters->inodes);
    buf_put_u64(out, counters->garbage);
    buf_put_u64(out, counters->policies);
    buf_put_u64(out, counters->orphans);
    buf_put_u64(out, counters->grantee);
    buf_put_u64(out, counters->lease_epochs_over);
}

int counters_decode(struct slice bytes, struct counters *counters)
{
    struct reader r;
    int rv;

    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    counters->sequence = reader_u64(&r);
    counters->inode_next = reader_u64(&r);
    counters->inodes = reader_u64(&r);
    counters->garbage = reader_u64(&r);
    counters->policies = reader_u64(&r);
    counters->orphans = reader_u64(&r);
    counters->grantee = reader_u64(&r);
    counters->lease_epochs_over = reader_done(&r) ? 0 : reader_u64(&r); /* It came later. */
    return all_read(&r);
}

void session_record_encode(const struct session_record *record, struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put_u32(out, record->waited_ms);
    if (record->run != 0) {
        buf_put_u64(out, record->run);
    }
}

int session_record_decode(client_id client, struct slice bytes, struct session_record *record)
{
    struct reader r;
    int rv;

    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    record->waited_ms = reader_u32(&r);
    record->run = client == 0 ? reader_u64(&r) : 0;
    if (client == 0 ? record->run == 0 : record->waited_ms == SESSION_STRUCK_OUT) {
        return MORSEL_CORRUPT;
    }
    return all_read(&r);
}

static bool marked(const struct starts_known *starts)
{
    return starts->confirmed != 0 || starts->tentative != 0;
}

void member_encode(const struct member_record *member, struct buf *out)
{
    buf_put_u8(out, member->removed ? MEMBER_VERSION_REMOVED
                    : member->waits ? MEMBER_VERSION_WAITS
                                    : RECORD_VERSION);
    buf_put(out, member->token, sizeof(member->token));
    buf_put_blob(out, member->address, strlen(member->address));
    buf_put_blob(out, member->name, strlen(member->name));
    buf_put_u64(out, member->bytes_total);
    buf_put_u64(out, member->bytes_free);
    if (marked(&member->starts)) {
        buf_put_u64(out, member->starts.confirmed);
        buf_put_u64(out, member->starts.tentative);
        if (member->starts.count != 0) {
            buf_put_u64(out, member->starts.count);
        }
    }
}

/* Into a fixed text of `capacity` bytes; false when it does not fit or holds a zero. */
static bool text_decode(struct slice bytes, char *text, size_t capacity)
{
    if (bytes.count >= capacity ||
        (bytes.count > 0 && memchr(bytes.data, 0, bytes.count) != NULL)) {
        return false;
    }
    if (bytes.count > 0) {
        memcpy(text, bytes.data, bytes.count);
    }
    text[bytes.count] = 0;
    return true;
}

int member_decode(server_id id, struct slice bytes, struct member_record *member)
{
    struct reader r;
    struct slice token;
    uint8_t version;
    int rv;

    memset(member, 0, sizeof(*member));
    member->id = id;
    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_up_to(&r, MEMBER_VERSION_WAITS, &version)) != 0) {
        return rv;
    }
    member->removed = version == MEMBER_VERSION_REMOVED;
    member->waits = version == MEMBER_VERSION_WAITS;
    token = reader_bytes(&r, sizeof(member->token));
    if (!text_decode(reader_blob(&r), member->address, sizeof(member->address)) ||
        !text_decode(reader_blob(&r), member->name, sizeof(member->name))) {
        return MORSEL_CORRUPT;
    }
    member->bytes_total = reader_u64(&r);
    member->bytes_free = reader_u64(&r);
    if (!r.failed && !reader_done(&r)) {
        member->starts.confirmed = reader_u64(&r);
        member->starts.tentative = reader_u64(&r);
        r.failed = r.failed || !marked(&member->starts); /* That is written as nothing. */
    }
    if (!r.failed && !reader_done(&r)) {
        member->starts.count = reader_u64(&r);
        r.failed = r.failed || member->starts.count == 0; /* Likewise. */
    }
    if (r.failed) {
        return MORSEL_CORRUPT;
    }
    memcpy(member->token, token.data, token.count);
    return all_read(&r);
}

void donor_encode(const struct donor_record *donor, struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put(out, donor->token, sizeof(donor->token));
    buf_put_blob(out, donor->name, strlen(donor->name));
}

int donor_decode(donor_id id, struct slice bytes, struct donor_record *donor)
{
    struct reader r;
    struct slice token;
    int rv;

    memset(donor, 0, sizeof(*donor));
    donor->id = id;
    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    token = reader_bytes(&r, sizeof(donor->token));
    if (!text_decode(reader_blob(&r), donor->name, sizeof(donor->name)) || r.failed) {
        return MORSEL_CORRUPT;
    }
    memcpy(donor->token, token.data, token.count);
    return all_read(&r);
}

void donor_floor_encode(donor_id next, struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put_u32(out, next);
}

int donor_floor_decode(struct slice bytes, donor_id *next)
{
    struct reader r;
    int rv;

    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    *next = reader_u32(&r);
    return all_read(&r);
}

void plain_encode(struct slice bytes, struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put(out, bytes.data, bytes.count);
}

int plain_decode(struct slice stored, struct slice *bytes)
{
    struct reader r;
    int rv;

    reader_init(&r, stored.data, stored.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    *bytes = reader_rest(&r);
    return 0;
}
