/* How much a desktop donates now: what its owner has said, as far as the disk still has it.
 *
 * Pure. All sizes are bytes; `now_ms` is of a clock that only goes on. Now and then the host looks at the disk:
 *
 *     |<------------------------------ total ------------------------------>|
 *     | the owner's files |   used: morsels   |            free             |
 *                         |<---------- room ---------->|<------ keep ------>|
 *
 * *said*, what the owner gives at most, and *keep*, what stays free for him whatever he gives, are sizes or parts of
 * the disk. The *room* is what morsels may have of it: were it full of them, `keep` would be free. *donated* is what
 * the manager is told.
 *
 *  - It falls at once when the room has become smaller: the donation gives way before the owner's disk is full. What
 *    is used beyond it, the *excess*, has to go.
 *  - It grows slowly. An owner's program that writes ten gigabytes and deletes them, every few minutes, must not lead
 *    to morsels that are brought and thrown away each time: so it grows only when the room has been greater for
 *    `calm_ms` at every look, by a band at least (a part of what was said, DONATION_BAND_PARTS); and then to the
 *    least room of that time. What stays away by that is less than the band.
 *  - What the owner says holds at the next look, upwards too: then there is nothing to be calm about.
 *
 *    NOTHING     nothing is given, and nothing used: the owner has said so, or the disk has no room
 *    GIVES       all that the owner has said
 *    SHORT       less than that, for want of room; what is used is within it
 *    GIVES_WAY   more is used than donated: the excess has to go
 *
 * From each of them the next look may lead to each; the state says only how the three numbers are to each other.
 *
 * Invariants, behind each look (donation_check()):
 *  - donated <= said, and donated <= room: were all of it used, at least `keep` would be free, as long as the owner
 *    writes no more;
 *  - excess is used - donated where that is more than 0; it is not 0 in GIVES_WAY, and nowhere else.
 *  - pressed, of the excess what has to go for `keep` to be free again, is not more than that. A disk that is sick is not pressed:
 *    nothing is won there by giving up copies.
 *
 * Of two disks with the same past, the one with more free now gives as much at least.
 */
#ifndef MORSEL_BENEFACTOR_DONATION_H
#define MORSEL_BENEFACTOR_DONATION_H

#include "common/base/errmsg.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DONATION_BAND_PARTS = 64, /* The band is that part of what was said, and at least a byte. */
    DONATION_TEXT_MAX = 160   /* Of donation_words(), with its final zero. */
};

/* A size, or a part of the disk. */
struct donation_share
{
    bool percent; /* `value` is 0 to 100, of the whole disk; otherwise bytes. */
    uint64_t value;
};

/* What the owner has said. */
struct donation_wish
{
    struct donation_share donate;
    struct donation_share keep_free;
};

/* What the disk says: of the file system with the donated directory. */
struct donation_disk
{
    uint64_t total;
    uint64_t free; /* For users who are not root. */
    uint64_t used; /* By morsels, and what belongs to them. */
    bool sick;     /* It takes nothing any more, and `free` is 0 for that alone. */
};

enum donation_state { DONATION_NOTHING, DONATION_GIVES, DONATION_SHORT, DONATION_GIVES_WAY };

struct donation
{
    struct donation_wish wish;
    uint64_t calm_ms;

    /* At the last look; 0 before the first. */
    enum donation_state state;
    uint64_t said, keep, room, used;
    uint64_t donated, excess, pressed;

    /* The core's own. */
    uint64_t told;
    bool settled; /* There was a look since the owner spoke. */
    bool calm;    /* The room is greater by the band: since then, and this was the least. */
    uint64_t calm_since_ms, calm_room;
};

/* Read "50G" or "30%"; the units are those of all settings. MORSEL_INVAL, with what would be right. */
int donation_share_parse(const char *text, struct donation_share *share, struct errmsg *err);

/* Bytes of a disk of `total`. */
uint64_t donation_share_of(const struct donation_share *share, uint64_t total);

/* `calm_ms` 0: it grows at the first look at which there is room. */
void donation_init(struct donation *d, const struct donation_wish *wish, uint64_t calm_ms);

/* The owner has said something else. It holds from the next look on. */
void donation_change(struct donation *d, const struct donation_wish *wish);

/* Look at the disk. True: it is another state than before, or the donation has changed by a band since that was said: the
 * manager should hear it now. What is less waits for the next report. */
bool donation_look(struct donation *d, const struct donation_disk *disk, uint64_t now_ms);

/* What the owner reads: "gives 12.5 GiB of 50 GiB: ...". */
void donation_words(const struct donation *d, char text[DONATION_TEXT_MAX]);

/* CHECKs the invariants. */
void donation_check(const struct donation *d);

#endif
