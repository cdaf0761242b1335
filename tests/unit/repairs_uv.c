/* Repair behind the wire: a real manager orders copies, hears what came of them, and only then its map names them. */
#include "meta/datasets/repairs_uv.h"
#include "common/base/status.h"
#include "meta/cluster/hours_uv.h"
#include "tests/lib/sets.h"

#include <stdlib.h>

enum { DESKS = 4 };

struct cloud;

/* What one was told to fetch, and has not answered. */
struct orders
{
    struct cloud *cloud;
    unsigned count;
    Morsel__DonorFetch *items[8];
};

struct cloud
{
    struct fixture *f;
    struct sets_desk desks[DESKS];
    struct orders orders[DESKS];
    struct client c;
    struct sets_file file;
};

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct orders *orders = data;

    if (type == MSG_DONOR_FETCH) {
        assert_true(orders->count < 8);
        orders->items[orders->count++] =
            rpc_unpack(&morsel__donor_fetch__descriptor, body, body_count);
        assert_non_null(orders->items[orders->count - 1]);
    }
}

static void listen_to(struct cloud *cloud, unsigned desk)
{
    rpc_peer_watch(cloud->desks[desk].c.peer, NULL, NULL, &cloud->orders[desk]);
    rpc_peer_on_push(cloud->desks[desk].c.peer, on_push);
}

static void cloud_open(struct cloud *cloud, struct fixture *f)
{
    memset(cloud, 0, sizeof(*cloud));
    cloud->f = f;
    repair_init(&f->meta->repair, ns_sets(f->meta->ns), &f->meta->donors, 0,
                meta_now_ms(f->meta)); /* Nobody is expected. */
    f->meta->repair.heat = &f->meta->heat;
    for (unsigned i = 0; i < DESKS; i++) {
        sets_desk_open(&cloud->desks[i], f, (uint8_t)(i + 1), 70U + i);
        listen_to(cloud, i);
    }
    client_join(&cloud->c, f, 41);
    sets_policy(&cloud->c, INODE_ROOT, 2);
    cloud->file = sets_make(&cloud->c, "f");
}

static void forget_order(struct orders *orders)
{
    morsel__donor_fetch__free_unpacked(orders->items[0], NULL);
    orders->count--;
    memmove(orders->items, orders->items + 1, orders->count * sizeof(Morsel__DonorFetch *));
}

static void cloud_close(struct cloud *cloud)
{
    sets_check(ns_sets(cloud->f->meta->ns));
    repair_check(&cloud->f->meta->repair);
    for (unsigned i = 0; i < DESKS; i++) {
        while (cloud->orders[i].count > 0) {
            forget_order(&cloud->orders[i]);
        }
        client_close(&cloud->desks[i].c);
    }
    client_close(&cloud->c);
}

static void store(struct cloud *cloud, uint32_t number, unsigned a, unsigned b)
{
    struct sets_desk *desks[] = { &cloud->desks[a], &cloud->desks[b] };

    assert_int_equal(sets_stored(&cloud->c, cloud->file, number, desks, 2), 0);
}

/* The morsel is written anew, at one, or about to be. */
static void rewrite(struct cloud *cloud, uint32_t number, unsigned desk, bool rewriting)
{
    Morsel__SetStoredRequest request = MORSEL__SET_STORED_REQUEST__INIT;
    Morsel__SetMorsel morsel = MORSEL__SET_MORSEL__INIT, *morsels = &morsel;
    Morsel__DonorPlace place = MORSEL__DONOR_PLACE__INIT, *places = &place;
    Morsel__OpId op = next_op(&cloud->c);

    place.id = cloud->desks[desk].id;
    place.instance = cloud->desks[desk].instance;
    morsel.number = number;
    morsel.length = SETS_MORSEL;
    morsel.rewriting = rewriting;
    morsel.digest = rewriting ? 0 : 5;
    morsel.donors = &place.id;
    morsel.n_donors = 1;
    request.op = &op;
    request.inode = cloud->file.inode;
    request.set = cloud->file.set;
    request.morsels = &morsels;
    request.n_morsels = 1;
    request.places = &places;
    request.n_places = 1;
    assert_int_equal(call(&cloud->c, MSG_SET_STORED, &request.base, NULL, NULL), 0);
}

/* Its last word. */
static void leave(struct cloud *cloud, unsigned desk)
{
    Morsel__DonorReportRequest request = MORSEL__DONOR_REPORT_REQUEST__INIT;

    request.id = cloud->desks[desk].id;
    request.instance = cloud->desks[desk].instance;
    request.leaves = true;
    assert_int_equal(call(&cloud->desks[desk].c, MSG_DONOR_REPORT, &request.base, NULL, NULL), 0);
}

/* The desk that is told to fetch the next copy. */
static unsigned wait_order(struct cloud *cloud)
{
    for (;;) {
        for (unsigned i = 0; i < DESKS; i++) {
            if (cloud->orders[i].count > 0) {
                return i;
            }
        }
        meta_arm(cloud->f->meta);
        uv_run(&cloud->f->loop, UV_RUN_ONCE);
    }
}

static int answer(struct cloud *cloud, unsigned desk, uint32_t outcome)
{
    Morsel__DonorFetchedRequest request = MORSEL__DONOR_FETCHED_REQUEST__INIT;
    const Morsel__DonorFetch *order = cloud->orders[desk].items[0];
    int rv;

    request.id = cloud->desks[desk].id;
    request.instance = cloud->desks[desk].instance;
    request.order = order->order;
    request.set = order->set;
    request.morsel = order->morsel;
    request.length = order->length;
    request.digest = order->digest;
    request.outcome = outcome;
    rv = call(&cloud->desks[desk].c, MSG_DONOR_FETCHED, &request.base, NULL, NULL);
    forget_order(&cloud->orders[desk]);
    return rv;
}

/* Does the map say that the desk has that morsel? */
static bool names(struct cloud *cloud, uint32_t number, unsigned desk)
{
    Morsel__SetMapReply *map;
    bool named = false;

    assert_int_equal(sets_map(&cloud->c, cloud->file, &map), 0);
    for (size_t i = 0; i < map->n_morsels; i++) {
        for (size_t j = 0; j < map->morsels[i]->n_donors; j++) {
            named |= map->morsels[i]->number == number &&
                     map->morsels[i]->donors[j] == cloud->desks[desk].id;
        }
    }
    morsel__set_map_reply__free_unpacked(map, NULL);
    return named;
}

/* Is the morsel to be deleted there? */
static bool condemned(struct cloud *cloud, unsigned desk, uint32_t number)
{
    Morsel__DonorReportReply *reply = sets_report(&cloud->desks[desk], NULL, 0);
    bool found = false;

    for (size_t i = 0; i < reply->n_collect; i++) {
        found |= reply->collect[i]->first == number && reply->collect[i]->count == 1;
    }
    morsel__donor_report_reply__free_unpacked(reply, NULL);
    return found;
}

static void a_copy_counts_when_it_was_fetched(void **state)
{
    struct cloud cloud;
    unsigned desk;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    leave(&cloud, 0);
    desk = wait_order(&cloud);
    assert_true(desk >= 2);
    assert_int_equal(cloud.orders[desk].items[0]->set, cloud.file.set);
    assert_int_equal(cloud.orders[desk].items[0]->morsel, 3);
    assert_int_equal(cloud.orders[desk].items[0]->digest, 1003);
    assert_int_equal(cloud.orders[desk].items[0]->length, SETS_MORSEL);
    assert_int_equal(cloud.orders[desk].items[0]->source->id, cloud.desks[1].id);
    assert_string_equal(cloud.orders[desk].items[0]->source->address, "10.0.0.1:7");
    assert_false(names(&cloud, 3, desk));
    assert_int_equal(answer(&cloud, desk, REPAIR_DONE), 0);
    assert_true(names(&cloud, 3, desk) && names(&cloud, 3, 0) && names(&cloud, 3, 1));
    assert_int_equal(cloud.f->meta->repair.task_count, 0);
    cloud_close(&cloud);
    meta_down(cloud.f);
    meta_up(cloud.f);
    client_join(&cloud.c, cloud.f, 42);
    assert_true(names(&cloud, 3, desk)); /* In the database, too. */
    client_close(&cloud.c);
}

static void what_was_written_anew_meanwhile_is_void(void **state)
{
    struct cloud cloud;
    unsigned desk;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    store(&cloud, 4, 0, 1);
    leave(&cloud, 0);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t number;

        desk = wait_order(&cloud);
        number = cloud.orders[desk].items[0]->morsel;
        rewrite(&cloud, number, 1, i == 0);
        assert_int_equal(answer(&cloud, desk, REPAIR_DONE), 0);
        assert_false(names(&cloud, number, desk));
        assert_true(condemned(&cloud, desk, number));
    }
    cloud_close(&cloud);
}

/* While a copy is on its way somebody else's at the same place counts for nothing, and none is placed there. */
static void nobody_else_writes_where_a_copy_comes(void **state)
{
    Morsel__SetPlaceReply *placed;
    struct cloud cloud;
    unsigned desk;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    leave(&cloud, 0);
    desk = wait_order(&cloud);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(sets_place_in(&cloud.c, cloud.file, 3, 1, 0, &placed), 0);
        for (size_t j = 0; j < placed->n_donors; j++) {
            assert_int_not_equal(placed->donors[j], cloud.desks[desk].id);
        }
        morsel__set_place_reply__free_unpacked(placed, NULL);
    }
    store(&cloud, 3, 1, desk);
    assert_true(names(&cloud, 3, 1) && !names(&cloud, 3, desk));
    cloud_close(&cloud);
}

static void what_failed_is_tried_elsewhere_and_deleted_there(void **state)
{
    struct cloud cloud;
    unsigned first, second;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    leave(&cloud, 0);
    first = wait_order(&cloud);
    assert_int_equal(answer(&cloud, first, REPAIR_NO_ROOM), 0);
    second = wait_order(&cloud);
    assert_int_not_equal(first, second);
    assert_true(condemned(&cloud, first, 3));
    assert_int_equal(answer(&cloud, second, REPAIR_DONE), 0);
    assert_true(names(&cloud, 3, second) && !names(&cloud, 3, first));
    cloud_close(&cloud);
}

static void nobody_is_believed_who_was_not_asked(void **state)
{
    struct cloud cloud;
    Morsel__DonorFetch *order = malloc(sizeof(*order));

    assert_non_null(order);
    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    morsel__donor_fetch__init(order);
    order->order = 9;
    order->set = cloud.file.set;
    order->morsel = 3;
    order->length = SETS_MORSEL;
    order->digest = 1003;
    cloud.orders[2].items[cloud.orders[2].count++] = order;
    assert_int_equal(answer(&cloud, 2, REPAIR_DONE), 0);
    assert_false(names(&cloud, 3, 2));
    assert_true(condemned(&cloud, 2, 3));
    assert_true(!condemned(&cloud, 0, 3) && !condemned(&cloud, 1, 3));
    cloud_close(&cloud);
}

/* Who comes back with what it had is taken by its word; the copy that is too many goes, the newest first. */
static void a_surplus_goes_when_the_first_is_back(void **state)
{
    Morsel__SetRun run = MORSEL__SET_RUN__INIT, *held = &run;
    Morsel__DonorHeldReply *reply;
    struct cloud cloud;
    unsigned desk;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    leave(&cloud, 0);
    desk = wait_order(&cloud);
    assert_int_equal(answer(&cloud, desk, REPAIR_DONE), 0);
    sets_desk_again(&cloud.desks[0], cloud.f, 99);
    listen_to(&cloud, 0);
    assert_true(names(&cloud, 3, desk) && names(&cloud, 3, 0));
    run.set = cloud.file.set;
    run.first = 3;
    run.count = 1;
    assert_int_equal(sets_held(&cloud.desks[0], &held, 1, true, &reply), 0);
    assert_int_equal(reply->n_drop, 0);
    morsel__donor_held_reply__free_unpacked(reply, NULL);
    while (names(&cloud, 3, desk)) {
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
    }
    assert_true(names(&cloud, 3, 0) && names(&cloud, 3, 1));
    assert_true(condemned(&cloud, desk, 3));
    cloud_close(&cloud);
}

/* The desk says that the morsel was read so often there. */
static int tell_read(struct cloud *cloud, unsigned desk, uint32_t number, uint32_t reads,
                     size_t times)
{
    Morsel__DonorReportRequest request = MORSEL__DONOR_REPORT_REQUEST__INIT;
    Morsel__DonorReport numbers = MORSEL__DONOR_REPORT__INIT;
    Morsel__DonorRead read = MORSEL__DONOR_READ__INIT, *reads_told[HOTTEST_MAX + 1];

    read.set = cloud->file.set;
    read.morsel = number;
    read.reads = reads;
    for (size_t i = 0; i < times; i++) {
        reads_told[i] = &read;
    }
    numbers.donated = cloud->desks[desk].donated;
    request.id = cloud->desks[desk].id;
    request.instance = cloud->desks[desk].instance;
    request.report = &numbers;
    request.hottest = reads_told;
    request.n_hottest = times;
    return call(&cloud->desks[desk].c, MSG_DONOR_REPORT, &request.base, NULL, NULL);
}

/* Of those that are short the one goes first that was read most, as those say who have it. */
static void what_is_read_most_is_copied_first(void **state)
{
    const struct heat *heat;
    struct cloud cloud;
    unsigned desk;

    cloud_open(&cloud, *state);
    heat = &cloud.f->meta->heat;
    for (uint32_t i = 0; i < 6; i++) {
        store(&cloud, i, 0, 1);
    }
    assert_int_equal(tell_read(&cloud, 0, 4, 3, 1), 0);
    assert_int_equal(tell_read(&cloud, 1, 5, 2, 2), 0);
    assert_int_equal(tell_read(&cloud, 2, 3, 100, 1), 0); /* Which has it not. */
    assert_int_equal(tell_read(&cloud, 1, SET_MORSELS_MAX, 100, 1), 0);
    assert_int_equal(tell_read(&cloud, 1, 2, 100, HOTTEST_MAX + 1), MORSEL_MALFORMED);
    assert_int_equal(heat_reads(heat, cloud.file.set, 4), 3 * HEAT_ONE);
    assert_int_equal(heat_reads(heat, cloud.file.set, 5), 4 * HEAT_ONE);
    cloud.f->meta->heat.ranked_ms = 0; /* It is time. */
    assert_int_equal(tell_read(&cloud, 0, 4, 0, 1), 0);
    assert_int_equal(heat->hot_count, 2);
    leave(&cloud, 0);
    desk = wait_order(&cloud);
    assert_int_equal(cloud.orders[desk].items[0]->order, 1);
    assert_int_equal(cloud.orders[desk].items[0]->morsel, 5);
    assert_int_equal(cloud.f->meta->repair.tasks[1].morsel, 4);
    cloud_close(&cloud);
}

/* Who has come and gone is learned, and what was learned outlives a restart. */
static void hours_are_kept(void **state)
{
    struct cloud cloud;
    struct hours *hours;

    cloud_open(&cloud, *state);
    leave(&cloud, 0);
    hours = &cloud.f->meta->hours;
    assert_int_equal(hours->count, DESKS);
    for (uint32_t i = 0; i < DESKS; i++) {
        assert_int_equal(hours->items[i].here, i > 0);
        hours->items[i].record.share[7] = (uint8_t)i;
        hours->items[i].kept_s -= HOURS_KEEP_S;
    }
    cloud.f->meta->hours_due_ms = 0;
    hours_pulse(cloud.f->meta, meta_now_ms(cloud.f->meta));
    cloud_close(&cloud);
    meta_down(cloud.f);
    meta_up(cloud.f);
    hours = &cloud.f->meta->hours;
    hours_check(hours);
    assert_int_equal(hours->count, DESKS);
    for (uint32_t i = 0; i < DESKS; i++) {
        assert_int_equal(hours->items[i].record.share[7], i);
        assert_int_equal(hours->items[i].sure, i == 0); /* When the others went nobody knows. */
    }
    assert_ptr_equal(cloud.f->meta->repair.hours, hours);
}

/* It is heard in the answers to its reports. */
static void who_leaves_is_told_when_others_have_all(void **state)
{
    Morsel__DonorReportReply *reply;
    struct cloud cloud;
    unsigned desk;
    bool over = false;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    cloud.desks[0].leaving = true;
    reply = sets_report(&cloud.desks[0], NULL, 0);
    assert_true(reply->left != NULL && !reply->left->counted && reply->soon);
    morsel__donor_report_reply__free_unpacked(reply, NULL);
    desk = wait_order(&cloud);
    assert_true(desk >= 2);
    for (unsigned i = 0; i < 8; i++) { /* No place for anything new. */
        Morsel__SetPlaceReply *placed;

        assert_int_equal(sets_place_in(&cloud.c, cloud.file, 5, 1, 0, &placed), 0);
        for (size_t j = 0; j < placed->n_donors; j++) {
            assert_int_not_equal(placed->donors[j], cloud.desks[0].id);
        }
        morsel__set_place_reply__free_unpacked(placed, NULL);
    }
    assert_int_equal(answer(&cloud, desk, REPAIR_DONE), 0);
    while (!over) {
        meta_arm(cloud.f->meta);
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
        reply = sets_report(&cloud.desks[0], NULL, 0);
        over = reply->left->counted && reply->left->wanted == 0;
        assert_int_equal(reply->left->moved, 1);
        morsel__donor_report_reply__free_unpacked(reply, NULL);
    }
    assert_true(names(&cloud, 3, desk) && names(&cloud, 3, 0) && names(&cloud, 3, 1));
    cloud_close(&cloud);
}

/* Whoever is not through with saying what it holds might take it soon: that is no reason to go. */
static void who_leaves_waits_for_those_who_have_just_begun(void **state)
{
    Morsel__DonorReportReply *reply;
    struct cloud cloud;
    bool counted = false;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    for (unsigned i = 2; i < DESKS; i++) {
        sets_desk_again(&cloud.desks[i], cloud.f, 80U + i);
        listen_to(&cloud, i);
    }
    cloud.desks[0].leaving = true;
    while (!counted) {
        meta_arm(cloud.f->meta);
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
        reply = sets_report(&cloud.desks[0], NULL, 0);
        counted = reply->left->counted;
        assert_true(!counted || (reply->left->wanted == 1 && reply->left->stuck == 0));
        morsel__donor_report_reply__free_unpacked(reply, NULL);
    }
    cloud_close(&cloud);
}

/* Another one has it first; then the map does not name it any more, and it is to be deleted. */
static void what_is_too_much_is_moved_off(void **state)
{
    struct cloud cloud;
    unsigned desk;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    cloud.desks[0].donated = 0;
    cloud.desks[0].used = cloud.desks[0].excess = SETS_MORSEL;
    assert_false(condemned(&cloud, 0, 3)); /* With the report. */
    desk = wait_order(&cloud);
    assert_true(desk >= 2 && names(&cloud, 3, 0));
    assert_int_equal(answer(&cloud, desk, REPAIR_DONE), 0);
    assert_true(names(&cloud, 3, desk) && names(&cloud, 3, 1) && !names(&cloud, 3, 0));
    assert_true(condemned(&cloud, 0, 3));
    cloud_close(&cloud);
}

/* Nobody has room: of a disk that is full one of two copies goes, and of a donation that is smaller none. */
static void only_a_full_disk_gives_up_a_copy(void **state)
{
    struct cloud cloud;

    cloud_open(&cloud, *state);
    store(&cloud, 3, 0, 1);
    for (unsigned i = 0; i < DESKS; i++) {
        cloud.desks[i].donated = 0;
        cloud.desks[i].used = cloud.desks[i].excess = i < 2 ? SETS_MORSEL : 0;
        assert_false(condemned(&cloud, i, 3));
    }
    while (donors_find(&cloud.f->meta->donors, cloud.desks[0].id)->repair.left.stuck_bytes == 0) {
        meta_arm(cloud.f->meta);
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
    }
    assert_true(names(&cloud, 3, 0) && names(&cloud, 3, 1));
    cloud.desks[0].pressed = cloud.desks[1].pressed = SETS_MORSEL;
    (void)condemned(&cloud, 0, 3);
    (void)condemned(&cloud, 1, 3);
    while (cloud.f->meta->repair.yielded == 0) {
        meta_arm(cloud.f->meta);
        uv_run(&cloud.f->loop, UV_RUN_ONCE);
    }
    assert_true(names(&cloud, 3, 0) != names(&cloud, 3, 1));
    cloud_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_copy_counts_when_it_was_fetched),
        TEST(hours_are_kept),
        TEST(what_was_written_anew_meanwhile_is_void),
        TEST(nobody_else_writes_where_a_copy_comes),
        TEST(what_failed_is_tried_elsewhere_and_deleted_there),
        TEST(nobody_is_believed_who_was_not_asked),
        TEST(a_surplus_goes_when_the_first_is_back),
        TEST(what_is_read_most_is_copied_first),
        TEST(who_leaves_is_told_when_others_have_all),
        TEST(who_leaves_waits_for_those_who_have_just_begun),
        TEST(what_is_too_much_is_moved_off),
        TEST(only_a_full_disk_gives_up_a_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
