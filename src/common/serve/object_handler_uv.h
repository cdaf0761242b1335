/* What is done for one type of request. The functions are called in this order, with `job->message`
 * of the type `descriptor`; a status other than 0, with words in `job->err`, is the answer, and
 * leads straight to `end`.
 *
 *   check     may it be done? Leaves no trace
 *   at_once   on the loop: if it could be done without waiting, that was it
 *   begin     on the loop, when a thread of the pool is free: gets what only running jobs may hold. Of what
 *             changes something that is `job->payload`, which then did not come with the request
 *   run       on that thread
 *   answer    on the loop: sends what came of it, and takes `job->request`
 *   end       on the loop: frees what run() has got
 *
 * All but `descriptor` and `run` may be NULL.
 */
#ifndef MORSEL_COMMON_SERVE_OBJECT_HANDLER_UV_H
#define MORSEL_COMMON_SERVE_OBJECT_HANDLER_UV_H

#include "common/serve/object_server_uv.h"
#include "data.pb-c.h"

enum object_use {
    OBJECT_USE_NONE, /* Of no single object. */
    OBJECT_USE_READ,
    OBJECT_USE_CHANGE,
    OBJECT_USE_SYNC,
    OBJECT_USE_DELETE
};

/* Which object a request is about, and which bytes of it. */
struct object_reach
{
    struct object_id object;
    uint64_t start, end;     /* From the first one up to, without, the last. */
    uint64_t length;         /* Of an ALLOCATE or a COPY: bytes of the disk that it may need. */
    struct object_id source; /* Of a COPY: whose bytes it takes, */
    uint64_t source_start, source_end; /* and which. Of others 0. */
};

struct object_handler
{
    const ProtobufCMessageDescriptor *descriptor;
    int (*check)(struct job *job);
    bool (*at_once)(struct job *job);
    int (*begin)(struct job *job);
    void (*run)(struct job *job);
    void (*answer)(struct job *job); /* NULL: an empty reply. */
    void (*end)(struct job *job);

    /* Does run() wait long for the disk (jobs_uv.h)? NULL: no. */
    bool (*is_slow)(const struct job *job);

    /* Says which change this is, for it must not be made twice (once_uv.h). NULL: it may. */
    void (*identify)(const void *message, struct repeats_change *change);

    /* What it does to which object: for objects that have copies (object_server_uv.h, `route`). */
    enum object_use use;
    void (*reach)(const struct job *job, struct object_reach *reach); /* NULL with USE_NONE. */

    bool answers_bytes; /* answer() sends job->payload on; of others it is freed before. */
};

extern const struct object_handler OBJECT_READ, OBJECT_SEEK, OBJECT_STAT, OBJECT_LIST,
    OBJECT_STATISTICS;
extern const struct object_handler OBJECT_WATCH;
extern const struct object_handler OBJECT_WRITE, OBJECT_COPY, OBJECT_TRUNCATE, OBJECT_PUNCH,
    OBJECT_ALLOCATE, OBJECT_SYNC, OBJECT_DELETE;

static inline struct object_server *object_server_of(const struct job *job)
{
    return job->owner;
}

static inline struct store *object_store_of(const struct job *job)
{
    return object_server_of(job)->store;
}

static inline struct object_id object_id_of(const Morsel__ObjectId *object)
{
    return (struct object_id){ .inode = object->inode, .column = object->column };
}

/* Send what came of a job that has its request, and let go of everything that it held. */
void object_done(struct job *job, const struct object_handler *handler);

/* The handler of a type; NULL: there is none. */
const struct object_handler *object_handler_of(unsigned type);

/* `object` may be NULL, and the stretch beyond what an object can have: that is for check() to refuse. */
struct object_reach object_reach_of(const Morsel__ObjectId *object, uint64_t start, uint64_t end);

/* rpc_handler; `data` is the object_server. */
void object_handle(void *data, struct rpc_request *request);

/* Does the request name an object? MORSEL_INVAL: no. */
int object_check(struct job *job, const Morsel__ObjectId *object);

/* For handlers that are always slow. */
bool object_is_slow(const struct job *job);

#endif
