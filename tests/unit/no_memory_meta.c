/* An allocator that fails, under the manager's database of names, its check, and what a mount knows
 * of names: see no_memory.c. What is refused has changed nothing, and is carried out when there is
 * memory: so in the end everything is as if there had always been some. */
#include "client/coherence/meta_cache.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/inode_cache.h"
#include "tests/lib/ns_fixture.h"
#include "tests/lib/nth_allocation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- A store that has memory ---- */

/* The store of the tests does not do without; what it gives out lies in buffers of the namespace,
 * and those may fail. */
struct sheltered
{
    struct kv kv;
    struct kv *inner;
};

static struct kv *inner_of(struct kv *kv)
{
    return CONTAINER_OF(kv, struct sheltered, kv)->inner;
}

static int on_get(struct kv *kv, struct slice key, struct buf *value, struct errmsg *err)
{
    return inner_of(kv)->get(inner_of(kv), key, value, err);
}

static int on_commit(struct kv *kv, const struct kv_batch *batch, bool sync, struct errmsg *err)
{
    int rv;

    assert_false(batch->bytes.failed);
    nth_pause();
    rv = inner_of(kv)->commit(inner_of(kv), batch, sync, err);
    nth_go_on();
    return rv;
}

static int on_scan(struct kv *kv, struct slice from, kv_visit visit, void *data, struct errmsg *err)
{
    return inner_of(kv)->scan(inner_of(kv), from, visit, data, err);
}

static int on_sync(struct kv *kv, struct errmsg *err)
{
    return inner_of(kv)->sync(inner_of(kv), err);
}

static void dump(const struct kv *kv, struct buf *out)
{
    nth_pause();
    buf_clear(out);
    kv_forgetful_dump(kv, out);
    assert_false(out->failed);
    nth_go_on();
}

/* ---- The script ---- */

enum { DIR_A = 2, DIR_B, FILE_1, FILE_2, LINK_1, STEPS = 45 };
enum { SET_FILE = NS_START_GAP + 9 }; /* Behind a directory, the gap, a file without a name. */

static uint8_t lists[256]; /* Columns and objects, which operations borrow. */

/* `packed` is over then. */
static struct slice borrowed(struct buf *packed)
{
    struct slice slice = { lists, packed->count };

    CHECK(!packed->failed && packed->count <= sizeof(lists));
    memcpy(lists, packed->data, packed->count);
    buf_free(packed);
    nth_go_on();
    return slice;
}

static struct slice columns(uint64_t verifier)
{
    struct buf out;

    nth_pause();
    buf_init(&out);
    op_unsynced_put(&out, (struct unsynced_column){ 0, verifier });
    op_unsynced_put(&out, (struct unsynced_column){ 1, verifier });
    return borrowed(&out);
}

static struct slice objects(inode_id inode)
{
    struct buf out;

    nth_pause();
    buf_init(&out);
    op_objects_put(&out, (struct object_id){ inode, 0 });
    op_objects_put(&out, (struct object_id){ inode, 1 });
    return borrowed(&out);
}

static struct meta_op wrote(inode_id inode, uint64_t size, uint64_t verifier)
{
    struct meta_op op = { .kind = OP_SIZE_REPORT };

    op.size_report.inode = inode;
    op.size_report.size = op.size_report.reach = size;
    op.size_report.unsynced = columns(verifier);
    return op;
}

static struct meta_op setattr(inode_id inode, uint32_t valid)
{
    struct meta_op op = { .kind = OP_SETATTR };

    op.setattr.inode = inode;
    op.setattr.valid = valid;
    op.setattr.mode = 0600;
    op.setattr.uid = op.setattr.gid = 7;
    op.setattr.size = 10;
    return op;
}

static struct slice sessions(void)
{
    struct buf out;

    nth_pause();
    buf_init(&out);
    op_session_put(&out, 0, 0);
    op_session_put(&out, 5, 1000);
    op_session_put(&out, 6, SESSION_STRUCK_OUT);
    return borrowed(&out);
}

static struct meta_op of_servers(uint32_t step)
{
    struct meta_op op = { .kind = OP_MEMBER };

    switch (step) {
    case 0:
        op.member.id = 1;
        memcpy(op.member.address, "127.0.0.1:1", sizeof("127.0.0.1:1"));
        return op;
    case 1:
        op.kind = OP_GARBAGE;
        op.objects.server = 1;
        op.objects.objects = objects(90);
        return op;
    case 2:
        op.kind = OP_COLLECTED;
        op.objects.server = 1;
        op.objects.objects = objects(90);
        return op;
    case 3:
        op.kind = OP_HOLDER;
        op.holder.lease_epoch = 77;
        op.holder.lease_period_ms = 5000;
        op.holder.holds = true;
        return op;
    case 4:
        op.kind = OP_SESSIONS;
        op.sessions.run = 7;
        op.sessions.clients = sessions();
        return op;
    case 5:
        op.kind = OP_DONOR;
        op.donor.id = 1;
        memcpy(op.donor.name, "desk", sizeof("desk"));
        return op;
    default:
        op.kind = OP_START;
        return op;
    }
}

static struct meta_op of_files(uint32_t step)
{
    struct meta_op op = { .kind = OP_POLICY };
    char value[300];

    memset(value, 'v', sizeof(value));
    switch (step) {
    case 0:
        return wrote(FILE_1, 3 << 20, 5);
    case 1:
        return setattr(FILE_1, SETATTR_MODE | SETATTR_UID | SETATTR_SIZE);
    case 2:
        op.kind = OP_SYNCED;
        op.synced.inode = FILE_1;
        op.synced.columns = columns(5);
        return op;
    case 3:
        memcpy(lists, value, 200);
        return op_xattr(FILE_1, "user.a", (struct slice){ lists, 200 });
    case 4:
        return op_xattr(FILE_1, "user.b", text("b"));
    case 5:
        op = op_xattr(FILE_1, "user.b", text(""));
        op.xattr.remove = true;
        return op;
    case 6:
        op.policy.inode = DIR_A;
        op.policy.policy.width = 2;
        return op;
    case 7:
        return wrote(FILE_2, 100, 6);
    default:
        return setattr(DIR_A, SETATTR_MODE);
    }
}

static struct slice runs(uint64_t set, uint32_t first, uint32_t count)
{
    struct buf out;

    nth_pause();
    buf_init(&out);
    op_run_put(&out, (struct op_run){ set, first, count });
    return borrowed(&out);
}

/* Two morsels, on that benefactor and the next one. */
static struct meta_op stored(uint64_t set, uint32_t number, donor_id donor)
{
    struct meta_op op = { .kind = OP_SET_STORED };
    struct buf out;

    nth_pause();
    buf_init(&out);
    for (uint32_t i = 0; i < 2; i++) {
        op_morsel_put(&out, &(struct set_morsel){ .number = number + i * 300,
                                                  .length = 100,
                                                  .donor_count = 2,
                                                  .donors = { donor, donor + 1 } });
    }
    op.set_stored.inode = SET_FILE;
    op.set_stored.set = set;
    op.set_stored.size = 1000;
    op.set_stored.morsels = borrowed(&out);
    return op;
}

static struct meta_op of_sets(uint32_t step)
{
    struct meta_op op = { .kind = OP_SET_LOST };

    switch (step) {
    case 0:
        op = op_make(INODE_ROOT, "set", 0100644);
        op.make.layout = (struct file_layout){ .class = CLASS_SCAVENGED,
                                               .replicas = 2,
                                               .stripe = { MORSEL_BYTES_DEFAULT, 1, 4 } };
        return op;
    case 1:
        return stored(SET_FILE, 0, 1);
    case 2:
        return stored(SET_FILE, 0, 2); /* The first one's copies do not count any more. */
    case 3:
        op.set_runs.donor = 3;
        op.set_runs.runs = runs(SET_FILE, 0, 10);
        return op;
    case 4:
        op.kind = OP_SET_COLLECTED;
        op.set_runs.donor = 1;
        op.set_runs.runs = runs(SET_FILE, 300, 1);
        return op;
    case 5:
        return setattr(SET_FILE, SETATTR_SIZE);
    case 6:
        return stored(SET_FILE, 0, 2); /* With its digest again. */
    case 7:
        op.kind = OP_SET_SEAL;
        op.set_seal.inode = op.set_seal.set = SET_FILE;
        return op;
    case 8:
        op = setattr(SET_FILE, SETATTR_SIZE);
        op.setattr.size = 0; /* Another set begins. */
        return op;
    case 9:
        return stored(SET_FILE + 1, 5, 1);
    default:
        return op_unlink(INODE_ROOT, "set", false);
    }
}

static struct meta_op step_of(uint32_t step)
{
    struct meta_op op = { .kind = OP_COLLECT };

    switch (step) {
    case 0:
        return op_make(INODE_ROOT, "a", 0040755);
    case 1:
        return op_make(INODE_ROOT, "b", 0040755);
    case 2:
        return op_make(DIR_A, "one", 0100644);
    case 3:
        return op_make(DIR_A, "two", 0100644);
    case 4:
        return op_make(DIR_B, "link", 0120777);
    case 5:
        return op_link(FILE_1, DIR_B, "other");
    case 6:
        return op_rename(DIR_A, "one", DIR_B, "moved", 0);
    case 7:
        return op_rename(DIR_B, "moved", DIR_A, "two", RENAME_FLAG_EXCHANGE);
    case 8:
        return op_rename(DIR_B, "link", DIR_B, "other", 0);
    case 9:
        return op_make(INODE_ROOT, "c", 0040755);
    case 10:
        return op_rename(INODE_ROOT, "c", DIR_A, "c", 0);
    case 11:
        return op_unlink(DIR_A, "c", true);
    case 12:
    case 13:
    case 14:
    case 15:
    case 16:
    case 17:
    case 18:
    case 19:
    case 20:
        return of_files(step - 12);
    case 21:
    case 22:
    case 23:
    case 24:
    case 25:
    case 26:
    case 27:
        return of_servers(step - 21);
    case 28:
        return op_unlink(DIR_B, "moved", false); /* Open: an orphan. */
    case 29:
        op.collect.inode = FILE_2;
        return op;
    case 30:
        op = op_make(DIR_A, "", 0100600);
        op.make.orphan = true;
        return op;
    case 31:
        return op_unlink(DIR_B, "other", false);
    case 32:
        return op_unlink(INODE_ROOT, "b", true);
    default:
        return step == 33 ? op_unlink(DIR_A, "two", false) : of_sets(step - 34);
    }
}

/* ---- The database of names ---- */

struct world
{
    struct prng prng;
    struct sheltered kv;
    struct ns *ns;
    struct errmsg err;
    struct buf before, after;
};

static bool is_open(void *data, inode_id inode)
{
    (void)data;
    return inode == FILE_2;
}

static const struct ns_hooks hooks = { .is_open = is_open };

static void world_begin(struct world *w)
{
    nth_pause();
    memset(w, 0, sizeof(*w));
    prng_seed(&w->prng, 3);
    w->kv.kv = (struct kv){ .get = on_get, .commit = on_commit, .scan = on_scan, .sync = on_sync };
    w->kv.inner = kv_forgetful_open(&w->prng);
    assert_non_null(w->kv.inner);
    buf_init(&w->before);
    buf_init(&w->after);
    nth_go_on();
}

static void world_end(struct world *w)
{
    ns_close(w->ns);
    w->kv.inner->close(w->kv.inner);
    buf_free(&w->before);
    buf_free(&w->after);
}

static void open_names(struct world *w)
{
    int rv = ns_open(&w->kv.kv, &hooks, &w->ns, &w->err);

    if (rv != 0) {
        assert_true(rv == MORSEL_NOMEM && nth_failures() > 0);
        assert_null(w->ns);
        nth_pause();
        assert_int_equal(ns_open(&w->kv.kv, &hooks, &w->ns, &w->err), 0);
        nth_go_on();
    }
}

/* `w->before` and `w->after` */
static void check_unchanged(const struct world *w)
{
    assert_int_equal(w->before.count, w->after.count);
    assert_memory_equal(w->before.data, w->after.data, w->before.count);
}

/* Refused, it has changed nothing, and works when there is memory. */
static void execute(struct world *w, struct meta_op op, int64_t time_ns)
{
    struct meta_op again = op;
    int rv;

    op.time_ns = again.time_ns = time_ns;
    dump(w->kv.inner, &w->before);
    rv = ns_execute(w->ns, &op, &w->err);
    if (rv == 0) {
        return;
    }
    assert_true(rv == MORSEL_NOMEM && nth_failures() > 0);
    assert_int_equal(ns_broken(w->ns), 0);
    dump(w->kv.inner, &w->after);
    check_unchanged(w);
    nth_pause();
    assert_int_equal(ns_execute(w->ns, &again, &w->err), 0);
    nth_go_on();
}

static bool visit_entry(void *data, struct slice name, const struct dentry *dentry)
{
    uint32_t *count = data;

    (void)name;
    (void)dentry;
    (*count)++;
    return true;
}

static bool visit_op(void *data, uint64_t sequence, const struct meta_op *op)
{
    uint64_t *last = data;

    (void)op;
    assert_int_equal(sequence, *last + 1);
    *last = sequence;
    return true;
}

static void check_read(int rv)
{
    assert_true(rv == 0 || rv == MORSEL_STALE || rv == MORSEL_NOENT || rv == MORSEL_NODATA ||
                (rv == MORSEL_NOMEM && nth_failures() > 0));
}

static void read_some(struct world *w)
{
    struct file_policy policy;
    struct inode inode;
    struct buf out;
    uint64_t last = 0;
    uint32_t count = 0;
    bool end;

    buf_init(&out);
    for (inode_id id = INODE_ROOT; id <= LINK_1; id++) {
        check_read(ns_inode(w->ns, id, &inode, &w->err));
    }
    check_read(ns_lookup(w->ns, DIR_B, text("other"), &inode, &w->err));
    check_read(ns_readdir(w->ns, DIR_A, text(""), visit_entry, &count, &end, &w->err));
    check_read(ns_xattr_get(w->ns, FILE_1, text("user.a"), &out, &w->err));
    buf_clear(&out);
    check_read(ns_xattr_list(w->ns, FILE_1, &out, &w->err));
    buf_clear(&out);
    if (ns_inode(w->ns, FILE_2, &inode, &w->err) == 0) {
        check_read(ns_unsynced(w->ns, &inode, &out, &w->err));
    }
    check_read(ns_policy_effective(w->ns, DIR_A, &policy, &w->err));
    check_read(ns_log(w->ns, 1, visit_op, &last, &w->err));
    buf_free(&out);
}

/* What the cache says is what the store says. */
static void check_cache(struct world *w)
{
    struct ns *fresh;

    nth_pause();
    assert_int_equal(ns_open(&w->kv.kv, &hooks, &fresh, &w->err), 0);
    assert_memory_equal(ns_counters(w->ns), ns_counters(fresh), sizeof(*ns_counters(fresh)));
    for (inode_id id = INODE_ROOT; id < ns_counters(w->ns)->inode_next; id++) {
        struct inode cached, stored;
        int rv = ns_inode(w->ns, id, &cached, &w->err);

        assert_int_equal(ns_inode(fresh, id, &stored, &w->err), rv);
        assert_true(rv != 0 || (cached.version == stored.version && cached.nlink == stored.nlink &&
                                cached.mode == stored.mode && cached.size == stored.size &&
                                cached.entries == stored.entries));
    }
    ns_close(fresh);
    nth_go_on();
}

/* The whole script, on a new database; `also` after every eighth step. */
static void run_script(struct world *w, void (*also)(struct world *w))
{
    struct meta_op format = { .kind = OP_FORMAT };

    world_begin(w);
    open_names(w);
    memset(format.format.cluster.bytes, 7, sizeof(format.format.cluster.bytes));
    execute(w, format, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        execute(w, step_of(step), 100 + step);
        if (also != NULL && step % 8 == 7) {
            also(w);
        }
    }
}

static struct buf expected; /* What the script leaves, with memory. */

static void run_names(void)
{
    struct world w;

    run_script(&w, read_some);
    check_cache(&w);
    dump(w.kv.inner, &w.after);
    if (expected.count == 0) {
        buf_put(&expected, w.after.data, w.after.count);
    }
    assert_int_equal(expected.count, w.after.count);
    assert_memory_equal(expected.data, w.after.data, expected.count);
    world_end(&w);
}

static void names_do_without(void **state)
{
    (void)state;
    run_names(); /* Nothing fails yet. */
    nth_fails(run_names, 8);
    buf_free(&expected);
}

/* ---- The log is replayed ---- */

static struct world *replayed_from;

struct replaying
{
    struct world *to;
    int rv;
};

static bool replay_one(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct replaying *r = data;
    struct meta_op copy = *op;

    (void)sequence;
    r->rv = ns_replay(r->to->ns, &copy, &r->to->err);
    if (r->rv != 0) {
        assert_true(r->rv == MORSEL_NOMEM && nth_failures() > 0);
        copy = *op;
        nth_pause();
        assert_int_equal(ns_replay(r->to->ns, &copy, &r->to->err), 0);
        nth_go_on();
    }
    return true;
}

static void run_replay(void)
{
    struct replaying r = { .to = NULL };
    struct world w;

    world_begin(&w);
    open_names(&w);
    r.to = &w;
    assert_int_equal(ns_log(replayed_from->ns, 1, replay_one, &r, &w.err), 0);
    dump(replayed_from->kv.inner, &w.before);
    dump(w.kv.inner, &w.after);
    check_unchanged(&w);
    world_end(&w);
}

/* `run` on what the whole script has made. */
static void after_all_steps(void (*run)(void), uint64_t runs_min)
{
    struct world w;

    run_script(&w, NULL);
    replayed_from = &w;
    nth_fails(run, runs_min);
    world_end(&w);
}

static void a_replay_does_without(void **state)
{
    (void)state;
    after_all_steps(run_replay, 4);
}

/* ---- The check of the database ---- */

static void run_check(void)
{
    struct fsck_result *result;
    struct fsck *f;
    struct world *w = replayed_from;
    int rv = 0;

    nth_pause();
    result = calloc(1, sizeof(*result));
    nth_go_on();
    f = fsck_new(w->ns);
    assert_true(f != NULL || nth_failures() > 0);
    while (f != NULL && rv == 0 && !result->done) {
        rv = fsck_step(f, 5, true, 1000, result, &w->err);
        assert_true(rv == 0 || (rv == MORSEL_NOMEM && nth_failures() > 0));
        assert_int_equal(result->count, 0);
    }
    fsck_free(f);
    free(result);
}

static void a_check_does_without(void **state)
{
    (void)state;
    after_all_steps(run_check, 1);
}

/* ---- What a mount knows ---- */

enum { CACHE_INODES = 24, CACHE_NAMES = 40, CACHE_STEPS = 400, KNOWN_INODES = 40 };

struct knowledge
{
    enum lease_mode mode[KNOWN_INODES];
    uint64_t size[KNOWN_INODES];
    inode_id names[KNOWN_INODES]; /* In directory 1: the name's number. */
};

/* What it answers is what it was told; to know less is always right. */
static void check_knowledge(struct meta_cache *c, const struct knowledge *k)
{
    for (inode_id id = 2; id < KNOWN_INODES; id++) {
        const Morsel__Attr *attr = meta_cache_attr(c, id);
        const Morsel__Layout *layout = meta_cache_layout(c, id);
        char name[2] = { (char)('0' + id), 0 };
        inode_id found = INODE_NONE;
        enum meta_cache_answer answer = meta_cache_find(c, 1, name, &found);

        assert_true(meta_cache_mode(c, id) <= k->mode[id]);
        assert_true(attr == NULL || (attr->inode == id && attr->size == k->size[id]));
        assert_true(layout == NULL || layout->servers[0] == k->size[id]);
        assert_true(answer != META_CACHE_FOUND || found == k->names[id]);
        assert_true(answer != META_CACHE_ABSENT || k->names[id] == INODE_NONE);
    }
}

static void learn(struct meta_cache *c, struct knowledge *k, inode_id id, enum lease_mode mode,
                  uint32_t number)
{
    Morsel__Attr attr = MORSEL__ATTR__INIT;
    Morsel__Layout layout = MORSEL__LAYOUT__INIT;

    attr.inode = id;
    attr.size = number;
    layout.n_servers = 1;
    layout.servers = &number;
    k->mode[id] = mode;
    k->size[id] = number;
    meta_cache_learn(c, &attr, mode, &layout);
}

/* From end to end. */
static void list_all(struct meta_cache *c, const struct knowledge *k)
{
    uint64_t began = meta_cache_listing(c, 1);

    for (inode_id id = 2; id < KNOWN_INODES; id++) {
        char name[2] = { (char)('0' + id), 0 };

        if (k->names[id] != INODE_NONE) {
            meta_cache_learn_name(c, 1, name, k->names[id]);
        }
    }
    meta_cache_listed(c, 1, began);
}

static void know_some(struct meta_cache *c, struct knowledge *k, struct prng *prng, uint32_t number)
{
    inode_id id = 2 + prng_below(prng, KNOWN_INODES - 2);
    char name[2] = { (char)('0' + id), 0 };
    struct meta_cache_evicted evicted;

    switch (prng_below(prng, 6)) {
    case 0:
    case 1:
        learn(c, k, id, LEASE_R + (enum lease_mode)prng_below(prng, 2), number);
        break;
    case 2:
        k->mode[id] = LEASE_NONE;
        meta_cache_drop(c, id, LEASE_NONE);
        break;
    case 3:
        k->names[id] = prng_below(prng, 3) == 0 ? INODE_NONE : id;
        meta_cache_learn_name(c, 1, name, k->names[id]);
        break;
    case 4:
        list_all(c, k);
        break;
    default:
        meta_cache_pin(c, id);
        meta_cache_unpin(c, id);
        break;
    }
    while (meta_cache_pop_evicted(c, &evicted)) {
        k->mode[evicted.inode] = LEASE_NONE;
        meta_cache_set_recalling(c, evicted.inode, false);
    }
}

static void run_knowledge(void)
{
    struct meta_cache *c = meta_cache_new(CACHE_INODES, CACHE_NAMES);
    struct knowledge k = { .mode = { 0 } };
    struct prng prng;

    prng_seed(&prng, 8);
    assert_true(c != NULL || nth_failures() > 0);
    for (uint32_t step = 1; c != NULL && step < CACHE_STEPS; step++) {
        struct meta_cache_counters counters;

        if (meta_cache_mode(c, 1) == LEASE_NONE) {
            learn(c, &k, 1, LEASE_R, step);
        }
        know_some(c, &k, &prng, step);
        check_knowledge(c, &k);
        meta_cache_count(c, &counters);
        assert_true(counters.inodes <= CACHE_INODES + 8 && counters.names <= CACHE_NAMES);
    }
    meta_cache_free(c);
}

static void a_mounts_table_does_without(void **state)
{
    (void)state;
    nth_fails(run_knowledge, 50);
}

/* ---- What is made once ---- */

static void run_inode_cache(void)
{
    struct inode_cache *cache = inode_cache_new(16);
    struct inode inode = { .id = 5, .size = 6 };

    assert_true(cache != NULL || nth_failures() > 0);
    if (cache != NULL) {
        inode_cache_put(cache, &inode);
        assert_int_equal(inode_cache_get(cache, 5)->size, 6);
        inode_cache_remove(cache, 5);
        assert_null(inode_cache_get(cache, 5));
    }
    inode_cache_free(cache);
}

static void a_cache_of_inodes_does_without(void **state)
{
    (void)state;
    nth_fails(run_inode_cache, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_do_without),
        cmocka_unit_test(a_replay_does_without),
        cmocka_unit_test(a_check_does_without),
        cmocka_unit_test(a_mounts_table_does_without),
        cmocka_unit_test(a_cache_of_inodes_does_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
