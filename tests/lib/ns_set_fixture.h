/* A namespace in which clients store one data set, for tests of what its head says (namespace_origins.c, namespace_reserve.c). */
#ifndef MORSEL_TESTS_NS_SET_FIXTURE_H
#define MORSEL_TESTS_NS_SET_FIXTURE_H

#include "meta/datasets/sets.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CLIENT = 7, OTHER = 8, BYTES = MORSEL_BYTES_DEFAULT };

static const uint64_t WHOLE = 2 * (uint64_t)BYTES + 100; /* Three morsels. */

/* A namespace with one empty file of class scavenged. */
static inline struct ns_fixture *open_fixture(inode_id *file)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = op_make(INODE_ROOT, "f", 0100644);

    assert_non_null(f);
    ns_fixture_open(f, 1);
    op.make.layout =
        (struct file_layout){ .class = CLASS_SCAVENGED, .replicas = 2, .stripe = { BYTES, 1, 4 } };
    ns_must(f, op);
    *file = ns_counters(f->ns)->inode_next - 1;
    return f;
}

static inline void close_fixture(struct ns_fixture *f)
{
    sets_check(ns_sets(f->ns));
    ns_fixture_close(f);
    free(f);
}

/* One morsel is stored by that client. */
static inline int store(struct ns_fixture *f, client_id client, inode_id file, struct set_morsel m)
{
    struct meta_op op = { .kind = OP_SET_STORED, .client = client };
    struct buf list;
    int rv;

    buf_init(&list);
    op_morsel_put(&list, &m);
    op.set_stored.inode = op.set_stored.set = file;
    op.set_stored.size = m.number * (uint64_t)BYTES + m.length;
    op.set_stored.morsels = buf_slice(&list);
    rv = ns_fixture_run(f, &op);
    buf_free(&list);
    return rv;
}

static inline struct set_morsel morsel(uint32_t number, uint32_t length)
{
    return (struct set_morsel){
        .number = number, .length = length, .donor_count = 2, .donors = { 1, 2 }
    };
}

/* The client closes it, with that size: is it sealed then? */
static inline bool seals(struct ns_fixture *f, client_id client, inode_id file, uint64_t size)
{
    struct meta_op op = { .kind = OP_SET_SEAL, .client = client };

    op.set_seal.inode = op.set_seal.set = file;
    op.set_seal.size = size;
    assert_int_equal(ns_fixture_run(f, &op), 0);
    return sets_find(ns_sets(f->ns), file)->head.sealed;
}

#endif
