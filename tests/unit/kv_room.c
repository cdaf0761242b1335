/* Room for writes: a commit that was told so does not wait for LevelDB, however slow its tables are
 * written (src/meta/storage/kv.h, memtable_size.h, loads_uv.h). */
#include "common/base/prng.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/storage/memtable_size.h"
#include "tests/lib/meta_fixture.h"
#include "tests/lib/seed.h"

#include "meta/storage/kv_leveldb.h"

#include <errno.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- LevelDB's thread that writes tables, held up ---- */

static struct
{
    uv_mutex_t lock;
    uv_cond_t changed;
    bool shut; /* Who syncs a table waits. */
    bool held; /* Who makes room waits. */
    int failure;
} gate;

/* LevelDB, which is a shared library, finds it here: so it syncs its tables. */
int fdatasync(int fd)
{
    int failure;

    uv_mutex_lock(&gate.lock);
    while (gate.shut) {
        uv_cond_wait(&gate.changed, &gate.lock);
    }
    failure = gate.failure;
    uv_mutex_unlock(&gate.lock);
    errno = failure;
    return failure != 0 ? -1 : (int)syscall(SYS_fdatasync, fd);
}

static void gate_set(bool shut, bool held, int failure)
{
    uv_mutex_lock(&gate.lock);
    gate.shut = shut;
    gate.held = held;
    gate.failure = failure;
    uv_cond_broadcast(&gate.changed);
    uv_mutex_unlock(&gate.lock);
}

static int setup_gate(void **state)
{
    assert_int_equal(uv_mutex_init(&gate.lock), 0);
    assert_int_equal(uv_cond_init(&gate.changed), 0);
    gate.shut = gate.held = false;
    gate.failure = 0;
    return setup(state);
}

static int teardown_gate(void **state)
{
    int rv;

    gate_set(false, false, 0);
    rv = teardown(state);
    uv_cond_destroy(&gate.changed);
    uv_mutex_destroy(&gate.lock);
    return rv;
}

/* ---- The size ---- */

/* Never less than LevelDB counts, and not much more: its own figure is asked for with keys and values
 * of all lengths. */
static void the_memory_table_is_not_larger_than_counted(void **state)
{
    struct fixture *f = *state;
    leveldb_options_t *options = leveldb_options_create();
    leveldb_writeoptions_t *write = leveldb_writeoptions_create();
    char path[128], key[32], *text = NULL, *figure;
    static char value[4000];
    struct memtable_size size;
    struct prng prng;
    leveldb_t *db;

    (void)snprintf(path, sizeof(path), "%s/plain", f->root);
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_write_buffer_size(options, 64 << 20);
    db = leveldb_open(options, path, &text);
    assert_non_null(db);
    prng_seed(&prng, test_seed_first());
    memtable_size_init(&size);
    for (unsigned i = 0; i < 60000; i++) {
        size_t bytes =
            prng_below(&prng, 20) == 0 ? prng_below(&prng, sizeof(value)) : prng_below(&prng, 120);

        (void)snprintf(key, sizeof(key), "k%u", (unsigned)prng_below(&prng, 1000000));
        leveldb_put(db, write, key, strlen(key), value, bytes, &text);
        assert_null(text);
        memtable_size_add(&size, strlen(key), bytes);
        if (i % 10000 == 9999) {
            uint64_t counted;

            figure = leveldb_property_value(db, "leveldb.approximate-memory-usage");
            assert_non_null(figure);
            counted = strtoull(figure, NULL, 10);
            leveldb_free(figure);
            assert_in_range(counted, size.bytes - size.bytes / 4, size.bytes);
        }
    }
    leveldb_close(db);
    leveldb_writeoptions_destroy(write);
    leveldb_options_destroy(options);
}

/* ---- The store ---- */

static int put(struct kv *kv, uint32_t number)
{
    static uint8_t value[4096];
    struct kv_batch batch;
    char key[16];
    int rv;

    for (size_t i = 0; i < sizeof(value); i++) {
        value[i] = (uint8_t)((number + i) * 2654435761U >> 13);
    }
    (void)snprintf(key, sizeof(key), "k%08u", number);
    kv_batch_init(&batch);
    kv_batch_put(&batch, slice_text(key), (struct slice){ value, sizeof(value) });
    rv = kv->commit(kv, &batch, false, NULL);
    kv_batch_free(&batch);
    return rv;
}

/* Until there is no room; how many fitted. */
static uint32_t fill(struct kv *kv, uint32_t from)
{
    uint32_t count = 0;

    while (kv_room(kv) == 0) {
        assert_int_equal(put(kv, from + count), 0);
        assert_in_range(++count, 0, 100000);
    }
    return count;
}

static void *open_store(struct fixture *f, struct kv_wanted *wanted)
{
    struct errmsg err = { "" };
    struct kv *kv;
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/store", f->root);
    assert_int_equal(kv_leveldb_open(path, true, &kv, &err), 0);
    kv_wanted_init(wanted);
    kv->wanted = wanted;
    return kv;
}

static void make_room(void *data)
{
    struct kv *kv = data;

    kv->make_room(kv);
}

/* The one memory table is being written out, slowly, and the other one gets full: nobody is told that
 * there is room and then waits; what does not ask fits behind that. When the disk is done, there is
 * room. */
static void who_has_room_does_not_wait(void **state)
{
    struct fixture *f = *state;
    struct kv_wanted wanted;
    struct kv *kv = open_store(f, &wanted);
    uint32_t count;
    uv_thread_t maker;

    gate_set(true, false, 0);
    count = fill(kv, 0); /* It would never come back if it waited. */
    assert_in_range(count, 5000, 8192);
    assert_true(kv_wants(kv));
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(put(kv, count + i), 0);
    }
    kv_wanted_clear(&wanted);
    assert_int_equal(uv_thread_create(&maker, make_room, kv), 0);
    assert_int_equal(kv_room(kv), MORSEL_AGAIN);
    gate_set(false, false, 0);
    uv_thread_join(&maker);
    kv_wanted_clear(&wanted);
    assert_int_equal(kv_room(kv), 0);
    assert_int_equal(put(kv, 100000), 0);
    kv->wanted = NULL;
    assert_int_equal(kv_room(kv), 0); /* Who may wait need not ask. */
    kv->close(kv);
    kv_wanted_free(&wanted);
}

/* A table cannot be written: there is room at once, for the commit to hear of it. */
static void a_disk_that_fails_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    struct kv_wanted wanted;
    struct kv *kv = open_store(f, &wanted);
    uint32_t count;
    int rv = 0;

    gate_set(true, false, 0);
    count = fill(kv, 0);
    gate_set(false, false, EIO);
    make_room(kv);
    for (uint32_t i = 0; i < 20000 && rv == 0; i++) {
        kv_wanted_clear(&wanted);
        assert_int_equal(kv_room(kv), 0);
        rv = put(kv, count + i);
    }
    assert_int_equal(rv, MORSEL_IO);
    kv->close(kv);
    kv_wanted_free(&wanted);
}

#define GATE_TEST(name) cmocka_unit_test_setup_teardown(name, setup_gate, teardown_gate)

/* ---- The manager ---- */

static bool roomless;

static bool has_room(struct kv *kv)
{
    (void)kv;
    return !roomless;
}

static void make_none(struct kv *kv)
{
    (void)kv;
    uv_mutex_lock(&gate.lock);
    while (gate.held) {
        uv_cond_wait(&gate.changed, &gate.lock);
    }
    uv_mutex_unlock(&gate.lock);
}

/* Changes wait, in their order and without a trace; questions, renewals, new mounts and servers do
 * not. */
static void changes_wait_and_nothing_else_does(void **state)
{
    Morsel__HeartbeatRequest alive = MORSEL__HEARTBEAT_REQUEST__INIT;
    Morsel__CreateRequest create = MORSEL__CREATE_REQUEST__INIT;
    Morsel__OpId op[2];
    uint64_t collected_inode = 77, before;
    uint32_t collected_column = 0;
    struct fixture *f = *state;
    struct waiting_call change[2];
    struct client c, other, iod;
    enum lease_mode lease;

    client_join(&c, f, 7);
    (void)make(&c, INODE_ROOT, "d", 0040755, false);
    f->meta->kv->has_room = has_room;
    f->meta->kv->make_room = make_none;
    roomless = true;
    gate_set(false, true, 0);
    before = ns_counters(f->meta->ns)->sequence;
    for (unsigned i = 0; i < 2; i++) {
        op[i] = next_op(&c);
        op[i].answered = op[0].answered;
        create.op = &op[i];
        create.parent = INODE_ROOT;
        create.name = bytes(i == 0 ? "first" : "second");
        create.mode = 0010644;
        start(&c, &change[i], MSG_CREATE, &create.base);
    }
    assert_int_equal(lookup(&c, "d", &lease), 0);
    assert_int_equal(lookup(&c, "first", &lease), MORSEL_NOENT);
    assert_int_equal(ns_counters(f->meta->ns)->sequence, before);
    client_join(&other, f, 8);
    assert_int_equal(ask_session(&other), 0);
    client_open(&iod, f, ROLE_IOD, 0);
    alive.id = register_server(&iod, 1);
    alive.n_collected_inode = alive.n_collected_column = 1;
    alive.collected_inode = &collected_inode;
    alive.collected_column = &collected_column;
    assert_int_equal(call(&iod, MSG_HEARTBEAT, &alive.base, NULL, NULL), 0);
    assert_false(change[0].done || change[1].done);
    roomless = false;
    gate_set(false, false, 0);
    while (!change[0].done || !change[1].done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(change[0].status, 0);
    assert_int_equal(change[1].status, 0);
    assert_int_equal(lookup(&c, "second", &lease), 0);
    assert_int_equal(f->meta->loads.rooms, 1);
    client_close(&iod);
    client_close(&other);
    client_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GATE_TEST(the_memory_table_is_not_larger_than_counted),
        GATE_TEST(who_has_room_does_not_wait),
        GATE_TEST(a_disk_that_fails_is_not_waited_for),
        GATE_TEST(changes_wait_and_nothing_else_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
