/* One history: a cluster, programs that use it through several mounts, faults, and an end at which
 * everything must have been kept. */
#ifndef MORSEL_TESTS_SIM_HISTORY_H
#define MORSEL_TESTS_SIM_HISTORY_H

#include "tests/sim/world/hosts.h"
#include "tests/sim/world/judge.h"

enum {
    HISTORY_IODS_MAX = 4, /* Two, where no file has copies. */
    HISTORY_GROUPS_MAX = 32,
    HISTORY_MOUNTS = 3,
    HISTORY_PROGRAMS = 5,
    HISTORY_KEEPERS = 2,
    HISTORY_SLOTS_MAX = 16,
    HISTORY_STEADY = 40, /* Names that are there from the beginning to the end. */
    HISTORY_RECORDS_MAX = 2048,
    HISTORY_SECTIONS_MAX = 2048,
    HISTORY_ATTRIBUTES_FIRST = 32, /* Of the judge's objects. */
    HISTORY_MEETINGS_FIRST = 64,
    HISTORY_TREE = 6, /* Directories that move. */
    HISTORY_MOVES_MAX = 2048,
    HISTORY_FAULTS_S_MIN = 5,
    HISTORY_STRUCK_S_MIN = 10, /* Where one server at a time is struck. */
    HISTORY_FAULTS_S_MAX = 20, /* Then it heals, */
    HISTORY_CALM_S = 3,        /* and goes on for so long; */
    HISTORY_CALL_S = 60,       /* no call lasts longer than this, */
    HISTORY_STRUCK_S = 5,      /* nor than this, where one server at a time is struck, */
    HISTORY_STRUCK_LONG_S =
        15, /* or this, behind others who have a lock, and a file that is recopied; */
    HISTORY_EXCUSE_S =
        1 /* more where a disk hangs: for 32 MiB that were not synced (SLOW_BYTES_MS). */
};

/* What happened, and how often it must have in ten histories. */
#define HISTORY_COUNTS(X)                                                                          \
    X(calls, "calls", 2000)                                                                        \
    X(good, "calls that ended well", 1900)                                                         \
    X(dir_syncs, "directories synced", 5)                                                          \
    X(appends, "records appended", 30)                                                             \
    X(large_appends, "large records appended by several at once", 8)                               \
    X(locked, "good ends of what was done under a lock", 50)                                       \
    X(converted, "flocks to be converted", 20)                                                     \
    X(fsyncs, "files synced that stayed open", 100)                                                \
    X(tellings, "losses told to who had a file open", 2)                                           \
    X(recalls, "recalls", 300)                                                                     \
    X(kills, "kills of daemons", 7)                                                                \
    X(losses, "losses of power", 15)                                                               \
    X(forgotten, "pages, names and batches forgotten", 50)                                         \
    X(ends, "orderly ends of daemons", 2)                                                          \
    X(unmounts, "clusters stopped and begun anew", 1)                                              \
    X(admin_calls, "calls of the morsel command", 40)                                              \
    X(checks, "checks of the manager's records", 8)                                                \
    X(compared, "objects whose copies somebody had compared", 20)                                  \
    X(moves, "copies that were to move for even disks", 1)                                         \
    X(drains, "servers that were to leave", 1)                                                     \
    X(recopied, "files that were written anew by their side", 50)                                  \
    X(recopies_beforehand, "and of which only what was changed since was copied in the end", 15)   \
    X(recopies_paused, "files that moved while others who write them held still", 3)               \
    X(recopies_left, "files that were left, for others write them", 2)                             \
    X(removals, "servers not removed, for files lie there", 0)                                     \
    X(recover_refused, "wishes of the administrator that were refused", 10)                        \
    X(names_asked, "machines looked for by name", 5)                                               \
    X(mount_kills, "kills of mounts", 2)                                                           \
    X(mount_losses, "losses of power of mounts", 3)                                                \
    X(cut, "files cut or made longer", 30)                                                         \
    X(stayed, "calls on files that others write to", 100)                                          \
    X(listed, "directories listed", 40)                                                            \
    X(cuts, "cuts", 4)                                                                             \
    X(apart, "mounts cut off from the manager while they read what others write", 1)               \
    X(blackouts, "losses of power of all I/O daemons", 2)                                          \
    X(slow_disks, "disks slow for a while", 0)                                                     \
    X(disk_faults, "disks that failed, or were full", 2)                                           \
    X(disk_refusals, "syncs, reads, writes and room that a disk refused", 5)                       \
    X(copies_closed, "copies closed because of that", 0)                                           \
    X(named_slow, "servers that are said to hold up changes", 0)                                   \
    X(slow, "links slow for a while", 2)                                                           \
    X(freezes, "freezes", 2)                                                                       \
    X(broken, "connections reset while something was under way", 10)                               \
    X(resets, "connections reset or timed out", 50)                                                \
    X(names_kept, "names that the kernel knew", 500)                                               \
    X(attributes_kept, "attributes that it knew", 400)                                             \
    X(pages_read, "pages read", 2000)                                                              \
    X(notified, "notifications of an inode", 500)                                                  \
    X(page_waits, "waits for a page", 3)                                                           \
    X(passed_over, "answers that the kernel passed over", 50)                                      \
    X(short_reads, "files found shorter by a READ", 0)                                             \
    X(refused, "reads of the database that had to be fetched first", 400)                          \
    X(full, "changes for which the database had no room at first", 100)                            \
    X(direct, "reads and writes past the pages", 100)                                              \
    X(plus, "names that READDIRPLUS told", 400)                                                    \
    X(bulk_mib, "MiB of large files written", 20)                                                  \
    X(extents, "files cut, punched, allocated or zeroed", 20)                                      \
    X(copied, "ranges copied", 5)                                                                  \
    X(copied_here, "ranges that the kernel copied", 1)                                             \
    X(copied_in_groups, "ranges that servers of groups copied", 1)                                 \
    X(sought, "looks for data and holes", 5)                                                       \
    X(users, "good ends of what users may do, and may not", 0)                                     \
    X(policies, "policies of directories set and taken away", 0)                                   \
    X(attributes_set, "attributes set", 30)                                                        \
    X(own, "names, links and kinds of files of one program", 30)                                   \
    X(linked, "second names of files", 2)                                                          \
    X(exchanged, "names exchanged, or kept", 5)                                                    \
    X(moved, "directories moved", 15)                                                              \
    X(circles, "directories kept from going below themselves", 3)                                  \
    X(met, "files renamed by several at once", 10)                                                 \
    X(touched, "quiet files touched", 10)                                                          \
    X(hot, "calls on one place of one file", 500)                                                  \
    X(ranges_locked, "good ends of what was done with bytes locked", 40)                           \
    X(lock_interrupts, "waits for bytes interrupted", 3)                                           \
    X(lock_circles, "waits in a circle", 1)                                                        \
    X(with_copies, "histories in which files have copies", 3)                                      \
    X(struck, "servers struck alone", 1)                                                           \
    X(votes, "votes begun in groups", 6)                                                           \
    X(fail_overs, "sets of a group decided without a server", 2)                                   \
    X(recoveries, "sets decided with a server again", 2)                                           \
    X(votes_lost, "votes lost by who began them", 0)                                               \
    X(found_dead, "processes found dead by a majority", 3)                                         \
    X(read_on, "reads answered while a server was outside of its group", 10)                       \
    X(written_on, "writes answered then", 5)                                                       \
    X(gone, "blocks that no server of a group has, for a disk did not give them", 0)               \
    X(same, "objects that are the same on all their servers", 50)

/* The same of histories of data sets. */
#define DATASETS_COUNTS(X)                                                                         \
    X(stored, "data sets stored", 50)                                                              \
    X(stored_again, "of them begun anew", 10)                                                      \
    X(set_reads, "pieces of them read", 500)                                                       \
    X(set_troubles, "reads that went wrong, and said so", 1)                                       \
    X(sets_deleted, "data sets deleted", 3)                                                        \
    X(donor_strikes, "benefactors struck", 20)                                                     \
    X(calm_strikes, "of them where nobody may notice it", 1)

struct history_counts
{
#define X(name, words, floor) uint64_t name;
    HISTORY_COUNTS(X)
    DATASETS_COUNTS(X)
#undef X
};

/* Appended to the log; `good`: it must be there. */
struct history_record
{
    uint64_t value;
    bool good;
};

/* A directory of the tree: where it is, and where it may be. */
struct history_tree
{
    unsigned parent, maybe_parent;
    uint64_t value, maybe_value; /* Of its name; 0: it is there for sure. */
};

/* What servers have said of a group, in their logs. */
struct history_group
{
    unsigned number;
    uint64_t epoch; /* The last that is decided, and its set, by places. */
    unsigned set;
    uint64_t asked_epoch; /* A set was asked for in this one, by servers of these places. */
    unsigned asked_by;
};

struct history
{
    struct world *world;
    struct world_host *meta_host, *iod_hosts[HISTORY_IODS_MAX], *mount_hosts[HISTORY_MOUNTS];
    struct host_meta *meta;
    struct host_iod *iods[HISTORY_IODS_MAX];
    unsigned iods_count;
    unsigned copies; /* Of files; 1: of each. */
    struct host_mount *mounts[HISTORY_MOUNTS];
    struct world_host *admin_host;
    struct host_admin *admin;
    bool by_name;    /* Mounts know the manager by its name. */
    bool resting;    /* Nobody comes back, or is looked after. */
    bool calm;       /* Nothing may be noticed in this one: no call may fail. */
    bool one_struck; /* One server at a time is struck, and files have copies. */
    bool hung;       /* The last disk that was slow: it did nothing at all. */
    bool gentle;     /* Resets and short restarts of the manager at most. */
    bool faults;     /* They go on. */
    bool forgetful;  /* The manager may lose its power: names that nobody synced may go. */
    bool disk_failed[HISTORY_IODS_MAX]; /* It did, and nobody has seen to it yet. */
    bool size_lost; /* A mount lost a lease before the manager heard how far a file has bytes. */
    bool resets, iod_kills, cuts;         /* Wanted. */
    bool only_power;                      /* Nothing else goes wrong. */
    bool ended;                           /* No program begins anything new. */
    uint64_t slow_from_ns, slow_until_ns; /* The last disk that was slow. */
    uint64_t moved_ns;                    /* Somebody has wished then that copies move. */
    uint64_t meta_rests_ns;               /* It is not killed again until then, in a gentle one. */
    const char *canary;
    uint64_t last_value;
    unsigned programs_running, meta_losses;
    struct judge judge;
    uint64_t got_before[HISTORY_SLOTS_MAX]; /* For a canary. */
    size_t records_count;
    struct history_record records[HISTORY_RECORDS_MAX];
    struct history_record large[HISTORY_MOUNTS];
    unsigned large_count;
    size_t sections_count;
    struct lock_section *sections; /* Of locks.c. */
    uint64_t rush_until_ns;        /* Until then many lock the same bytes. */
    uint64_t last_mode;
    struct meeting *meeting; /* meetings.c */
    struct history_tree tree[HISTORY_TREE + 1];
    unsigned tree_busy;  /* Moves under way, */
    uint64_t tree_moves; /* and begun. */
    bool tree_unsure;    /* One may have been made, or not. */
    size_t moves_count;
    uint64_t moves[HISTORY_MOVES_MAX];               /* The names that were left for good. */
    struct history_group groups[HISTORY_GROUPS_MAX]; /* copies.c */
    unsigned groups_count;
    struct history_counts counts;
};

/* Run it; does not return when something was wrong: world_fail(). */
void history_run(struct history *h, struct world *world, const char *canary);

/* datasets.c: the same with benefactors, and programs that store data sets. */
void datasets_run(struct history *h, struct world *world, const char *canary);

/* ---- history.c, faults.c, programs.c among themselves ---- */

/* The hosts and their programs, but for benefactors: servers are up behind it. */
void history_begin_cluster(struct history *h);

/* Until no program runs any more. */
void history_wait_for_programs(struct history *h);
void history_sum_up(struct history *h);

void faults_begin(struct history *h);

/* Everything is repaired, and stays so. */
void faults_end(struct history *h);
/* As soon as something is under way: a reset, with the manager or with whomever, or the kill of an
 * I/O daemon, where this history has it. */
void faults_strike(struct history *h, bool manager);

/* An I/O daemon that is not there is begun again, in time. */
void faults_iod_back(struct history *h, unsigned number, uint64_t back_ns);

/* strikes.c: one server after the other, each when its groups are whole again. */
void strikes_begin(struct history *h);

/* copies.c: how many copies files have, and how many servers there are. */
void copies_draw(struct history *h);

/* Files in that directory, which is to be made, have so many. 0, or an errno. */
int copies_policy(const struct history *h, struct fuse_session *k, const char *directory);

/* Listens to what servers say of their groups. */
void copies_listen(struct history *h);

/* Is each server in sync, in all groups, with all the others? */
bool copies_are_well(const struct history *h);

/* Is some server outside of one of its groups now? */
bool copies_degraded(const struct history *h);

/* Voters were asked for a set, and none was decided in that epoch: some may have accepted it. */
bool copies_vote_is_open(const struct history *h);

/* Fails the history when groups do not come together, or servers of a group have different bytes. */
void copies_judge(struct history *h);

/* Makes what the others need. */
void programs_first(struct history *h);
void programs_begin(struct history *h);

/* Programs that read everything, through so many mounts. */
void programs_look(struct history *h, unsigned mounts);

/* A program that checks the cluster. */
void programs_check(struct history *h);

/* Fails the history when two had locked what only one may. */
void locks_judge(const struct history *h);

/* Fails the history when two moves have found one directory. */
void tree_judge(const struct history *h);

#endif
