/* The counters of the mount: in the log, and to whoever asks for the attribute STATISTICS_XATTR of
 * its root. */
#include "client/data/fetch_uv.h"
#include "client/datasets/donors_uv.h"
#include "client/fuse/mount_fuse.h"

#include "common/base/status.h"
#include "common/daemon/counters_uv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define X(name, words) [name] = "fuse." words,
static const char *const kind_names[] = { MOUNT_KINDS(X) };
#undef X

static void add_kinds(const struct mount *m, struct counter_list *list)
{
    for (unsigned i = 0; i < MOUNT_KINDS_COUNT; i++) {
        const struct mount_statistics *s = &m->statistics[i];

        if (s->served > 0) {
            counters_add(list, kind_names[i], "served", s->served);
            counters_add(list, kind_names[i], "failed", s->failed);
            counters_add(list, kind_names[i], "served_ns", s->served_ns);
            counters_add(list, kind_names[i], "served_bytes", s->bytes);
        }
    }
}

static void add_client(const struct client *client, struct counter_list *list)
{
    const struct client_counters *c = &client->counters;
    struct meta_cache_counters table;

    meta_cache_count(client->cache, &table);
    counters_add(list, NULL, "reads_fetched_ahead", c->reads_fetched_ahead);
    counters_add(list, NULL, "writes_coalesced", c->writes_coalesced);
    counters_add(list, NULL, "writes_waited", c->writes_waited);
    counters_add(list, NULL, "dirty_bytes", client_dirty_bytes(client));
    counters_add(list, NULL, "fetched_bytes", fetches_bytes(client));
    counters_add(list, NULL, "table_inodes", table.inodes);
    counters_add(list, NULL, "table_names", table.names);
    counters_add(list, NULL, "table_found", table.found);
    counters_add(list, NULL, "table_absent", table.absent);
    counters_add(list, NULL, "table_missed", table.missed);
    counters_add(list, NULL, "table_evicted", table.evicted);
    counters_add(list, NULL, "opens_local", c->opens_local);
    counters_add(list, NULL, "calls_queued", c->calls_queued);
    counters_add(list, NULL, "attributes_merged", c->attributes_merged);
    counters_add(list, NULL, "held_up", c->held_up);
    counters_add(list, NULL, "writes_refused", c->writes_refused);
    counters_add(list, NULL, "recalls", c->recalls);
    counters_add(list, NULL, "recall_ns", c->recall_ns);
    counters_add(list, NULL, "donors_connected", donors_connected(client));
    counters_add(list, NULL, "donor_failures", c->donor_failures);
    counters_add(list, NULL, "set_cached_bytes", data_sets_cached_bytes(client));
    counters_add(list, NULL, "set_open_bytes", data_sets_idle_bytes(client));
    counters_add(list, NULL, "set_morsels_stored", c->set_morsels_stored);
    counters_add(list, NULL, "set_morsels_read", c->set_morsels_read);
    counters_add(list, NULL, "set_places_asked", c->set_places_asked);
    counters_add(list, NULL, "set_reads_hedged", c->set_reads_hedged);
    counters_add(list, NULL, "set_copies_failed", c->set_copies_failed);
    counters_add(list, NULL, "set_copies_wrong", c->set_copies_wrong);
    counters_add(list, NULL, "set_morsels_origin", c->set_morsels_origin);
    counters_add(list, NULL, "set_origin_visits", c->set_origin_visits);
    counters_add(list, NULL, "set_copies_returned", c->set_copies_returned);
}

void mount_count(const struct mount *m, struct counter_list *list)
{
    add_kinds(m, list);
    counters_add_program(list, m->client->rpc);
    add_client(m->client, list);
}

/* "name value\n" for each. -1: does not fit. */
static int print_counters(const struct counter_list *list, char *text, size_t text_max)
{
    size_t used = 0;

    for (size_t i = 0; i < list->count; i++) {
        int n = snprintf(text + used, text_max - used, "%s %" PRIu64 "\n", list->items[i].name,
                         list->items[i].value);

        if (n < 0 || (size_t)n >= text_max - used) {
            return -1;
        }
        used += (size_t)n;
    }
    return (int)used;
}

void mount_reply_statistics(const struct mount *m, fuse_req_t req, size_t size)
{
    struct counter_list *list = calloc(1, sizeof(*list));
    char *text = malloc(STATISTICS_BYTES_MAX);
    int count = -1;

    if (list != NULL && text != NULL) {
        mount_count(m, list);
        count = print_counters(list, text, STATISTICS_BYTES_MAX);
    }
    if (count < 0) {
        (void)fuse_reply_err(req, ENOMEM);
    } else if (size == 0) {
        (void)fuse_reply_xattr(req, STATISTICS_BYTES_MAX); /* They grow until they are asked for. */
    } else if (size < (size_t)count) {
        (void)fuse_reply_err(req, ERANGE);
    } else {
        (void)fuse_reply_buf(req, text, (size_t)count);
    }
    free(list);
    free(text);
}
