/* The map of a data set, page by page: per benefactor, or morsel by morsel. */
#include "client/admin/dataset_layout_uv.h"

#include "common/base/limits.h"
#include "common/fs/origin.h"
#include "dataset.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

/* One benefactor, and what it has of the set. */
struct share
{
    uint32_t id;
    char address[64]; /* Empty: it is not here. */
    uint64_t morsels, bytes;
};

struct shown
{
    const struct dataset_file *file;
    bool all;
    json_t *morsels; /* NULL: text. */
    struct share *shares;
    size_t count, room;
    uint64_t stored, away; /* Morsels; no copy here. */
    bool sealed;
    bool failed;                  /* No memory. */
    char origin[ORIGIN_TEXT_MAX]; /* Its URL; empty: it has none. */
};

/* Its URL, as far as the mount tells it. */
static void fetch_origin(struct shown *s)
{
    struct origin origin;
    char text[ORIGIN_TEXT_MAX];
    ssize_t count = getxattr(s->file->path, ORIGIN_XATTR, text, sizeof(text));

    if (count > 0 && origin_parse((struct slice){ (uint8_t *)text, (size_t)count }, &origin) == 0) {
        memcpy(s->origin, origin.url, sizeof(origin.url));
    }
}

/* NULL: no memory. */
static struct share *share_of(struct shown *s, uint32_t id)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->shares[i].id == id) {
            return &s->shares[i];
        }
    }
    if (s->count == s->room) {
        size_t room = s->room == 0 ? 16 : s->room * 2;
        struct share *shares = realloc(s->shares, room * sizeof(*shares));

        if (shares == NULL) {
            return NULL;
        }
        s->shares = shares;
        s->room = room;
    }
    s->shares[s->count] = (struct share){ .id = id };
    return &s->shares[s->count++];
}

static const Morsel__DonorPlace *place_of(const Morsel__SetMapReply *page, uint32_t id)
{
    for (size_t i = 0; i < page->n_places; i++) {
        if (page->places[i]->id == id) {
            return page->places[i];
        }
    }
    return NULL;
}

static void print_morsel(const struct shown *s, const Morsel__SetMapReply *page,
                         const Morsel__SetMorsel *m)
{
    uint64_t first = (uint64_t)m->number * s->file->layout->morsel_bytes;

    (void)printf("%10" PRIu32 " %10" PRIu32 "  %" PRIu64 "-%" PRIu64 "  ", m->number, m->length,
                 first, first + (m->length > 0 ? m->length - 1 : 0));
    for (size_t i = 0; i < m->n_donors; i++) {
        (void)printf("%s%" PRIu32 "%s", i == 0 ? "" : ", ", m->donors[i],
                     place_of(page, m->donors[i]) != NULL ? "" : " (away)");
    }
    (void)printf("%s\n", m->n_donors == 0 ? "lost" : "");
}

static void add_morsel_json(struct shown *s, const Morsel__SetMorsel *m)
{
    json_t *donors = json_array();

    for (size_t i = 0; i < m->n_donors; i++) {
        (void)json_array_append_new(donors, json_integer((json_int_t)m->donors[i]));
    }
    (void)json_array_append_new(s->morsels,
                                json_pack("{s:I, s:I, s:o}", "morsel", (json_int_t)m->number,
                                          "bytes", (json_int_t)m->length, "donors", donors));
}

static void take_morsel(struct shown *s, const Morsel__SetMapReply *page,
                        const Morsel__SetMorsel *m)
{
    bool here = false;

    for (size_t i = 0; i < m->n_donors; i++) {
        const Morsel__DonorPlace *place = place_of(page, m->donors[i]);
        struct share *share = share_of(s, m->donors[i]);

        if (share == NULL) {
            s->failed = true;
            return;
        }
        here |= place != NULL;
        share->morsels++;
        share->bytes += m->length;
        (void)snprintf(share->address, sizeof(share->address), "%s",
                       place != NULL ? place->address : "");
    }
    s->stored++;
    s->away += !here && m->length > 0;
    if (s->all && s->morsels != NULL) {
        add_morsel_json(s, m);
    } else if (s->all) {
        print_morsel(s, page, m);
    }
}

static int fetch(struct admin *admin, struct shown *s)
{
    Morsel__SetMapRequest request = MORSEL__SET_MAP_REQUEST__INIT;
    uint32_t bytes = s->file->layout->morsel_bytes;
    uint64_t end = s->file->size / bytes + (s->file->size % bytes != 0);

    request.inode = s->file->inode;
    request.set = s->file->layout->set;
    request.count = SET_MAP_MAX;
    do {
        Morsel__SetMapReply *page;
        struct errmsg err;
        void *reply;
        int rv = admin_call(admin, admin->manager, MSG_SET_MAP, &request.base,
                            &morsel__set_map_reply__descriptor, &reply, &err);

        if (rv != 0) {
            return admin_failed(admin_exit_code(rv), "%s: %s", s->file->path, err.text);
        }
        page = reply;
        s->sealed = page->sealed;
        for (size_t i = 0; i < page->n_morsels; i++) {
            take_morsel(s, page, page->morsels[i]);
        }
        morsel__set_map_reply__free_unpacked(page, NULL);
        request.first += SET_MAP_MAX;
    } while (request.first < end && request.first < SET_MORSELS_MAX);
    return s->failed ? admin_failed(ADMIN_PROBLEM, "out of memory") : ADMIN_OK;
}

/* ---- Text ---- */

static void print_head(const struct shown *s)
{
    const struct layout_text *l = s->file->layout;
    char size[PRINT_TEXT_MAX], morsel[PRINT_TEXT_MAX];

    (void)printf("%s: inode %" PRIu64 ", %s, scavenged, %" PRIu32 " %s; data set %" PRIu64
                 " in morsels of %s, %" PRIu32 " to a stripe, dealt to %" PRIu32 "\n",
                 s->file->path, s->file->inode, print_bytes(s->file->size, size), l->replicas,
                 l->replicas == 1 ? "copy" : "copies", l->set, print_bytes(l->morsel_bytes, morsel),
                 l->stripe_morsels, l->width);
    if (s->origin[0] != '\0') {
        (void)printf("from %s\n", s->origin);
    }
    if (s->all) {
        (void)printf("%10s %10s  %s\n", "MORSEL", "BYTES",
                     "OF THE FILE (first-last byte), BENEFACTORS");
    }
}

static void print_shares(const struct shown *s)
{
    char bytes[PRINT_TEXT_MAX];

    (void)printf("%10s  %-22s %-8s %10s %10s\n", "BENEFACTOR", "ADDRESS", "STATE", "MORSELS",
                 "BYTES");
    for (size_t i = 0; i < s->count; i++) {
        const struct share *share = &s->shares[i];
        bool here = share->address[0] != '\0';

        (void)printf("%10" PRIu32 "  %-22s %-8s %10" PRIu64 " %10s\n", share->id,
                     here ? share->address : "-", here ? "here" : "away", share->morsels,
                     print_bytes(share->bytes, bytes));
    }
    (void)printf("%" PRIu64 " morsels stored, %s", s->stored, s->sealed ? "sealed" : "not sealed");
    if (s->away > 0) {
        (void)printf("; of %" PRIu64 " no copy is here now", s->away);
    }
    (void)printf("\n");
}

/* ---- JSON ---- */

static json_t *shares_json(const struct shown *s)
{
    json_t *shares = json_array();

    for (size_t i = 0; i < s->count; i++) {
        const struct share *share = &s->shares[i];

        (void)json_array_append_new(
            shares, json_pack("{s:I, s:s, s:s, s:o, s:o}", "id", (json_int_t)share->id, "address",
                              share->address, "state", share->address[0] != '\0' ? "here" : "away",
                              "morsels", print_json_number(share->morsels), "bytes",
                              print_json_number(share->bytes)));
    }
    return shares;
}

static void append_json(const struct shown *s, json_t *files)
{
    const struct layout_text *l = s->file->layout;
    json_t *json = json_pack(
        "{s:s, s:o, s:o, s:s, s:i, s:i, s:i, s:i, s:o, s:b, s:s, s:o, s:o, s:o}", "file",
        s->file->path, "inode", print_json_number(s->file->inode), "size",
        print_json_number(s->file->size), "class", "scavenged", "replicas", (int)l->replicas,
        "morsel_size", (int)l->morsel_bytes, "stripe_size", (int)l->stripe_morsels, "stripe_width",
        (int)l->width, "set", print_json_number(l->set), "sealed", (int)s->sealed, "origin",
        s->origin, "morsels_count", print_json_number(s->stored), "morsels_away",
        print_json_number(s->away), "donors", shares_json(s));

    if (json != NULL && s->all) {
        (void)json_object_set(json, "morsels", s->morsels);
    }
    (void)json_array_append_new(files, json);
}

int dataset_layout(const struct admin_settings *settings, const struct dataset_file *file,
                   json_t *files)
{
    struct shown s = { .file = file,
                       .all = settings->all,
                       .morsels = files != NULL ? json_array() : NULL };
    struct admin admin;
    int code = admin_open_manager(&admin, settings);

    if (code != ADMIN_OK) {
        json_decref(s.morsels);
        return code;
    }
    fetch_origin(&s);
    if (files == NULL) {
        print_head(&s);
    }
    code = fetch(&admin, &s);
    admin_close(&admin);
    if (code == ADMIN_OK && files == NULL) {
        print_shares(&s);
    } else if (code == ADMIN_OK) {
        append_json(&s, files);
    }
    free(s.shares);
    json_decref(s.morsels);
    return code == ADMIN_OK && s.away > 0 ? ADMIN_PROBLEM : code;
}
