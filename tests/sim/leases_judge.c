/* The judge of locks in the leases scenario: a byte of a file is one cell, and who holds it is
 * written into it. It shares nothing with src/common/fs/byte_locks.c and
 * src/meta/coherence/lock_table.c: ranges are gone through byte by byte, and everybody is compared
 * with everybody. */
#include "tests/sim/leases.h"

#include <string.h>

/* A client relies on its locks until its lease period ends. */
static bool relies_on_locks(struct sim *s, uint32_t node)
{
    return s->nodes[node].up &&
           holder_clock_ns(s, node) < lease_holder_until_ns(&world_of(s)->clients[node].holder);
}

/* The cell of LOCK_BYTES stands for all bytes from there on, the last one for the flock. */
static bool is_in(const struct byte_lock *lock, uint32_t file, uint32_t cell)
{
    return lock->inode == LOCK_FILE_FIRST + file && lock->start <= cell && cell <= lock->end &&
           (cell == LOCK_CELLS - 1) == (lock->kind == LOCK_FLOCK);
}

void judge_lock(struct sim *s, uint32_t node, const struct byte_lock *lock)
{
    for (uint32_t file = 0; file < LOCK_FILES; file++) {
        for (uint32_t cell = 0; cell < LOCK_CELLS; cell++) {
            if (is_in(lock, file, cell)) {
                world_of(s)->judged[node][lock->owner.id - 1][file][cell] = (uint8_t)lock->type;
            }
        }
    }
}

void judge_no_locks(struct sim *s, uint32_t node)
{
    memset(world_of(s)->judged[node], 0, sizeof(world_of(s)->judged[node]));
}

/* A holder of the cell that does not go together with this one. */
static void judge_pair(struct sim *s, uint32_t node, uint32_t owner, uint32_t other,
                       uint32_t other_owner)
{
    struct world *w = world_of(s);

    for (uint32_t file = 0; file < LOCK_FILES; file++) {
        for (uint32_t cell = 0; cell < LOCK_CELLS; cell++) {
            uint8_t a = w->judged[node][owner][file][cell];
            uint8_t b = w->judged[other][other_owner][file][cell];

            if (a != 0 && b != 0 && (a == LOCK_EXCLUSIVE || b == LOCK_EXCLUSIVE)) {
                (void)sim_fail(
                    s, "owner %u of %s and owner %u of %s have locked cell %u of file %u", owner,
                    s->nodes[node].name, other_owner, s->nodes[other].name, cell, file);
            }
        }
    }
}

struct held_copy
{
    uint8_t cells[OWNERS][LOCK_FILES][LOCK_CELLS];
};

static void copy_one(void *data, const struct byte_lock *lock)
{
    struct held_copy *copy = data;

    for (uint32_t file = 0; file < LOCK_FILES; file++) {
        for (uint32_t cell = 0; cell < LOCK_CELLS; cell++) {
            if (is_in(lock, file, cell)) {
                copy->cells[lock->owner.id - 1][file][cell] = (uint8_t)lock->type;
            }
        }
    }
}

void judge_locks(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct held_copy copy;

    memset(&copy, 0, sizeof(copy));
    byte_locks_each(w->clients[node].locks.locks, copy_one, &copy);
    if (memcmp(copy.cells, w->judged[node], sizeof(copy.cells)) != 0) {
        (void)sim_fail(s, "%s believes to hold other locks than it was granted",
                       s->nodes[node].name);
    }
    for (uint32_t other = CLIENT_FIRST; other < CLIENT_FIRST + w->client_count; other++) {
        for (uint32_t pair = 0; pair < OWNERS * OWNERS; pair++) {
            uint32_t owner = pair / OWNERS, other_owner = pair % OWNERS;

            if ((other != node || owner != other_owner) && relies_on_locks(s, node) &&
                relies_on_locks(s, other)) {
                judge_pair(s, node, owner, other, other_owner);
            }
        }
    }
}
