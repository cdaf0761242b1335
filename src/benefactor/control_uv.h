/* The owner's hand on the running benefactor: answers `morsel donate`, and keeps what it was told.
 *
 * Who asks is let in by the secret of the donated directory (src/common/daemon/owner_key.h). What was said is in
 * DIR/owner (owner.h), which is read at the start and replaced with each word. It holds at once, also when it cannot be
 * written (a full disk is a reason to give less): the answer says so then.
 *
 * The file is synced on the loop's thread: an owner's word is rare.
 */
#ifndef MORSEL_BENEFACTOR_CONTROL_UV_H
#define MORSEL_BENEFACTOR_CONTROL_UV_H

#include "benefactor/cost.h"
#include "benefactor/governor_uv.h"
#include "benefactor/joining_uv.h"
#include "benefactor/leaving.h"
#include "benefactor/owner.h"
#include "common/daemon/owner_key.h"

struct control
{
    /* The benefactor's; set before control_open(), all else is zero. */
    uv_loop_t *loop;
    struct log *log;
    const struct datadir *datadir;
    const struct joining *joining;
    const struct donation *donation;
    const struct donation_disk *disk;
    const struct governor_uv *governor;
    struct donation_wish settings;
    void (*spoken)(
        void *data); /* The owner's wish, or whether it is paused or leaves, is another one now. */
    void (*leave)(void *data); /* He wants it to end: now. */
    uint64_t (*used)(void *data);
    void *data;

    /* The module's own. */
    struct owner owner;
    struct owner_key key;
    struct cost cost;
    enum donation_state state;
    uint64_t state_since_ms;
    struct leaving leaving;
    uv_timer_t leave_timer; /* Looks whether it is over, behind the answer. */
    bool stranger_said;     /* Once is enough. */
    bool opened, stopped;
};

/* Read what was said before, and let the owner in on `listens`. On failure with one sentence in `err`; control_stop() is harmless. */
int control_open(struct control *c, const char *listens, struct errmsg *err);

/* What holds of what the settings and the owner have said. */
void control_wish(const struct control *c, struct donation_wish *wish);
bool control_is_paused(const struct control *c);
bool control_is_leaving(const struct control *c);

/* The manager says what is still to be moved off. */
void control_told_left(struct control *c, const Morsel__DonorLeft *left);

/* Every few seconds, after the donation was looked at: a pause may be over; what this costs is measured, of which `bytes_in` and
 * `bytes_out` went over the network since the start. */
void control_tick(struct control *c, uint64_t bytes_in, uint64_t bytes_out);

/* Answer MSG_DONATE. */
void control_handle(struct control *c, struct rpc_request *request);

/* No owner is let in any more. Harmless when repeated, or when nothing was opened. */
void control_stop(struct control *c);

#endif
