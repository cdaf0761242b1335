/* Data sets in the namespace: what is kept of them, what is refused, and what fsck says. */
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/datasets/sets.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLIENT = 7 };

static struct ns_fixture *open_fixture(void)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    ns_fixture_open(f, 1);
    return f;
}

static void close_fixture(struct ns_fixture *f)
{
    sets_check(ns_sets(f->ns));
    ns_fixture_close(f);
    free(f);
}

/* A file of class scavenged with that many copies. */
static inode_id make(struct ns_fixture *f, const char *name, uint32_t copies)
{
    struct meta_op op = op_make(INODE_ROOT, name, 0100644);

    op.make.layout = (struct file_layout){ .class = CLASS_SCAVENGED,
                                           .replicas = copies,
                                           .stripe = { MORSEL_BYTES_DEFAULT, 1, 4 } };
    ns_must(f, op);
    return ns_counters(f->ns)->inode_next - 1;
}

static int store(struct ns_fixture *f, inode_id file, uint64_t set, struct set_morsel m)
{
    struct meta_op op = { .kind = OP_SET_STORED, .client = CLIENT };
    struct buf list;
    int rv;

    buf_init(&list);
    op_morsel_put(&list, &m);
    op.set_stored.inode = file;
    op.set_stored.set = set;
    op.set_stored.size = (m.number + 1) * (uint64_t)MORSEL_BYTES_DEFAULT;
    op.set_stored.morsels = buf_slice(&list);
    rv = ns_fixture_run(f, &op);
    buf_free(&list);
    return rv;
}

static struct set_morsel at(uint32_t number, donor_id a, donor_id b)
{
    struct set_morsel m = { .number = number, .length = 100, .donor_count = 2, .donors = { a, b } };

    return m;
}

static int runs(struct ns_fixture *f, enum op_kind kind, donor_id donor, struct op_run run)
{
    struct meta_op op = { .kind = kind };
    struct buf list;
    int rv;

    buf_init(&list);
    op_run_put(&list, run);
    op.set_runs.donor = donor;
    op.set_runs.runs = buf_slice(&list);
    rv = ns_fixture_run(f, &op);
    buf_free(&list);
    return rv;
}

static uint32_t waste_of(struct ns_fixture *f, donor_id donor, struct op_run *found)
{
    uint32_t count;

    assert_int_equal(ns_waste(f->ns, donor, found, 8, &count, &f->err), 0);
    return count;
}

static int truncate_to(struct ns_fixture *f, inode_id file, uint64_t size)
{
    struct meta_op op = { .kind = OP_SETATTR };

    op.setattr.inode = file;
    op.setattr.valid = SETATTR_SIZE;
    op.setattr.size = size;
    return ns_fixture_run(f, &op);
}

static void what_no_set_can_have_is_refused(void **state)
{
    struct ns_fixture *f = open_fixture();
    struct set_morsel m = at(0, 1, 2);
    struct meta_op seal = { .kind = OP_SET_SEAL, .client = CLIENT };
    inode_id file, other;

    (void)state;
    other = ns_must_make(f, INODE_ROOT, "durable", 0100644);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_FIRST);
    file = make(f, "f", 2);
    assert_int_equal(ns_super(f->ns)->store_version,
                     STORE_VERSION_SETS); /* An older one cannot read it. */
    assert_int_equal(store(f, other, other, m), MORSEL_INVAL);
    assert_int_equal(store(f, file, other, m), MORSEL_STALE);
    m.length = MORSEL_BYTES_DEFAULT + 1;
    assert_int_equal(store(f, file, file, m), MORSEL_INVAL);
    assert_int_equal(store(f, file, file, at(0, 1, 1)), MORSEL_INVAL);
    assert_int_equal(store(f, file, file, at(0, 1, 0)), MORSEL_INVAL);
    assert_int_equal(store(f, file, file, at(SET_MORSELS_MAX, 1, 2)), MORSEL_INVAL);
    m = at(0, 1, 2);
    m.donor_count = 4; /* Two are wanted, and there may be one more. */
    m.donors[2] = 3;
    m.donors[3] = 4;
    assert_int_equal(store(f, file, file, m), MORSEL_INVAL);
    assert_int_equal(ns_sets(f->ns)->count, 0);
    assert_int_equal(store(f, file, file, at(0, 1, 2)), 0);
    seal.set_seal.inode = seal.set_seal.set = file;
    seal.client = CLIENT + 1;
    assert_int_equal(ns_fixture_run(f, &seal), MORSEL_PERM);
    seal.client = CLIENT;
    assert_int_equal(ns_fixture_run(f, &seal), 0);
    assert_int_equal(store(f, file, file, at(1, 1, 2)), MORSEL_PERM);
    assert_int_equal(truncate_to(f, file, 5), MORSEL_PERM);
    close_fixture(f);
}

/* The set is deleted wherever a part of it is that counts; what did not count before stays in the queue as well. */
static void a_set_that_ends_is_deleted_everywhere(void **state)
{
    struct ns_fixture *f = open_fixture();
    struct op_run found[8];
    struct inode inode;
    inode_id file;

    (void)state;
    file = make(f, "f", 2);
    assert_int_equal(store(f, file, file, at(0, 1, 2)), 0);
    assert_int_equal(store(f, file, file, at(0, 2, 3)), 0);
    assert_int_equal(waste_of(f, 1, found), 1);
    assert_true(found[0].set == file && found[0].first == 0 && found[0].count == 1);
    assert_int_equal(store(f, file, file, at(0, 1, 2)), MORSEL_INVAL); /* It may just be deleted. */
    assert_int_equal(truncate_to(f, file, 0), 0);
    inode = ns_must_inode(f, file);
    assert_true(inode.body > file && inode.size == 0);
    assert_int_equal(waste_of(f, 1, found), 1);
    for (donor_id donor = 2; donor <= 3; donor++) {
        assert_int_equal(waste_of(f, donor, found), 1);
        assert_true(found[0].set == file && found[0].first == 0 && found[0].count == UINT32_MAX);
    }
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_sets(f->ns)->count, 0);
    assert_int_equal(waste_of(f, 2, found), 1);
    assert_int_equal(runs(f, OP_SET_COLLECTED, 2, (struct op_run){ file, 0, 10 }), 0);
    assert_int_equal(waste_of(f, 2, found), 1); /* Only the beginning is gone. */
    assert_true(found[0].first == 10 && found[0].count == UINT32_MAX - 10);
    assert_int_equal(runs(f, OP_SET_COLLECTED, 2, found[0]), 0);
    assert_int_equal(waste_of(f, 2, found), 0);
    assert_int_equal(store(f, file, inode.body, at(0, 1, 2)), 0);
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(waste_of(f, 2, found), 1);
    assert_int_equal(found[0].set, inode.body);
    close_fixture(f);
}

static uint32_t check(struct ns_fixture *f, bool repair, char *text)
{
    struct fsck *fsck = fsck_new(f->ns);
    struct fsck_result *result = calloc(1, sizeof(*result));
    uint32_t found = 0;

    assert_non_null(fsck);
    assert_non_null(result);
    do {
        assert_int_equal(fsck_step(fsck, 100, repair, 5, result, &f->err), 0);
        if (result->count > 0) {
            memcpy(text, result->findings[0].text.text, sizeof(result->findings[0].text.text));
        }
        found += result->count;
    } while (!result->done);
    fsck_free(fsck);
    free(result);
    return found;
}

static void put_raw(struct ns_fixture *f, struct record_key key, struct buf *value)
{
    struct kv_batch batch;

    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), buf_slice(value));
    assert_int_equal(f->kv->commit(f->kv, &batch, false, &f->err), 0);
    kv_batch_free(&batch);
}

static void a_check_names_what_is_lost_and_deletes_what_is_nobodys(void **state)
{
    struct set_head head = { .inode = 999, .copies = 1, .morsel_bytes = MORSEL_BYTES_DEFAULT };
    struct set_morsel m = { .number = 3, .length = 9, .donor_count = 1, .donors = { 6 } };
    struct ns_fixture *f = open_fixture();
    char text[sizeof(f->err.text)] = "";
    struct op_run found[8];
    struct buf value;
    inode_id file;

    (void)state;
    file = make(f, "f", 2);
    assert_int_equal(store(f, file, file, at(0, 1, 2)), 0);
    assert_int_equal(check(f, false, text), 0);
    assert_int_equal(runs(f, OP_SET_LOST, 1, (struct op_run){ file, 0, 9 }), 0);
    assert_int_equal(check(f, false, text), 0); /* There is another copy. */
    assert_int_equal(runs(f, OP_SET_LOST, 2, (struct op_run){ file, 0, 9 }), 0);
    assert_int_equal(check(f, true, text), 1);
    assert_non_null(strstr(text, "1 morsels of inode 2 are lost"));
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    buf_init(&value);
    set_head_encode(&head, &value);
    put_raw(f, key_set(77), &value);
    buf_clear(&value);
    set_page_begin(&value);
    set_page_put(&m, &value);
    put_raw(f, key_map(77, 0), &value);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(check(f, false, text), 1);
    assert_non_null(strstr(text, "data set 77 belongs to no file"));
    assert_int_equal(check(f, true, text), 1);
    assert_int_equal(check(f, false, text), 0);
    assert_int_equal(waste_of(f, 6, found), 1);
    assert_int_equal(found[0].set, 77);
    put_raw(f, key_map(88, 0), &value); /* A page without its set. */
    assert_int_equal(ns_fixture_reopen(f), MORSEL_CORRUPT);
    assert_non_null(strstr(f->err.text, "record of a data set is damaged"));
    buf_free(&value);
    f->kv->close(f->kv);
    free(f);
}

/* A manager that lost its power may hear of a copy before the client stores again what it has forgotten. */
static void a_copy_of_a_set_that_may_yet_begin_is_not_deleted(void **state)
{
    struct ns_fixture *f = open_fixture();
    struct meta_op copied = { .kind = OP_SET_COPY };
    inode_id file = make(f, "f", 2);
    struct op_run found[8];

    (void)state;
    copied.set_copy.set = file;
    copied.set_copy.morsel = 3;
    copied.set_copy.length = 100;
    copied.set_copy.change = OP_COPY_ADD;
    copied.set_copy.donor = 5;
    ns_must(f, copied);
    assert_int_equal(waste_of(f, 5, found), 0);
    assert_int_equal(store(f, file, file, at(3, 5, 6)), 0); /* And it counts. */
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(waste_of(f, 5, found), 1);
    assert_true(found[0].first == 0 && found[0].count == UINT32_MAX);
    copied.set_copy.donor = 7; /* Now nothing brings it back. */
    ns_must(f, copied);
    assert_int_equal(waste_of(f, 7, found), 1);
    assert_true(found[0].set == file && found[0].first == 3 && found[0].count == 1);
    close_fixture(f);
}

/* A manager of before, which does not know of such an operation in its log, is to say so. */
static void a_copy_that_gives_way_is_of_its_store_version(void **state)
{
    struct ns_fixture *f = open_fixture();
    struct meta_op copied = { .kind = OP_SET_COPY };
    const struct data_set *set;
    struct set_morsel m;
    inode_id file = make(f, "f", 1);

    (void)state;
    assert_int_equal(store(f, file, file, at(0, 1, 2)), 0);
    copied.set_copy.set = file;
    copied.set_copy.donor = 1;
    copied.set_copy.change = OP_COPY_DROP; /* One copy too many, as older ones know it. */
    ns_must(f, copied);
    assert_true(ns_super(f->ns)->store_version < STORE_VERSION_YIELD);
    set = sets_find(ns_sets(f->ns), file);
    assert_true(set_get(set, 0, &m));
    copied.set_copy.donor = 3;
    copied.set_copy.length = m.length;
    copied.set_copy.digest = m.digest;
    copied.set_copy.change = OP_COPY_ADD;
    ns_must(f, copied);
    copied.set_copy.donor = 2;
    copied.set_copy.change = OP_COPY_YIELD;
    ns_must(f, copied);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_YIELD);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_YIELD);
    copied.set_copy.donor = 3; /* Never the last one. */
    assert_int_equal(ns_fixture_run(f, &copied), MORSEL_INVAL);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_set_can_have_is_refused),
        cmocka_unit_test(a_set_that_ends_is_deleted_everywhere),
        cmocka_unit_test(a_copy_of_a_set_that_may_yet_begin_is_not_deleted),
        cmocka_unit_test(a_copy_that_gives_way_is_of_its_store_version),
        cmocka_unit_test(a_check_names_what_is_lost_and_deletes_what_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
