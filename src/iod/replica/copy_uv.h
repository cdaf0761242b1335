/* One server's copy of a group at work: the host of replica.h. It has the bytes, the disk and the
 * requests of clients; what goes to other members and to voters goes through hooks (groups_uv.h).
 *
 *   a client's request            a member's message           the group's words, votes, time
 *   copy_request()                copy_receive()               copy_heard(), copy_decided(), copy_tick()
 *        |                             |                             |
 *        +-----------------------------+-----------------------------+
 *                                      v
 *                     replica.h ---> replica_next() ---> jobs on the store, files, answers, hooks
 *
 * On the disk, beside the objects, in DIR/copies:
 *
 *   NUMBER.state    struct group_record; replaced as a whole, synced
 *   NUMBER.dirty    dirty_format.h; synced with each entry
 *   NUMBER.ops-*    the memory of operations (copy_format.h): begun before the bytes, done after
 *                   them, in the kernel's hands at once, synced with every sync of bytes
 *
 * A copy whose files are lost or damaged is made up for by the others where they can (copy_file.h): it
 * begins as a newcomer, or compares everything. One that cannot be what these files should say is *closed*: it
 * answers nobody, the reason is in the log and in copy_trouble(), and the other members go on without it. It
 * never guesses.
 *
 * Changes that clients make have the numbers of the client at this group; those of the daemon itself
 * (deletions) bear the server's own. What is asked of a member that does not order, or not now, is
 * answered MORSEL_NOT_HERE, and the client asks the next one. */
#ifndef MORSEL_IOD_REPLICA_COPY_UV_H
#define MORSEL_IOD_REPLICA_COPY_UV_H

#include "common/fs/placing.h"
#include "common/serve/object_handler_uv.h"
#include "iod/replica/copy_file.h"
#include "iod/replica/recovery_gate.h"
#include "iod/replica/replica.h"
#include "iod/replica/room.h"
#include "replica.pb-c.h"

struct copy;

/* All run on the loop, and none calls back from within. */
struct copy_hooks
{
    /* group_word() goes to all other members. */
    void (*word)(void *data, struct copy *copy, const struct group_word *word);
    /* To the member at that place. It may get lost. `payload` (NULL: none) is borrowed. */
    void (*send)(void *data, struct copy *copy, uint32_t member, const Morsel__ReplicaMessage *m,
                 struct payload *payload);
    /* For `set` in `epoch`, the value before being `before` of epoch - 1; in place of another vote. 0: only what is decided is asked for. */
    void (*vote)(void *data, struct copy *copy, uint64_t epoch, group_set set, group_set before);
    void (*stop_vote)(void *data, struct copy *copy);
    /* Is there room for so many bytes more on the disks of all members? With ROOM_YES they count as used from
     * then on, until the disks are looked at again. */
    enum room_verdict (*has_room)(void *data, struct copy *copy, uint64_t bytes);
    /* How long a piece for that member may be, so that what waits in front of its link stays short; 0: none now. */
    uint32_t (*way)(void *data, struct copy *copy, uint32_t member);
    /* Something waits at the gate: it may be due at another time than before. */
    void (*gated)(void *data, struct copy *copy);
    /* copy_deadline_ms() may be earlier than it was. */
    void (*due)(void *data, struct copy *copy);
};

/* Borrowed while the copy is opened, but for `server`, `leases`, `gate`, `hooks` and `data`, which stay. */
struct copy_setup
{
    group_number number;
    uint32_t count, me;              /* Members; our place. */
    server_id servers[REPLICAS_MAX]; /* By place; 0: vacant. */
    uint64_t since;                  /* When our place was given to this server (Group.since). */
    uint64_t start;                  /* Of this copy: never used before (replica_start()). */
    enum copy_file_kind kind;
    uint64_t
        forced; /* The table in which this copy was named as the one that counts (group.h); 0: it was not. */
    const struct mirror_lease *const *leases; /* By place (group_init()). */
    uint64_t slow_limit_ms, slow_pause_ms;    /* Of struct replica_setup. */
    struct object_server *server;
    struct recovery_gate *gate; /* Of the server; NULL: recovery has no limit. */
    const struct copy_hooks *hooks;
    void *data;
};

/* Read what the disk has, and start. Blocks: for the start of the daemon, and for a group that is
 * new. A copy that is closed is opened all the same. MORSEL_NOMEM, or what kept the files from being
 * read, in words. */
int copy_open(const struct copy_setup *setup, struct copy **copy_out, struct errmsg *err);

/* Every client is sent to another member, what is at work ends; then `closed`, once, perhaps before
 * this returns, and the copy is gone. */
void copy_close(struct copy *copy, void (*closed)(void *data), void *data);

/* All members are up to date that hold a place. */
bool copy_is_well(const struct copy *copy);

/* These places, as bits, are to leave the set in an orderly way. */
void copy_set_leaving(struct copy *copy, group_set leaving);

/* These have lost their places, though they are in the set (group.h). */
void copy_set_displaced(struct copy *copy, group_set displaced);

/* The daemon is about to end: the others are to go on without this copy (group_quit()). */
void copy_quit(struct copy *copy);

/* May it be closed now, for others have taken over, or nobody can? */
bool copy_may_end(const struct copy *copy);

/* They have: who still waits for an answer here is sent to them at once. Not from within a hook. */
void copy_send_away(struct copy *copy);

group_number copy_number(const struct copy *copy);
const struct replica *copy_replica(const struct copy *copy);

/* Why it is closed; NULL: it is not. */
const char *copy_trouble(const struct copy *copy);

/* Who holds up changes, or was left behind for that, in words for the administrator; empty: nobody. */
void copy_slow_words(const struct copy *copy, struct errmsg *words);

/* A client's request about one of its objects: unpacked, `job->change` set, nothing else done for it
 * (object_handler_uv.h). The job is the copy's; it answers. */
void copy_request(struct copy *copy, struct job *job, const struct object_handler *handler);

/* These objects belong to no file: they are deleted in the group's order, where this member orders.
 * `done` hears how many are gone (of all of them no copy is left here, and none is given to this member
 * any more), which are first in `ids`. */
void copy_delete(struct copy *copy, struct object_id *ids, size_t count,
                 void (*done)(void *data, size_t gone), void *data);

/* MSG_REPLICA of the member at that place: it is answered at once, and taken over. */
void copy_receive(struct copy *copy, uint32_t member, const Morsel__ReplicaMessage *m,
                  struct rpc_request *request);

void copy_heard(struct copy *copy, const struct group_word *word);
void copy_decided(struct copy *copy, uint64_t epoch, group_set set);
void copy_dead(struct copy *copy, uint32_t member);

/* The copies are to be compared, in that run, if this member orders and all are complete (replica_set_verify());
 * how far it is says copy_replica()->verify. 0: no more. */
void copy_verify(struct copy *copy, uint64_t run);

/* What came of damage that this server's scrub has found (iod/scrub.h). */
enum copy_scrubbed {
    COPY_SCRUB_MENDED, /* Some of it is repaired, or was written anew meanwhile. */
    COPY_SCRUB_LATER,  /* Nobody could be asked. */
    COPY_SCRUB_LOST /* All members have damage in its first block, no other one takes part, or it cannot be repaired here. */
};

/* There is damage in that stretch of the object's blocks: as when a client reads it, but that blocks which nobody has are neither
 * told nor counted. True: `done` is called, once, perhaps before this returns. False: nobody can be asked now. */
bool copy_scrub(struct copy *copy, struct object_id object, uint64_t start, uint64_t end,
                void (*done)(void *data, enum copy_scrubbed result), void *data);

/* Messages to a member may be lost: what is not answered is sent again. */
void copy_lost(struct copy *copy);

/* How many bytes a second clients may change while they are held up for a recovery (0: they are not), and how many
 * of them wait. */
uint64_t copy_write_rate(const struct copy *copy, uint32_t *clients);

/* How long the oldest change that one member has has been waiting for another one; 0: nothing waits, or who orders is
 * not here. */
uint64_t copy_lag_ms(const struct copy *copy);

/* When copy_tick() is due, on rpc_now_ms(). Ask again after each call. */
uint64_t copy_deadline_ms(const struct copy *copy);
void copy_tick(struct copy *copy);

#endif
