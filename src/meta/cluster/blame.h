/* How often a benefactor was caught with something else than what was stored there, and when that is too often.
 *
 * Pure. Two kinds are counted, and each is too often by itself, within BLAME_WITHIN_MS:
 *  - *damaged*: it says so itself, when it is asked to look. What is found within BLAME_INCIDENT_MS of the first of it is one
 *    incident, for a machine that has lost its power, or a disk with a bad spot, has damaged many morsels at once. BLAME_INCIDENTS
 *    of them are a disk, or a memory, that goes on to be bad.
 *  - *lied*: it says that its copy is right, and another one who reads it there gets something else: its memory, its network or its
 *    program is at fault, and it does not notice. Readers pass over each such copy, but nothing mends it. BLAME_LIES are too many.
 *
 * Who is distrusted stays so until an administrator says otherwise (`morsel donors trust`), or the manager is started anew: then
 * it is caught again. In an empty directory a benefactor is another one.
 */
#ifndef MORSEL_META_CLUSTER_BLAME_H
#define MORSEL_META_CLUSTER_BLAME_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BLAME_INCIDENTS = 3,
    BLAME_LIES = 3,
    BLAME_INCIDENT_MS = 3600000,
    BLAME_WITHIN_MS = 7 * 24 * 3600000
};

/* Numbers of the wire. */
enum blame_kind { BLAME_NONE, BLAME_DAMAGED, BLAME_LIED };

struct donor_blame
{
    enum blame_kind distrusted; /* Why it is; NONE: it is trusted. */
    uint64_t since_ms;          /* If it is distrusted. */
    uint64_t damaged, lied;     /* Copies, since it was trusted last. */
    uint64_t incidents_ms[BLAME_INCIDENTS],
        lies_ms[BLAME_LIES];  /* The last ones, the oldest first; */
    uint32_t incidents, lies; /* so many are there. */
};

/* One more copy. True: it is distrusted from now on. */
bool blame_note(struct donor_blame *b, enum blame_kind kind, uint64_t now_ms);

/* It counts as one that was never caught. */
void blame_forgive(struct donor_blame *b);

#endif
