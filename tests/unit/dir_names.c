/* Names in directories: what is here is found, what goes takes the word of completeness with it, and the
 * least recently used goes first. */
#include "client/coherence/dir_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 100 };

struct names
{
    struct name_table table;
    struct dir_names one, other;
};

static void begin(struct names *n, uint32_t max)
{
    assert_int_equal(name_table_init(&n->table, max), 0);
    dir_names_init(&n->table, &n->one, 2);
    dir_names_init(&n->table, &n->other, 3);
}

static void end(struct names *n)
{
    assert_int_equal(dir_names_check(&n->table, &n->one) + dir_names_check(&n->table, &n->other),
                     n->table.count);
    name_table_check(&n->table);
    dir_names_drop(&n->table, &n->one);
    dir_names_drop(&n->table, &n->other);
    name_table_free(&n->table);
}

static bool knows(struct names *n, struct dir_names *d, const char *text, inode_id inode)
{
    inode_id found = INODE_ROOT;

    return dir_names_find(&n->table, d, text, &found) && found == inode;
}

static void a_name_belongs_to_its_directory(void **state)
{
    struct names n;
    inode_id inode;

    (void)state;
    begin(&n, MANY);
    dir_names_learn(&n.table, &n.one, "a", 10);
    dir_names_learn(&n.table, &n.other, "a", 11);
    dir_names_learn(&n.table, &n.one, "gone", INODE_NONE);
    assert_true(knows(&n, &n.one, "a", 10) && knows(&n, &n.other, "a", 11));
    assert_true(knows(&n, &n.one, "gone", INODE_NONE));
    assert_false(dir_names_find(&n.table, &n.other, "gone", &inode));
    dir_names_learn(&n.table, &n.one, "a", 12);
    assert_true(knows(&n, &n.one, "a", 12) && knows(&n, &n.other, "a", 11));
    assert_int_equal(n.table.count, 3);
    end(&n);
}

static void what_goes_ends_a_listing(void **state)
{
    struct names n;
    uint64_t listing;

    (void)state;
    begin(&n, MANY);
    dir_names_learn(&n.table, &n.one, "a", 10);
    listing = n.one.listing;
    n.one.complete = n.other.complete = true;
    dir_names_learn(&n.table, &n.one, "b", INODE_NONE); /* As is known already. */
    assert_int_equal(n.table.count, 1);
    assert_true(n.one.complete && n.one.listing == listing);
    dir_names_forget(&n.table, &n.one, "a");
    assert_true(!n.one.complete && n.one.listing != listing && n.table.count == 0);
    listing = n.other.listing;
    dir_names_forget(&n.table, &n.other, "never"); /* A listing may be about to bring it. */
    assert_true(!n.other.complete && n.other.listing != listing);
    end(&n);
}

static void all_of_a_directory_is_dropped(void **state)
{
    struct names n;
    uint64_t listing;

    (void)state;
    begin(&n, MANY);
    dir_names_learn(&n.table, &n.one, "a", 10);
    dir_names_learn(&n.table, &n.one, "b", 11);
    dir_names_learn(&n.table, &n.other, "a", 12);
    n.one.misses = 3;
    n.one.prefetched = n.one.complete = true;
    listing = n.one.listing;
    dir_names_drop(&n.table, &n.one);
    assert_true(n.table.count == 1 && knows(&n, &n.other, "a", 12));
    assert_true(!n.one.complete && !n.one.prefetched && n.one.misses == 0);
    assert_int_not_equal(n.one.listing, listing);
    end(&n);
}

static void the_least_recently_used_goes_first(void **state)
{
    struct names n;
    inode_id inode;

    (void)state;
    begin(&n, 3);
    n.one.complete = n.other.complete = true;
    dir_names_learn(&n.table, &n.one, "a", 10);
    dir_names_learn(&n.table, &n.other, "b", 11);
    dir_names_learn(&n.table, &n.one, "c", 12);
    assert_true(knows(&n, &n.one, "a", 10));
    dir_names_learn(&n.table, &n.one, "d", 13);
    assert_false(dir_names_find(&n.table, &n.other, "b", &inode));
    assert_true(n.one.complete && !n.other.complete);
    assert_true(knows(&n, &n.one, "a", 10) && knows(&n, &n.one, "c", 12) &&
                knows(&n, &n.one, "d", 13));
    end(&n);
}

static void many_are_found(void **state)
{
    struct names n;
    char text[16];

    (void)state;
    begin(&n, MANY);
    for (inode_id i = 1; i <= MANY; i++) {
        (void)snprintf(text, sizeof(text), "name%u", (unsigned)i);
        dir_names_learn(&n.table, i % 2 == 0 ? &n.one : &n.other, text, i);
    }
    for (inode_id i = 1; i <= MANY; i++) {
        (void)snprintf(text, sizeof(text), "name%u", (unsigned)i);
        assert_true(knows(&n, i % 2 == 0 ? &n.one : &n.other, text, i));
    }
    end(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_belongs_to_its_directory),
        cmocka_unit_test(what_goes_ends_a_listing),
        cmocka_unit_test(all_of_a_directory_is_dropped),
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(many_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
