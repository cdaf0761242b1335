/* The host of the leases' core, and what replies grant (lease_uv.h). */
#include "client/coherence/lease_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

struct leases
{
    struct lease_holder holder;
    const struct lease_hooks *hooks;
};

/* ---- The core and its actions ---- */

static void carry_out(struct client *client, const struct lease_holder_action *action)
{
    const struct lease_hooks *hooks = client->leases->hooks;

    switch (action->type) {
    case HOLDER_JOIN:
        hooks->join(client, action->number);
        break;
    case HOLDER_RENEW:
        hooks->renew(client);
        break;
    case HOLDER_PERIOD_OVER:
        log_warning(
            client->options.log,
            "manager %s has not answered for %u ms: nothing is cached, and nothing written to the "
            "servers, until it does",
            rpc_peer_address(client->manager),
            lease_holder_lease_period_ms(&client->leases->holder));
        break;
    case HOLDER_FORGET_ALL:
        if (client->options.cache) {
            hooks->forget_all(client);
        }
        break;
    case HOLDER_BREAK:
        rpc_peer_break(client->manager);
        break;
    default:
        hooks->give_back(client, action);
    }
}

void lease_feed(struct client *client, struct lease_holder_event *event)
{
    struct lease_holder_actions out = { .count = 0 };

    event->now_ns = rpc_boot_ns();
    event->now_ms = uv_now(client->loop);
    lease_holder_step(&client->leases->holder, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        carry_out(client, &out.items[i]);
    }
}

static void feed_type(struct client *client, enum lease_holder_event_type type)
{
    struct lease_holder_event event = { .type = type };

    lease_feed(client, &event);
}

void lease_refused(struct client *client)
{
    feed_type(client, HOLDER_REFUSED);
}

void lease_unsure(struct client *client)
{
    feed_type(client, HOLDER_UNSURE);
}

void lease_tick(struct client *client)
{
    feed_type(client, HOLDER_TICK);
}

void client_rejoin(struct client *client)
{
    feed_type(client, HOLDER_IN_DOUBT);
}

void lease_answered(struct client *client, uint64_t sent_ns)
{
    lease_holder_answered(&client->leases->holder, sent_ns, uv_now(client->loop));
}

void lease_unpinned(struct client *client)
{
    client->leases->hooks->unpinned(client);
}

/* ---- What is good right now ---- */

bool client_lease_valid(const struct client *client)
{
    return lease_holder_left_ns(&client->leases->holder, rpc_boot_ns()) > 0;
}

uint32_t client_lease_left_ms(const struct client *client)
{
    return (uint32_t)(lease_holder_left_ns(&client->leases->holder, rpc_boot_ns()) / 1000000);
}

enum lease_mode client_lease(const struct client *client, inode_id inode)
{
    return client_lease_valid(client) ? meta_cache_mode(client->cache, inode) : LEASE_NONE;
}

uint64_t client_lease_since(const struct client *client, inode_id inode)
{
    return client_lease_valid(client) ? meta_cache_since(client->cache, inode) : 0;
}

enum lease_mode lease_named(const struct client *client, inode_id inode, enum lease_mode mode)
{
    return lease_holder_named(&client->leases->holder, inode, mode);
}

bool lease_is_for_writing(const struct client *client, inode_id inode)
{
    return lease_named(client, inode, meta_cache_mode(client->cache, inode)) == LEASE_W;
}

uint64_t lease_epoch(const struct client *client)
{
    return lease_holder_epoch(&client->leases->holder);
}

uint64_t lease_until_ns(const struct client *client)
{
    return lease_holder_until_ns(&client->leases->holder);
}

uint32_t client_lease_period_ms(const struct client *client)
{
    return lease_holder_lease_ms(&client->leases->holder);
}

bool lease_is_sure(const struct client *client)
{
    return lease_holder_is_sure(&client->leases->holder, rpc_boot_ns());
}

bool lease_is_joined(const struct client *client)
{
    return lease_holder_is_joined(&client->leases->holder);
}

bool lease_is_joining(const struct client *client)
{
    return lease_holder_is_joining(&client->leases->holder);
}

bool lease_is_returning(const struct client *client, inode_id inode)
{
    return lease_holder_returning(&client->leases->holder, inode) != NULL;
}

/* ---- What replies say ---- */

static void learn(struct client *client, const Morsel__Attr *attr, uint32_t said,
                  const Morsel__Layout *layout)
{
    enum lease_mode mode;

    if (attr == NULL) {
        return;
    }
    mode = lease_holder_learned(&client->leases->holder, attr->inode,
                                meta_cache_mode(client->cache, attr->inode),
                                said > LEASE_W ? LEASE_NONE : (enum lease_mode)said);
    meta_cache_learn(client->cache, attr, mode, layout);
    client->leases->hooks->learned(client, attr, mode);
}

static void learn_removed(struct client *client, const Morsel__Removed *removed)
{
    if (removed->deleted) {
        meta_cache_drop(client->cache, removed->inode, LEASE_NONE);
    }
    learn(client, removed->parent, removed->parent_lease, NULL);
    learn(client, removed->new_parent, removed->new_parent_lease, NULL);
    learn(client, removed->moved, removed->moved_lease, NULL);
    learn(client, removed->other, removed->other_lease, NULL);
}

static void learn_page(struct client *client, const Morsel__ReaddirReply *page)
{
    learn(client, page->attr, page->lease, NULL);
    for (size_t i = 0; i < page->n_entries; i++) {
        learn(client, page->entries[i]->attr, page->entries[i]->lease, NULL);
    }
}

void lease_learn(struct client *client, const ProtobufCMessageDescriptor *type, const void *message)
{
    if (!client->options.cache) {
        return;
    }
    if (type == &morsel__node__descriptor) {
        const Morsel__Node *node = message;

        learn(client, node->parent, node->parent_lease, NULL);
        learn(client, node->attr, node->lease, node->layout);
    } else if (type == &morsel__removed__descriptor) {
        learn_removed(client, message);
    } else if (type == &morsel__readdir_reply__descriptor) {
        learn_page(client, message);
    }
    if (meta_cache_has_evicted(client->cache)) {
        client->leases->hooks->evicted(client);
    }
}

/* ---- On their way back ---- */

void lease_each_return(struct client *client, void (*each)(void *data, struct lease_return *back),
                       void *data)
{
    if (client->leases != NULL) {
        lease_holder_each_return(&client->leases->holder, each, data);
    }
}

void lease_abandon(struct client *client, struct lease_return *back)
{
    lease_holder_abandon(&client->leases->holder, back);
}

/* ---- Life ---- */

int lease_open(struct client *client, const struct lease_hooks *hooks)
{
    client->leases = calloc(1, sizeof(*client->leases));
    client->cache = meta_cache_new(CLIENT_CACHE_INODES_MAX, CLIENT_CACHE_NAMES_MAX);
    if (client->leases == NULL) {
        return MORSEL_NOMEM;
    }
    client->leases->hooks = hooks;
    lease_holder_init(&client->leases->holder);
    return client->cache == NULL ? MORSEL_NOMEM : MORSEL_OK;
}

void lease_bind(struct client *client, struct rpc *rpc)
{
    struct lease_holder_bound bound = lease_holder_bound(&client->leases->holder);

    rpc_set_lease(rpc, bound.until_ns, bound.lease_epoch);
}

void lease_close(struct client *client)
{
    free(client->leases);
    meta_cache_free(client->cache);
}
