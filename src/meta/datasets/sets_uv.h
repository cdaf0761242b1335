/* Data sets, as the manager's host sees them: who may store them, and where their next morsels go. */
#ifndef MORSEL_META_DATASETS_SETS_UV_H
#define MORSEL_META_DATASETS_SETS_UV_H

#include "meta/datasets/set_placement.h"
#include "meta/datasets/sets.h"
#include "meta/meta_uv.h"

enum { SET_COPIES_DEFAULT = 2 }; /* Where no directory says how many. */

/* How a new file of class scavenged lies. */
void sets_layout(const struct file_policy *policy, struct file_layout *layout);

/* May the client change the bytes of the file, but for truncating it to zero? 0 also when it is of another class. With words:
 * MORSEL_PERM: its data set is sealed, or the client that stored it is gone; MORSEL_BUSY: another client stores it. */
int sets_may_change(struct meta *meta, const struct inode *inode, client_id client,
                    struct errmsg *err);
int sets_may_change_file(struct meta *meta, inode_id file, client_id client, struct errmsg *err);

/* Where do morsels first to first + *count of the file's data set go? `failed` are left out. With words: MORSEL_NOSPC: no benefactor has room;
 * MORSEL_DQUOT: the set would have more than a third of all that is donated; MORSEL_AGAIN: not now, for benefactors are
 * about to come back, room is being made, or who may have some is asked (donors_recount()); MORSEL_NOMEM. */
struct set_asked
{
    uint32_t first, count;
    const donor_id *failed;
    size_t failed_count;
};
int sets_place(struct meta *meta, const struct inode *inode, const struct set_asked *asked,
               struct placed *out, struct errmsg *err);

/* The same for morsels that come back from an origin: where less than a twentieth of what a benefactor gives would be left there is no place
 * for them, so that nothing has to go because of it. Fewer than were asked for: there is no room for more. MORSEL_NOMEM. */
int sets_place_back(struct meta *meta, const struct inode *inode, uint32_t first, uint32_t count,
                    struct placed *out);

/* May a data set of that file grow to so many bytes? MORSEL_DQUOT, MORSEL_AGAIN, as above. */
int sets_may_hold(const struct meta *meta, const struct inode *inode, uint64_t size,
                  struct errmsg *err);

/* How many bytes may a set of so many copies have? False: that is not known yet, for benefactors may be about to come back. */
bool sets_largest(const struct meta *meta, uint32_t copies, uint32_t morsel_bytes, uint64_t *bytes);

/* Numbers of the wire. */
enum set_state {
    SET_STORING = 1, /* A mount is at it. */
    SET_SEALED,
    SET_ABANDONED, /* The mount that stored it has ended: it is as far as it came. */
    SET_RESERVED   /* It is to have so many bytes, and none is there. */
};

/* Of benefactors as they are now. */
struct set_state_now
{
    uint32_t morsels_short;   /* Have fewer copies here than are wanted; */
    uint32_t morsels_away;    /* have none here. */
    uint32_t morsels_evicted; /* Were evicted, and do not count above. */
    uint32_t donors;          /* That have a part of it. */
};
struct set_state_now sets_state(const struct meta *meta, const struct data_set *set);

/* Can bytes be read from it? */
bool sets_donor_serves(const struct donor *donor);

#endif
