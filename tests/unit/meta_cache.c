/* The table of names and attributes: what a lease allows, what a recall takes, when a directory is
 * complete, and what is let go for want of room; and operations by chance against a model that only
 * remembers what it was told. */
#include "client/coherence/meta_cache.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIR = 2, FILE_1 = 10, FILE_2 = 11 };

static Morsel__Attr attr_of(inode_id inode, uint64_t size)
{
    Morsel__Attr attr = MORSEL__ATTR__INIT;

    attr.inode = inode;
    attr.size = size;
    return attr;
}

static void learn(struct meta_cache *c, inode_id inode, uint64_t size, enum lease_mode mode)
{
    Morsel__Attr attr = attr_of(inode, size);

    meta_cache_learn(c, &attr, mode, NULL);
}

static void assert_size(struct meta_cache *c, inode_id inode, uint64_t size)
{
    const Morsel__Attr *attr = meta_cache_attr(c, inode);

    assert_non_null(attr);
    assert_int_equal(attr->size, size);
}

static enum meta_cache_answer ask(struct meta_cache *c, const char *name)
{
    inode_id inode;

    return meta_cache_find(c, DIR, name, &inode);
}

static int setup(void **state)
{
    *state = meta_cache_new(100, 100);
    return *state == NULL;
}

static int teardown(void **state)
{
    meta_cache_check(*state);
    meta_cache_free(*state);
    return 0;
}

static void without_a_lease_nothing_is_kept(void **state)
{
    struct meta_cache *c = *state;

    learn(c, FILE_1, 5, LEASE_NONE);
    assert_null(meta_cache_attr(c, FILE_1));
    meta_cache_learn_name(c, DIR, "a", FILE_1);
    assert_int_equal(ask(c, "a"), META_CACHE_MISS);
    learn(c, FILE_1, 5, LEASE_R);
    assert_size(c, FILE_1, 5);
    learn(c, FILE_1, 6, LEASE_NONE); /* A reply that takes it back. */
    assert_null(meta_cache_attr(c, FILE_1));
    assert_int_equal(meta_cache_mode(c, FILE_1), LEASE_NONE);
}

static void what_the_kernel_was_told_lasts_until_it_forgets(void **state)
{
    struct meta_cache *c = *state;

    kernel_known_entry(meta_cache_kernel(c, FILE_1), 7, true); /* Nothing is known of it. */
    assert_int_equal(kernel_known_entry_ns(meta_cache_kernel(c, FILE_1)), 0);
    assert_false(kernel_known_is_forgotten(meta_cache_kernel(c, FILE_1)));
    learn(c, FILE_1, 5, LEASE_R);
    kernel_known_entry(meta_cache_kernel(c, FILE_1), 7, false); /* Without a time-out. */
    assert_int_equal(kernel_known_entry_ns(meta_cache_kernel(c, FILE_1)), 0);
    kernel_known_entry(meta_cache_kernel(c, FILE_1), 8, true);
    kernel_known_forgot(meta_cache_kernel(c, FILE_1), 1); /* One of the two is still on its way. */
    assert_int_equal(kernel_known_entry_ns(meta_cache_kernel(c, FILE_1)), 8);
    assert_false(kernel_known_is_forgotten(meta_cache_kernel(c, FILE_1)));
    kernel_known_forgot(meta_cache_kernel(c, FILE_1), 5);
    assert_int_equal(kernel_known_entry_ns(meta_cache_kernel(c, FILE_1)), 0);
    assert_true(kernel_known_is_forgotten(meta_cache_kernel(c, FILE_1)));
}

static void a_recall_takes_what_it_must(void **state)
{
    Morsel__Layout layout = MORSEL__LAYOUT__INIT;
    uint32_t servers[] = { 7, 8 };
    struct meta_cache *c = *state;
    Morsel__Attr attr = attr_of(FILE_1, 5);

    layout.n_servers = 2;
    layout.servers = servers;
    meta_cache_learn(c, &attr, LEASE_W, &layout);
    assert_int_equal(meta_cache_layout(c, FILE_1)->servers[1], 8);
    servers[1] = 9; /* SET_LAYOUT */
    meta_cache_learn(c, &attr, LEASE_W, &layout);
    assert_int_equal(meta_cache_layout(c, FILE_1)->servers[1], 9);
    assert_non_null(meta_cache_attr_mut(c, FILE_1));
    meta_cache_drop(c, FILE_1, LEASE_R);
    assert_size(c, FILE_1, 5);
    assert_null(meta_cache_attr_mut(c, FILE_1));
    meta_cache_drop(c, FILE_1, LEASE_NONE);
    assert_null(meta_cache_attr(c, FILE_1));
    assert_null(meta_cache_layout(c, FILE_1));

    meta_cache_learn(c, &attr, LEASE_R, &layout);
    meta_cache_pin(c,
                   FILE_1); /* It stays in the table; others may have it lie elsewhere meanwhile. */
    meta_cache_drop(c, FILE_1, LEASE_NONE);
    meta_cache_learn(c, &attr, LEASE_R, NULL);
    assert_null(meta_cache_layout(c, FILE_1));
    layout.body = 99; /* EXCHANGE: on the same servers. */
    meta_cache_learn(c, &attr, LEASE_R, &layout);
    layout.body = 98;
    meta_cache_learn(c, &attr, LEASE_R, &layout);
    assert_int_equal(meta_cache_layout(c, FILE_1)->body, 98);
    meta_cache_unpin(c, FILE_1);

    learn(c, DIR, 0, LEASE_R);
    meta_cache_learn_name(c, DIR, "a", FILE_1);
    meta_cache_learn_name(c, DIR, "b", INODE_NONE);
    assert_int_equal(ask(c, "a"), META_CACHE_FOUND);
    assert_int_equal(ask(c, "b"), META_CACHE_ABSENT);
    meta_cache_drop(c, DIR, LEASE_NONE);
    assert_int_equal(ask(c, "a"), META_CACHE_MISS);
    assert_int_equal(ask(c, "b"), META_CACHE_MISS);
}

static void while_a_recall_is_answered_nothing_is_learned(void **state)
{
    struct meta_cache *c = *state;

    learn(c, FILE_1, 5, LEASE_R);
    meta_cache_set_recalling(c, FILE_1, true);
    meta_cache_drop(c, FILE_1, LEASE_NONE);
    learn(c, FILE_1, 6, LEASE_R);
    assert_null(meta_cache_attr(c, FILE_1));
    meta_cache_set_recalling(c, FILE_1, false);
    learn(c, FILE_1, 7, LEASE_W);
    assert_size(c, FILE_1, 7);
    meta_cache_set_recalling(c, FILE_1, true);
    meta_cache_drop(
        c, FILE_1,
        LEASE_R); /* Others want to read: what we keep is what our last report made of it. */
    learn(c, FILE_1, 8, LEASE_NONE);
    assert_size(c, FILE_1, 8);
    meta_cache_set_recalling(c, FILE_1, false);
    assert_size(c, FILE_1, 8);
}

static void our_own_changes_under_way_are_not_overwritten(void **state)
{
    struct meta_cache *c = *state;
    Morsel__Attr said = MORSEL__ATTR__INIT; /* To be told to somebody. */

    said.inode = FILE_1;
    said.mode = 0640;
    said.size = 9;
    said.ctime_ns = 30;
    learn(c, FILE_1, 5, LEASE_W);
    meta_cache_overlay(c, &said);
    assert_int_equal(said.mode, 0640);
    meta_cache_dirty(c, FILE_1, 1);
    meta_cache_dirty(c, FILE_1, 1);
    meta_cache_attr_mut(c, FILE_1)->mode = 0600;
    learn(c, FILE_1, 5, LEASE_W); /* Of the time before. */
    assert_int_equal(meta_cache_attr(c, FILE_1)->mode, 0600);
    meta_cache_overlay(c, &said);
    assert_int_equal(said.mode, 0600);
    assert_int_equal(said.size, 9);
    assert_int_equal(said.ctime_ns, 30);
    said.inode = FILE_2;
    said.mode = 0640;
    meta_cache_overlay(c, &said);
    assert_int_equal(said.mode, 0640);
    meta_cache_dirty(c, FILE_1, -1);
    learn(c, FILE_1, 5, LEASE_W);
    assert_int_equal(meta_cache_attr(c, FILE_1)->mode, 0600);
    meta_cache_dirty(c, FILE_1, -1);
    learn(c, FILE_1, 5, LEASE_W);
    assert_int_equal(meta_cache_attr(c, FILE_1)->mode, 0);
}

static void a_complete_directory_knows_what_does_not_exist(void **state)
{
    struct meta_cache *c = *state;
    uint64_t listing;

    learn(c, DIR, 0, LEASE_R);
    meta_cache_born(c, DIR);
    assert_true(meta_cache_complete(c, DIR));
    assert_int_equal(ask(c, "a"), META_CACHE_ABSENT);
    meta_cache_learn_name(c, DIR, "a", FILE_1);
    assert_int_equal(ask(c, "a"), META_CACHE_FOUND);
    meta_cache_forget_name(c, DIR, "a"); /* Unsure: then the directory is not complete any more. */
    assert_int_equal(ask(c, "a"), META_CACHE_MISS);

    listing = meta_cache_listing(c, DIR);
    meta_cache_learn_name(c, DIR, "b", FILE_2);
    meta_cache_listed(c, DIR, listing);
    assert_int_equal(ask(c, "zzz"), META_CACHE_ABSENT);
    meta_cache_drop(c, DIR, LEASE_NONE);
    learn(c, DIR, 0, LEASE_R);
    meta_cache_listed(c, DIR, listing); /* A listing that a recall came into. */
    assert_int_equal(ask(c, "zzz"), META_CACHE_MISS);
}

static void a_listing_with_a_name_evicted_is_not_complete(void **state)
{
    struct meta_cache *c = *state;
    uint64_t listing;
    char name[16];

    learn(c, DIR, 0, LEASE_R);
    listing = meta_cache_listing(c, DIR);
    for (int i = 0; i < 101; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        meta_cache_learn_name(c, DIR, name, FILE_1);
    }
    meta_cache_listed(c, DIR, listing);
    assert_false(meta_cache_complete(c, DIR));
    assert_int_equal(ask(c, "n0"), META_CACHE_MISS);
    assert_int_equal(ask(c, "n100"), META_CACHE_FOUND);
}

static void the_least_used_goes_and_its_lease_is_given_back(void **state)
{
    struct meta_cache *c = *state;
    struct meta_cache_evicted evicted;

    for (inode_id i = 1000; i < 1100; i++) {
        learn(c, i, i, LEASE_R);
    }
    kernel_known_attr(meta_cache_kernel(c, 1001), 77);
    meta_cache_pin(c, 1000);
    assert_false(meta_cache_pop_evicted(c, &evicted));
    learn(c, 2000, 1, LEASE_R);
    assert_true(meta_cache_pop_evicted(c, &evicted));
    assert_int_equal(evicted.inode, 1001); /* The first is pinned. */
    assert_int_equal(evicted.kernel.attr_until_ns, 77);
    assert_false(meta_cache_pop_evicted(c, &evicted));
    learn(c, 1001, 1, LEASE_R); /* Not before it has been given back. */
    assert_null(meta_cache_attr(c, 1001));
    meta_cache_set_recalling(c, 1001, false);
    learn(c, 1001, 1, LEASE_R);
    assert_size(c, 1001, 1);
    meta_cache_unpin(c, 1000);
    assert_size(c, 1000, 1000);
}

/* ---- By chance ---- */

enum { INODES = 12, NAMES = 10, STEPS = 20000, SEEDS = 20 };

static void a_report_is_not_lost_among_changes_under_way(void **state)
{
    struct meta_cache *c = *state;
    Morsel__Attr attr = attr_of(FILE_1, 0);

    attr.mtime_ns = attr.ctime_ns = 1000;
    meta_cache_learn(c, &attr, LEASE_W, NULL);
    meta_cache_dirty(c, FILE_1, 1); /* A mode, say, at 3000. */
    meta_cache_attr_mut(c, FILE_1)->mode = 0600;
    meta_cache_attr_mut(c, FILE_1)->ctime_ns = 3000;
    attr.size = 5;
    attr.data_version = 2;
    attr.nlink = 3;
    attr.mtime_ns = attr.ctime_ns = 2000;
    meta_cache_learn(c, &attr, LEASE_W, NULL);
    meta_cache_wrote(c, FILE_1, 2000, 2000);
    assert_int_equal(meta_cache_attr(c, FILE_1)->size, 5);
    assert_int_equal(meta_cache_attr(c, FILE_1)->data_version, 2);
    assert_int_equal(meta_cache_attr(c, FILE_1)->nlink, 3);
    assert_int_equal(meta_cache_attr(c, FILE_1)->mode, 0600);
    assert_int_equal(meta_cache_attr(c, FILE_1)->mtime_ns, 2000);
    assert_int_equal(meta_cache_attr(c, FILE_1)->ctime_ns, 3000);
}

/* What the table may say: exactly the truth, or nothing. */
struct truth
{
    uint64_t size[INODES];         /* Of inode 100 + i. */
    inode_id names[INODES][NAMES]; /* Of names in it. */
    bool held[INODES];
};

static inode_id dir_of(int index)
{
    return 100 + (inode_id)index;
}

static void change_truth(struct truth *t, struct meta_cache *c, struct prng *p)
{
    int dir = (int)prng_below(p, INODES), name = (int)prng_below(p, NAMES);
    inode_id now = prng_below(p, 3) == 0 ? INODE_NONE : 100 + prng_below(p, INODES);
    char text[8];

    (void)snprintf(text, sizeof(text), "n%d", name);
    if (prng_below(p, 2) == 0) { /* Somebody else: a recall comes first. */
        meta_cache_drop(c, dir_of(dir), LEASE_NONE);
        t->held[dir] = false;
        t->size[dir]++;
        t->names[dir][name] = now;
    } else if (t->held[dir]) { /* Ourselves: the reply says so. */
        t->names[dir][name] = now;
        meta_cache_learn_name(c, dir_of(dir), text, now);
    }
}

static void ask_truth(struct truth *t, struct meta_cache *c, struct prng *p, uint64_t *known)
{
    int dir = (int)prng_below(p, INODES), name = (int)prng_below(p, NAMES);
    const Morsel__Attr *attr = meta_cache_attr(c, dir_of(dir));
    enum meta_cache_answer answer;
    inode_id inode = INODE_NONE;
    char text[8];

    (void)snprintf(text, sizeof(text), "n%d", name);
    if (attr != NULL) {
        assert_int_equal(attr->size, t->size[dir]);
    }
    answer = meta_cache_find(c, dir_of(dir), text, &inode);
    if (answer == META_CACHE_FOUND) {
        assert_int_equal(inode, t->names[dir][name]);
    } else if (answer == META_CACHE_ABSENT) {
        assert_int_equal(t->names[dir][name], INODE_NONE);
    } else if (t->held[dir]) {
        meta_cache_learn_name(c, dir_of(dir), text, t->names[dir][name]);
    }
    *known += answer != META_CACHE_MISS;
}

static void list_truth(struct truth *t, struct meta_cache *c, struct prng *p)
{
    int dir = (int)prng_below(p, INODES);
    uint64_t listing;
    char text[16];

    learn(c, dir_of(dir), t->size[dir], LEASE_R);
    t->held[dir] = true;
    listing = meta_cache_listing(c, dir_of(dir));
    for (int name = 0; name < NAMES; name++) {
        (void)snprintf(text, sizeof(text), "n%d", name);
        if (t->names[dir][name] != INODE_NONE) {
            meta_cache_learn_name(c, dir_of(dir), text, t->names[dir][name]);
        }
        if (prng_below(p, 40) == 0) {
            change_truth(t, c, p);
        }
    }
    meta_cache_listed(c, dir_of(dir), listing);
    t->held[dir] = meta_cache_mode(c, dir_of(dir)) != LEASE_NONE;
}

static void what_it_says_is_true(void **state)
{
    const uint64_t first = test_seed_first();
    uint64_t known = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        struct meta_cache *c = meta_cache_new(INODES - 3, 60);
        struct meta_cache_evicted evicted;
        struct truth t = { 0 };
        struct prng p;

        assert_non_null(c);
        prng_seed(&p, seed);
        for (int i = 0; i < STEPS; i++) {
            uint64_t dice = prng_below(&p, 100);

            if (dice < 10) {
                list_truth(&t, c, &p);
            } else if (dice < 30) {
                change_truth(&t, c, &p);
            } else {
                ask_truth(&t, c, &p, &known);
            }
            while (meta_cache_pop_evicted(c, &evicted)) {
                t.held[evicted.inode - 100] = false;
                meta_cache_set_recalling(c, evicted.inode, false);
            }
            meta_cache_check(c);
        }
        meta_cache_free(c);
    }
    assert_true(known > 10000); /* The test tests something. */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_lease_nothing_is_kept),
        TEST(what_the_kernel_was_told_lasts_until_it_forgets),
        TEST(a_recall_takes_what_it_must),
        TEST(while_a_recall_is_answered_nothing_is_learned),
        TEST(our_own_changes_under_way_are_not_overwritten),
        TEST(a_report_is_not_lost_among_changes_under_way),
        TEST(a_complete_directory_knows_what_does_not_exist),
        TEST(a_listing_with_a_name_evicted_is_not_complete),
        TEST(the_least_used_goes_and_its_lease_is_given_back),
        cmocka_unit_test(what_it_says_is_true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
