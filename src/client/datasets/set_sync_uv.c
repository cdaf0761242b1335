/* What was written is to be on disks: SYNC of each morsel at its benefactors (set_uv.h). One run at a time, which takes all that
 * is to be synced when it begins; who comes while it runs is served by the next. */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>
#include <string.h>

struct set_sync_run
{
    struct data_set *set;
    struct set_unsynced *items;
    uint32_t count, next; /* Of items; the next to be asked for. */
    uint32_t running;
    int status;
    bool starting;
};

/* One morsel, at all that have it. */
struct sync_morsel
{
    struct set_sync_run *run;
    struct set_unsynced item;
    unsigned running, synced_count;
    bool synced[REPLICAS_MAX]; /* By copy of the item. */
    struct donor_call calls[REPLICAS_MAX];
    struct set_ask_wait ask;
};

static void run_next(struct set_sync_run *run);
static void begin(struct data_set *set);
static void run_begin(struct data_set *set);

static void append(struct data_set *set, const struct set_unsynced *item)
{
    if (set->unsynced_count == set->unsynced_room) {
        uint32_t room = set->unsynced_room == 0 ? 16 : 2 * set->unsynced_room;
        struct set_unsynced *more = realloc(set->unsynced, room * sizeof(*more));

        if (more == NULL) {
            set->sync_unsure = true;
            return;
        }
        set->unsynced = more;
        set->unsynced_room = room;
    }
    set->unsynced[set->unsynced_count++] = *item;
}

void set_note_stored(struct data_set *set, const struct open_morsel *o)
{
    struct set_unsynced item = { .number = o->number };
    uint32_t at = set->unsynced_count;

    for (uint32_t i = 0; i < o->copies_count; i++) {
        item.copies[item.count].donor = o->copies[i].donor;
        item.copies[item.count++].verifier = o->copies[i].verifier;
    }
    while (at > 0 && set->unsynced[at - 1].number != o->number) {
        at--;
    }
    if (at > 0 && set->unsynced[at - 1].number == o->number) {
        set->unsynced[at - 1] = item; /* The end of the file, again and again. */
        return;
    }
    append(set, &item);
    if (set->unsynced_count >= SET_UNSYNCED_MAX && set->sync == NULL) {
        run_begin(set); /* Nobody waits for it; it must not become more and more. */
    }
}

static void put_back(struct set_sync_run *run, const struct set_unsynced *item)
{
    struct data_set *set = run->set;

    append(set, item);
}

static void run_end(struct set_sync_run *run)
{
    struct data_set *set = run->set;
    struct list ended, *node;
    int status = run->status;

    list_init(&ended);
    while ((node = list_pop_front(&set->syncs_now)) != NULL) {
        list_push_back(&ended, node);
    }
    set->sync = NULL;
    free(run->items);
    free(run);
    begin(set);
    while ((node = list_pop_front(&ended)) != NULL) {
        struct set_sync *sync = LIST_ENTRY(node, struct set_sync, node);

        sync->running = false;
        sync->done(sync, status);
    }
    set_unref(set);
}

static void morsel_end(struct sync_morsel *m, bool safe)
{
    struct set_sync_run *run = m->run;
    struct data_set *set = run->set;

    if (!safe) {
        log_error(
            set->client->options.log,
            "inode %lu: morsel %u of data set %lu is on no benefactor's disk: none of its %u "
            "copies could be synced; see \"morsel donors\", and sync again when they are back",
            (unsigned long)set->inode, m->item.number, (unsigned long)set->number, m->item.count);
        run->status = MORSEL_IO;
        put_back(run, &m->item);
    }
    free(m);
    run->running--;
    run_next(run);
}

static bool is_synced(const struct sync_morsel *m, donor_id donor)
{
    for (uint32_t i = 0; i < m->item.count; i++) {
        if (m->synced[i] && m->item.copies[i].donor == donor) {
            return true;
        }
    }
    return false;
}

static void on_counted(struct set_ask_wait *wait, int status, const struct set_entry *entry)
{
    struct sync_morsel *m = CONTAINER_OF(wait, struct sync_morsel, ask);
    bool safe = status == 0 && !entry->stored; /* It was cut off. */

    for (uint32_t i = 0; status == 0 && i < entry->donor_count; i++) {
        safe = safe || is_synced(m, entry->donors[i]);
    }
    morsel_end(m, safe);
}

/* All have answered. Where a copy was not synced, one that was must be one that counts: of those that were named to the manager it
 * may have left some out (a benefactor that joined anew, or fetches what the morsel was), and those are deleted. */
static void morsel_answered(struct sync_morsel *m)
{
    bool some = m->synced_count > 0;

    m->ask.done = on_counted;
    if (!some || m->synced_count == m->item.count) {
        morsel_end(m, some);
    } else if (set_ask(m->run->set, &m->ask, m->item.number, true) != 0) {
        morsel_end(m, false);
    }
}

static bool is_as_written(const struct sync_morsel *m, const struct donor_call *call,
                          const struct rpc_reply *reply)
{
    uint64_t verifier = m->item.copies[call - m->calls].verifier;
    struct rpc_room room;
    Morsel__Done *done;
    bool same = false;

    if (rpc_unpack_in(&room, &morsel__done__descriptor, reply->body, reply->body_count,
                      (void **)&done) == 0) {
        same = verifier == 0 || done->verifier == verifier;
        rpc_room_free(&room, done);
    }
    return same;
}

static void on_synced(struct donor_call *call, int status, struct rpc_reply *reply)
{
    struct sync_morsel *m = call->data;

    if (status == 0 && is_as_written(m, call, reply)) {
        m->synced[call - m->calls] = true;
        m->synced_count++;
    }
    if (--m->running == 0) {
        morsel_answered(m);
    }
}

/* False: nothing runs, and it has failed. */
static bool morsel_start(struct set_sync_run *run, const struct set_unsynced *item)
{
    struct sync_morsel *m = calloc(1, sizeof(*m));
    Morsel__SyncRequest request = MORSEL__SYNC_REQUEST__INIT;
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;

    if (m == NULL) {
        return false;
    }
    m->run = run;
    m->item = *item;
    object.inode = run->set->number;
    object.column = item->number;
    request.object = &object;
    for (uint32_t i = 0; i < item->count; i++) {
        m->calls[i].client = run->set->client;
        m->calls[i].donor = item->copies[i].donor;
        m->calls[i].data = m;
        m->running +=
            donor_call_start(&m->calls[i], MSG_SYNC, &request.base, NULL, 0, on_synced) == 0;
    }
    if (m->running == 0) {
        free(m);
        return false;
    }
    run->running++;
    return true;
}

static void run_next(struct set_sync_run *run)
{
    while (run->next < run->count && run->running < SET_SYNCS_MAX) {
        const struct set_unsynced *item = &run->items[run->next++];

        if (!morsel_start(run, item)) {
            run->status = MORSEL_IO;
            put_back(run, item);
        }
    }
    if (run->running == 0 && !run->starting) {
        run_end(run);
    }
}

/* One that has failed at once ends with a tick. */
static void run_begin(struct data_set *set)
{
    struct set_sync_run *run = calloc(1, sizeof(*run));
    struct list *node;

    if (run == NULL) {
        return; /* The tick tries again. */
    }
    while ((node = list_pop_front(&set->syncs_next)) != NULL) {
        list_push_back(&set->syncs_now, node);
    }
    run->set = set_ref(set);
    run->items = set->unsynced;
    run->count = set->unsynced_count;
    run->status = set->sync_unsure ? MORSEL_IO : MORSEL_OK;
    set->unsynced = NULL;
    set->unsynced_count = set->unsynced_room = 0;
    set->sync = run;
    run->starting = true;
    run_next(run);
    run->starting = false;
}

/* Those that wait are served by a run that begins now, if there is none. */
static void begin(struct data_set *set)
{
    if (set->sync == NULL && !list_empty(&set->syncs_next)) {
        run_begin(set);
    }
}

void set_sync_tick(struct data_set *set)
{
    begin(set);
    if (set->sync != NULL && set->sync->running == 0) {
        run_end(set->sync);
    }
}

int set_sync_start(struct set_sync *sync, struct data_set *set,
                   void (*done)(struct set_sync *sync, int status))
{
    if (set->sync == NULL && set->unsynced_count == 0) {
        return set->sync_unsure ? MORSEL_IO : MORSEL_OK;
    }
    sync->done = done;
    sync->running = true;
    list_init(&sync->node);
    list_push_back(&set->syncs_next, &sync->node);
    begin(set);
    return MORSEL_AGAIN;
}

bool set_sync_leave(struct set_sync *sync)
{
    bool ran = sync->running;

    if (ran) {
        sync->running = false;
        list_remove(&sync->node);
    }
    return ran;
}
