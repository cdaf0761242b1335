/* Lists the objects of each server, with what the disk has for them. */
#include "client/admin/rebalance_uv.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/status.h"

#include "data.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS_PAGE = 4096 };

static int page_take(struct rebalance_sizes *sizes, const Morsel__ObjectListReply *page,
                     struct errmsg *err)
{
    if (page->n_bytes != page->n_objects) {
        errmsg_set(err, "it does not tell what its objects take: it is of an older version, "
                        "and has to be upgraded first");
        return MORSEL_NOTSUP;
    }
    for (size_t i = 0; i < page->n_objects; i++) {
        uint32_t group = placing_group(page->objects[i]->column);

        if (group < PLACING_GROUPS_MAX) {
            sizes->here[group] += page->bytes[i];
        }
    }
    return 0;
}

/* One page; `cursor` is replaced by the next. */
static int measure_step(struct admin *admin, struct rpc_peer *peer, struct rebalance_sizes *sizes,
                        ProtobufCBinaryData *cursor, struct errmsg *err)
{
    Morsel__ObjectListRequest request = MORSEL__OBJECT_LIST_REQUEST__INIT;
    Morsel__ObjectListReply *page;
    void *reply = NULL;
    int rv;

    request.cursor = *cursor;
    request.count_max = OBJECTS_PAGE;
    request.with_bytes = true;
    rv = admin_call(admin, peer, MSG_OBJECT_LIST, &request.base,
                    &morsel__object_list_reply__descriptor, &reply, err);
    if (rv != 0) {
        return rv;
    }
    page = reply;
    rv = page_take(sizes, page, err);
    free(cursor->data);
    *cursor = page->cursor; /* Its memory changes hands. */
    page->cursor = (ProtobufCBinaryData){ 0, NULL };
    morsel__object_list_reply__free_unpacked(page, NULL);
    return rv;
}

static int measure_one(struct admin *admin, const Morsel__Member *member,
                       struct rebalance_sizes *sizes, struct errmsg *err)
{
    ProtobufCBinaryData cursor = { 0, NULL };
    struct rpc_peer *peer;
    int rv = admin_peer(admin, member->address, &peer, err);

    memset(sizes->here, 0, sizeof(sizes->here));
    if (rv != 0) {
        return rv;
    }
    do {
        rv = measure_step(admin, peer, sizes, &cursor, err);
    } while (rv == 0 && cursor.len > 0);
    free(cursor.data);
    return rv;
}

static bool holds(const Morsel__Group *group, uint32_t server)
{
    for (size_t i = 0; i < group->n_servers; i++) {
        if (group->servers[i] == server) {
            return true;
        }
    }
    return false;
}

/* The server was measured: so are its groups, also those of which it has no object. */
static void take_over(struct rebalance_sizes *sizes, const Morsel__StatusReply *status,
                      uint32_t server)
{
    for (size_t i = 0; i < status->n_groups; i++) {
        const Morsel__Group *group = status->groups[i]->group;
        uint32_t number = group != NULL ? group->number : 0;

        if (number == 0 || number >= PLACING_GROUPS_MAX || !holds(group, server)) {
            continue;
        }
        sizes->known[number] = true;
        if (sizes->here[number] > sizes->bytes[number]) {
            sizes->bytes[number] = sizes->here[number];
        }
    }
    if (sizes->here[0] > 0 && sizes->alone_count < SERVERS_MAX) {
        sizes->alone[sizes->alone_count++] = (struct rebalance_alone){ server, sizes->here[0] };
    }
}

int rebalance_measure(const struct admin_arguments *arguments, const Morsel__StatusReply *status,
                      struct rebalance_sizes *sizes)
{
    struct admin admin;
    int code = admin_open_manager(&admin, &arguments->settings);

    if (code != ADMIN_OK) {
        return code;
    }
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *m = status->members[i];
        struct errmsg err = { "" };

        if (!m->up) {
            continue;
        }
        if (measure_one(&admin, m, sizes, &err) == 0) {
            take_over(sizes, status, m->id);
        } else {
            (void)admin_failed(ADMIN_PROBLEM,
                               "server %" PRIu32 " could not be measured: %s; groups whose other "
                               "servers could not be measured either are left out",
                               m->id, err.text);
        }
    }
    admin_close(&admin);
    return ADMIN_OK;
}
