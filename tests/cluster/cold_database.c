/* A large database for a manager that does not run: cold_database DATADIR FILES.
 *
 * DATADIR is that of a manager that was started once. Below /cold come directories dNNNNNN, with
 * 10,000 empty files NNNN in each, as the manager itself would make them, but without a client that
 * asks for each; all are on disk when the program ends, and LevelDB has nothing left to merge.
 * Prints how many inodes there are. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/namespace.h"
#include "meta/storage/kv_leveldb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    FILES_IN_DIRECTORY = 10000,
    QUIET_MS = 3000, /* So long after the last new table it is not merging any more. */
    LOOK_MS = 100
};

struct database
{
    char path[4096];
    struct kv *kv;
    struct ns *ns;
    struct errmsg err;
    int64_t time_ns; /* Of the next change; grows. */
};

static void must(struct database *d, int rv)
{
    if (rv != 0) {
        fprintf(stderr, "cold_database: %s: %s\n", d->path,
                d->err.text[0] != '\0' ? d->err.text : status_words(rv));
        exit(1);
    }
}

static void open_it(struct database *d)
{
    must(d, kv_leveldb_open(d->path, false, &d->kv, &d->err));
    must(d, ns_open(d->kv, NULL, &d->ns, &d->err));
    if (!ns_formatted(d->ns)) {
        errmsg_set(&d->err, "it is empty: start a manager on it first");
        must(d, MORSEL_INVAL);
    }
}

static void close_it(struct database *d)
{
    must(d, d->kv->sync(d->kv, &d->err));
    ns_close(d->ns);
    d->kv->close(d->kv);
}

static inode_id make(struct database *d, inode_id parent, const char *name, uint32_t mode)
{
    struct meta_op op = { .kind = OP_CREATE, .time_ns = ++d->time_ns };

    op.make.parent = parent;
    op.make.name = (struct slice){ (const uint8_t *)name, strlen(name) };
    op.make.mode = mode;
    if (S_ISREG(mode)) {
        op.make.layout.class = CLASS_DURABLE;
        op.make.layout.replicas = 1;
        op.make.layout.stripe = (struct stripe){ MORSEL_BYTES_DEFAULT, 1, 1 };
        op.make.layout.servers[0] = 1;
    }
    must(d, ns_execute(d->ns, &op, &d->err));
    return op.target;
}

static void fill(struct database *d, uint64_t files)
{
    inode_id cold = make(d, INODE_ROOT, "cold", S_IFDIR | 0755), directory = INODE_NONE;
    char name[32];

    for (uint64_t i = 0; i < files; i++) {
        if (i % FILES_IN_DIRECTORY == 0) {
            (void)snprintf(name, sizeof(name), "d%06llu",
                           (unsigned long long)(i / FILES_IN_DIRECTORY));
            directory = make(d, cold, name, S_IFDIR | 0755);
        }
        (void)snprintf(name, sizeof(name), "%04llu", (unsigned long long)(i % FILES_IN_DIRECTORY));
        (void)make(d, directory, name, S_IFREG | 0644);
    }
}

/* Each new table is a new name in the directory. */
static void await_quiet(struct database *d)
{
    const struct timespec look = { 0, LOOK_MS * 1000000L };
    struct timespec last = { 0, 0 };
    struct stat st;

    for (int quiet_ms = 0; quiet_ms < QUIET_MS; quiet_ms += LOOK_MS) {
        CHECK(stat(d->path, &st) == 0);
        if (st.st_mtim.tv_sec != last.tv_sec || st.st_mtim.tv_nsec != last.tv_nsec) {
            last = st.st_mtim;
            quiet_ms = 0;
        }
        (void)nanosleep(&look, NULL);
    }
}

int main(int argc, char **argv)
{
    static struct database d;
    struct timespec now;
    char *end = NULL;
    uint64_t files = argc == 3 ? strtoull(argv[2], &end, 10) : 0;

    if (files == 0 || *end != '\0') {
        fprintf(stderr, "usage: cold_database DATADIR FILES\n");
        return 2;
    }
    (void)snprintf(d.path, sizeof(d.path), "%s/db", argv[1]);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    d.time_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    open_it(&d);
    fill(&d, files);
    close_it(&d);
    open_it(&d); /* What was in the log only becomes a table. */
    await_quiet(&d);
    printf("%llu\n", (unsigned long long)ns_counters(d.ns)->inodes);
    close_it(&d);
    return 0;
}
