/* What comes back from an origin, behind the wire: one mount fetches each morsel, its copies are named when they are what was stored, and whatever
 * else it may have put somewhere is deleted. */
#include "meta/datasets/claims_uv.h"
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "common/fs/policy_text.h"
#include "tests/lib/sets.h"

#include <stdlib.h>

enum { DESKS = 3, MORSELS = 8, KEPT = 2, YOURS = 1, OTHERS = 2, THERE = 3 };

struct cloud
{
    struct fixture *f;
    struct sets_desk desks[DESKS];
    struct client one, two;
    struct sets_file file;
};

static const struct data_set *set_of(const struct cloud *cloud)
{
    return sets_find(ns_sets(cloud->f->meta->ns), cloud->file.set);
}

static void say_origin(struct client *c, struct sets_file file)
{
    static const char text[] = "url=http://h/x\nsize=524288\netag=\"a\"\nproven=yes\n";
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    Morsel__OpId op = next_op(c);

    static_assert(MORSELS * SETS_MORSEL == 524288, "so long it is");
    request.op = &op;
    request.inode = file.inode;
    request.name =
        (ProtobufCBinaryData){ strlen(ORIGIN_XATTR), (uint8_t *)(uintptr_t)ORIGIN_XATTR };
    request.value = (ProtobufCBinaryData){ strlen(text), (uint8_t *)(uintptr_t)text };
    assert_int_equal(call(c, MSG_XATTR_SET, &request.base, NULL, NULL), 0);
}

/* They delete what they are told to delete. How much that was, of all. */
static size_t delete_waste(struct cloud *cloud)
{
    size_t count = 0;

    for (unsigned i = 0; i < DESKS; i++) {
        Morsel__DonorReportReply *reply = sets_report(&cloud->desks[i], NULL, 0);

        for (size_t j = 0; j < reply->n_collect; j++) {
            count += reply->collect[j]->count;
        }
        morsel__donor_report_reply__free_unpacked(
            sets_report(&cloud->desks[i], reply->collect, reply->n_collect), NULL);
        morsel__donor_report_reply__free_unpacked(reply, NULL);
    }
    return count;
}

static void evict(struct cloud *cloud)
{
    struct meta_op op = { .kind = OP_SET_EVICT };
    struct errmsg err = { "" };

    op.set_evict.set = cloud->file.set;
    op.set_evict.kept = KEPT;
    assert_int_equal(meta_execute(cloud->f->meta, &op, &err), 0);
}

/* A set of which the end was evicted and deleted, and two mounts. */
static void cloud_open(struct cloud *cloud, struct fixture *f)
{
    struct sets_desk *both[] = { &cloud->desks[0], &cloud->desks[1] };

    memset(cloud, 0, sizeof(*cloud));
    cloud->f = f;
    for (unsigned i = 0; i < DESKS; i++) {
        sets_desk_open(&cloud->desks[i], f, (uint8_t)(i + 1), 70U + i);
    }
    client_join(&cloud->one, f, 41);
    client_join(&cloud->two, f, 42);
    sets_policy(&cloud->one, INODE_ROOT, 2);
    cloud->file = sets_make(&cloud->one, "file");
    say_origin(&cloud->one, cloud->file);
    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_int_equal(sets_stored(&cloud->one, cloud->file, i, both, 2), 0);
    }
    assert_int_equal(sets_seal_file(&cloud->one, cloud->file, (uint64_t)MORSELS * SETS_MORSEL), 0);
    evict(cloud);
    assert_int_equal(delete_waste(cloud), (MORSELS - KEPT) * 2);
}

static void cloud_close(struct cloud *cloud)
{
    sets_check(ns_sets(cloud->f->meta->ns));
    claims_check(&cloud->f->meta->claims);
    for (unsigned i = 0; i < DESKS; i++) {
        client_close(&cloud->desks[i].c);
    }
    client_close(&cloud->one);
    client_close(&cloud->two);
}

static Morsel__SetClaimReply *claim(struct cloud *cloud, struct client *c, uint32_t first,
                                    uint32_t count, bool ends)
{
    Morsel__SetClaimRequest request = MORSEL__SET_CLAIM_REQUEST__INIT;
    Morsel__SetClaimReply *reply = NULL;

    request.inode = cloud->file.inode;
    request.set = cloud->file.set;
    request.first = first;
    request.count = count;
    request.ends = ends;
    assert_int_equal(
        call(c, MSG_SET_CLAIM, &request.base, &morsel__set_claim_reply__descriptor, &reply), 0);
    return reply;
}

/* Whose are they, and how many of them? Without a place nothing is claimed. */
static void are(struct cloud *cloud, struct client *c, uint32_t first, uint32_t asked,
                unsigned state, uint32_t count, bool placed)
{
    Morsel__SetClaimReply *reply = claim(cloud, c, first, asked, false);

    assert_int_equal(reply->state, state);
    assert_int_equal(reply->count, count);
    assert_int_equal(reply->wait_ms > 0, state == OTHERS);
    assert_int_equal(reply->n_donors, placed ? count * 2 : 0);
    assert_int_equal(reply->n_places > 0, placed);
    morsel__set_claim_reply__free_unpacked(reply, NULL);
}

/* What came of morsel `number`: at those that took it, all of whom it was claimed for. */
static void returned(struct cloud *cloud, struct client *c, uint32_t number, uint32_t digest,
                     const struct claim *claim)
{
    Morsel__SetReturnedRequest request = MORSEL__SET_RETURNED_REQUEST__INIT;
    Morsel__SetMorsel morsel = MORSEL__SET_MORSEL__INIT;
    Morsel__DonorPlace items[REPLICAS_MAX], *places[REPLICAS_MAX];
    donor_id donors[REPLICAS_MAX];

    for (uint32_t i = 0; i < claim->copies; i++) {
        morsel__donor_place__init(&items[i]);
        donors[i] = items[i].id = claim->donors[i];
        for (unsigned j = 0; j < DESKS; j++) {
            items[i].instance =
                cloud->desks[j].id == donors[i] ? cloud->desks[j].instance : items[i].instance;
        }
        places[i] = &items[i];
    }
    morsel.number = number;
    morsel.length = SETS_MORSEL;
    morsel.digest = digest;
    morsel.donors = donors;
    morsel.n_donors = claim->copies;
    request.inode = cloud->file.inode;
    request.set = cloud->file.set;
    request.morsel = &morsel;
    request.places = places;
    request.n_places = claim->copies;
    assert_int_equal(call(c, MSG_SET_RETURNED, &request.base, NULL, NULL), 0);
}

static struct claim claimed(const struct cloud *cloud, uint32_t number)
{
    const struct claim *claim = claims_find(&cloud->f->meta->claims, cloud->file.set, number);

    assert_non_null(claim);
    assert_int_equal(claim->copies, 2);
    return *claim;
}

static uint32_t copies_of(const struct cloud *cloud, uint32_t number)
{
    struct set_morsel m;

    assert_true(set_get(set_of(cloud), number, &m));
    return m.donor_count;
}

static void one_mount_fetches_each_and_it_is_there_again(void **state)
{
    struct cloud cloud;
    struct claim places;

    cloud_open(&cloud, *state);
    are(&cloud, &cloud.one, 0, 4, THERE, KEPT, false);
    are(&cloud, &cloud.one, KEPT, 2, YOURS, 2, true);
    are(&cloud, &cloud.two, KEPT, MORSELS - KEPT, OTHERS, 2, false);
    are(&cloud, &cloud.two, KEPT + 2, MORSELS - KEPT - 2, YOURS, MORSELS - KEPT - 2, true);
    are(&cloud, &cloud.one, KEPT, MORSELS - KEPT, YOURS, 2, true); /* Once more: they are. */
    places = claimed(&cloud, KEPT);
    returned(&cloud, &cloud.one, KEPT, 1000 + KEPT, &places);
    assert_int_equal(copies_of(&cloud, KEPT), 2);
    assert_int_equal(set_of(&cloud)->head.kept, KEPT + 1);
    are(&cloud, &cloud.two, KEPT, 2, THERE, 1, false);
    morsel__set_claim_reply__free_unpacked(claim(&cloud, &cloud.one, KEPT + 1, 1, true), NULL);
    are(&cloud, &cloud.two, KEPT + 1, 1, YOURS, 1, true);
    assert_int_equal(delete_waste(&cloud), 0);
    cloud_close(&cloud);
}

/* Others than were stored, such as nobody was to put there, and what comes when the mount was given up. */
static void what_does_not_count_is_deleted(void **state)
{
    struct cloud cloud;
    struct claim places;

    cloud_open(&cloud, *state);
    are(&cloud, &cloud.one, KEPT, 3, YOURS, 3, true);
    places = claimed(&cloud, KEPT);
    returned(&cloud, &cloud.one, KEPT, 1, &places);
    assert_int_equal(delete_waste(&cloud), 2);
    places = claimed(&cloud, KEPT + 1);
    returned(&cloud, &cloud.two, KEPT + 1, 1000 + KEPT + 1, &places);
    assert_int_equal(delete_waste(&cloud), 0); /* It is another one's. */
    claims_pulse(cloud.f->meta, meta_now_ms(cloud.f->meta) + CLAIM_MS);
    assert_int_equal(cloud.f->meta->claims.count, 0);
    assert_int_equal(delete_waste(&cloud), 4);
    returned(&cloud, &cloud.one, KEPT + 1, 1000 + KEPT + 1, &places);
    assert_int_equal(delete_waste(&cloud), 2);
    assert_int_equal(copies_of(&cloud, KEPT) + copies_of(&cloud, KEPT + 1), 0);
    cloud_close(&cloud);
}

/* Asked once more it goes where it was to go; and a benefactor that nobody knows has nothing to delete. */
static void what_is_on_its_way_keeps_its_places(void **state)
{
    struct cloud cloud;
    struct claim before, places;

    cloud_open(&cloud, *state);
    are(&cloud, &cloud.one, KEPT, 3, YOURS, 3, true);
    for (uint32_t i = KEPT; i < KEPT + 3; i++) {
        before = claimed(&cloud, i);
        for (int asked = 0; asked < 8; asked++) {
            are(&cloud, &cloud.one, i, 1, YOURS, 1, true);
            places = claimed(&cloud, i);
            assert_memory_equal(places.donors, before.donors, 2 * sizeof(places.donors[0]));
        }
    }
    places.donors[0] = places.donors[1] = 999;
    returned(&cloud, &cloud.one, KEPT, 1000 + KEPT, &places);
    assert_null(sets_of_donor(ns_sets(cloud.f->meta->ns), 999));
    cloud_close(&cloud);
}

/* Too late: another one puts it there. And what is noted of somebody else's question keeps nothing from being deleted. */
static void what_another_one_puts_there_stays(void **state)
{
    struct cloud cloud;
    struct claim places;
    struct meta *meta;

    cloud_open(&cloud, *state);
    meta = cloud.f->meta;
    are(&cloud, &cloud.one, KEPT, 1, YOURS, 1, true);
    places = claimed(&cloud, KEPT);
    returned(&cloud, &cloud.two, KEPT, 1000 + KEPT, &places);
    assert_int_equal(delete_waste(&cloud), 0);
    meta->loads.wanted.room = true;
    claims_pulse(meta, meta_now_ms(meta) + CLAIM_MS);
    assert_int_equal(meta->claims.count, 0);
    assert_int_equal(delete_waste(&cloud), 2);
    cloud_close(&cloud);
}

static void remove_file(struct client *c, const char *name)
{
    Morsel__UnlinkRequest request = MORSEL__UNLINK_REQUEST__INIT;
    Morsel__OpId op = next_op(c);

    request.op = &op;
    request.parent = INODE_ROOT;
    request.name = (ProtobufCBinaryData){ strlen(name), (uint8_t *)(uintptr_t)name };
    assert_int_equal(call(c, MSG_UNLINK, &request.base, NULL, NULL), 0);
}

/* The set is gone, and what comes for it later is not left lying about. */
static void nothing_comes_back_of_what_was_deleted_or_begun_anew(void **state)
{
    struct cloud cloud;
    struct claim places;
    struct sets_file before;

    cloud_open(&cloud, *state);
    are(&cloud, &cloud.one, KEPT, 2, YOURS, 2, true);
    places = claimed(&cloud, KEPT);
    before = cloud.file;
    assert_int_equal(sets_truncate(&cloud.one, &cloud.file, 0), 0);
    cloud.file = before;
    assert_null(set_of(&cloud));
    (void)delete_waste(&cloud);
    returned(&cloud, &cloud.one, KEPT, 1000 + KEPT, &places);
    assert_int_equal(delete_waste(&cloud), 2);
    remove_file(&cloud.one, "file");
    places = claimed(&cloud, KEPT + 1);
    returned(&cloud, &cloud.one, KEPT + 1, 1000 + KEPT + 1, &places);
    assert_int_equal(delete_waste(&cloud), 2);
    cloud_close(&cloud);
}

/* Where less than a twentieth would be left nothing is put back, and so nothing is waited for. */
static void no_room_is_taken_that_others_need(void **state)
{
    const uint64_t donated = (uint64_t)SETS_DONATED_MORSELS * SETS_MORSEL;
    struct cloud cloud;

    cloud_open(&cloud, *state);
    for (unsigned i = 0; i < DESKS; i++) {
        cloud.desks[i].used = donated - donated / 20 - SETS_MORSEL + 1;
    }
    assert_int_equal(delete_waste(&cloud), 0);
    are(&cloud, &cloud.one, KEPT, 3, YOURS, 3, false);
    are(&cloud, &cloud.two, KEPT, 3, YOURS, 3, false);
    for (unsigned i = 0; i < DESKS; i++) {
        cloud.desks[i].used = donated - donated / 20 - (i < 2 ? SETS_MORSEL : 0);
    }
    assert_int_equal(delete_waste(&cloud), 0);
    are(&cloud, &cloud.one, KEPT, 3, YOURS, 1, true); /* Two take one. */
    are(&cloud, &cloud.two, KEPT + 1, 2, YOURS, 2, false);
    cloud_close(&cloud);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_mount_fetches_each_and_it_is_there_again),
        TEST(what_does_not_count_is_deleted),
        TEST(what_is_on_its_way_keeps_its_places),
        TEST(what_another_one_puts_there_stays),
        TEST(nothing_comes_back_of_what_was_deleted_or_begun_anew),
        TEST(no_room_is_taken_that_others_need),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
