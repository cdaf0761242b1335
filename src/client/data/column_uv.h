/* Calls to the server of a column: the one way from a file to an I/O server.
 *
 * Who wants something of a column says what (the request) and of which kind it is (enum
 * column_kind). Decided here, and nowhere else: which server is asked; how the call is to be
 * numbered and bounded; and what the answer says of bytes that are not on the server's disk, and of
 * changes whose end nobody knows, which goes to struct column_hooks (durable_uv.h).
 *
 *   column_start -> server of the column -> what the answer teaches -> done
 *
 * Link loss. What has no answer yet is sent again on the next connection to the same server, until
 * its time-out. A change has a number under which the server does it once at most; when that server
 * was started again meanwhile, one that is not `exclusive` ends with MORSEL_UNSURE (rpc_uv.h, Once).
 *
 * Groups. A column of a file with copies lies on a group of servers: groups_uv.h says whom the call
 * asks, and under which number.
 *
 * Reads of a group (docs/replication.md, Read). Who orders may always be asked. Any other member may answer a
 * reader that holds a lease on the inode, so that nobody else changes it, and knows besides that no change
 * of before is still on its way to some member, nor one of its own:
 *
 *   a lease --column_settle(): who orders has answered for the whole object--> settled
 *      ^                                                                          |
 *      +---- the lease goes, or is another one; the end of a change of ours is unknown
 *
 * Each lease is taken for one that was gained by expiry (rules `settle` and `beside` of
 * tests/model/read_model.py), and while changes of ours are under way all is asked of who orders. The same must
 * still be so when the answer comes: column_is_current(). Else it is asked again, of who orders.
 *
 * Lease period. A change is bounded: it goes with the end of the lease period that is running when its bytes go to
 * the socket, and ends with MORSEL_TOO_LATE when it comes behind that end, or would have to be sent
 * in another lease period than that in which it was started. Nothing was done then. Who asks, and who
 * syncs, is not bounded.
 */
#ifndef MORSEL_CLIENT_DATA_COLUMN_UV_H
#define MORSEL_CLIENT_DATA_COLUMN_UV_H

#include "client/manager/groups_uv.h"
#include "common/base/types.h"
#include "common/fs/placing.h"
#include "common/fs/stripe.h"
#include "common/rpc/rpc_uv.h"
#include "data.pb-c.h"

struct client;
struct column_hooks;

/* Where the bytes of a file lie, and who hears of answers about them. */
struct columns
{
    struct client *client;
    inode_id inode;
    inode_id body; /* By whose number its objects are called. */
    struct stripe stripe;
    server_id servers[STRIPE_WIDTH_MAX];   /* Of each column; of a group the first one. */
    group_number groups[STRIPE_WIDTH_MAX]; /* Likewise; 0: it lies on one server. */
    uint32_t layout_class;                 /* The manager's (Layout.class). */
    int astray; /* 0; else what is told to who asks: MORSEL_STALE: the file lies elsewhere by now; MORSEL_TIMEDOUT: it may. */
    const struct column_hooks *hooks;
    /* The module's own: */
    uint64_t lease;    /* client_lease_since() for which the following is so: */
    uint64_t reads;    /* were started, */
    uint64_t settled;  /* these columns (bits) are, */
    uint64_t settling; /* and these are being asked. */
    uint32_t changing; /* Changes under way. */
    uint64_t stirs;    /* Changes that were begun, and that ended so that nobody knows. */
};

enum {
    COLUMN_REGION_BYTES =
        2 << 20 /* Neighbouring ones of a column are read at different members: each disk
                                     reads so much in a row, and a reader's window covers several. */
};

/* What answers teach those who keep the file, before the caller hears of them. */
struct column_hooks
{
    /* A change has ended: where nobody knows whether it was carried out, or still will be, `status`
     * says so. */
    void (*ended)(struct columns *columns, int status);
    /* A change of the column was acknowledged with this reply; `durable`: it is on the server's disk
     * already. */
    void (*changed)(struct columns *columns, uint32_t column, const struct rpc_reply *reply,
                    bool durable);
    /* A SYNC is about to be sent. Returns what it covers. */
    uint64_t (*before_sync)(struct columns *columns, uint32_t column);
    /* It was answered well. Returns the server's verifier; 0: it tells none. */
    uint64_t (*synced)(struct columns *columns, uint32_t column, uint64_t mark,
                       const struct rpc_reply *reply);
};

enum column_kind {
    COLUMN_READ_ANY,     /* Nobody else may change what is read: whoever has it will do. */
    COLUMN_READ_PRIMARY, /* Others may: it must be asked of the server that orders changes. */
    COLUMN_SETTLE,       /* column_settle() */
    COLUMN_SYNC,         /* What was acknowledged before it was sent is to be on the disk. */
    COLUMN_CHANGE        /* WRITE, TRUNCATE, PUNCH, ALLOCATE, COPY */
};

struct column_call;

/* `status` and `reply` are those of rpc_call_cb. The call may be started again or freed inside. */
typedef void (*column_call_cb)(struct column_call *call, int status, struct rpc_reply *reply);

/* Embed it, zeroed, in what the call is for; it must stay until `done`. */
struct column_call
{
    /* The caller's, which a start leaves as they are: */
    struct columns *columns; /* Must stay until `done`. */
    uint32_t column;         /* Of a COPY: that which is written. */
    void *data;
    bool
        exclusive; /* Of a change: nobody else can change the column while our lease period lasts. */
    bool durable;  /* Of a change: the request wants it on the disk before the answer. */
    uint32_t fetches; /* Of a read: about so many bytes come with the answer; 0: few. */
    uint64_t offset;  /* Of a read: where in the object it begins. */
    uint64_t
        hedge_ms; /* Of COLUMN_READ_ANY: a member that is silent for so long is not waited for. */
    uint64_t timeout_ms; /* 0: io_timeout. */

    /* The answer's: */
    uint64_t verifier; /* Of a SYNC: of what is on the disk now (data.proto); 0: none told. */

    /* The module's own. */
    enum column_kind kind;
    uint64_t lease, stirs; /* Of the columns, when it was started. */
    column_call_cb done;
    uint64_t mark; /* Of a SYNC: what it covers. */
    struct rpc_call rpc;
    struct group_call group; /* In its place, of a column that lies on a group. */
};

/* What names the column's object in a request. */
Morsel__ObjectId column_object(const struct columns *columns, uint32_t column);

/* Ask the column's server. `request` is packed before this returns; `piece` (NULL: none) goes out
 * as payload, of which a reference is taken, and its bytes stay as they are until `done`. On 0
 * `done` runs exactly once, later, when what the answer teaches has been noted; otherwise it never
 * runs, and nothing was sent: MORSEL_UNREACHABLE (nobody knows the server), MORSEL_STALE (the file lies
 * elsewhere by now), MORSEL_NOMEM, MORSEL_TOO_LARGE. */
int column_start(struct column_call *call, enum column_kind kind, enum message_type type,
                 const ProtobufCMessage *request, const struct rpc_piece *piece,
                 column_call_cb done);

/* Could the column's object be read at any member of its group, if somebody asked who orders for all of it
 * first? Then that should be done: column_settle(). */
bool column_wants_settle(struct columns *columns, uint32_t column);

/* As column_start(): when it is answered well, reads of the column go to all members, as long as the rest
 * holds. One at a time for a column. */
int column_settle(struct column_call *call, column_call_cb done);

/* May a read go to any member now? It has to say so in its request (ReadRequest.settled). */
bool column_is_settled(const struct columns *columns, uint32_t column);

/* Within `done` of a COLUMN_READ_ANY: may its bytes be believed, whoever they are of? */
bool column_is_current(const struct column_call *call);

/* `done` runs later, with MORSEL_CANCELED. A change may be carried out all the same. Harmless for a
 * call that is not under way. */
void column_cancel(struct column_call *call);

/* Whom a call of this kind would ask now: for the pace of the link. NULL: nobody knows the server.
 */
struct rpc_peer *column_peer(const struct columns *columns, uint32_t column, enum column_kind kind);

/* The same of a COLUMN_READ_ANY at that offset of the object. */
struct rpc_peer *column_read_peer(const struct columns *columns, uint32_t column, uint64_t offset);

/* For the log, within `done`: whom it asked, and why it failed. */
const char *column_address(const struct column_call *call);
const char *column_why(int status, const struct rpc_reply *reply);

#endif
