#include "tests/sim/world/fiber.h"
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>

/* Whose descriptor it is. */
struct fuse_session *kernel_of_fd[KERNEL_FDS_MAX];

static void know_root(struct fuse_session *k)
{
    struct fuse_entry_param entry = { .ino = FUSE_ROOT_ID };

    entry.attr.st_mode = S_IFDIR | 0755;
    entry.attr.st_nlink = 2;
    (void)knode_get(k, &entry, 0, 0); /* For good. */
}

void kernel_open(struct fuse_session *k, struct mount *mount, struct world_process *process)
{
    memset(k, 0, sizeof(*k));
    mount_operations(&k->ops);
    k->mount = mount;
    k->process = process;
    k->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(k->fd >= 0 && k->fd < KERNEL_FDS_MAX);
    kernel_of_fd[k->fd] = k;
    list_init(&k->asked);
    list_init(&k->answered);
    list_init(&k->nodes);
    list_init(&k->names);
    list_init(&k->looking);
    list_init(&k->looking_waiting);
    list_init(&k->rename_lock.waiting);
    k->version = 1;
    k->evictions = 1;
    k->has_epochs = !world_chance(4);
    k->read_ahead = world_chance(2) ? 32 : 256;
    mount->maps_direct = mount->strips_ids = !world_chance(4);
    know_root(k);
    world_in(world_draw(4 * WORLD_S), kernel_presses, k);
}

/* ---- Asking ---- */

static void ask(struct fuse_req *req)
{
    struct fuse_session *k = req->kernel;

    req->unique = ++k->unique;
    req->context = (struct fuse_ctx){
        .uid = fiber_user(), .gid = fiber_user(), .pid = fiber_number(), .umask = 022
    };
    list_init(&req->node);
    list_push_back(&k->asked, &req->node);
    world_poll_readable(&k->mount->poll);
}

static bool is_gone(const struct fuse_session *k)
{
    return !k->process->alive || !k->mount->mounted;
}

static bool is_in(const struct list *requests, uint64_t unique)
{
    LIST_FOREACH(node, requests)
    {
        if (LIST_ENTRY(node, struct fuse_req, node)->unique == unique) {
            return true;
        }
    }
    return false;
}

/* A signal comes for who waits. */
struct signal_due
{
    struct fuse_session *kernel;
    uint64_t unique;
};

static void interrupt(void *data)
{
    struct signal_due *due = data;
    struct fuse_session *k = due->kernel;
    struct fuse_req *req;

    if (is_in(&k->asked, due->unique) || is_in(&k->answered, due->unique)) {
        req = calloc(1, sizeof(*req));
        CHECK(req != NULL);
        *req = (struct fuse_req){ .kernel = k, .opcode = FUSE_INTERRUPT, .of = due->unique };
        k->counts.interrupts++;
        (void)ask_only(req);
    }
    free(due);
}

static void interrupt_in(const struct fuse_req *req)
{
    struct signal_due *due = malloc(sizeof(*due));

    CHECK(due != NULL);
    *due = (struct signal_due){ req->kernel, req->unique };
    world_in(req->interrupt_ns, interrupt, due);
}

int ask_and_wait(struct fuse_req *req)
{
    if (is_gone(req->kernel)) {
        return ENOTCONN;
    }
    req->asker = fiber_self();
    ask(req);
    if (req->interrupt_ns > 0) {
        interrupt_in(req);
    }
    fiber_wait();
    CHECK(req->done);
    return req->error;
}

static void end_alone(struct fuse_req *req)
{
    if (req->end != NULL) {
        req->end(req);
    }
    free(req);
}

bool ask_only(struct fuse_req *req)
{
    if (is_gone(req->kernel)) {
        req->error = ENOTCONN;
        end_alone(req);
        return false;
    }
    ask(req);
    return true;
}

/* The program runs again when the scheduler lets it: at times late. */
static uint64_t runs_again_ns(void)
{
    return 2000 + world_draw_skewed(world_chance(100) ? 30 * WORLD_MS : 50000);
}

int kernel_answer(struct fuse_req *req, int error)
{
    CHECK(!req->done);
    if (error != 0 && error != ENOENT) {
        world_trace(req->kernel->process->name, "request %u on inode %llu: %s", req->opcode,
                    (unsigned long long)req->inode, strerror(error));
    }
    req->done = true;
    req->error = error;
    list_remove(&req->node);
    if (req->asker != NULL) {
        fiber_wake(req->asker, runs_again_ns());
    } else {
        end_alone(req);
    }
    return 0;
}

void kernel_abort(struct fuse_session *k)
{
    struct list *node;

    while ((node = list_front(&k->asked)) != NULL || (node = list_front(&k->answered)) != NULL) {
        (void)kernel_answer(LIST_ENTRY(node, struct fuse_req, node), ENOTCONN);
    }
}
