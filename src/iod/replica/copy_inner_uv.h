/* For copy_*.c only: what a copy is made of.
 *
 *   copy_start_uv.c    start and end, what replica_next() shows, ticks
 *   copy_request_uv.c  clients' requests, deletions
 *   copy_work_uv.c     changes, reads, syncs and files, in the pool
 *   copy_message_uv.c  members' messages
 *   copy_bytes_uv.c    pieces of objects, for who recovers
 *   copy_gate_uv.c     what waits for the limit of recovery; who writes, and waits for recovery
 *   copy_list_uv.c     which objects there are, for who has to get all of them
 *   copy_slow_uv.c     members that hold up changes
 *   copy_repair_uv.c   damaged blocks, mended with another member's bytes
 *   copy_scrub_uv.c    damage that the server's scrub has found
 *   copy_verify_uv.c   what is here, for a comparison with others */
#ifndef MORSEL_IOD_REPLICA_COPY_INNER_UV_H
#define MORSEL_IOD_REPLICA_COPY_INNER_UV_H

#include "common/base/list.h"
#include "iod/replica/copy_file.h"
#include "iod/replica/copy_uv.h"
#include "iod/replica/write_pace.h"

#include "common/base/table.h"

enum {
    COPY_RESEND_MS = 500, /* replica_resend() */
    COPY_ASK_MS = 50,     /* replica_ask_again() */
    COPY_FLUSH_MS = 3000, /* Between two syncs of everything, while there is write intent. */
    COPY_TOUCHED_MAX =
        16384, /* Objects changed since the last sync; beyond, all of the group are. */
    COPY_CLIENTS_MAX = 4096, /* op_memory_new() */
    COPY_OPERATIONS_MAX = 32768,
    COPY_OBJECTS_MAX =
        8192, /* Of each log and of the write intent; beyond, they say less exactly. */
    COPY_GIVE_FAILED_MS = 30000, /* Between two lines about bytes that cannot be given. */
    COPY_LIST_IDS = 1024,        /* Looked at in one go ... */
    COPY_LIST_GOES_MAX = 64,     /* ... and so often for one page. */
    COPY_VALID_MS = 30000        /* Of a change that names no end: it is remembered for so long. */
};

/* What came of damage that a job found. */
enum mend_end {
    MEND_AGAIN, /* It is mended, or something came between: the job is to be tried again. */
    MEND_LEFT,  /* This member takes no part any more. */
    MEND_LOST,  /* All members have damage there: as the job says. */
    MEND_FAILED /* Others may have it, and it cannot be mended here; or this one is closed. */
};

/* What a token of replica.h stands for: a request of a client, a forward, a piece, a deletion. Counted
 * by the core (until the token is over) and by the job that is at work on it. */
struct ticket
{
    struct list node; /* copy->tickets */
    struct copy *copy;
    uint32_t references;
    const struct object_handler *handler; /* Of a piece: NULL. */
    enum message_type type;               /* Likewise. */
    struct job *job; /* The message unpacked, bytes and checksums; of a piece its bytes alone. */
    struct rpc_request *request; /* Not answered; NULL: nobody waits, or the answer is given. */
    struct order_change change;  /* Of a change. */
    const uint8_t *body;         /* Packed, for forwards: of the request, or `own`. */
    size_t body_count;
    uint8_t *own;
    struct write_wait wait; /* Of a change that has no place in the order yet. */
    bool deletion;          /* copy->deletion waits for it. */
    bool quiet;             /* Of the scrub, which says itself what nobody has. */
    /* At work: */
    uint64_t id, round;

    /* It found damage here (copy_repair_uv.c): */
    struct list damaged; /* copy->damaged */
    uint32_t mends;      /* How often it had its turn, and got no farther */
    uint64_t mended_to;  /* than this. */
    void (*mended)(struct ticket *t, struct job *job, enum mend_end end);
    struct job *failed; /* That found it: for mended(). */
    struct store_damage
        found; /* What that was, the last time; of MEND_LOST the block that nobody has. */

    /* Of a piece: */
    bool exists;
    bool compares; /* job->crcs are what store_sums() says of `damage`, where it comes from. */
    uint64_t size, offset;
    uint64_t damage; /* Bytes from `offset` on that are damaged there; then it brings none. */
};

/* The last line about damage for which there was no help. */
struct mend_said
{
    struct object_id object;
    uint64_t start, when_ms;
};

struct touched
{
    UT_hash_handle hh;
    uint64_t key[2];
};

/* Bytes of a recovery that wait until the server may move so many (recovery_gate.h). */
struct copy_gated
{
    struct recovery_wait wait;
    struct list node; /* copy->gated, while they wait. */
    bool counted;
    void (*start)(struct copy_gated *gated);
    bool (*still)(struct copy_gated *gated); /* Does nobody who serves wait for them? */
};

/* Objects that are to be deleted, one behind the other, in the order of the group. */
struct copy_deletion
{
    struct copy *copy;
    struct object_id *ids;
    size_t count, at, gone;
    size_t ordered; /* Of `gone`: deleted in our order; the others were not found. */
    uint64_t round; /* In which it was looked. */
    void (*done)(void *data, size_t gone);
    void *data;
};

struct copy
{
    struct copy_setup setup;
    struct replica *replica;
    struct copy_file *file;
    struct errmsg trouble;    /* Empty: it is not closed. */
    uint64_t boot;            /* Of the kernel: on its clock are the times of operations. */
    uint64_t forgot_until_ms; /* Late copies of what nobody knows may come until then. */
    uint32_t working;         /* Jobs. */
    bool draining;
    group_set giving;          /* A piece is being read for that member. */
    group_set knows_damage;    /* Those who take from us and can be told that a block is damaged, */
    group_set compares_damage; /* and what it is to be. */
    uint64_t give_failed_ms;   /* When that was last said; 0: never. */
    uint64_t resend_ms, flush_ms, ask_ms;

    struct touched *touched; /* Since the last sync of everything began. */
    bool touched_all;        /* More than are noted. */
    uint64_t doubted_pass; /* The last fetch before whose bytes the memory was noted as doubtful. */
    struct list tickets;
    struct list gated; /* struct copy_gated */
    struct write_pace writes;
    struct list damaged;    /* Tickets that found damage and wait for their turn. */
    struct ticket *mending; /* Whose turn it is; NULL: nobody's. */
    struct copy_look *look; /* Which blocks it is about, */
    bool looking;           /* which the pool is finding out. */
    group_set lending;      /* Blocks are being read for that member. */
    struct mend_said said;
    uint64_t mended;            /* Blocks. */
    uint64_t verify_run;        /* copy_verify() */
    struct group_record record; /* Being written. */

    client_id own_client; /* Of deletions. */
    op_sequence own_number;
    struct copy_deletion *deletion; /* Under way; NULL: none. */

    group_set slow; /* Of whom the log has said that they hold up changes. */
    bool left;      /* It was out of the set when that was looked at last. */

    bool ending;
    void (*closed)(void *data);
    void *closed_data;
};

/* The deletion that waits for a ticket is over, as far as it has come. */
void copy_end_deletion(struct copy *copy);

/* Nobody is answered from here on; `err` says why. */
void copy_fail(struct copy *copy, const struct errmsg *err);

/* Do what the core shows. After each call into it. */
void copy_drain(struct copy *copy);

/* One job less; the last one of a copy that ends lets it go. */
void copy_worked(struct copy *copy);

/* copy_slow_uv.c: who is slow is named in the log; of who has left the set clients are sent on. */
void copy_look_at_slow(struct copy *copy);

/* A job for the pool; NULL: out of memory, and the copy is closed. */
struct job *copy_job(struct copy *copy, void *data);

/* NULL: out of memory. With one reference. */
struct ticket *ticket_new(struct copy *copy, const struct object_handler *handler);
void ticket_drop(struct ticket *t);

/* Its request is answered with this, if it is not answered yet. */
void ticket_refuse(struct ticket *t, int status, const char *why);

static inline struct ticket *ticket_of(uint64_t token)
{
    return (struct ticket *)(uintptr_t)token;
}

static inline uint64_t token_of(struct ticket *t)
{
    return (uintptr_t)t;
}

/* copy_work_uv.c: REPLICA_APPLY, SERVE, SYNC_HERE, RECORD, NOTE, REWRITE. */
void copy_apply(struct copy *copy, const struct replica_action *a);
void copy_serve(struct copy *copy, const struct replica_action *a);
void copy_sync_here(struct copy *copy, const struct replica_action *a);
void copy_record(struct copy *copy, const struct replica_action *a);
void copy_note(struct copy *copy, const struct replica_action *a);
void copy_rewrite(struct copy *copy);

/* What is known of operations goes into a new generation of the file; nothing else is in it. */
int copy_renew_memory(struct copy *copy, struct errmsg *err);

/* Before the first byte of another one is put in place, in a round: which operations the bytes here have nobody knows until
 * all have come, and the file says so, for who is killed until then. False: the copy is closed. */
bool copy_doubt_memory(struct copy *copy);

/* copy_bytes_uv.c: a piece is read and sent; REPLICA_TAKE. */
void copy_give(struct copy *copy, const struct replica_action *a);
void copy_take(struct copy *copy, const struct replica_action *a);
void copy_touch(struct copy *copy, struct object_id object);
void copy_give_failed(struct copy *copy, const struct errmsg *err);
void copy_taken(struct copy *copy, int status, const struct errmsg *err);

/* copy_gate_uv.c: `start` and `still` are filled in. It starts now, or when it has its turn; with `limited` only
 * what is given while others serve waits. When it has been done, with so many bytes, copy_gate_used(). Those for
 * which somebody waits by now, or all of a copy that ends, start with copy_gate_open(). */
void copy_gate_enter(struct copy *copy, struct copy_gated *gated, bool limited, uint64_t bytes);
void copy_gate_used(struct copy *copy, struct copy_gated *gated, uint64_t bytes);
void copy_gate_open(struct copy *copy);

/* A client's change, before it has its place in the order: false, it waits, and copy_ordered() is called. Who waits
 * goes on when it has its turn: in ticks, and when nobody needs to wait any more. */
bool copy_may_write(struct copy *copy, struct ticket *t, uint64_t bytes);
void copy_write_tick(struct copy *copy);
uint64_t copy_write_due_ms(const struct copy *copy);

/* copy_request_uv.c: it is asked of the core. */
void copy_ordered(struct copy *copy, struct ticket *t);

/* Where nothing changes while it is under way (order_change.reads). */
struct span copy_reads(const struct object_reach *reach);

/* Does the change bring no bytes (struct order_change)? */
bool copy_is_bare(const struct job *job, const struct object_reach *reach);

/* copy_list_uv.c: REPLICA_LIST, LOOK_HERE of a list; REPLICA_TAKE of everything. */
void copy_list(struct copy *copy, const struct replica_action *a);
void copy_take_list(struct copy *copy, const struct replica_action *a);

/* copy_repair_uv.c: a job at work for the ticket ended with MORSEL_CHECKSUM. True: mended() comes, perhaps
 * before this returns; reference and count of work stay until then. False: there is nothing to be done. */
bool copy_mend(struct ticket *t, struct job *job,
               void (*mended)(struct ticket *t, struct job *job, enum mend_end end));
void copy_mend_stop(struct copy *copy); /* The copy is closed, or ends. */
void copy_put_blocks(struct copy *copy, const struct replica_action *a); /* REPLICA_MEND, */
void copy_repaired(struct copy *copy, const struct replica_action *a);   /* REPAIRED, */
void copy_lend(struct copy *copy, const struct replica_action *a);       /* SEND of BLOCKS. */

/* Memory for so many bytes. NULL: there is none. */
struct ticket *copy_bytes_ticket(struct copy *copy, const struct span *span);

/* copy_verify_uv.c: REPLICA_LOOK_HERE, FOUND. */
void copy_look(struct copy *copy, const struct replica_action *a);
void copy_found(struct copy *copy, const struct replica_action *a);

/* copy_request_uv.c: REPLICA_ANSWER. */
void copy_answer(struct copy *copy, const struct replica_action *a);

/* copy_message_uv.c */
void copy_send(struct copy *copy, const struct replica_action *a, const struct ticket *piece);

/* Of the replica's times: rpc_boot_ms(), which goes on while the machine sleeps. */
uint64_t copy_now_ms(void);

#endif
