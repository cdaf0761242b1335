/* Objects that somebody watches. Most of those who change objects nobody watches pay for it by a look at one number. */
#include "common/store/store_file.h"

#include "common/base/status.h"

int store_watch(struct store *store, struct object_id id, uint64_t number)
{
    bool watched;

    pthread_mutex_lock(&store->watches_lock);
    watched = watches_begin(&store->watches, id, number);
    atomic_store(&store->watched, watches_marks(&store->watches));
    pthread_mutex_unlock(&store->watches_lock);
    return watched ? 0 : MORSEL_NOMEM;
}

int store_changed(struct store *store, struct object_id id, uint64_t number, uint64_t from,
                  struct watch_stretch *stretches, uint32_t stretches_max, uint32_t *count,
                  uint64_t *next)
{
    bool known;

    pthread_mutex_lock(&store->watches_lock);
    known =
        watches_changed(&store->watches, id, number, from, stretches, stretches_max, count, next);
    pthread_mutex_unlock(&store->watches_lock);
    return known ? 0 : MORSEL_NODATA;
}

void object_note_change(struct store *store, const struct object *object, uint64_t start,
                        uint64_t end)
{
    if ((atomic_load(&store->watched) & watches_mark(object->id)) == 0) {
        return;
    }
    pthread_mutex_lock(&store->watches_lock);
    watches_note(&store->watches, object->id, start, end);
    pthread_mutex_unlock(&store->watches_lock);
}

void object_unwatch(struct store *store, struct object_id id)
{
    if ((atomic_load(&store->watched) & watches_mark(id)) == 0) {
        return;
    }
    pthread_mutex_lock(&store->watches_lock);
    watches_drop(&store->watches, id);
    atomic_store(&store->watched, watches_marks(&store->watches));
    pthread_mutex_unlock(&store->watches_lock);
}
