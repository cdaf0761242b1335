/* The power scenario: what its manager (power_manager.c), its storage servers (power_store.c), its
 * clients (power_client.c, power_flush.c) and its judge (power_judge.c) share.
 *
 * Clients write to files, sync them, hand them over by closing them, change names and sync
 * directories; servers lose power while the clients live on. */
#ifndef MORSEL_TESTS_SIM_POWER_H
#define MORSEL_TESTS_SIM_POWER_H

#include "client/data/unsynced.h"
#include "client/manager/changes.h"
#include "common/rpc/op_numbers.h"
#include "meta/service/reply_cache.h"
#include "meta/storage/runs.h"
#include "tests/sim/db.h"

enum {
    MANAGER = 0,
    STORE_FIRST = 1,
    STORES = 2, /* Block b of each file lies on store b % STORES, its column. */
    LISTED_MAX = STORES * UNSYNCED_VERIFIERS_MAX,
    CLIENT_FIRST = STORE_FIRST + STORES,
    CLIENTS = 3,
    NODES = CLIENT_FIRST + CLIENTS,
    FILES = 2,
    BLOCKS = 6,
    DIRS = 2,
    NO_DIR = DIRS,   /* It is about a file. */
    HANDLES = 3,     /* Of files, a client. */
    DIR_HANDLES = 2, /* A client. */
    FLUSHES = HANDLES +
              8 * FILES, /* Each close may leave a report behind that a silent store holds up. */
    PENDING_MAX = 16,
    STORE_CALLS_MAX = FILES * BLOCKS + FLUSHES * STORES,
    LOG_MAX = 4096,
    WAITS_MAX = 4096,
    LOSSES_MAX = 1024,
    STORE_JOBS_MAX = 64,
    RECONNECT_MS = 50,
    TICK_MS = 150,
    THINK_MS_MAX = 40,
    OUTAGE_MS_MAX = 1500
};

enum word {
    WORD_JOIN,
    WORD_NAME,   /* A change of names. */
    WORD_WROTE,  /* A file's size, and what of it is not synced. */
    WORD_SYNCED, /* What is not unsynced any more. */
    WORD_FSYNC,  /* To the manager. */
    WORD_WRITE,  /* To a store. */
    WORD_SYNC
};

enum name_kind { NAME_MAKE, NAME_UNLINK, NAME_RENAME };

struct power_message
{
    enum word word;
    uint64_t call; /* Of the client; the answer has it too. */
    uint32_t life; /* Of the client. */
    client_id client;
    op_sequence sequence, answered;
    enum name_kind kind;
    uint32_t dir, new_dir; /* NAME; FSYNC of a directory. */
    char name, new_name;
    uint32_t file, block;
    uint64_t value; /* WRITE */
    uint64_t size, data_version;
    uint32_t column_count; /* SIZE_REPORT, SYNCED; answers to FSYNC and to a durable SIZE_REPORT. */
    struct unsynced_column columns[LISTED_MAX];
    bool durable;
    /* Answers. */
    int status;
    uint64_t verifier;
    uint64_t run, number, durable_number;
    uint32_t held_count;
    struct changes_held held[1 + RUNS_KEPT];
};
static_assert(sizeof(struct power_message) <= SIM_MESSAGE_BYTES_MAX, "a message is sent as it is");

/* ---- Clients ---- */

struct file
{
    bool there; /* As client_file_new(): somebody has it open, or its news is on its way. */
    uint64_t size, data_version, written_end;
    op_sequence reported; /* The last report; 0: none yet. */
    bool unreported, reporting, report_due, settled, listed, loss_untold;
    uint32_t handle_count, pins;
    uint64_t dirty[BLOCKS], sent[BLOCKS]; /* Values; 0: none. A sent one is acknowledged first. */
    uint64_t since[BLOCKS], sent_since[BLOCKS]; /* The oldest value that went into each. */
    struct unsynced *unsynced;
};

struct handle
{
    bool open, lost, busy;
    uint32_t file;
    uint64_t opened, told; /* Serials of the judge; `told`: of the last EIO. */
    uint32_t eios;
};

struct dir_handle
{
    bool open, lost, busy;
    uint32_t dir;
    uint64_t opened, told, begun;
    uint32_t eios;
};

/* As struct file_flush. */
struct flush
{
    bool active, draining, durable, data_only, told, behind, waits_for_report, closes;
    uint32_t file;
    int handle; /* -1: none. */
    uint32_t waiting;
    uint64_t drain_until, settled_size, reported_end;
    uint64_t begun, want[BLOCKS]; /* For the judge. */
    uint64_t marks[STORES], verifiers[STORES];
    uint32_t listed_count;
    struct unsynced_column listed[LISTED_MAX];
};

/* Something sent that has no answer: it is sent again on the next connection. */
struct pending
{
    bool active;
    uint32_t to;
    int flush, dir_handle; /* Whose it is; -1: nobody's. */
    struct power_message message;
};

struct client
{
    client_id id;
    struct op_numbers numbers;
    op_sequence numbers_out[CLIENT_OPS_PENDING_MAX];
    struct changes changes;
    uint64_t run, calls;
    uint32_t conns[CLIENT_FIRST]; /* By server; 0: none. */
    uint64_t verifiers[STORES];   /* That each told last; 0: none. */
    struct file files[FILES];
    struct handle handles[HANDLES];
    struct dir_handle dirs[DIR_HANDLES];
    struct flush flushes[FLUSHES];
    struct pending pending[PENDING_MAX], store_calls[STORE_CALLS_MAX];
};

/* ---- Servers ---- */

struct store_job
{
    bool active;
    uint32_t conn;
    struct power_message message;
    uint64_t memory[BLOCKS]; /* Of the file, when its sync began. */
};

struct store
{
    uint64_t memory[FILES][BLOCKS], disk[FILES][BLOCKS];
    uint64_t verifier;
    bool lost_power; /* Since the last start. */
    uint32_t lives[NODES];
    struct store_job jobs[STORE_JOBS_MAX];
};

struct wait
{
    uint32_t conn;
    struct power_message message;
};

/* A record of the manager's log, for the judge. `client` 0: nothing that a client asked for. */
struct logged
{
    client_id client;
    op_sequence sequence;
    uint32_t dirs; /* Bits. */
    int file;      /* -1: none. */
    uint64_t size;
    uint64_t delivered; /* Serial at which its client had the answer; 0: not yet. */
};

/* What a loss of power took. */
struct loss
{
    uint64_t serial, delivered;
    uint64_t values;       /* Writes so far. */
    int file, dir;         /* One of them is -1. */
    bool of_size;          /* The manager lost it: `from[0]`, `to[0]`, `sure[0]`. */
    uint32_t column;       /* Otherwise. */
    uint64_t verifier;     /* Under which the bytes had been acknowledged. */
    bool listed;           /* The manager knows: every client must be told. */
    uint32_t clients;      /* Bits: who must be told in any case. */
    bool told;             /* Somebody has been. */
    uint64_t from[BLOCKS]; /* What outlived it. */
    uint64_t to[BLOCKS];   /* What the server had. */
    uint64_t sure[BLOCKS]; /* What a client knew to be acknowledged. */
};

struct world
{
    struct db db;
    struct reply_cache *window;
    char run_text[RUNS_TEXT_BYTES_MAX]; /* The file that the manager keeps of its runs. */
    struct runs runs;
    uint64_t boot_id, durable_number;
    inode_id dirs[DIRS], files[FILES];
    uint32_t wait_count;
    struct wait waits[WAITS_MAX];
    struct store stores[STORES];
    struct client clients[NODES]; /* By node. */
    uint32_t holders[FILES];      /* The client whose the file is now; 0: nobody's. */
    uint64_t values;              /* Given to writes so far. */
    uint64_t sync_percent;        /* How often programs sync. */

    /* The judge's. */
    uint64_t serial, count;
    bool handed_over[FILES]; /* Somebody has let go of it since the manager's last loss of power. */
    bool forgotten
        [FILES]; /* The manager has forgotten a report once: what it said of bytes is gone. */
    struct logged log[LOG_MAX + 1];
    uint32_t loss_count, power_losses;
    struct loss losses[LOSSES_MAX];
    uint64_t want[FILES][BLOCKS];      /* The last write that a program was told of. */
    uint64_t exempt[FILES][BLOCKS];    /* Written by who has died; up to here nobody promised. */
    uint64_t delivered[FILES][BLOCKS]; /* The last write whose answer a client had. */
    uint32_t writers[FILES][BLOCKS];   /* Who wrote it; 0: who has died. */
    uint64_t promised[FILES][BLOCKS], promised_size[FILES]; /* fsync said so. */
};

enum {
    WORTH_BYTES_LOST,
    WORTH_CHANGES_LOST,
    WORTH_FILE_EIO,
    WORTH_DIR_EIO,
    WORTH_LISTED_EIO,
    WORTH_FSYNCS,
    WORTH_KEPT
};

struct world *world_of(struct sim *s);
extern const struct sim_actor power_manager, power_store, power_client;

/* ---- A client's parts (power_client.c) */

void client_send(struct sim *s, uint32_t node, struct pending *p);
struct pending *client_ask(struct sim *s, uint32_t node, uint32_t to, int flush, int dir_handle,
                           const struct power_message *m);

/* NULL: too many changes are out. */
struct pending *client_change(struct sim *s, uint32_t node, int flush, struct power_message *m);
void file_lost(struct sim *s, uint32_t node, uint32_t file, const char *why);
void heard(struct sim *s, uint32_t node, const struct power_message *m);

/* What a program does; handles by their number. */
void open_file(struct sim *s, uint32_t node, struct handle *handle, uint32_t number);
void write_block(struct sim *s, uint32_t node, const struct handle *handle, uint32_t block);
void fsync_file(struct sim *s, uint32_t node, uint32_t number, bool data_only);
void close_file(struct sim *s, uint32_t node, uint32_t number);
void open_dir(struct sim *s, uint32_t node, uint32_t number, uint32_t dir);
void fsync_dir(struct sim *s, uint32_t node, uint32_t number);
void change_name(struct sim *s, uint32_t node, enum name_kind kind, uint32_t dir, char name);

/* ---- Flushes (power_flush.c) */

int flush_start(struct sim *s, uint32_t node, uint32_t file, int handle, const struct flush *kind);
void flush_acked(struct sim *s, uint32_t node, uint32_t file);
void flush_reported(struct sim *s, uint32_t node, int flush, const struct power_message *m);
void flush_meta_synced(struct sim *s, uint32_t node, int flush, const struct power_message *m);
void flush_synced(struct sim *s, uint32_t node, int flush, const struct power_message *m);
void file_free_if_done(struct sim *s, uint32_t node, uint32_t file);
void note_verifier(struct sim *s, uint32_t node, uint32_t column, uint64_t verifier);

/* ---- The judge (power_judge.c) */

uint64_t judge_now(struct sim *s);
void judge_wrote(struct sim *s, uint32_t node, uint32_t file, uint32_t block, uint64_t value);
void judge_acked(struct sim *s, uint32_t node, uint32_t file, uint32_t block, uint64_t value);
/* The client has let go of the file; `reported` is its last report, 0 if there was none. */
void judge_let_go(struct sim *s, uint32_t node, uint32_t file, op_sequence reported);
void judge_client_died(struct sim *s, uint32_t node);

/* A machine has lost power. The store's memory is what it had, its disk what is left. */
void judge_store_lost(struct sim *s, uint32_t column);
void judge_manager_lost(struct sim *s, uint64_t left);

/* The manager has applied a change; its client has the answer. */
void judge_logged(struct sim *s, const struct power_message *m);
void judge_answered(struct sim *s, uint32_t node, const struct power_message *m);

void judge_fsync(struct sim *s, uint32_t node, const struct flush *flush, int status);
void judge_fsync_dir(struct sim *s, uint32_t node, struct dir_handle *handle, int status);
void judge_end(struct sim *s);

#endif
