/* Requests of benefactors, and who they are. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/service/handlers_uv.h"

#include <stdlib.h>
#include <string.h>

enum { RANK_MS = 2000 /* The hottest are found anew so often: that takes some milliseconds. */ };

/* One that says nothing donates nothing. */
static struct donor_report take_report(const Morsel__DonorReport *m)
{
    struct donor_report report = { 0 };

    if (m != NULL) {
        report = (struct donor_report){ .donated = m->donated,
                                        .used = m->used,
                                        .load = m->load,
                                        .up_s = m->up_s,
                                        .paused = m->paused,
                                        .leaving = m->leaving,
                                        .excess = m->excess,
                                        .pressed = m->pressed };
    }
    return report;
}

int serve_donor_join(struct request *r)
{
    const Morsel__DonorJoinRequest *m = r->message;
    struct donors_event event = { .now_ms = meta_now_ms(r->meta), .type = DONORS_JOIN };
    struct donor_record *record = &event.join.record;
    int rv;

    event.join.tag = (uintptr_t)r->rpc;
    event.join.instance = m->instance;
    event.join.report = take_report(m->report);
    event.join.told_held = m->held_told;
    record->id = m->id;
    members_take_words(record->name, sizeof(record->name), m->name);
    if (r->rpc->role != ROLE_BENEFACTOR || m->token.len != sizeof(record->token) ||
        m->instance == 0 ||
        !take_address(event.join.address, sizeof(event.join.address), m->address, &r->err)) {
        if (r->err.text[0] == '\0') {
            errmsg_set(&r->err, "a benefactor joins with a token of 16 bytes, the number of its "
                                "process and an address");
        }
        return MORSEL_MALFORMED;
    }
    memcpy(record->token, m->token.data, sizeof(record->token));
    if (donors_is_new(&r->meta->donors, record->token) && (rv = kv_room(r->meta->kv)) != 0) {
        return rv; /* Thousands may come at once, and each is written down. */
    }
    donors_host_step(r->meta, &event);
    return 0;
}

/* Only of what the maps say that it has. */
static void take_hottest(struct meta *meta, const Morsel__DonorReportRequest *m)
{
    const struct sets *sets = ns_sets(meta->ns);
    uint64_t now_ms = meta_now_ms(meta);

    for (size_t i = 0; i < m->n_hottest; i++) {
        const Morsel__DonorRead *read = m->hottest[i];
        const struct data_set *set = sets_find(sets, read->set);
        struct set_morsel morsel;

        if (set != NULL && set_get(set, read->morsel, &morsel) && set_morsel_has(&morsel, m->id)) {
            heat_add(&meta->heat, read->set, read->morsel, read->reads, now_ms);
        }
    }
    if (now_ms - meta->heat.ranked_ms >= RANK_MS) {
        heat_rank(&meta->heat, sets, now_ms);
    }
}

/* Only on the connection on which it has joined: the end of that one is heard. */
int serve_donor_report(struct request *r)
{
    const Morsel__DonorReportRequest *m = r->message;
    struct donors_event event = { .now_ms = meta_now_ms(r->meta), .type = DONORS_REPORT };
    int rv;

    if (!donor_is_serving(r, m->id, m->instance)) {
        return MORSEL_NO_SESSION;
    }
    event.report.tag = (uintptr_t)r->rpc;
    event.report.id = m->id;
    event.report.instance = m->instance;
    event.report.report = take_report(m->report);
    event.report.leaves = m->leaves;
    if (m->n_hottest > HOTTEST_MAX) {
        return MORSEL_MALFORMED;
    }
    if ((rv = take_set_collected(r)) != 0) {
        return rv;
    }
    take_hottest(r->meta, m);
    donors_host_step(r->meta, &event);
    return 0;
}

/* ---- Who is there ---- */

enum { PAGE_MAX = 1000, DONOR_BYTES = MEMBER_NAME_BYTES_MAX + MEMBER_ADDRESS_BYTES_MAX + 256 };

static_assert(PAGE_MAX * DONOR_BYTES <= FRAME_BODY_BYTES_MAX, "a page fits a frame");

struct page
{
    Morsel__Donor donors[PAGE_MAX], *pointers[PAGE_MAX];
    Morsel__DonorReport reports[PAGE_MAX];
    Morsel__DonorLeft left[PAGE_MAX];
    Morsel__DonorBlame blame[PAGE_MAX];
};

bool donor_left_fill(const struct donor *donor, Morsel__DonorLeft *m)
{
    const struct donor_left *left = &donor->repair.left;

    morsel__donor_left__init(m);
    m->counted = left->counted && donor->report.leaving;
    m->wanted = left->wanted;
    m->wanted_bytes = left->wanted_bytes;
    m->only = left->only;
    m->stuck = left->stuck;
    m->stuck_bytes = left->stuck_bytes;
    m->moved = left->moved;
    m->moved_bytes = left->moved_bytes;
    return donor->report.leaving || donor->report.excess > 0;
}

/* False: there is nothing to be said. */
static bool blame_fill(const struct donor *donor, uint64_t now_ms, Morsel__DonorBlame *m)
{
    const struct donor_blame *blame = &donor->blame;

    morsel__donor_blame__init(m);
    m->damaged = blame->damaged;
    m->lied = blame->lied;
    m->distrusted = blame->distrusted;
    m->since_ms = blame->distrusted != BLAME_NONE ? now_ms - blame->since_ms : 0;
    return blame->damaged + blame->lied > 0;
}

static void fill(struct page *page, uint32_t i, const struct donors *d, const struct donor *donor,
                 uint64_t now_ms)
{
    Morsel__Donor *m = page->pointers[i] = &page->donors[i];
    Morsel__DonorReport *report = m->report = &page->reports[i];

    morsel__donor__init(m);
    morsel__donor_report__init(report);
    m->report = report;
    m->id = donor->record.id;
    m->name = (char *)(uintptr_t)donor->record.name;
    m->address = (char *)(uintptr_t)donor->address;
    m->state = donor->state;
    m->since_ms = now_ms - donor->since_ms;
    m->heard_ms = now_ms - donor->heard_ms;
    report->donated = donor->report.donated;
    report->used = donor->report.used;
    report->load = donor->report.load;
    report->up_s = donor->report.up_s;
    report->paused = donor->report.paused;
    report->leaving = donor->says_leaving;
    report->excess = donor->report.excess;
    report->pressed = donor->report.pressed;
    m->shut = donor->state == DONOR_HERE && doors_is_shut(d, donor);
    m->left = donor_left_fill(donor, &page->left[i]) ? &page->left[i] : NULL;
    m->blame = blame_fill(donor, now_ms, &page->blame[i]) ? &page->blame[i] : NULL;
}

size_t donors_distrusted_fill(struct meta *meta, struct distrusted_list *list)
{
    const struct donors *d = &meta->donors;
    uint64_t now_ms = meta_now_ms(meta);
    size_t count = 0;

    for (uint32_t i = 0; i < d->count && count < DISTRUSTED_NAMED_MAX; i++) {
        const struct donor *donor = d->items[i];

        if (donor->blame.distrusted != BLAME_NONE) {
            Morsel__Donor *m = list->pointers[count] = &list->donors[count];

            morsel__donor__init(m);
            m->id = donor->record.id;
            m->name = (char *)(uintptr_t)donor->record.name;
            m->address = (char *)(uintptr_t)donor->address;
            m->state = donor->state;
            (void)blame_fill(donor, now_ms, &list->blame[count]);
            m->blame = &list->blame[count];
            count++;
        }
    }
    return count;
}

int serve_donor_list(struct request *r)
{
    const Morsel__DonorListRequest *m = r->message;
    const struct donors *d = &r->meta->donors;
    Morsel__DonorListReply reply = MORSEL__DONOR_LIST_REPLY__INIT;
    struct page *page = malloc(sizeof(*page));
    uint32_t at = donors_from(d, m->from), count = 0;

    if (page == NULL) {
        return MORSEL_NOMEM;
    }
    for (; at < d->count && count < PAGE_MAX; at++) {
        if (d->items[at]->durable) {
            fill(page, count++, d, d->items[at], meta_now_ms(r->meta));
        }
    }
    reply.donors = page->pointers;
    reply.n_donors = count;
    reply.next = at < d->count ? d->items[at]->record.id : 0;
    reply.count = d->count;
    reply.here = d->here;
    reply.donated = d->donated;
    reply.used = d->used;
    rpc_reply(r->rpc, &reply.base, NULL);
    free(page);
    return 0;
}
