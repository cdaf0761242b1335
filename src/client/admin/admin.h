/* The `morsel` command: what its commands share.
 *
 * Each command lives in a file of its own and is one function from settings and operands to an exit
 * code. A command first collects what it has to say, then prints it, as text or (--json) as one
 * JSON document. Errors are one line on standard error; standard output holds results only.
 */
#ifndef MORSEL_CLIENT_ADMIN_ADMIN_H
#define MORSEL_CLIENT_ADMIN_ADMIN_H

#include "common/daemon/config.h"

/* Exit codes, for scripts. They are part of the interface: morsel(1). */
enum admin_exit {
    ADMIN_OK = 0,
    ADMIN_PROBLEM = 1,     /* It worked and found something wrong, or it failed for good. */
    ADMIN_USAGE = 2,       /* The command line or the configuration is wrong. */
    ADMIN_UNREACHABLE = 3, /* Manager or server does not answer. */
    ADMIN_REPAIRED = 4     /* fsck, recover verify: problems were found and all of them repaired. */
};

/* Options of all commands together; a command's table names those that it knows. */
struct admin_settings
{
    char manager[CONFIG_STRING_MAX];
    uint64_t timeout_ms;
    bool json;
    bool all;                          /* layout; recover verify */
    bool wait;                         /* recover verify, recover status, rebalance */
    bool stop;                         /* rebalance */
    bool show_status;                  /* rebalance */
    bool repair;                       /* fsck */
    uint64_t servers;                  /* cluster start; 0: as many as there were, or four */
    uint64_t benefactors;              /* cluster start; 0: as many as there were. */
    char donate[CONFIG_STRING_MAX];    /* cluster start: of each benefactor. */
    char mount[CONFIG_STRING_MAX];     /* cluster start */
    char options[CONFIG_STRING_MAX];   /* cluster start: of the mount */
    char replicas[CONFIG_STRING_MAX];  /* cluster start: of the manager; empty: not set */
    bool force;                        /* cluster stop; put, get: what is there is replaced. */
    bool cancel;                       /* iod drain, reserve */
    bool yes;                          /* recover force, rebalance */
    bool lost;                         /* iod remove */
    bool show_loss;                    /* status, recover status */
    bool unavailable;                  /* status */
    uint64_t rate;                     /* recopy: bytes a second; 0: as fast as it goes. */
    uint64_t wait_ms;                  /* recopy: for files that are in use. */
    bool pause;                        /* recopy: files that other mounts write to. */
    bool dry_run;                      /* recopy, rebalance */
    uint64_t interval_ms;              /* top */
    uint64_t rounds;                   /* top; 0: until it is stopped. */
    bool quiet;                        /* stage, put, get */
    bool recursive;                    /* stage */
    char list[CONFIG_STRING_MAX];      /* stage: a file with URLs; empty: none. */
    bool fresh;                        /* stage: what is there does not count. */
    char data_dir[CONFIG_STRING_MAX];  /* donate; empty: owner_data_dir(). */
    char keep_free[CONFIG_STRING_MAX]; /* donate set; empty: as it is. */
    char deadline[CONFIG_STRING_MAX];  /* donate leave; empty: LEAVE_MS. */
    bool now;                          /* donate leave */
    char keep[CONFIG_STRING_MAX];      /* evict: as eviction_keep_parse() reads it. */
};

/* Rows of a table: how every command answers, */
#define ADMIN_ANSWER_OPTIONS                                                                       \
    { "timeout",                                                                                   \
      CONFIG_TIME_MS,                                                                              \
      offsetof(struct admin_settings, timeout_ms),                                                 \
      "5s",                                                                                        \
      1,                                                                                           \
      3600000,                                                                                     \
      "TIME",                                                                                      \
      "How long to wait for an answer." },                                                         \
    {                                                                                              \
        "json", CONFIG_BOOL, offsetof(struct admin_settings, json), "no", 0, 0, "",                \
            "Print one JSON document."                                                             \
    }

/* and what those know as well that ask the manager. */
#define ADMIN_COMMON_OPTIONS                                                                       \
    { "manager",                                                                                   \
      CONFIG_STRING,                                                                               \
      offsetof(struct admin_settings, manager),                                                    \
      "",                                                                                          \
      0,                                                                                           \
      0,                                                                                           \
      "HOST:PORT",                                                                                 \
      "Manager of the cluster; else $MORSEL_MANAGER, else /etc/morselfs/client.conf." },           \
        ADMIN_ANSWER_OPTIONS

enum { ADMIN_OPERANDS_MAX = 16 };

struct admin_arguments
{
    struct admin_settings settings;
    const char *operands[ADMIN_OPERANDS_MAX];
    size_t operands_count;
};

/* One line "morsel: ..." on standard error. Returns `code`. */
int admin_failed(enum admin_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The commands. */
int command_status(const struct admin_arguments *arguments);
int command_df(const struct admin_arguments *arguments);
int command_donors(const struct admin_arguments *arguments);
int command_datasets(const struct admin_arguments *arguments);
int command_stage(const struct admin_arguments *arguments);
int command_reserve(const struct admin_arguments *arguments);
int command_put(const struct admin_arguments *arguments);
int command_get(const struct admin_arguments *arguments);

/* Of mounts, not of users (origin_part_proc.c). */
int command_origin_part(int count, char *const *words);
int command_donate(const struct admin_arguments *arguments);
int command_layout(const struct admin_arguments *arguments);
int command_setpolicy(const struct admin_arguments *arguments);
int command_pin(const struct admin_arguments *arguments);
int command_evict(const struct admin_arguments *arguments);
int command_unpin(const struct admin_arguments *arguments);
int command_getpolicy(const struct admin_arguments *arguments);
int command_recopy(const struct admin_arguments *arguments);
int command_fsck(const struct admin_arguments *arguments);
int command_stats(const struct admin_arguments *arguments);
int command_top(const struct admin_arguments *arguments);
int command_recover(const struct admin_arguments *arguments);
int recover_force(const struct admin_arguments *arguments);
int command_rebalance(const struct admin_arguments *arguments);
int command_iod(const struct admin_arguments *arguments);
int iod_remove(const struct admin_arguments *arguments);
int donors_forget(const struct admin_arguments *arguments); /* Two operands. */
int command_cluster(const struct admin_arguments *arguments);

#endif
