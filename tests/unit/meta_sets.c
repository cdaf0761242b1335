/* Data sets behind the wire: a real manager on the loop of the test, benefactors that join it, mounts that store and read. */
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "common/fs/policy_text.h"
#include "meta/datasets/sets_uv.h"
#include "tests/lib/sets.h"

#include <stdlib.h>

enum { DESKS = 4 };

struct cloud
{
    struct fixture *f;
    struct sets_desk desks[DESKS];
    struct client c, other;
};

static void cloud_open(struct cloud *cloud, struct fixture *f)
{
    static uint64_t client = 41; /* What one has asked is not asked again behind a restart. */

    cloud->f = f;
    for (unsigned i = 0; i < DESKS; i++) {
        sets_desk_open(&cloud->desks[i], f, (uint8_t)(i + 1), 70U + i);
    }
    client_join(&cloud->c, f, client++);
    client_join(&cloud->other, f, client++);
    sets_policy(&cloud->c, INODE_ROOT, 2);
}

static void cloud_close(struct cloud *cloud)
{
    sets_check(ns_sets(cloud->f->meta->ns));
    donors_check(&cloud->f->meta->donors);
    for (unsigned i = 0; i < DESKS; i++) {
        client_close(&cloud->desks[i].c);
    }
    client_close(&cloud->c);
    client_close(&cloud->other);
}

/* Two copies of the morsel. */
static int store(struct cloud *cloud, struct sets_file file, uint32_t number, unsigned a,
                 unsigned b)
{
    struct sets_desk *desks[] = { &cloud->desks[a], &cloud->desks[b] };

    return sets_stored(&cloud->c, file, number, desks, 2);
}

/* How many morsels the map has; of the first its donors. */
static size_t map_of(struct client *c, struct sets_file file, uint32_t donors[2])
{
    Morsel__SetMapReply *reply;
    size_t count;

    assert_int_equal(sets_map(c, file, &reply), 0);
    count = reply->n_morsels;
    donors[0] = donors[1] = 0;
    for (size_t i = 0; count > 0 && i < reply->morsels[0]->n_donors; i++) {
        donors[i] = reply->morsels[0]->donors[i];
    }
    morsel__set_map_reply__free_unpacked(reply, NULL);
    return count;
}

static void what_is_stored_is_in_the_map_and_survives_a_restart(void **state)
{
    struct fixture *f = *state;
    Morsel__SetPlaceReply *placed;
    Morsel__SetMapReply *map;
    struct cloud cloud;
    struct sets_file file;
    uint32_t donors[2];

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(sets_place_in(&cloud.c, file, 0, 8, 0, &placed), 0);
    assert_int_equal(placed->copies, 2);
    assert_int_equal(placed->n_donors, 16);
    assert_int_equal(placed->n_places, 4);
    for (size_t i = 0; i < placed->n_donors; i += 2) { /* On hosts that differ. */
        assert_true(placed->donors[i] % 2 != placed->donors[i + 1] % 2);
    }
    morsel__set_place_reply__free_unpacked(placed, NULL);
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    assert_int_equal(store(&cloud, file, 300, 2, 3), 0);
    cloud_close(&cloud);
    meta_down(f);
    meta_up(f);
    cloud_open(&cloud, f);
    assert_int_equal(sets_map(&cloud.c, file, &map), 0);
    assert_int_equal(map->n_morsels, 2);
    assert_int_equal(map->n_places, 4);
    assert_int_equal(map->size, 301 * SETS_MORSEL);
    assert_false(map->sealed);
    assert_int_equal(map->morsels[1]->number, 300);
    assert_int_equal(map->morsels[1]->digest, 1300);
    assert_int_equal(map->morsels[1]->length, SETS_MORSEL);
    morsel__set_map_reply__free_unpacked(map, NULL);
    assert_int_equal(map_of(&cloud.c, file, donors), 2);
    assert_true(donors[0] == 1 && donors[1] == 2);
    cloud_close(&cloud);
}

static void a_sealed_set_takes_nothing_more(void **state)
{
    struct fixture *f = *state;
    Morsel__SetPlaceReply *placed;
    Morsel__SetMapReply *map;
    struct cloud cloud;
    struct sets_file file, before;

    cloud_open(&cloud, f);
    file = before = sets_make(&cloud.c, "f");
    assert_int_equal(sets_seal_file(&cloud.c, file, 0), 0); /* Nothing is complete yet. */
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    assert_int_equal(sets_seal_file(&cloud.c, file, SETS_MORSEL + 5), 0);
    assert_int_equal(sets_seal_file(&cloud.c, file, SETS_MORSEL + 5), 0);
    assert_int_equal(store(&cloud, file, 1, 0, 1), MORSEL_PERM);
    assert_int_equal(sets_place_in(&cloud.c, file, 1, 1, 0, &placed), MORSEL_PERM);
    assert_int_equal(sets_truncate(&cloud.c, &file, 7), MORSEL_PERM);
    assert_int_equal(sets_map(&cloud.other, file, &map), 0);
    assert_true(map->sealed && map->size == SETS_MORSEL + 5 && map->n_morsels == 1);
    morsel__set_map_reply__free_unpacked(map, NULL);
    assert_int_equal(sets_truncate(&cloud.c, &file, 0), 0);
    assert_true(file.set != before.set);
    assert_int_equal(sets_map(&cloud.c, before, &map), MORSEL_STALE);
    assert_int_equal(store(&cloud, before, 1, 0, 1), MORSEL_STALE);
    assert_int_equal(store(&cloud, file, 0, 2, 3), 0);
    cloud_close(&cloud);
}

static void one_client_stores_a_set(void **state)
{
    struct fixture *f = *state;
    Morsel__SetPlaceReply *placed;
    Morsel__OpenRequest open = MORSEL__OPEN_REQUEST__INIT;
    struct cloud cloud;
    struct sets_file file;

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(sets_place_in(&cloud.other, file, 0, 1, 0, &placed), MORSEL_ACCES);
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    open.inode = file.inode;
    open.write = true;
    assert_int_equal(call(&cloud.other, MSG_OPEN, &open.base, NULL, NULL), 0);
    assert_int_equal(sets_place_in(&cloud.other, file, 0, 1, 0, &placed), MORSEL_BUSY);
    assert_int_equal(sets_seal_file(&cloud.other, file, 5), MORSEL_BUSY);
    assert_int_equal(sets_truncate(&cloud.other, &file, 5), MORSEL_BUSY);
    assert_int_equal(sets_truncate(&cloud.other, &file, 0), 0);
    assert_int_equal(sets_place_in(&cloud.other, file, 0, 1, 0, &placed), 0);
    morsel__set_place_reply__free_unpacked(placed, NULL);
    cloud_close(&cloud);
}

static int open_to_write(struct client *c, inode_id inode)
{
    Morsel__OpenRequest open = MORSEL__OPEN_REQUEST__INIT;

    open.inode = inode;
    open.write = true;
    return call(c, MSG_OPEN, &open.base, NULL, NULL);
}

/* Both would be told the same places, and write over each other's bytes. */
static void who_is_first_told_where_stores_the_set(void **state)
{
    struct fixture *f = *state;
    Morsel__SetPlaceReply *placed;
    struct cloud cloud;
    struct sets_file file;
    struct inode before, after;
    struct errmsg err;

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(open_to_write(&cloud.other, file.inode), 0);
    assert_int_equal(ns_inode(f->meta->ns, file.inode, &before, &err), 0);
    assert_int_equal(sets_place_in(&cloud.c, file, 0, 1, 0, &placed), 0);
    morsel__set_place_reply__free_unpacked(placed, NULL);
    assert_int_equal(ns_inode(f->meta->ns, file.inode, &after, &err), 0);
    assert_true(after.mtime_ns == before.mtime_ns && after.data_version == before.data_version);
    assert_int_equal(sets_place_in(&cloud.other, file, 0, 1, 0, &placed), MORSEL_BUSY);
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    cloud_close(&cloud);
}

static void writers_wait_for_benefactors_behind_a_restart(void **state)
{
    struct fixture *f = *state;
    Morsel__SetPlaceReply *placed;
    struct cloud cloud;
    struct sets_file file;

    cloud_open(&cloud, f);
    cloud_close(&cloud);
    meta_down(f);
    meta_up(f);
    client_join(&cloud.c, f, 1000);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(sets_place_in(&cloud.c, file, 0, 1, 0, &placed), MORSEL_AGAIN);
    sets_desk_open(&cloud.desks[0], f, 1, 70);
    assert_int_equal(sets_place_in(&cloud.c, file, 0, 1, 0, &placed), MORSEL_AGAIN); /* One copy. */
    sets_desk_open(&cloud.desks[1], f, 2, 71);
    assert_int_equal(sets_place_in(&cloud.c, file, 0, 1, 0, &placed), 0);
    assert_int_equal(placed->copies, 2);
    morsel__set_place_reply__free_unpacked(placed, NULL);
    client_close(&cloud.desks[0].c);
    client_close(&cloud.desks[1].c);
    client_close(&cloud.c);
}

/* Whoever has a copy then may still have it: that it is stale is known when the morsel is stored. */
static void an_announcement_takes_no_copy_away(void **state)
{
    struct fixture *f = *state;
    struct cloud cloud;
    struct sets_file file;
    struct sets_desk *one[] = { &cloud.desks[0] };
    uint32_t donors[2];

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    cloud.desks[0].instance++; /* As if it had been started again. */
    assert_int_equal(sets_stored_as(&cloud.c, file, 0, one, 1, true), 0);
    assert_int_equal(map_of(&cloud.c, file, donors), 1);
    assert_true(donors[0] == cloud.desks[0].id && donors[1] == cloud.desks[1].id);
    assert_int_equal(sets_seal_file(&cloud.c, file, 0), MORSEL_BUSY); /* Without a digest. */
    assert_null(sets_of_donor(ns_sets(f->meta->ns), cloud.desks[2].id));
    assert_int_equal(sets_of_donor(ns_sets(f->meta->ns), cloud.desks[0].id)->waste, 0);
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0); /* Its copy does not count: it is deleted. */
    assert_int_equal(map_of(&cloud.c, file, donors), 1);
    assert_true(donors[0] == cloud.desks[1].id && donors[1] == 0);
    assert_int_equal(sets_of_donor(ns_sets(f->meta->ns), cloud.desks[0].id)->waste, 1);
    assert_int_equal(store(&cloud, file, 9, 0, 1), 0); /* Likewise what was new. */
    assert_int_equal(sets_of_donor(ns_sets(f->meta->ns), cloud.desks[0].id)->waste, 2);
    assert_int_equal(sets_seal_file(&cloud.c, file, 0), 0);
    cloud_close(&cloud);
}

/* What is to be deleted at that desk, as "set:first+count" in order; it reports all of it as deleted. */
static size_t collect(struct sets_desk *desk, struct op_run *runs)
{
    Morsel__DonorReportReply *reply = sets_report(desk, NULL, 0), *after;
    size_t count = reply->n_collect;

    for (size_t i = 0; i < count; i++) {
        runs[i] = (struct op_run){ reply->collect[i]->set, reply->collect[i]->first,
                                   reply->collect[i]->count };
    }
    after = sets_report(desk, reply->collect, count);
    assert_int_equal(after->n_collect, 0);
    morsel__donor_report_reply__free_unpacked(after, NULL);
    after = sets_report(desk, reply->collect, count); /* Said twice it does no harm. */
    assert_int_equal(after->n_collect, 0);
    morsel__donor_report_reply__free_unpacked(after, NULL);
    morsel__donor_report_reply__free_unpacked(reply, NULL);
    return count;
}

/* He may have lost the rest: it was deleted there when others had taken his place, and he came back. */
static void who_gets_a_part_counts_if_the_map_names_him(void **state)
{
    struct fixture *f = *state;
    struct cloud cloud;
    struct sets_file file;
    struct sets_desk *before[] = { &cloud.desks[0], &cloud.desks[1] };
    struct sets_desk *both[] = { &cloud.desks[0], &cloud.desks[2] };
    struct op_run runs[8];
    uint32_t donors[2];

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(sets_stored_in(&cloud.c, file, 0, before, 2, 2, false), MORSEL_UNREACHABLE);
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    assert_int_equal(sets_stored_in(&cloud.c, file, 0, before, 2, 2, false), 0);
    assert_int_equal(store(&cloud, file, 0, 2, 3), 0);
    assert_int_equal(collect(&cloud.desks[0], runs), 1);
    assert_int_equal(collect(&cloud.desks[1], runs), 1);
    assert_int_equal(sets_stored_in(&cloud.c, file, 0, before, 2, 2, false), MORSEL_UNREACHABLE);
    assert_int_equal(map_of(&cloud.c, file, donors), 1);
    assert_true(donors[0] == cloud.desks[2].id && donors[1] == cloud.desks[3].id);
    assert_int_equal(sets_stored_in(&cloud.c, file, 0, both, 2, 2, false), 0);
    assert_int_equal(map_of(&cloud.c, file, donors), 1);
    assert_true(donors[0] == cloud.desks[2].id && donors[1] == 0);
    assert_int_equal(collect(&cloud.desks[0], runs), 1); /* The part. */
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    cloud_close(&cloud);
}

static void what_belongs_to_no_map_is_collected(void **state)
{
    struct fixture *f = *state;
    struct cloud cloud;
    struct sets_file file;
    struct op_run runs[8];
    uint64_t unlinked;

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    assert_int_equal(store(&cloud, file, 7, 0, 2), 0);
    assert_int_equal(collect(&cloud.desks[0], runs), 0);
    assert_int_equal(store(&cloud, file, 7, 0, 1), 0); /* In place of the third. */
    assert_int_equal(store(&cloud, file, 7, 0, 2), 0); /* Which may be deleting it: one copy. */
    assert_int_equal(collect(&cloud.desks[1], runs), 1);
    assert_true(runs[0].set == file.set && runs[0].first == 7 && runs[0].count == 1);
    assert_int_equal(collect(&cloud.desks[2], runs), 1);
    assert_int_equal(store(&cloud, file, 7, 0, 2), 0);
    assert_int_equal(collect(&cloud.desks[2], runs), 0);
    {
        Morsel__Removed *removed;
        Morsel__CloseRequest closing = MORSEL__CLOSE_REQUEST__INIT;

        closing.inodes = &file.inode;
        closing.n_inodes = 1;
        assert_int_equal(call(&cloud.c, MSG_CLOSE, &closing.base, NULL, NULL), 0);
        assert_int_equal(unlink_with(&cloud.c, next_op(&cloud.c), "f", &removed), 0);
        morsel__removed__free_unpacked(removed, NULL);
    }
    unlinked = ns_counters(f->meta->ns)->sequence;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(collect(&cloud.desks[i], runs), 1);
        assert_true(f->meta->sync.durable >= unlinked); /* No power cut brings the name back. */
        assert_true(runs[0].set == file.set && runs[0].first == 0 && runs[0].count == UINT32_MAX);
    }
    assert_int_equal(collect(&cloud.desks[3], runs), 0);
    assert_int_equal(ns_sets(f->meta->ns)->count, 0);
    cloud_close(&cloud);
}

static void only_who_has_said_what_it_holds_is_believed(void **state)
{
    struct fixture *f = *state;
    Morsel__SetRun run = MORSEL__SET_RUN__INIT, far = MORSEL__SET_RUN__INIT, from;
    Morsel__SetRun *held[] = { &run, &far };
    Morsel__SetPlaceReply *placed;
    Morsel__DonorHeldReply *told;
    struct cloud cloud;
    struct sets_file file;
    uint32_t donors[2];

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(store(&cloud, file, i, 0, 1), 0);
    }
    sets_desk_again(&cloud.desks[0], f, 99);
    cloud.desks[0].instance = 70; /* As the client still has it. */
    assert_int_equal(store(&cloud, file, 4, 0, 1), 0);
    assert_int_equal(sets_stored(&cloud.c, file, 5, (struct sets_desk *[]){ &cloud.desks[0] }, 1),
                     MORSEL_UNREACHABLE);
    cloud.desks[0].instance = 99;
    assert_int_equal(sets_place_in(&cloud.c, file, 0, 8, 0, &placed), 0);
    for (size_t i = 0; i < placed->n_donors; i++) {
        assert_true(placed->donors[i] != cloud.desks[0].id);
    }
    morsel__set_place_reply__free_unpacked(placed, NULL);
    run.set = file.set;
    run.first = run.count = 1; /* Not 0. */
    assert_int_equal(sets_held(&cloud.desks[0], held, 1, false, &told), 0);
    assert_int_equal(told->n_drop, 0);
    morsel__donor_held_reply__free_unpacked(told, NULL);
    assert_false(donor_takes(donors_find(&f->meta->donors, cloud.desks[0].id)));
    from = run;
    from.first = run.first = 2;
    run.count = 3; /* 4 has another one as well by now. */
    far.set = UINT64_C(1) << 40;
    far.count = 3;
    assert_int_equal(sets_held_from(&cloud.desks[0], &from, held, 2, true, &told), 0);
    assert_false(told->again);
    assert_int_equal(told->n_drop, 1);
    assert_true(told->drop[0]->set == file.set && told->drop[0]->first == 4 &&
                told->drop[0]->count == 1);
    morsel__donor_held_reply__free_unpacked(told, NULL);
    assert_int_equal(map_of(&cloud.c, file, donors), 5);
    assert_true(donors[0] == cloud.desks[1].id && donors[1] == 0);
    assert_true(donor_takes(donors_find(&f->meta->donors, cloud.desks[0].id)));
    cloud.desks[0].instance =
        70; /* What the process before had acknowledged does not count now, either. */
    assert_int_equal(sets_stored(&cloud.c, file, 5, (struct sets_desk *[]){ &cloud.desks[0] }, 1),
                     MORSEL_UNREACHABLE);
    cloud.desks[0].instance = 99;
    assert_int_equal(sets_stored(&cloud.c, file, 5, (struct sets_desk *[]){ &cloud.desks[0] }, 1),
                     0);
    cloud_close(&cloud);
}

/* As if its client had stored them: morsels 0, step, 2 * step ... on these two. */
static void store_many(struct cloud *cloud, struct sets_file file, uint32_t count, uint32_t step,
                       donor_id a, donor_id b)
{
    struct meta_op op = { .kind = OP_SET_STORED, .time_ns = 1, .client = cloud->c.id };
    struct errmsg err = { "" };
    struct buf list;

    buf_init(&list);
    op.set_stored.inode = file.inode;
    op.set_stored.set = file.set;
    for (uint32_t i = 0; i < count; i++) {
        struct set_morsel m = {
            .number = i * step, .length = 5, .donor_count = 2, .donors = { a, b }
        };

        op_morsel_put(&list, &m);
        if ((i + 1) % SET_STORED_MAX == 0 || i + 1 == count) {
            op.set_stored.morsels = buf_slice(&list);
            assert_int_equal(meta_execute(cloud->f->meta, &op, &err), 0);
            buf_clear(&list);
        }
    }
    buf_free(&list);
}

/* More than is written down, or told, in one step. */
static void much_is_lost_and_collected_page_by_page(void **state)
{
    enum { LOST = SET_RUNS_MAX + 100, WASTE = 1200 };
    struct fixture *f = *state;
    Morsel__DonorReportReply *first, *second;
    Morsel__DonorHeldReply *told;
    struct cloud cloud;
    struct sets_file file;
    unsigned pages = 0;
    bool again;

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    store_many(&cloud, file, LOST, 2, cloud.desks[0].id, cloud.desks[1].id);
    sets_desk_again(&cloud.desks[0], f, 99);
    do {
        assert_int_equal(sets_held(&cloud.desks[0], NULL, 0, true, &told), 0);
        again = told->again;
        assert_true(donor_takes(donors_find(&f->meta->donors, cloud.desks[0].id)) == !again);
        morsel__donor_held_reply__free_unpacked(told, NULL);
        pages++;
    } while (again);
    assert_int_equal(pages, 2);
    assert_int_equal(sets_find(ns_sets(f->meta->ns), file.set)->thin, LOST);
    store_many(&cloud, file, WASTE, 2, cloud.desks[2].id, cloud.desks[3].id);
    first = sets_report(&cloud.desks[1], NULL, 0);
    assert_true(first->more && first->n_collect < WASTE);
    second = sets_report(&cloud.desks[1], first->collect, first->n_collect);
    assert_false(second->more);
    assert_int_equal(first->n_collect + second->n_collect, WASTE);
    morsel__donor_report_reply__free_unpacked(first, NULL);
    morsel__donor_report_reply__free_unpacked(second, NULL);
    cloud_close(&cloud);
}

static void no_set_takes_more_than_a_third_of_the_cloud(void **state)
{
    struct fixture *f = *state;
    Morsel__SetPlaceReply *placed;
    struct cloud cloud;
    struct sets_file file;

    cloud_open(&cloud, f);
    for (unsigned i = 0; i < DESKS; i++) {
        cloud.desks[i].donated = 15 * SETS_MORSEL;
        morsel__donor_report_reply__free_unpacked(sets_report(&cloud.desks[i], NULL, 0), NULL);
    }
    file = sets_make(&cloud.c, "f");
    assert_int_equal(sets_place_in(&cloud.c, file, 0, 100, 0, &placed), 0);
    assert_int_equal(placed->n_donors, 20); /* Of 60 there is room for. */
    morsel__set_place_reply__free_unpacked(placed, NULL);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(store(&cloud, file, i, i % 2, 2 + i % 2), 0);
    }
    assert_int_equal(sets_place_in(&cloud.c, file, 10, 1, 0, &placed), MORSEL_DQUOT);
    cloud_close(&cloud);
}

static Morsel__SetListReply *list(struct cloud *cloud, uint64_t from)
{
    Morsel__SetListRequest request = MORSEL__SET_LIST_REQUEST__INIT;
    Morsel__SetListReply *reply = NULL;

    request.from = from;
    assert_int_equal(
        call(&cloud->c, MSG_SET_LIST, &request.base, &morsel__set_list_reply__descriptor, &reply),
        0);
    return reply;
}

static void sets_are_listed_with_what_is_here_of_them(void **state)
{
    struct fixture *f = *state;
    Morsel__SetListReply *reply;
    struct cloud cloud;
    struct sets_file file;

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    assert_int_equal(store(&cloud, file, 1, 0, 2), 0);
    assert_int_equal(sets_seal_file(&cloud.c, file, 0), 0);
    reply = list(&cloud, 0);
    assert_int_equal(reply->n_sets, 1);
    assert_true(reply->sets[0]->set == file.set && reply->sets[0]->inode == file.inode);
    assert_true(reply->sets[0]->state == SET_SEALED && reply->sets[0]->morsels == 2);
    assert_true(reply->sets[0]->donors == 3 && reply->sets[0]->size == 2 * SETS_MORSEL);
    assert_true(reply->sets[0]->morsels_short == 0 && reply->sets[0]->morsels_away == 0);
    morsel__set_list_reply__free_unpacked(reply, NULL);
    cloud_close(&cloud);
    meta_down(f);
    meta_up(f);
    client_join(&cloud.c, f, 41);
    reply = list(&cloud, 0); /* Nobody has joined again yet. */
    assert_true(reply->sets[0]->morsels_short == 2 && reply->sets[0]->morsels_away == 2);
    morsel__set_list_reply__free_unpacked(reply, NULL);
    reply = list(&cloud, file.set + 1);
    assert_int_equal(reply->n_sets, 0);
    morsel__set_list_reply__free_unpacked(reply, NULL);
    client_close(&cloud.c);
}

static void what_is_cut_off_reads_as_zeros_and_is_written_anew(void **state)
{
    struct fixture *f = *state;
    Morsel__SetMapReply *map;
    struct cloud cloud;
    struct sets_file file, before;

    cloud_open(&cloud, f);
    before = file = sets_make(&cloud.c, "f");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(store(&cloud, file, i, 0, 1), 0);
    }
    assert_int_equal(sets_truncate(&cloud.c, &file, SETS_MORSEL + 10), 0);
    assert_int_equal(file.set, before.set);
    assert_int_equal(sets_map(&cloud.c, file, &map), 0);
    assert_int_equal(map->n_morsels, 3);
    assert_true(map->morsels[0]->length == SETS_MORSEL && !map->morsels[0]->rewriting);
    assert_true(map->morsels[1]->length == 10 && map->morsels[1]->rewriting);
    assert_true(map->morsels[2]->length == 0 && !map->morsels[2]->rewriting);
    assert_int_equal(map->size, SETS_MORSEL + 10);
    morsel__set_map_reply__free_unpacked(map, NULL);
    assert_int_equal(store(&cloud, file, 2, 0, 1), 0);
    cloud_close(&cloud);
}

static int set_xattr(struct client *c, struct sets_file file, const char *name, const char *value)
{
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    Morsel__OpId op = next_op(c);

    request.op = &op;
    request.inode = file.inode;
    request.name = bytes(name);
    request.value = bytes(value);
    request.remove = value[0] == '\0';
    return call(c, MSG_XATTR_SET, &request.base, NULL, NULL);
}

static int say_origin(struct client *c, struct sets_file file, const char *value)
{
    return set_xattr(c, file, ORIGIN_XATTR, value);
}

static int reserve(struct client *c, struct sets_file file, const char *value)
{
    return set_xattr(c, file, POLICY_XATTR_RESERVED, value);
}

/* Of user.morsel.missing, behind its first line. */
static void missing_is(struct client *c, struct sets_file file, const char *ranges)
{
    Morsel__XattrGetRequest request = MORSEL__XATTR_GET_REQUEST__INIT;
    Morsel__XattrReply *reply;
    const uint8_t *line;

    request.inode = file.inode;
    request.name = bytes(MISSING_XATTR);
    assert_int_equal(
        call(c, MSG_XATTR_GET, &request.base, &morsel__xattr_reply__descriptor, &reply), 0);
    line = memchr(reply->value.data, '\n', reply->value.len);
    assert_non_null(line);
    line++;
    assert_int_equal(reply->value.data + reply->value.len - line, strlen(ranges));
    assert_memory_equal(line, ranges, strlen(ranges));
    morsel__xattr_reply__free_unpacked(reply, NULL);
}

/* Nobody takes it from a mount that has it open for writing; whoever has it from then on is the one who stores it. */
static void an_interrupted_set_with_an_origin_is_taken_over(void **state)
{
    static const char origin[] = "url=http://h/x\nsize=131072\n"; /* Two morsels. */
    Morsel__CloseRequest closing = MORSEL__CLOSE_REQUEST__INIT;
    struct fixture *f = *state;
    struct cloud cloud;
    struct sets_file file;

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(say_origin(&cloud.c, file, "url=nothing\n"), MORSEL_INVAL);
    assert_int_equal(say_origin(&cloud.c, file, "url=http://h/x\nsize=9000000000\n"), MORSEL_DQUOT);
    assert_int_equal(say_origin(&cloud.c, file, origin), 0);
    missing_is(&cloud.c, file, "0 131072\n");
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    assert_int_equal(say_origin(&cloud.other, file, origin), MORSEL_BUSY);
    closing.n_inodes = 1;
    closing.inodes = &file.inode;
    assert_int_equal(call(&cloud.c, MSG_CLOSE, &closing.base, NULL, NULL), 0);
    assert_int_equal(say_origin(&cloud.other, file, "url=http://h/y\nsize=131072\n"), MORSEL_EXIST);
    assert_int_equal(say_origin(&cloud.other, file, origin), 0);
    assert_int_equal(open_to_write(&cloud.c, file.inode), MORSEL_OK);
    assert_int_equal(store(&cloud, file, 1, 0, 1), MORSEL_BUSY);
    cloud_close(&cloud);
}

static void a_set_is_reserved_before_it_is_stored(void **state)
{
    static const char size[] = "131072"; /* Two morsels. */
    Morsel__CloseRequest closing = MORSEL__CLOSE_REQUEST__INIT;
    struct fixture *f = *state;
    Morsel__SetListReply *reply;
    Morsel__SetPlaceReply *placed;
    struct cloud cloud;
    struct sets_file file;

    cloud_open(&cloud, f);
    file = sets_make(&cloud.c, "f");
    assert_int_equal(reserve(&cloud.c, file, "0"), MORSEL_INVAL);
    assert_int_equal(reserve(&cloud.c, file, "1K"), MORSEL_INVAL);
    assert_int_equal(reserve(&cloud.c, file, "10000000000000000000"), MORSEL_INVAL);
    assert_int_equal(reserve(&cloud.c, file, "9000000000"), MORSEL_DQUOT);
    assert_null(sets_find(ns_sets(f->meta->ns), file.set));
    assert_int_equal(reserve(&cloud.c, file, size), 0);
    assert_int_equal(reserve(&cloud.c, file, ""), MORSEL_PERM);
    missing_is(&cloud.c, file, "0 131072\n");
    reply = list(&cloud, 0);
    assert_int_equal(reply->n_sets, 1);
    assert_true(reply->sets[0]->state == SET_RESERVED && reply->sets[0]->reserved == 131072);
    morsel__set_list_reply__free_unpacked(reply, NULL);
    assert_int_equal(sets_place_in(&cloud.c, file, 1, 1, 0, &placed), 0);
    morsel__set_place_reply__free_unpacked(placed, NULL);
    assert_int_equal(store(&cloud, file, 0, 0, 1), 0);
    missing_is(&cloud.c, file, "65536 65536\n");
    reply = list(&cloud, 0);
    assert_true(reply->sets[0]->state == SET_STORING);
    morsel__set_list_reply__free_unpacked(reply, NULL);
    assert_int_equal(reserve(&cloud.other, file, size), MORSEL_BUSY);
    closing.n_inodes = 1;
    closing.inodes = &file.inode;
    assert_int_equal(call(&cloud.c, MSG_CLOSE, &closing.base, NULL, NULL), 0);
    assert_int_equal(reserve(&cloud.other, file, size), 0);
    cloud_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_stored_is_in_the_map_and_survives_a_restart),
        TEST(a_sealed_set_takes_nothing_more),
        TEST(one_client_stores_a_set),
        TEST(who_is_first_told_where_stores_the_set),
        TEST(writers_wait_for_benefactors_behind_a_restart),
        TEST(an_announcement_takes_no_copy_away),
        TEST(who_gets_a_part_counts_if_the_map_names_him),
        TEST(what_belongs_to_no_map_is_collected),
        TEST(only_who_has_said_what_it_holds_is_believed),
        TEST(much_is_lost_and_collected_page_by_page),
        TEST(no_set_takes_more_than_a_third_of_the_cloud),
        TEST(sets_are_listed_with_what_is_here_of_them),
        TEST(what_is_cut_off_reads_as_zeros_and_is_written_anew),
        TEST(an_interrupted_set_with_an_origin_is_taken_over),
        TEST(a_set_is_reserved_before_it_is_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
