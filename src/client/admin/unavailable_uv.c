/* morsel status --unavailable: data sets with bytes that nobody can read now, page by page, and who would have them.
 *
 * The manager says of each set how many of its morsels no benefactor has who is here (SET_LIST); only of these the map is asked for. */
#include "client/admin/unavailable_uv.h"

#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "dataset.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DONORS_NAMED_MAX = 32 };

/* What is missing of one set. */
struct missing
{
    uint64_t morsels, bytes;
    uint64_t evicted;                  /* Morsels that made room for others, */
    uint64_t lost;                     /* of which the map names nobody any more, */
    uint64_t damaged;                  /* and whose last copies are here, and wrong. */
    uint32_t donors[DONORS_NAMED_MAX]; /* Who would have the others, the first ones. */
    size_t donor_count;
    bool more;
};

struct listing
{
    struct admin *admin;
    json_t *sets; /* NULL: text. */
    uint64_t count, morsels, bytes;
};

static bool is_here(const Morsel__SetMapReply *page, uint32_t donor)
{
    for (size_t i = 0; i < page->n_places; i++) {
        if (page->places[i]->id == donor) {
            return true;
        }
    }
    return false;
}

static bool is_bad(const Morsel__SetMorsel *m, uint32_t donor)
{
    for (size_t i = 0; i < m->n_bad; i++) {
        if (m->bad[i] == donor) {
            return true;
        }
    }
    return false;
}

static void note_donor(struct missing *missing, uint32_t donor)
{
    for (size_t i = 0; i < missing->donor_count; i++) {
        if (missing->donors[i] == donor) {
            return;
        }
    }
    if (missing->donor_count == DONORS_NAMED_MAX) {
        missing->more = true;
        return;
    }
    missing->donors[missing->donor_count++] = donor;
}

static void take_morsel(struct missing *missing, const Morsel__SetMapReply *page,
                        const Morsel__SetMorsel *m)
{
    if (m->length == 0) {
        return;
    }
    for (size_t i = 0; i < m->n_donors; i++) {
        if (is_here(page, m->donors[i]) && !is_bad(m, m->donors[i])) {
            return;
        }
    }
    for (size_t i = 0; i < m->n_donors; i++) {
        note_donor(missing, m->donors[i]);
    }
    missing->morsels++;
    missing->bytes += m->length;
    missing->evicted += m->evicted;
    missing->lost += m->n_donors == 0 && !m->evicted;
    missing->damaged += m->n_bad > 0;
}

/* ---- Words ---- */

static void print_set(const Morsel__SetInfo *set, const struct missing *missing)
{
    char bytes[PRINT_TEXT_MAX];

    (void)printf("inode %" PRIu64 " (data set %" PRIu64 "): %" PRIu64 " of %" PRIu32 " morsels, %s",
                 set->inode, set->set, missing->morsels, set->morsels,
                 print_bytes(missing->bytes, bytes));
    for (size_t i = 0; i < missing->donor_count; i++) {
        (void)printf("%s%" PRIu32, i == 0 ? "; at benefactor " : ", ", missing->donors[i]);
    }
    (void)printf("%s", missing->more ? ", ..." : "");
    if (missing->damaged > 0) {
        (void)printf("; of %" PRIu64 " the last copy is here, and damaged", missing->damaged);
    }
    if (missing->evicted > 0) {
        (void)printf("; %" PRIu64 " were evicted to make room for others", missing->evicted);
    }
    if (missing->lost > 0) {
        (void)printf("; of %" PRIu64 " there is no copy any more", missing->lost);
    }
    (void)printf("\n");
}

static json_t *set_json(const Morsel__SetInfo *set, const struct missing *missing)
{
    json_t *donors = json_array();

    for (size_t i = 0; i < missing->donor_count; i++) {
        (void)json_array_append_new(donors, json_integer((json_int_t)missing->donors[i]));
    }
    return json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "inode",
        print_json_number(set->inode), "set", print_json_number(set->set), "size",
        print_json_number(set->size), "morsels_count", (json_int_t)set->morsels, "morsels",
        print_json_number(missing->morsels), "bytes", print_json_number(missing->bytes), "damaged",
        print_json_number(missing->damaged), "lost", print_json_number(missing->lost), "evicted",
        print_json_number(missing->evicted), "donors", donors, "more_donors", (int)missing->more);
}

/* ---- The walk ---- */

/* MORSEL_STALE: it is another one by now. */
static int look_at(struct listing *l, const Morsel__SetInfo *set, struct missing *missing,
                   struct errmsg *err)
{
    Morsel__SetMapRequest request = MORSEL__SET_MAP_REQUEST__INIT;
    uint64_t end = set->morsel_bytes > 0 ? set->size / set->morsel_bytes + 1 : 0;

    request.inode = set->inode;
    request.set = set->set;
    request.count = SET_MAP_MAX;
    for (; request.first < end && request.first < SET_MORSELS_MAX; request.first += SET_MAP_MAX) {
        Morsel__SetMapReply *page;
        void *reply;
        int rv = admin_call(l->admin, l->admin->manager, MSG_SET_MAP, &request.base,
                            &morsel__set_map_reply__descriptor, &reply, err);

        if (rv != 0) {
            return rv;
        }
        page = reply;
        for (size_t i = 0; i < page->n_morsels; i++) {
            take_morsel(missing, page, page->morsels[i]);
        }
        morsel__set_map_reply__free_unpacked(page, NULL);
    }
    return MORSEL_OK;
}

static int take_set(struct listing *l, const Morsel__SetInfo *set)
{
    struct missing missing = { .morsels = 0 };
    struct errmsg err = { "" };
    int rv;

    if ((set->morsels_away == 0 && set->morsels_bad == 0 && set->morsels_evicted == 0) ||
        set->mounts_fetch) {
        return ADMIN_OK;
    }
    rv = look_at(l, set, &missing, &err);
    if (rv == MORSEL_STALE || rv == MORSEL_NOENT) {
        return ADMIN_OK; /* It was deleted meanwhile. */
    }
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "data set %" PRIu64 ": %s", set->set, err.text);
    }
    if (missing.morsels == 0) {
        return ADMIN_OK; /* One has come back meanwhile. */
    }
    if (l->sets != NULL) {
        (void)json_array_append_new(l->sets, set_json(set, &missing));
    } else {
        print_set(set, &missing);
    }
    l->count++;
    l->morsels += missing.morsels;
    l->bytes += missing.bytes;
    return ADMIN_OK;
}

static int fetch(struct listing *l)
{
    Morsel__SetListRequest request = MORSEL__SET_LIST_REQUEST__INIT;
    uint64_t before;
    int code = ADMIN_OK;

    do {
        Morsel__SetListReply *page;
        struct errmsg err;
        void *reply;
        int rv = admin_call(l->admin, l->admin->manager, MSG_SET_LIST, &request.base,
                            &morsel__set_list_reply__descriptor, &reply, &err);

        if (rv != 0) {
            return admin_failed(admin_exit_code(rv), "%s", err.text);
        }
        page = reply;
        for (size_t i = 0; code == ADMIN_OK && i < page->n_sets; i++) {
            code = take_set(l, page->sets[i]);
        }
        before = request.from;
        request.from = page->next;
        morsel__set_list_reply__free_unpacked(page, NULL);
    } while (code == ADMIN_OK && request.from > before);
    return code;
}

static void print_sums(const struct listing *l)
{
    char bytes[PRINT_TEXT_MAX];

    if (l->count == 0) {
        (void)printf("All bytes of all data sets can be read.\n");
        return;
    }
    (void)printf(
        "\nOf %" PRIu64 " data sets %" PRIu64 " morsels, %s, cannot be read: programs "
        "hear EIO. They can again when the\nbenefactors named are back (`morsel donors`); what "
        "was evicted is to be stored anew. Names of an inode: find MOUNTPOINT -inum INODE\n",
        l->count, l->morsels, print_bytes(l->bytes, bytes));
}

static bool print_sums_json(const struct listing *l)
{
    return print_json(json_pack("{s:o, s:o, s:o, s:O}", "count", print_json_number(l->count),
                                "morsels", print_json_number(l->morsels), "bytes",
                                print_json_number(l->bytes), "datasets", l->sets));
}

int status_unavailable(const struct admin_arguments *arguments)
{
    struct listing l = { .sets = arguments->settings.json ? json_array() : NULL };
    struct admin admin;
    int code = admin_open_manager(&admin, &arguments->settings);

    if (code == ADMIN_OK) {
        l.admin = &admin;
        code = fetch(&l);
        admin_close(&admin);
        if (code == ADMIN_OK && l.sets == NULL) {
            print_sums(&l);
        } else if (code == ADMIN_OK && !print_sums_json(&l)) {
            code = ADMIN_PROBLEM;
        }
    }
    json_decref(l.sets);
    return code == ADMIN_OK && l.count > 0 ? ADMIN_PROBLEM : code;
}
