/* Four sets: since the last sync began, before that, what the disk says and what it is to say. */
#include "iod/replica/intent.h"

#include "common/base/check.h"

bool intent_init(struct intent *n, uint32_t objects_max, uint32_t spans_max)
{
    n->open = changed_new(objects_max, spans_max, INTENT_REGION_BYTES);
    n->syncing = changed_new(objects_max, spans_max, INTENT_REGION_BYTES);
    n->disk = changed_new(objects_max, spans_max, INTENT_REGION_BYTES);
    n->next = changed_new(objects_max, spans_max, INTENT_REGION_BYTES);
    n->is_syncing = n->is_rewriting = false;
    return n->open != NULL && n->syncing != NULL && n->disk != NULL && n->next != NULL;
}

void intent_free(struct intent *n)
{
    changed_free(n->open);
    changed_free(n->syncing);
    changed_free(n->disk);
    changed_free(n->next);
    *n = (struct intent){ .open = NULL };
}

void intent_check(const struct intent *n)
{
    changed_check(n->open);
    changed_check(n->syncing);
    changed_check(n->disk);
    changed_check(n->next);
    CHECK_IMPLIES(!n->is_syncing, changed_empty(n->syncing));
    CHECK_IMPLIES(!n->is_rewriting, changed_empty(n->next));
}

void intent_load(struct intent *n, const struct changed *disk)
{
    CHECK(intent_empty(n));
    changed_add_all(n->open, disk);
}

bool intent_add(struct intent *n, const struct change *change)
{
    changed_add(n->open, change);
    return changed_covers(n->disk, change) && (!n->is_rewriting || changed_covers(n->next, change));
}

void intent_written(struct intent *n, const struct change *change)
{
    changed_add(n->disk, change);
    if (n->is_rewriting) {
        changed_add(n->next, change);
    }
}

void intent_begin_sync(struct intent *n)
{
    struct changed *empty = n->syncing;

    CHECK(!n->is_syncing);
    n->syncing = n->open;
    n->open = empty;
    n->is_syncing = true;
}

void intent_end_sync(struct intent *n, bool synced, struct dirty_log *const *outside,
                     uint32_t count)
{
    CHECK(n->is_syncing);
    n->is_syncing = false;
    if (!synced) {
        changed_add_all(n->open, n->syncing);
    }
    for (uint32_t i = 0; i < count && synced; i++) {
        dirty_log_add_all(outside[i], n->syncing);
    }
    changed_clear(n->syncing);
}

void intent_begin_rewrite(struct intent *n)
{
    CHECK(!n->is_rewriting);
    changed_add_all(n->next, n->open);
    changed_add_all(n->next, n->syncing);
    n->is_rewriting = true;
}

const struct changed *intent_next(const struct intent *n)
{
    return n->next;
}

void intent_end_rewrite(struct intent *n, bool written)
{
    struct changed *before = n->disk;

    CHECK(n->is_rewriting);
    n->is_rewriting = false;
    if (written) {
        n->disk = n->next;
        n->next = before;
    }
    changed_clear(n->next);
}

bool intent_empty(const struct intent *n)
{
    return changed_empty(n->open) && changed_empty(n->syncing) && changed_empty(n->disk);
}
