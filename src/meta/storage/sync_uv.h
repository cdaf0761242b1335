/* Group syncs of the store: many requests that need durability share one.
 *
 * Replies to changes go out as soon as the change is committed, which survives the end of the
 * process. Requests that must survive a loss of power wait here. A sync runs in libuv's pool;
 * whoever arrives while one is running waits for the next, for the running one may have passed his
 * bytes already. Any change is synced within SYNC_DELAY_MS and the time of two syncs, even when
 * nobody asks.
 *
 * Source: group commit, DeWitt et al., "Implementation techniques for main memory database systems",
 * SIGMOD 1984.
 */
#ifndef MORSEL_META_STORAGE_SYNC_UV_H
#define MORSEL_META_STORAGE_SYNC_UV_H

#include "common/base/list.h"
#include "meta/storage/kv.h"

#include <uv.h>

enum { SYNC_DELAY_MS = 50 };

struct sync_waiter
{
    struct list node; /* list_init() before the first use. */
    void (*done)(struct sync_waiter *waiter, int status);
};

struct sync_uv
{
    uv_loop_t *loop;
    struct kv *kv;
    uv_work_t work;
    uv_timer_t timer;
    bool running;
    bool changed; /* Since the last sync began. */
    bool closing;
    bool ended;          /* The last sync is over. */
    struct list waiting; /* For the next sync. */
    struct list served;  /* By the running one. */
    int status;          /* Of the running one. */
    struct errmsg err;
    uint64_t begun;   /* Number of the last operation that the running sync covers. */
    uint64_t durable; /* That of the last one that is on disk. */
    uint64_t syncs;
    uint64_t (*number)(void *data); /* Of the last operation that was committed. */
    void (*failed)(void *data, int status, const struct errmsg *err); /* A sync did not succeed. */
    void (*closed)(void *data);
    void *data;
};

/* `number`, `failed` and `data` are filled in by the caller before. */
void sync_init(struct sync_uv *s, uv_loop_t *loop, struct kv *kv);

/* A change was committed. */
void sync_changed(struct sync_uv *s);

/* `done` runs once, later, when everything committed so far is durable, or with the status of the
 * failure. Behind the last sync: with MORSEL_SHUTDOWN before `closed`, and from then on not at all. */
void sync_wait(struct sync_uv *s, struct sync_waiter *waiter,
               void (*done)(struct sync_waiter *waiter, int status));

/* Is everything committed so far durable? */
bool sync_is_done(const struct sync_uv *s);

/* A last sync, then `closed`, once, later. */
void sync_close(struct sync_uv *s, void (*closed)(void *data));

#endif
