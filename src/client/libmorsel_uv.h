/* libmorsel: a client's connection to a cluster, and files read and written through it.
 *
 * Everything runs on the thread of one libuv loop. Functions named *_start follow the callback law
 * of rpc_uv.h: a start that returns non-zero never calls back, one that returns 0 calls back
 * exactly once, later.
 *
 * Layers: session_uv.c, servers_uv.c and call_uv.c (calls to the manager), file_uv.c (table of
 * open files), column_uv.c (calls to the servers of a file), write_uv.c (write buffer), chunk_uv.c
 * (its way to the servers), room_uv.c (its pace), flush_uv.c, fetch_uv.c, fetch_ahead_uv.c (bytes
 * on their way), write_start_uv.c and read_start_uv.c (what programs ask for), read_uv.c, range_uv.c (truncate, punch, allocate, seek), copy_uv.c (copying on the
 * servers), lock_uv.c and size_lock_uv.c (locks of our processes, and our own).
 */
#ifndef MORSEL_CLIENT_LIBMORSEL_UV_H
#define MORSEL_CLIENT_LIBMORSEL_UV_H

#include "client/coherence/lock_holder.h"
#include "client/coherence/size_lock.h"
#include "common/base/list.h"
#include "common/daemon/log.h"
#include "common/fs/stripe.h"
#include "common/rpc/op_numbers.h"
#include "common/rpc/rpc_uv.h"
#include "meta.pb-c.h"

struct client_options
{
    const char *manager;         /* host:port */
    uint64_t io_timeout_ms;      /* RPC_NO_DEADLINE under "hard". */
    bool soft;                   /* Say ETIMEDOUT where the default says EIO. */
    uint64_t write_buffer_bytes; /* Of dirty data, per open file. */
    uint32_t read_ahead_bytes;   /* Window of a sequential reader. */
    bool cache;                  /* Take leases, and keep names, attributes and bytes under them. */
    const char *program;
    struct log *log;
    const struct origin_power *origins; /* NULL: nothing is fetched from origins of data sets. */
};

/* What the modules keep for themselves, each in a file of its own. */
struct client_life;
struct session;
struct servers;
struct client_groups;
struct calls;
struct leases;
struct meta_cache;
struct kernel_drops;
struct files;
struct closes;
struct write_buffers;
struct fetches;
struct appends;
struct size_asks;
struct data_version_cache;
struct changes;
struct queued_call;
struct donors;
struct data_sets;
struct origin_power; /* origin_power.h */

struct client_counters
{
    uint64_t reads, read_bytes, reads_fetched_ahead;
    uint64_t writes, write_bytes, writes_coalesced, writes_waited;
    uint64_t writes_refused;      /* By a server, for our lease period was over when they came. */
    uint64_t recalls, recall_ns;  /* Answered, and how long that took in all. */
    uint64_t opens_local;         /* Without asking the manager. */
    uint64_t calls_queued;        /* For want of a place at the manager. */
    uint64_t attributes_merged;   /* Set again before the manager had heard of it. */
    uint64_t held_up;             /* Requests that waited for a mount that was writing back. */
    uint64_t set_morsels_stored;  /* Of data sets: taken into the manager's map; */
    uint64_t set_morsels_read;    /* fetched, and verified; */
    uint64_t set_places_asked;    /* questions where morsels are to go; */
    uint64_t set_reads_hedged;    /* copies asked beside one that took long; */
    uint64_t set_copies_failed;   /* that a benefactor did not take; */
    uint64_t set_copies_wrong;    /* that were damaged, or not there. */
    uint64_t set_morsels_origin;  /* Had from their origins. */
    uint64_t set_origin_visits;   /* Questions to origins. */
    uint64_t set_copies_returned; /* That benefactors took of what came from there. */
    uint64_t donor_failures;      /* Of calls to benefactors, for whatever reason. */
};

/* What the manager makes of our users. */
struct client_squash
{
    bool any; /* Some count as `uid` and `gid`, which our kernel does not know: */
    bool all; /* all of them; otherwise root. */
    uint32_t uid, gid;
};

/* Open files, and their bytes. */
struct client_data
{
    struct files *files;                 /* file_uv.c */
    struct closes *closes;               /* closes_uv.c */
    struct write_buffers *buffers;       /* chunk_uv.h */
    struct fetches *fetches;             /* fetch_uv.h */
    struct appends *appends;             /* append_uv.c */
    struct size_asks *size_asks;         /* size_uv.c */
    struct data_version_cache *versions; /* Of what the kernel may keep of closed files. */
    struct changes *changes;             /* That the manager may not have on disk yet. */
    struct donors *donors;               /* donors_uv.h */
    struct data_sets *sets;              /* set_parts_uv.h */
    struct origin_power *inside;         /* source_uv.h */
};

/* What all modules go by, and the part of each, which only its owners look into (rule 16 of
 * tests/tidy.sh). */
struct client
{
    uv_loop_t *loop;
    struct client_options options;
    struct rpc *rpc;
    struct rpc_peer *manager;
    struct client_counters counters;
    struct client_life *life;     /* client_uv.c */
    struct session *session;      /* session_uv.c */
    struct servers *servers;      /* servers_uv.c */
    struct client_groups *groups; /* groups_uv.c */
    struct calls *calls;          /* behind_uv.h */
    struct leases *leases;        /* lease_uv.c */
    struct meta_cache *cache;     /* Names and attributes under leases: meta_cache.h. */
    struct kernel_drops *drops;   /* kernel_drop_uv.c */
    struct lock_holder locks;     /* Of our processes; fed by lock_uv.c only. */
    struct size_locks size_locks; /* Fed by size_lock_uv.c only. */
    struct client_data data;
};

enum {
    CLIENT_TICK_MS = 50,
    CLIENT_FETCHED_BYTES_MAX = 256 << 20, /* Beyond it nothing is fetched ahead. */
    CLIENT_DIRTY_BYTES_MAX =
        256 << 20, /* Beyond it a file with dirty data must drain before it takes more. */
    CLIENT_CACHE_INODES_MAX = 65536, /* About 400 bytes each */
    CLIENT_CACHE_NAMES_MAX = 131072, /* About 100 bytes each */
    CLIENT_RECALLS_MAX = 4096        /* More than are ever under way at once */
};

/* Connects in the background. `ready` runs once: 0 when the manager has accepted the session, or
 * why not (the client then goes on trying; the caller may give up with client_close()). */
int client_new(uv_loop_t *loop, const struct client_options *options, struct client **client_out,
               void (*ready)(void *data, int status, const char *text), void *data,
               struct errmsg *err);

/* A clock that stands still while this process does (presence.h). Never behind what it has shown, and never faster than
 * uv_now(). */
uint64_t client_present_ms(struct client *client);

/* Every file must be closed. `closed` runs once, then the client is freed. Says goodbye to the
 * manager. */
void client_close(struct client *client, void (*closed)(void *data), void *data);

/* It is being closed: nothing new is begun. */
bool client_is_ending(const struct client *client);

/* The manager's wall clock, for time stamps. */
uint64_t client_clock_ns(const struct client *client);

/* What the manager makes of our users, as of its last word. */
const struct client_squash *client_squash(const struct client *client);

/* What a system call says for `status`: EIO for servers that cannot be had, ETIMEDOUT for them
 * under "soft". */
int client_errno(const struct client *client, int status);

/* ---- Calls to the manager ---- */

struct meta_call;

/* `reply` is the unpacked message (freed after the callback) or NULL on failure. */
typedef void (*meta_call_cb)(struct meta_call *call, int status, void *reply);

struct meta_call
{
    struct rpc_call rpc;
    struct client *client;
    meta_call_cb done;
    void *data;
    bool
        bounded; /* The caller's: a change that needs a lease or a size lock, and is refused (TOO_LATE)
                     when what we held when it was started has been taken away. */
    bool patient; /* The caller's: it has no deadline. */
    inode_id
        covers; /* The caller's: it is sent when the manager has what was set on this inode, and
                        ends as that does when it is refused. INODE_NONE: it need not. */
    struct queued_call *queued;                   /* It has not been sent yet. */
    const ProtobufCMessageDescriptor *reply_type; /* NULL: the body is not wanted. */
    op_sequence sequence;                         /* 0: not a change. */
    enum message_type type;
    uint64_t sent_ns; /* When it was started, on rpc_boot_ns(). */
    unsigned retries; /* For want of a session. */
};

/* Ask the manager something that changes nothing. */
int meta_call_start(struct meta_call *call, struct client *client, enum message_type type,
                    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                    meta_call_cb done);

/* Change something. `op` is the request's OpId field, which is filled in for the packing only. When
 * too many changes are under way it waits until it is its turn (behind_uv.h). */
int meta_change_start(struct meta_call *call, struct client *client, enum message_type type,
                      const ProtobufCMessage *request, Morsel__OpId **op,
                      const ProtobufCMessageDescriptor *reply_type, meta_call_cb done);

void meta_call_cancel(struct meta_call *call);

/* For behind_uv.h: as a start begins, and what runs when the manager has answered. */
void meta_call_init(struct meta_call *call, struct client *client, enum message_type type,
                    const ProtobufCMessageDescriptor *reply_type, meta_call_cb done);
void meta_call_replied(struct rpc_call *call, int status, struct rpc_reply *reply);

/* Nobody is sure what we hold: nothing counts until we have said it again. */
void client_rejoin(struct client *client);

#endif
