/* The benefactor: a desktop that donates a part of its disk, and belongs to a manager. It stores morsels of data sets.
 *
 *   main.c           settings, start and orderly end
 *   benefactor_uv.c  puts the parts together; looks at the disk
 *   donation.c       how much is donated now
 *   morsels_uv.c     what clients read and write
 *   holdings_uv.c    what lies here, and what is to be deleted
 *   held.c           the same in order, for the manager
 *   collector_uv.c   deletes
 *   leaving.c        until when it stays, when it leaves
 *   control_uv.c     what the owner says while it runs (owner.c), and what he is told; what it costs (cost.c)
 *   governor_uv.c    how fast that goes (governor.c, bucket.c), from what the machine says (machine_file.c)
 *   fetching_uv.c    what the manager wants to have here besides
 *   joining_uv.c     what the manager hears
 *   host_file.c      what the machine says of itself
 */
#ifndef MORSEL_BENEFACTOR_BENEFACTOR_UV_H
#define MORSEL_BENEFACTOR_BENEFACTOR_UV_H

#include "benefactor/control_uv.h"
#include "benefactor/donation.h"
#include "benefactor/host_file.h"
#include "benefactor/joining_uv.h"
#include "benefactor/morsels_uv.h"
#include "common/daemon/config.h"

struct benefactor_settings
{
    char data_dir[CONFIG_STRING_MAX]; /* Empty: host_data_dir(). */
    char listen[CONFIG_STRING_MAX];
    char manager[CONFIG_STRING_MAX];
    char advertise[CONFIG_STRING_MAX]; /* Empty: joining_uv.h says where. */
    char donate[CONFIG_STRING_MAX];
    char keep_free[CONFIG_STRING_MAX];
    char log_file[CONFIG_STRING_MAX]; /* Empty: standard error or the journal. */
    char log_level[CONFIG_STRING_MAX];
    uint64_t calm_ms;
    bool gentle; /* Whoever uses the machine goes first. */
};

struct benefactor_look;

struct benefactor
{
    const struct benefactor_settings *settings;
    struct donation_wish wish; /* What the settings say. */
    struct log *log;
    uv_loop_t *loop;
    void (*ready)(void *data);    /* Serves, and the cluster is known. Once. */
    void (*failed)(void *data);   /* Cannot go on; the reason was logged. */
    void (*unwanted)(void *data); /* Its owner wants it to end. */
    void *data;

    bool deleted; /* That is the reason: the directory was. */

    /* The module's own. */
    char path[CONFIG_STRING_MAX]; /* Of the donated directory. */
    struct morsels morsels;
    struct joining joining;
    struct control control;
    struct fetching fetching;
    struct donation donation;
    struct donation_disk disk; /* At the last look. */
    struct host_work work;
    uv_timer_t look_timer;
    uv_work_t look_work;
    struct benefactor_look *look; /* NULL: not under way. */
    bool look_failed_said;
    bool donation_said; /* In the log. */
    bool timed;         /* look_timer is to be closed. */
    bool stopping;
    void (*left)(void *data);
};

/* Open the directory, listen, begin to join. `settings`, `wish`, `log`, `loop`, `ready`, `failed`, `unwanted` and `data` are filled in, the
 * rest is zero. On failure with one sentence in `err`; benefactor_stop() and benefactor_release() are due all the same. */
int benefactor_start(struct benefactor *b, struct errmsg *err);

/* An orderly end: the manager is told, for which up to JOINING_LEAVE_MS go by; then `left`, once, perhaps at once, and
 * benefactor_stop() is due. */
void benefactor_leave(struct benefactor *b, void (*left)(void *data));

/* Stop serving. The loop then runs empty. Harmless when repeated. */
void benefactor_stop(struct benefactor *b);

/* After the loop has ended: close the directory. */
void benefactor_release(struct benefactor *b);

/* Counters as lines of the log. */
void benefactor_log_statistics(struct benefactor *b);

#endif
