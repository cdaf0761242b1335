/* What the programs of a history have in common. */
#ifndef MORSEL_TESTS_SIM_PROGRAMS_H
#define MORSEL_TESTS_SIM_PROGRAMS_H

#include "tests/sim/world/history.h"

struct program
{
    struct history *history;
    char name[WORLD_NAME_MAX];
    unsigned mount; /* HISTORY_MOUNTS: one that is drawn, for each call. */
};

/* It begins soon, as a fiber of its own, with a struct program, and counts as running from now on until it has said that it does not any more. */
void program_begin(struct history *h, const char *kind, unsigned number, unsigned mount,
                   void (*run)(void *data));

/* One call of the history. */
struct act
{
    struct program *program;
    struct fuse_session *kernel;
    fuse_ino_t directory;
    uint64_t from_ns;
};

/* Through any mount: find the directory "d", or another one. Whatever it says, act_end() is due. */
int act_begin(struct act *a, struct program *p);
int act_begin_in(struct act *a, struct program *p, const char *directory);

/* Fails the history where `error` may not be told, or came too late. */
void act_end(struct act *a, const char *what, const char *object, uint64_t value, int error);

/* What a program is told where a server, or its own mount, cannot be had; a new file also where no
 * server is up. */
bool act_is_trouble(int error);

/* A deliberate fault of ours, in one of `n` cases, which the judge must see. */
bool act_is_canary(const struct program *p, const char *name, uint64_t n);

/* Open a file of the directory, which is made when it is not there. */
int act_open(struct act *a, const char *name, int flags, struct kernel_file *file);

/* To what it always is: no kernel sees by it that there are other bytes. */
int act_set_back_time(const struct kernel_file *file, const char *directory, const char *name);

/* For the judge of registers. `error`: what it said; anything but 0: it may not have happened. */
void act_note(struct act *a, unsigned object, bool write, uint64_t value, int error);

/* appends.c: records behind a file, through all mounts; and what must be there in the end. */
void append_some(struct program *p);
void append_large(struct program *p);
void append_check(struct program *p);

/* locks.c: what two may not do at once. */
void lock_some(struct program *p);

/* What a program did while it had a lock. */
struct lock_section
{
    bool alone, good;
    unsigned file;   /* Of `lock_some`: below LOCK_RANGES_FIRST; of `range_some`: slots. */
    uint64_t before; /* What it has read, */
    uint64_t after;  /* and what it has written, or read later. */
};

enum { LOCK_RANGES_FIRST = 3 };

/* What a lock says. A wait that the manager gave up because the mount stood still for longer than
 * its lease period says ESTALE, which is trouble like another (EIO would be its name). */
int lock_told(const struct program *p, int error);

/* For locks_judge(). NULL: there are enough. */
struct lock_section *lock_section_new(struct history *h);

/* ranges.c: what two may not do at once in one file. */
void range_some(struct program *p);

/* attrs.c: registers that are no bytes; in the end; names of one program alone. */
enum attribute {
    ATTRIBUTE_MODE,
    ATTRIBUTE_OWNER,
    ATTRIBUTE_MTIME,
    ATTRIBUTE_USER, /* An extended attribute; those behind it, too. */
    ATTRIBUTE_TRUSTED,
    ATTRIBUTE_ACL,
    ATTRIBUTES_COUNT
};
void attr_set(struct program *p);
void attr_get(struct program *p);
void attr_check(struct program *p);
void own_some(struct program *p);
void own_exchange(struct program *p);

/* meetings.c: the same of all mounts at one moment; the whole program; its files; in the end. */
void meet_run(void *program);
int meet_make(const struct history *h, struct fuse_session *k);
void meet_check(struct program *p);

/* trees.c: directories that move; the first ones; what must be there in the end. */
int tree_make(struct history *h, struct fuse_session *k);
void tree_move(struct program *p);
void tree_check(struct program *p);

/* admin.c: asks for the health of the cluster all the time, and once in the end. Whole programs. */
void admin_run(void *program);
void admin_check(void *program);

/* servers.c: has copies compared and moved, servers leave, and asks for what is refused. The whole program. */
void servers_run(void *program);

/* recopies.c: writes files anew by their side, while others use them; the whole program; in the end. */
void recopy_run(void *program);
void recopy_check(struct program *p);

/* bulk.c: large files of one program alone. The whole program. */
void bulk_run(void *program);

/* keepers.c: a file that stays open, of one program alone. The whole program. */
void keep_run(void *program);

#endif
