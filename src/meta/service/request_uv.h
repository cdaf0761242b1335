/* Requests as data: a row each, and one driver that takes all of them through the same steps.
 *
 *   ARRIVED
 *      | look
 *   LOOKED --------> WAITING      leases of others are in the way; given back: ARRIVED again
 *      | lease
 *   FREE --------------------------------- serve ---------------------> ANSWERED
 *      | identify, recognise        (a change)
 *   NEW -----------> KNOWN --------------- reply ---------------------> ANSWERED
 *      | record
 *   RECORDED
 *      | permit
 *   PERMITTED
 *      | execute
 *   DONE --------------------------------- reply ---------------------> ANSWERED
 *
 *   ARRIVED    the client is joined, or need not be (`anybody`); the body is unpacked
 *   LOOKED     `touched` says which inodes the answer depends on, under which access
 *   WAITING    leases of others are in the way: leases_uv.c has the request, and runs it again from
 *              ARRIVED when they are given back; what was looked up before is not believed again
 *   FREE       nobody else holds a lease that this request breaks, until the loop goes on
 *   NEW        a change with a valid operation id, never applied; its client has room in the reply cache
 *   KNOWN      it was applied: `outcome` is what it brought then, and it is not applied again
 *   RECORDED   `op` is complete
 *   PERMITTED  its lease epoch is the client's, and its user may do it
 *   DONE       committed, in the log and in the reply cache: asked again, it is KNOWN
 *   ANSWERED   rpc_reply() was called, or somebody has taken over to call it (a sync, servers that
 *              are asked for their space, the second half of a HEARTBEAT)
 *
 * Whatever fails on the way answers the request with that status and the words in `err`, in one
 * place.
 *
 * THE INVARIANT. Nothing before execute, and in serve and in the reply to a KNOWN one nothing before
 * the last thing that can fail, leaves anything behind that another try of the same request could
 * see. So a request can be run from ARRIVED again at any time before it is DONE, and as a KNOWN one
 * behind it. What the steps do leave is the same when it is done again: recalls that were sent
 * (whose answers are waited for anyway), room for the client in the reply cache, and up to where it
 * has answers; that a server lives (HEARTBEAT), that a file is open (CREATE). This is what waiting
 * for leases rests on, and what waiting for the disk does:
 *
 *      any step that reads ----> LOADING     the store said MORSEL_AGAIN (kv.h): loads_uv.c has the
 *                                            request, and runs it again from ARRIVED
 *      execute ----------------> LOADING     or: it has no room for the change just now
 *
 * A try in which the store said so is over, whatever its steps have made of it: look may pass over
 * what it did not find, for execute asks again; and execute commits nothing (namespace_txn.c).
 *
 * The reply behind execute may wait for the disk, in this try: what it reads was read or written a
 * moment before. Run again as KNOWN it would tell as much as a repeat: not the attributes of a
 * directory that is gone, nor that a file was replaced.
 *
 * Rows with `own` do as they like, and do not read the store. LOCK counts its tries in
 * rpc_request.data, for which nobody else has a use.
 *
 * Who owns what: the driver owns the struct request (on its stack, for one try) and the message.
 * Slices of `op` point into the message and into `bytes`. The rpc_request belongs to whoever will
 * answer it; a step that returns 0 as the last one has seen to that, and none may touch it then.
 */
#ifndef MORSEL_META_SERVICE_REQUEST_UV_H
#define MORSEL_META_SERVICE_REQUEST_UV_H

#include "meta/service/reply_uv.h"

/* One try of a request. */
struct request
{
    struct meta *meta;
    struct rpc_request *rpc;
    const struct request_row *row;
    void *message;     /* As row->message describes it. */
    struct errmsg err; /* What a step that fails has to say; may stay empty. */

    /* From look. */
    struct lease_touch touched[LEASE_TOUCHED_MAX];
    unsigned touched_count;
    bool own_too;                /* What its client itself holds of them comes back as well. */
    bool changes;                /* The row says so; look may see that this one only asks. */
    int found_status;            /* LOOKUP: why there is no `found`, for after the leases. */
    struct inode found;          /* LOOKUP: what has the name. UNLINK, RENAME: what loses it. */
    inode_id parent, new_parent; /* Directories whose entries change; INODE_NONE: none. */
    inode_id moved, other;       /* RENAME: what gets the new name, what had it (or the old one).
                                    UNLINK: `other`. INODE_NONE: none. */
    bool doomed;                 /* `found` is a directory, and gone when the answer is made. */

    struct buf bytes; /* Room for what `op` or the answer points to. */

    /* Of a change. */
    struct meta_op op;
    inode_id replaced;         /* RENAME: it loses its name, and stays for a moment (departed.h). */
    struct op_outcome outcome; /* KNOWN, DONE */
    bool known;                /* KNOWN */
};

/* 0, or a status that the request is answered with; see the invariant. */
typedef int (*request_step)(struct request *r);

enum { REQUEST_TOUCHES_MAX = 2 };

/* What there is to know of a type of request. Numbers of bytes are into the unpacked message
 * (offsetof); 0: it has no such field. A row has `own`, or `serve`, or `record` and `reply`; with
 * all three it changes something unless look says otherwise. */
struct request_row
{
    bool anybody;                              /* May ask without a session. */
    const ProtobufCMessageDescriptor *message; /* What the body is; NULL with `own`. */
    meta_handler own;                          /* It unpacks, checks and answers by itself. */

    uint16_t touches_at[REQUEST_TOUCHES_MAX]; /* Inodes that it depends on, named in it... */
    enum lease_access access;                 /* ... and how. */
    request_step look;                        /* What else it touches; NULL: nothing. */
    request_step serve;                       /* Read, effects, answer. */

    enum op_kind kind;   /* Of its operation; record may choose another. */
    uint16_t op_at;      /* Its operation id */
    uint16_t who_at;     /* and who asks; 0: the client itself. */
    request_step record; /* Complete `op`. */
    request_step reply;  /* Answer with `outcome`. */
};

/* NULL: no request of ours. `type` as it came from the wire. */
const struct request_row *request_row(unsigned type);

/* One try. request_row(rpc->type) is not NULL, and who asks may. */
void request_run(struct meta *meta, struct rpc_request *rpc);

/* For look: the answer depends on `inode`, too. INODE_NONE is passed over. */
void request_touch(struct request *r, inode_id inode, enum lease_access access);

/* Replies: nothing; the Node of outcome.target, with layout. */
int reply_empty(struct request *r);
int reply_node(struct request *r);

#endif
