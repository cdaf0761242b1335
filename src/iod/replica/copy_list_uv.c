/* Which objects of the group are here: listed for a member that has to get all of them, and what it has
 * besides is deleted there. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/replica/copy_inner_uv.h"

#include <stdlib.h>

struct copy_listing
{
    struct copy *copy;
    uint64_t id;
    bool of_look; /* For a comparison. */
    struct replica_page page;
    struct object_id ids[COPY_LIST_IDS];
};

static bool is_ours(const struct copy *copy, struct object_id id)
{
    return placing_group(id.column) == copy->setup.number;
}

/* ---- Who gives ---- */

/* True: the page is full, and ends with that object. */
static bool collect(struct copy_listing *l, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_ours(l->copy, l->ids[i])) {
            l->page.objects[l->page.count++] = l->ids[i];
        }
        if (l->page.count == REPLICA_PAGE_MAX) {
            l->page.upto = store_place(l->ids[i]);
            return true;
        }
    }
    return false;
}

/* A part of the order without objects of the group is a page, too. */
static void run_list(struct job *job)
{
    struct copy_listing *l = job->data;
    uint64_t cursor = l->page.after;
    size_t count;

    for (unsigned i = 0; i < COPY_LIST_GOES_MAX && cursor != UINT64_MAX; i++) {
        job->status =
            store_list(object_store_of(job), &cursor, l->ids, COPY_LIST_IDS, &count, &job->err);
        if (job->status != MORSEL_OK || collect(l, count)) {
            return;
        }
    }
    l->page.upto = cursor;
}

static void look_listed(struct copy *copy, const struct copy_listing *l, bool failed)
{
    struct verify_list list = { .count = l->page.count, .upto = l->page.upto };

    for (uint32_t i = 0; i < l->page.count; i++) {
        list.items[i].object = l->page.objects[i];
        list.items[i].place = store_place(l->page.objects[i]);
    }
    if (failed) {
        replica_saw_nothing(copy->replica, l->id);
    } else {
        replica_saw_list(copy->replica, l->id, &list);
    }
}

static void on_listed(struct job *job)
{
    struct copy_listing *l = job->data;
    struct copy *copy = l->copy;
    bool failed = job->status != MORSEL_OK;

    if (!copy->ending && copy_trouble(copy) == NULL && l->of_look) {
        look_listed(copy, l, failed);
    } else if (!copy->ending && copy_trouble(copy) == NULL) {
        if (failed && job->status != MORSEL_SHUTDOWN) {
            copy_give_failed(copy, &job->err);
        }
        replica_listed(copy->replica, l->id, l->page.objects, failed ? UINT32_MAX : l->page.count,
                       l->page.upto);
    }
    free(l);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

/* Without memory, nothing: it is asked for again. */
void copy_list(struct copy *copy, const struct replica_action *a)
{
    struct copy_listing *l = calloc(1, sizeof(*l));
    struct job *job = l == NULL ? NULL : job_new(&copy->setup.server->jobs, copy->setup.server);
    bool of_look = a->type == REPLICA_LOOK_HERE;

    if (job == NULL && of_look) {
        free(l);
        replica_saw_nothing(copy->replica, a->id);
        return;
    }
    if (job == NULL) {
        free(l);
        replica_listed(copy->replica, a->id, NULL, UINT32_MAX, 0);
        return;
    }
    l->copy = copy;
    l->id = a->id;
    l->of_look = of_look;
    l->page.after = of_look ? a->step.after : a->page->after;
    job->data = l;
    copy->working++;
    if (job_start(job, run_list, on_listed, false) != MORSEL_OK) {
        job->status = MORSEL_SHUTDOWN;
        on_listed(job);
    }
}

/* ---- Who takes ---- */

static bool is_named(const struct replica_page *page, struct object_id id)
{
    for (uint32_t i = 0; i < page->count; i++) {
        if (page->objects[i].inode == id.inode && page->objects[i].column == id.column) {
            return true;
        }
    }
    return false;
}

static int delete_others(struct store *store, const struct copy_listing *l, size_t count,
                         struct errmsg *err)
{
    int rv = MORSEL_OK;

    for (size_t i = 0; i < count && rv == MORSEL_OK; i++) {
        struct object_id id = l->ids[i];

        if (is_ours(l->copy, id) && store_place(id) <= l->page.upto && !is_named(&l->page, id)) {
            rv = store_delete(store, id, err);
        }
    }
    return rv;
}

static void run_take_list(struct job *job)
{
    struct copy_listing *l = job->data;
    uint64_t cursor = l->page.after;
    size_t count;

    while (job->status == MORSEL_OK && cursor < l->page.upto) {
        job->status =
            store_list(object_store_of(job), &cursor, l->ids, COPY_LIST_IDS, &count, &job->err);
        if (job->status == MORSEL_OK) {
            job->status = delete_others(object_store_of(job), l, count, &job->err);
        }
    }
}

static void on_list_taken(struct job *job)
{
    struct copy_listing *l = job->data;
    struct copy *copy = l->copy;

    copy_taken(copy, job->status, &job->err);
    free(l);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

void copy_take_list(struct copy *copy, const struct replica_action *a)
{
    struct copy_listing *l = calloc(1, sizeof(*l));
    struct job *job = l == NULL ? NULL : copy_job(copy, l);
    struct errmsg err;

    if (job == NULL) {
        errmsg_set(&err, "out of memory");
        copy_fail(copy, &err);
        free(l);
        return;
    }
    l->copy = copy;
    l->page = *a->page;
    copy->working++;
    if (job_start(job, run_take_list, on_list_taken, false) != MORSEL_OK) {
        errmsg_set(&job->err, "this server is ending");
        job->status = MORSEL_SHUTDOWN;
        on_list_taken(job);
    }
}
