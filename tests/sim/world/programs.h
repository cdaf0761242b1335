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

/* One call of the history. */
struct act
{
    struct program *program;
    struct fuse_session *kernel;
    fuse_ino_t directory;
    uint64_t from_ns;
};

/* Through any mount: find the directory. Whatever it says, act_end() is due. */
int act_begin(struct act *a, struct program *p);

/* Fails the history where `error` may not be told, or came too late. */
void act_end(struct act *a, const char *what, const char *object, uint64_t value, int error);

/* What a program is told where a server, or its own mount, cannot be had; a new file also where no
 * server is up. */
bool act_is_trouble(int error);

/* A deliberate fault of ours, in one of `n` cases, which the judge must see. */
bool act_is_canary(const struct program *p, const char *name, uint64_t n);

/* Open a file of the directory, which is made when it is not there. */
int act_open(struct act *a, const char *name, int flags, struct kernel_file *file);

/* appends.c: records behind a file, through all mounts; and what must be there in the end. */
void append_some(struct program *p);
void append_check(struct program *p);

/* locks.c: what two may not do at once. */
void lock_some(struct program *p);

/* keepers.c: a file that stays open, of one program alone. The whole program. */
void keep_run(void *program);

#endif
