/* Origins of data sets that are files of class durable of this cluster: who may name one, and who may read it for a set.
 *
 * Who names one must reach it by its path, with his own rights, as he does when he opens it: a number alone would lead past directories that
 * are closed to him. And it must be what he says, so that nobody names what a file will be when it is his no more. Mounts then read it by
 * its number, with the rights of who owns the file of the set, as they are by then. */
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "meta/datasets/sets_uv.h"
#include "meta/namespace/permit.h"
#include "meta/service/handlers_uv.h"
#include "meta/service/identify_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TAG_MAX = 32 };

static bool is_as_said(const struct inode *source, const struct origin *origin)
{
    char tag[TAG_MAX];

    (void)snprintf(tag, TAG_MAX, "\"%" PRIu64 "\"", source->data_version);
    return strcmp(tag, origin->etag) == 0 && source->size == origin->size;
}

static bool is_source(const struct inode *inode)
{
    return mode_is_regular(inode->mode) && !inode_is_scavenged(inode) && inode->nlink > 0;
}

/* Nobody knows here of which other groups he is. */
static int owner_may_read(struct request *r, const struct inode *file, const struct inode *source)
{
    struct credentials owner = { .uid = file->uid, .gid = file->gid, .groups_known = true };

    return permit_access(r->meta->ns, source, &owner, MAY_READ, &r->err);
}

/* ---- Reading ---- */

/* Who may not speak for his users must have the set open, for which he was asked whether he may. */
static bool may_ask(struct request *r, inode_id file)
{
    return identify_trusts(r->meta, r->rpc) ||
           session_has_open(r->meta->sessions, file, r->rpc->node_id, false);
}

int source_may_open(struct request *r, const struct inode *inode)
{
    const Morsel__OpenRequest *m = r->message;
    const struct data_set *set;
    struct origin origin;
    struct inode file;
    const char *path;
    int rv = ns_inode(r->meta->ns, m->for_set, &file, &r->err);

    if (rv != 0) {
        return rv;
    }
    set = inode_is_scavenged(&file) ? sets_find(ns_sets(r->meta->ns), inode_body(&file)) : NULL;
    if (set == NULL || !set->head.has_origin || m->write || m->execute || !may_ask(r, file.id)) {
        return MORSEL_ACCES;
    }
    if ((rv = ns_origin(r->meta->ns, set->head.number, &origin, &r->err)) != 0) {
        return rv;
    }
    if (!origin_is_inside(&origin) || origin_source(&origin, &path) != inode->id) {
        return MORSEL_ACCES;
    }
    if (!is_source(inode)) {
        return MORSEL_STALE;
    }
    if ((rv = owner_may_read(r, &file, inode)) != 0) {
        return rv;
    }
    return is_as_said(inode, &origin) ? 0 : MORSEL_STALE;
}

/* ---- Naming ---- */

static int walk(struct request *r, const char *path, const struct credentials *who,
                struct inode *found)
{
    char name[NAME_BYTES_MAX];
    struct inode directory;
    size_t count;
    int rv = ns_inode(r->meta->ns, INODE_ROOT, found, &r->err);

    while (rv == 0 && *path == '/') {
        if ((path = origin_take_name(path + 1, name, &count)) == NULL) {
            return MORSEL_INVAL;
        }
        directory = *found;
        rv = permit_access(r->meta->ns, &directory, who, MAY_EXECUTE, &r->err);
        if (rv == 0) {
            rv = ns_lookup(r->meta->ns, directory.id, (struct slice){ (uint8_t *)name, count },
                           found, &r->err);
        }
    }
    return rv;
}

int source_prove(struct request *r, const struct inode *file, struct origin *origin)
{
    const Morsel__XattrSetRequest *m = r->message;
    struct credentials who = identify(r->meta, r->rpc, m->who);
    struct inode source;
    const char *path;
    inode_id inode = origin_source(origin, &path);
    int rv = walk(r, path, &who, &source);

    if (rv != 0) {
        return rv;
    }
    if (source.id != inode || !is_source(&source)) {
        errmsg_set(&r->err, "the origin is no file of class durable that lies at its path");
        return MORSEL_INVAL;
    }
    if ((rv = permit_access(r->meta->ns, &source, &who, MAY_READ, &r->err)) != 0) {
        return rv;
    }
    if (!is_as_said(&source, origin)) {
        errmsg_set(&r->err, "the file was written since, and is not what the origin says any more");
        return MORSEL_STALE;
    }
    origin->proven = origin_may_be_proven(origin) && owner_may_read(r, file, &source) == 0;
    return 0;
}

int source_text(struct request *r, const struct inode *inode)
{
    const struct cluster_id *cluster = &ns_super(r->meta->ns)->cluster;
    char text[2 * sizeof(*cluster) + 24];
    size_t at = 0;

    for (size_t i = 0; i < sizeof(cluster->bytes); i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x", cluster->bytes[i]);
    }
    (void)snprintf(text + at, sizeof(text) - at, " %" PRIu64, inode->data_version);
    buf_put(&r->bytes, text, strlen(text));
    return 0;
}
