/* Room behind the wire: a real manager whose benefactors are full gives up copies that are not needed before anything else. */
#include "meta/datasets/evictions_uv.h"
#include "common/base/status.h"
#include "common/fs/policy_text.h"
#include "tests/lib/sets.h"

#include <stdlib.h>

enum { DESKS = 3, MORSELS = 12, AFTER_MS = 3600000 };

struct cloud
{
    struct fixture *f;
    struct sets_desk desks[DESKS];
    struct client c;
    struct sets_file full, next;
};

static const struct data_set *set_of(const struct cloud *cloud)
{
    return sets_find(ns_sets(cloud->f->meta->ns), cloud->full.set);
}

/* The third one has all of it, too: as when one came back that was missed. */
static void add_surplus(struct cloud *cloud)
{
    for (uint32_t i = 0; i < MORSELS; i++) {
        struct meta_op op = { .kind = OP_SET_COPY };
        struct errmsg err = { "" };

        op.set_copy.set = cloud->full.set;
        op.set_copy.morsel = i;
        op.set_copy.length = SETS_MORSEL;
        op.set_copy.digest = 1000 + i;
        op.set_copy.change = OP_COPY_ADD;
        op.set_copy.donor = cloud->desks[2].id;
        assert_int_equal(meta_execute(cloud->f->meta, &op, &err), 0);
    }
    assert_int_equal(set_of(cloud)->fat, MORSELS);
}

static void report(struct cloud *cloud, unsigned desk)
{
    morsel__donor_report_reply__free_unpacked(sets_report(&cloud->desks[desk], NULL, 0), NULL);
}

static void allow_eviction(struct client *c)
{
    Morsel__PolicyRequest request = MORSEL__POLICY_REQUEST__INIT;
    Morsel__Policy policy = MORSEL__POLICY__INIT;
    Morsel__OpId op = next_op(c);

    policy.class_ = CLASS_SCAVENGED;
    policy.replicas = 2;
    policy.morsel_bytes = SETS_MORSEL;
    policy.width = 2;
    policy.scratch = POLICY_YES;
    request.op = &op;
    request.inode = INODE_ROOT;
    request.set = true;
    request.policy = &policy;
    assert_int_equal(call(c, MSG_POLICY, &request.base, NULL, NULL), 0);
}

static void close_file(struct client *c, struct sets_file file)
{
    Morsel__CloseRequest request = MORSEL__CLOSE_REQUEST__INIT;

    request.n_inodes = 1;
    request.inodes = &file.inode;
    assert_int_equal(call(c, MSG_CLOSE, &request.base, NULL, NULL), 0);
}

/* All three are full of a set that wants two copies, and has three. */
static void cloud_open(struct cloud *cloud, struct fixture *f, bool scratch)
{
    struct sets_desk *both[] = { &cloud->desks[0], &cloud->desks[1] };

    memset(cloud, 0, sizeof(*cloud));
    cloud->f = f;
    repair_init(&f->meta->repair, ns_sets(f->meta->ns), &f->meta->donors, AFTER_MS,
                meta_now_ms(f->meta)); /* It keeps what it has. */
    for (unsigned i = 0; i < DESKS; i++) {
        sets_desk_open(&cloud->desks[i], f, (uint8_t)(i + 1), 70U + i);
    }
    cloud->desks[2].name = "third"; /* Each on a machine of its own. */
    assert_int_equal(sets_desk_join(&cloud->desks[2], true), 0);
    client_join(&cloud->c, f, 41);
    sets_policy(&cloud->c, INODE_ROOT, 2);
    if (scratch) {
        allow_eviction(&cloud->c);
    }
    cloud->full = sets_make(&cloud->c, "full");
    cloud->next = sets_make(&cloud->c, "next");
    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_int_equal(sets_stored(&cloud->c, cloud->full, i, both, 2), 0);
    }
    assert_int_equal(sets_seal_file(&cloud->c, cloud->full, (uint64_t)MORSELS * SETS_MORSEL), 0);
    close_file(&cloud->c, cloud->full);
    add_surplus(cloud);
    for (unsigned i = 0; i < DESKS; i++) {
        cloud->desks[i].donated = cloud->desks[i].used = (uint64_t)MORSELS * SETS_MORSEL;
        report(cloud, i);
    }
}

static void cloud_close(struct cloud *cloud)
{
    sets_check(ns_sets(cloud->f->meta->ns));
    for (unsigned i = 0; i < DESKS; i++) {
        client_close(&cloud->desks[i].c);
    }
    client_close(&cloud->c);
}

static int place_in(struct cloud *cloud, struct sets_file file, uint32_t first, uint32_t count)
{
    Morsel__SetPlaceReply *reply = NULL;
    int rv = sets_place_in(&cloud->c, file, first, count, 0, &reply);

    if (rv == 0) {
        morsel__set_place_reply__free_unpacked(reply, NULL);
    }
    return rv;
}

static int place(struct cloud *cloud)
{
    return place_in(cloud, cloud->next, 0, 1);
}

/* It deletes what it is told to delete. How much that was. */
static size_t delete_waste(struct cloud *cloud, unsigned desk)
{
    struct sets_desk *d = &cloud->desks[desk];
    Morsel__DonorReportReply *reply = sets_report(d, NULL, 0);
    size_t count = 0;

    for (size_t i = 0; i < reply->n_collect; i++) {
        count += reply->collect[i]->count;
    }
    d->used -= count * SETS_MORSEL;
    morsel__donor_report_reply__free_unpacked(sets_report(d, reply->collect, reply->n_collect),
                                              NULL);
    morsel__donor_report_reply__free_unpacked(reply, NULL);
    return count;
}

/* Also of data, which never is evicted; and with as many left as are wanted, room is what there is. */
static void what_is_not_needed_makes_room(void **state)
{
    struct cloud cloud;

    cloud_open(&cloud, *state, false);
    assert_int_equal(place(&cloud), MORSEL_AGAIN);
    for (unsigned i = 0; i < DESKS; i++) {
        assert_int_equal(delete_waste(&cloud, i), EVICT_FOR_MORSELS);
    }
    assert_int_equal(set_of(&cloud)->fat, 0);
    assert_int_equal(set_of(&cloud)->thin, 0);
    assert_int_equal(place(&cloud), 0);
    for (unsigned i = 0; i < DESKS; i++) {
        cloud.desks[i].used = cloud.desks[i].donated;
        report(&cloud, i);
    }
    assert_int_equal(place(&cloud), MORSEL_NOSPC);
    assert_int_equal(set_of(&cloud)->thin, 0);
    cloud_close(&cloud);
}

/* What may be evicted loses nothing as long as something else makes room; and then as much as is still needed. */
static void sets_lose_something_only_behind_that(void **state)
{
    struct cloud cloud;

    cloud_open(&cloud, *state, true);
    assert_int_equal(place(&cloud), MORSEL_AGAIN);
    assert_int_equal(set_of(&cloud)->fat, 0);
    assert_int_equal(set_of(&cloud)->thin, 0);
    assert_false(set_of(&cloud)->head.evicted);
    for (unsigned i = 0; i < DESKS; i++) {
        assert_int_equal(delete_waste(&cloud, i), EVICT_FOR_MORSELS);
        cloud.desks[i].used = cloud.desks[i].donated; /* Others were faster. */
        report(&cloud, i);
    }
    for (unsigned tries = 0; !set_of(&cloud)->head.evicted; tries++) {
        assert_true(tries < 1000);
        assert_int_equal(place(&cloud), MORSEL_AGAIN);
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
    }
    assert_true(set_of(&cloud)->head.kept > 0);
    cloud_close(&cloud);
}

/* All of them at the first two; the last one at the third, too. */
static void store_many(struct cloud *cloud, struct sets_file file, uint32_t count)
{
    struct set_morsel m = { .length = SETS_MORSEL, .digest = 1, .donor_count = 2 };
    struct meta_op op = { .kind = OP_SET_STORED };
    struct errmsg err = { "" };
    struct buf morsels;

    for (unsigned i = 0; i < DESKS; i++) {
        m.donors[i] = cloud->desks[i].id;
    }
    op.set_stored.inode = file.inode;
    op.set_stored.set = file.set;
    while (m.number < count) {
        buf_init(&morsels);
        for (uint32_t i = 0; i < SET_STORED_MAX && m.number < count; i++) {
            m.donor_count = m.number == count - 1 ? 3 : 2;
            op_morsel_put(&morsels, &m);
            m.number++;
        }
        op.set_stored.morsels = (struct slice){ morsels.data, morsels.count };
        assert_int_equal(meta_execute(cloud->f->meta, &op, &err), 0);
        buf_free(&morsels);
    }
}

/* A request looks at no more than a part; by itself that goes on. */
static void long_walks_are_made_in_steps(void **state)
{
    struct cloud cloud;
    struct sets_file large;

    cloud_open(&cloud, *state, false);
    large = sets_make(&cloud.c, "large");
    while (set_of(&cloud)->fat > 0) {
        (void)place(&cloud);
        for (unsigned i = 0; i < DESKS; i++) {
            (void)delete_waste(&cloud, i);
            cloud.desks[i].used = cloud.desks[i].donated;
            report(&cloud, i);
        }
    }
    store_many(&cloud, large, 4 * SURPLUS_REQUEST_LOOKS);
    for (unsigned i = 0; i < DESKS; i++) {
        repair_donor(&cloud.f->meta->repair, cloud.desks[i].id)->repair.no_surplus_until_ms = 0;
    }
    assert_int_equal(ns_sets(cloud.f->meta->ns)->fat, 1);
    assert_int_equal(place(&cloud), MORSEL_AGAIN);
    assert_int_equal(ns_sets(cloud.f->meta->ns)->fat, 1);
    while (ns_sets(cloud.f->meta->ns)->fat > 0) {
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
    }
    cloud_close(&cloud);
}

/* ---- Places that were asked for and are not used ---- */

enum { ROOM = 2 };

/* Each one has room for two morsels, and all of that is asked for ahead, by who stores nothing of it. */
static void ask_for_all(struct cloud *cloud)
{
    struct sets_file ahead = sets_make(&cloud->c, "ahead");

    for (unsigned i = 0; i < DESKS; i++) {
        cloud->desks[i].used = cloud->desks[i].donated - (uint64_t)ROOM * SETS_MORSEL;
        report(cloud, i);
        cloud->desks[i].asked = 0;
    }
    assert_int_equal(place_in(cloud, ahead, 0, DESKS * ROOM / 2), 0);
}

static unsigned asked(const struct cloud *cloud)
{
    unsigned n = 0;

    for (unsigned i = 0; i < DESKS; i++) {
        n += cloud->desks[i].asked;
    }
    return n;
}

/* Who finds no room is told to wait for those reports, and there it is. */
static void what_was_asked_for_ahead_is_counted_again(void **state)
{
    struct cloud cloud;

    cloud_open(&cloud, *state, false);
    ask_for_all(&cloud);
    assert_int_equal(place(&cloud), MORSEL_AGAIN);
    for (unsigned i = 0; i < DESKS; i++) {
        assert_int_equal(set_of(&cloud)->fat, MORSELS);
        report(&cloud, i);
        assert_int_equal(cloud.desks[i].asked, 1);
    }
    assert_int_equal(place(&cloud), 0);
    cloud_close(&cloud);
}

/* Nobody waits for long for one that says nothing. */
static void who_says_nothing_is_full(void **state)
{
    struct cloud cloud;
    uint64_t until_ms;
    int rv;

    cloud_open(&cloud, *state, false);
    while (set_of(&cloud)->fat > 0) {
        (void)place(&cloud); /* Nothing else makes room then. */
        for (unsigned i = 0; i < DESKS; i++) {
            (void)delete_waste(&cloud, i);
            cloud.desks[i].used = cloud.desks[i].donated;
            report(&cloud, i);
        }
    }
    ask_for_all(&cloud);
    until_ms = meta_now_ms(cloud.f->meta) + DONORS_RECOUNT_MS;
    while ((rv = place(&cloud)) == MORSEL_AGAIN) {
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(rv, MORSEL_NOSPC);
    assert_true(meta_now_ms(cloud.f->meta) >= until_ms);
    assert_int_equal(asked(&cloud), DESKS);
    cloud_close(&cloud);
}

/* Nor is anything evicted for it, neither ahead of who needs room nor for him. */
static void nothing_is_evicted_for_it(void **state)
{
    struct cloud cloud;

    cloud_open(&cloud, *state, true);
    ask_for_all(&cloud);
    while (asked(&cloud) < DESKS) {
        assert_int_equal(set_of(&cloud)->fat, MORSELS);
        assert_false(set_of(&cloud)->head.evicted);
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(place(&cloud), MORSEL_AGAIN);
    assert_int_equal(set_of(&cloud)->fat, MORSELS);
    for (unsigned i = 0; i < DESKS; i++) {
        report(&cloud, i);
    }
    assert_int_equal(place(&cloud), 0);
    assert_false(set_of(&cloud)->head.evicted);
    cloud_close(&cloud);
}

/* ---- By command ---- */

static int keep_nothing(struct cloud *cloud, uint32_t uid)
{
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT;
    Morsel__OpId op = next_op(&cloud->c);

    who.uid = who.gid = uid;
    request.op = &op;
    request.who = &who;
    request.inode = cloud->full.inode;
    request.name = bytes(KEPT_XATTR);
    request.value = bytes("0");
    return call(&cloud->c, MSG_XATTR_SET, &request.base, NULL, NULL);
}

/* Benefactors are asked to delete when somebody has been allowed to evict, and not before. */
static void strangers_start_nothing(void **state)
{
    struct cloud cloud;

    cloud_open(&cloud, *state, true);
    assert_int_equal(keep_nothing(&cloud, 1234), MORSEL_PERM);
    for (unsigned i = 0; i < DESKS; i++) {
        report(&cloud, i);
    }
    assert_int_equal(asked(&cloud), 0);
    assert_int_equal(keep_nothing(&cloud, 0), 0);
    for (unsigned i = 0; i < DESKS; i++) {
        assert_true(delete_waste(&cloud, i) > 0);
        assert_int_equal(cloud.desks[i].asked, 1);
    }
    cloud_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_needed_makes_room), TEST(sets_lose_something_only_behind_that),
        TEST(long_walks_are_made_in_steps),  TEST(what_was_asked_for_ahead_is_counted_again),
        TEST(who_says_nothing_is_full),      TEST(nothing_is_evicted_for_it),
        TEST(strangers_start_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
