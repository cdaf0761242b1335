/* Opening a namespace and checking that it is whole; its state. */
#include "common/base/status.h"
#include "meta/namespace/groups_record.h"
#include "meta/namespace/namespace_txn.h"

#include <stdlib.h>

/* Notes that a scan found anything at all. */
static bool visit_any(void *data, struct slice key, struct slice value)
{
    bool *found = data;

    (void)key;
    (void)value;
    *found = true;
    return false;
}

/* An empty store is fine; one with records but without a superblock is not ours. */
static int load_empty(struct ns *ns, struct errmsg *err)
{
    bool found = false;
    int rv = ns->kv->scan(ns->kv, (struct slice){ NULL, 0 }, visit_any, &found, err);

    if (rv == 0 && found) {
        errmsg_set(err, "the database holds records but no superblock: it is damaged or not of "
                        "this program");
        rv = MORSEL_CORRUPT;
    }
    ns->counters.inode_next = INODE_ROOT;
    return rv;
}

struct log_tail
{
    uint64_t expected;
    bool found;
    bool beyond;
};

static bool visit_log_tail(void *data, struct slice key, struct slice value)
{
    struct log_tail *tail = data;
    uint64_t sequence;

    (void)value;
    if (!key_inode_parse(key, RECORD_LOG, &sequence)) {
        return false;
    }
    tail->found |= sequence == tail->expected;
    tail->beyond |= sequence > tail->expected;
    return !tail->beyond;
}

/* The log has the operation that the counters speak of, and none after it. Those before it are not
 * looked at. */
static int check_log(struct ns *ns, struct errmsg *err)
{
    struct log_tail tail = { .expected = ns->counters.sequence };
    struct record_key key = key_log(ns->counters.sequence);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_log_tail, &tail, err);

    if (rv == 0 && (!tail.found || tail.beyond)) {
        errmsg_set(
            err,
            "the operation log does not end at operation %llu as the counters say: a part of "
            "the database is missing",
            (unsigned long long)ns->counters.sequence);
        rv = MORSEL_CORRUPT;
    }
    return rv;
}

static int load_record(struct ns *ns, struct record_key key, const char *what, struct errmsg *err)
{
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv == MORSEL_NOENT) {
        errmsg_set(err, "the database has no %s record: it is damaged", what);
        return MORSEL_CORRUPT;
    }
    return rv;
}

/* A database without the record has no groups. */
static int load_groups(struct ns *ns, struct errmsg *err)
{
    struct record_key key = key_groups();
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv == MORSEL_NOENT) {
        return 0;
    }
    if (rv == 0 && (rv = groups_record_decode(buf_slice(&ns->value), ns->groups)) != 0) {
        errmsg_set(err,
                   rv == MORSEL_VERSION
                       ? "the record of the groups is of a newer version: use a newer morsel-meta"
                       : "the record of the groups is damaged: restore the manager's database from "
                         "a backup");
    }
    return rv;
}

static int load_removed(struct ns *ns, struct errmsg *err)
{
    struct member_record *members = calloc(SERVERS_MAX, sizeof(*members));
    uint32_t count = 0;
    int rv = members != NULL ? ns_members(ns, members, &count, err) : MORSEL_NOMEM;

    for (uint32_t i = 0; rv == 0 && i < count; i++) {
        publish_member(ns, &members[i]);
    }
    free(members);
    return rv;
}

static int load(struct ns *ns, struct errmsg *err)
{
    struct record_key key = key_super();
    struct inode root;
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv == MORSEL_NOENT) {
        return load_empty(ns, err);
    }
    if (rv != 0) {
        return rv;
    }
    if ((rv = super_decode(buf_slice(&ns->value), &ns->super)) != 0) {
        errmsg_set(err, rv == MORSEL_VERSION
                            ? "the database was written by a newer version of morsel-meta"
                            : "the superblock of the database is damaged");
        return rv;
    }
    if ((rv = load_record(ns, key_counters(), "counters", err)) != 0) {
        return rv;
    }
    if ((rv = counters_decode(buf_slice(&ns->value), &ns->counters)) != 0) {
        errmsg_set(err, "the counters record of the database is damaged");
        return rv;
    }
    if ((rv = check_log(ns, err)) != 0) {
        return rv;
    }
    if ((rv = ns_inode(ns, INODE_ROOT, &root, err)) != 0) {
        errmsg_wrap(err, "read the root directory");
        return rv == MORSEL_NOMEM ? rv : MORSEL_CORRUPT;
    }
    if ((rv = load_groups(ns, err)) != 0 || (rv = load_removed(ns, err)) != 0) {
        return rv;
    }
    return ns_load_sets(ns, err);
}

int ns_open(struct kv *kv, const struct ns_hooks *hooks, struct ns **ns_out, struct errmsg *err)
{
    struct ns *ns = calloc(1, sizeof(*ns));
    int rv = MORSEL_NOMEM;

    *ns_out = NULL;
    if (ns == NULL || (ns->cache = inode_cache_new(NS_CACHE_INODES)) == NULL) {
        goto out;
    }
    ns->kv = kv;
    if (hooks != NULL) {
        ns->hooks = *hooks;
    }
    buf_init(&ns->value);
    buf_init(&ns->record);
    kv_batch_init(&ns->batch);
    ns->groups = calloc(1, sizeof(*ns->groups));
    ns->groups_next = calloc(1, sizeof(*ns->groups_next));
    if (ns->groups == NULL || ns->groups_next == NULL) {
        goto out;
    }
    if ((rv = load(ns, err)) != 0) {
        goto out;
    }
    *ns_out = ns;
    ns = NULL; /* Now the caller's. */
out:
    ns_close(ns);
    return rv;
}

void ns_close(struct ns *ns)
{
    if (ns == NULL) {
        return;
    }
    inode_cache_free(ns->cache);
    buf_free(&ns->value);
    buf_free(&ns->record);
    kv_batch_free(&ns->batch);
    sets_free(&ns->sets);
    set_notes_free(&ns->notes);
    free(ns->groups);
    free(ns->groups_next);
    free(ns);
}

const struct groups_record *ns_groups(const struct ns *ns)
{
    return ns->groups;
}

bool ns_formatted(const struct ns *ns)
{
    return ns->super.store_version != 0;
}

const struct super *ns_super(const struct ns *ns)
{
    return &ns->super;
}

const struct counters *ns_counters(const struct ns *ns)
{
    return &ns->counters;
}

int ns_broken(const struct ns *ns)
{
    return ns->broken;
}

uint64_t ns_unreadable(const struct ns *ns)
{
    return ns->unreadable;
}

void ns_fail(struct ns *ns, int status)
{
    if (ns->broken == 0) {
        ns->broken = status;
    }
}

struct kv *ns_kv(struct ns *ns)
{
    return ns->kv;
}
