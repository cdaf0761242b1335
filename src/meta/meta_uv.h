/* The host of the manager's cores: one event loop, one store, and the state that handlers share.
 *
 *   request -> hooks_uv.c (is the client joined?) -> request_uv.c (the steps of its row)
 *           -> namespace, members, session (pure) -> reply
 *
 * Everything runs on the loop's thread. What waits for the disk runs in the pool: syncs of the store
 * (sync_uv.h), and reading what is not in memory (loads_uv.h).
 */
#ifndef MORSEL_META_META_UV_H
#define MORSEL_META_META_UV_H

#include "common/base/presence.h"
#include "common/daemon/config.h"
#include "common/daemon/datadir_file.h"
#include "common/daemon/log.h"
#include "common/rpc/knock_uv.h"
#include "common/rpc/rpc_uv.h"
#include "common/vote/probe_uv.h"
#include "common/vote/voter_uv.h"
#include "dataset.pb-c.h"
#include "meta.pb-c.h"
#include "meta/cluster/capacity_uv.h"
#include "meta/cluster/donors.h"
#include "meta/cluster/doors.h"
#include "meta/cluster/hours.h"
#include "meta/cluster/members.h"
#include "meta/coherence/lease.h"
#include "meta/coherence/lock_table.h"
#include "meta/coherence/pauses.h"
#include "meta/coherence/session.h"
#include "meta/datasets/claims.h"
#include "meta/datasets/damage.h"
#include "meta/datasets/forget.h"
#include "meta/datasets/lru_k.h"
#include "meta/datasets/set_placement.h"
#include "meta/datasets/surplus.h"
#include "meta/datasets/unfinished.h"
#include "meta/namespace/departed.h"
#include "meta/namespace/namespace.h"
#include "meta/service/reply_cache.h"
#include "meta/service/trust_uv.h"
#include "meta/storage/loads_uv.h"
#include "meta/storage/runs.h"
#include "meta/storage/sync_uv.h"

struct meta_settings
{
    char data_dir[CONFIG_STRING_MAX];
    char listen[CONFIG_STRING_MAX];
    char log_file[CONFIG_STRING_MAX]; /* Empty: standard error or the journal. */
    uint64_t session_ms;
    uint64_t heartbeat_ms;
    uint64_t lease_ms;
    uint64_t rebuild_after_ms; /* 0: never. */
    uint64_t donor_report_ms, donor_look_ms, repair_after_ms;
    uint64_t unfinished_expiry_ms, forget_donors_ms; /* 0: never. */
    char replicas[CONFIG_STRING_MAX];                /* For copies_rule_parse(). */
    char admit
        [CONFIG_STRING_MAX]; /* "manual": I/O daemons that are new wait; anything else: they do not. */
    char squash[CONFIG_STRING_MAX];
    char trusted[CONFIG_STRING_MAX];
    uint64_t squash_uid, squash_gid;
    char log_level[CONFIG_STRING_MAX];
};

/* What only the server has that is to be removed (cluster/removal_uv.h). One at a time. */
struct removal
{
    server_id server;  /* 0: none is looked at. */
    uint64_t heard_ms; /* Of it, when the look began. */
    uint64_t look;     /* RecoverReply.look of the last answer. */
    struct ns_lying lying;
};

/* What needs servers that are to leave, looked for beside all else (cluster/leavers_uv.h). */
struct leavers
{
    server_id server; /* That is looked at just now; 0: none. */
    struct ns_lying lying;
    uv_timer_t timer;
};

/* What the log was told of benefactors in this second, and what was left out (cluster/donors_uv.h). */
struct donors_lines
{
    uint64_t began_ms;
    uint32_t written, came, went, refused, doors;
};

/* Where the manager knocks just now (cluster/doors_uv.h). */
struct doors
{
    struct door_knock
    {
        struct meta *meta;
        struct knock *knock; /* NULL: it is free. */
        donor_id donor;
        char address[MEMBER_ADDRESS_BYTES_MAX + 1];
    } knocks[DOORS_AT_ONCE];
    uint64_t looked_ms;
    uint64_t warned_ms; /* That most are shut; 0: never. */
};

/* What is known of how data sets are used (datasets/evictions_uv.h). */
struct evictions
{
    struct lru_k lru;
    struct surplus_walk surplus;
    uint64_t surplus_bytes; /* Wanted where that goes on with the next pulse; 0: it does not. */
    uint64_t first_sum_s,
        first_count; /* From the store to the first use: of those that were seen. */
    uint64_t looked_ms, wrote_ms, asked_ms;
    uint64_t writing;    /* Uses of sets from this number on are to be written down; 0: of none. */
    uint64_t evicted_ms; /* When something was evicted last; 0: never. */
    bool asking;         /* In this round benefactors are asked to report. */
    bool recounted;      /* The last look ahead has asked them how much room they have. */
};

/* Data sets that nobody goes on with (datasets/unfinished_uv.h). */
struct unfinished_host
{
    struct unfinished core;
    int64_t started_ns;  /* The wall's clock when the manager started, */
    uint64_t started_ms; /* and meta_now_ms(). */
    bool loading;        /* The disk is waited for. */
};

/* The benefactor that is being forgotten, or was (cluster/forgets_uv.h). One at a time. */
struct forgets
{
    struct forget walk;
    enum {
        FORGETS_IDLE,
        FORGETS_LOOKS,   /* What would be lost? */
        FORGETS_LOSES,   /* It leaves the maps, */
        FORGETS_COLLECTS /* what it was to delete is not its any more, and then it is forgotten. */
    } phase;
    bool by_itself;  /* Nobody has asked for it. */
    bool loading;    /* The disk is waited for. */
    donor_id last;   /* What came of that one: */
    int last_status; /* 0: it is forgotten; */
    struct errmsg last_words;
    donor_id next; /* Which is looked at next whether it has been away for too long. */
};

struct fsck;
struct directory_page;
struct voters_host;
struct groups_host;

struct meta
{
    const struct meta_settings *settings;
    struct log *log;
    uv_loop_t *loop;
    struct rpc *rpc;
    struct rpc_server *server;
    struct kv *kv;
    struct ns *ns;
    struct members members;
    struct donors donors; /* cluster/donors_uv.h */
    struct hours hours;   /* cluster/hours_uv.h */
    uint64_t hours_due_ms;
    struct donors_lines donors_lines;
    struct doors doors;         /* cluster/doors_uv.h */
    struct place_rounds rounds; /* datasets/sets_uv.h */
    struct repair repair;       /* datasets/repairs_uv.h */
    struct heat heat;           /* datasets/heat.h */
    struct claims claims;       /* datasets/claims_uv.h */
    bool claims_loading;        /* The disk is waited for. */
    struct damage damage;       /* datasets/damages_uv.h */
    uint64_t damage_logged_ms;  /* When the log was told last of a single copy. */
    bool repair_said;           /* In the log: morsels are short. */
    struct evictions evictions; /* datasets/evictions_uv.h */
    struct unfinished_host unfinished;
    struct forgets forgets; /* cluster/forgets_uv.h */
    struct session_table *sessions;
    struct lease_table *leases;
    struct list leased; /* struct leased_request: they wait for recalls. */
    struct lock_table *locks;
    struct list locking;  /* struct locking_request: they wait for locks. */
    struct pauses pauses; /* coherence/pauses.h */
    struct list
        pausing; /* struct pausing_request: they wait for the end of a pause, or for all to take part. */
    struct list lock_syncs;  /* struct durable_request: their clients are not on the disk yet. */
    struct list lock_checks; /* struct lock_check: holders are asked whether they still hold. */
    uint64_t last_lock_check;
    struct departed departed; /* Replaced a moment ago. */
    inode_id replacing;       /* Being replaced by a rename just now, and to stay for a moment. */
    struct reply_cache *replies;
    struct trust trust;
    struct fsck *fsck;           /* The metadata check that is going on; NULL: none. */
    struct directory_page *page; /* Room for the reply to READDIR. */
    struct runs runs;
    char run_dir[CONFIG_STRING_MAX]; /* Where they are kept. */
    struct sync_uv sync;
    struct loads_uv loads;
    struct presence presence; /* The clock of sessions, leases and members; meta_now_ms(). */
    uv_timer_t timer;         /* Their next deadline. */
    uint64_t timer_due_ms;
    uv_check_t behind_poll; /* Active: a deadline has passed; what lies unread is read first. */
    uint64_t tick_ms;       /* When that was. */
    uint64_t away_logged_ms;
    uv_timer_t pulse; /* Every PRESENCE_PULSE_MS: without it an idle manager were away. */
    uint64_t started_ms;
    inode_id sweep_from; /* Where the sweep of orphans goes on; 0: none is going on. */
    uv_idle_t sweep;
    bool sweep_loading; /* It waits for the disk. */
    struct capacity_uv capacity;
    struct voter_uv voter;      /* The manager votes, too. */
    struct prober prober;       /* Tells servers who is dead. */
    struct voters_host *voters; /* Who votes: cluster/voters_uv.h. */
    struct groups_host *groups; /* Who holds the same objects: cluster/groups_uv.h. */
    struct removal removal;     /* A server that is gone for good: cluster/removal_uv.h. */
    struct leavers leavers;     /* Servers that are to be: cluster/leavers_uv.h. */
    uint32_t handles;           /* Open libuv handles while closing. */
    bool broken_logged;
    bool unreadable_logged;
    bool space_low; /* The disk of the database is nearly full: nothing new is taken. */
    uv_timer_t space_timer;
    uv_fs_t space_request;
    bool space_busy;
    bool closing;
    void (*closed)(void *data);
    void *closed_data;
};

/* Open or make the database in the directory and fill everything but rpc and server.
 * On failure one sentence, nothing was changed. */
int meta_open(struct meta *meta, struct datadir *datadir, struct errmsg *err);

/* Begin to serve: `rpc` has been made and listens with meta_hooks(). */
void meta_start(struct meta *meta);
struct rpc_server_hooks meta_hooks(struct meta *meta);

/* Last sync, then `closed`, once, later; meta_free() is due then. */
void meta_close(struct meta *meta, void (*closed)(void *data), void *data);
void meta_free(struct meta *meta);

/* Counters into the log. */
void meta_log_statistics(struct meta *meta);

/* ---- For handlers ---- */

typedef void (*meta_handler)(struct meta *meta, struct rpc_request *request);

/* The wall clock, with which everything is stamped. */
int64_t meta_clock_ns(void);

/* What lease periods and deadlines are counted on: presence.h. */
uint64_t meta_now_ms(struct meta *meta);

/* ns_execute() and what follows from it: the next sync, a line in the log when the store is broken.
 */
int meta_execute(struct meta *meta, struct meta_op *op, struct errmsg *err);

/* Feed the cores and perform what they say. */
int meta_session_step(struct meta *meta, const struct session_event *event); /* MORSEL_OVERLOAD */
void meta_members_step(struct meta *meta, const struct members_event *event);

/* Just before a registration or a heartbeat of `server` is answered: until then it was no silence. */
void meta_member_answered(struct meta *meta, const struct rpc_request *request, server_id server);

/* The server need not wait any more (cluster/members.h); durable with the next sync. MORSEL_INVAL with words. */
int meta_admit(struct meta *meta, server_id server, struct errmsg *err);

/* `request` holds `inode` open from now on. MORSEL_OVERLOAD. Nothing for the admin command, which
 * has no session. */
int meta_note_open(struct meta *meta, const struct rpc_request *request, inode_id inode,
                   bool write);

/* Call `reply` with `subject`, or answer a failure, when everything committed so far survives a
 * loss of power. */
void meta_reply_durable(struct meta *meta, struct rpc_request *request, load_again reply,
                        uint64_t subject);

/* `inode` was replaced: it stays for a moment, though nobody has it open. */
void meta_note_departed(struct meta *meta, inode_id inode);

/* Every PRESENCE_PULSE_MS: those whose time is over. */
void meta_departed_pulse(struct meta *meta, uint64_t now_ms);

/* Does the client have a session, and is it not fenced? Counts as a sign of life. */
bool meta_client_known(struct meta *meta, const struct rpc_request *request);

/* Between the files of the host. */
void meta_clock_start(struct meta *meta);
void meta_arm(struct meta *meta); /* The timer, after a core has moved. */
void meta_dispatch(struct meta *meta, struct rpc_request *request); /* Once more, from the start. */
void meta_sync_failed(void *data, int status, const struct errmsg *err);

/* The lease period of a client is over, or it has left: so are its locks. */
void meta_locks_over(struct meta *meta, client_id client);

/* Rows of request_table_uv.c that live beside their cores. */
void handle_session(struct meta *meta, struct rpc_request *request);
void handle_lock(struct meta *meta, struct rpc_request *request);
void handle_lock_cancel(struct meta *meta, struct rpc_request *request);
void handle_lock_checked(struct meta *meta, struct rpc_request *request);
void handle_return(struct meta *meta, struct rpc_request *request);

/* Room for one page of a directory; NULL: out of memory. */
struct directory_page *directory_page_new(void);
void directory_page_free(struct directory_page *page);

#endif
