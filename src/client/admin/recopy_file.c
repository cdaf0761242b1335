/* Copies a file into one without a name, and has the two exchange their bytes (recopy_file.h). */
#include "client/admin/recopy_file.h"

#include "common/fs/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    TRIES_MAX = 3,
    ROUNDS_MAX = 10,          /* In which is copied again what was changed meanwhile. */
    ROUND_BYTES_FEW = 8 << 20 /* So much need not be copied before the others hold still. */
};

static const char NOT_HELD[] =
    "it is open for writing on another mount, and was not held still for it";

static bool needs_drained(const struct layout_text *layout, const struct recopy_drained *drained)
{
    for (uint32_t i = 0; i < layout->width && layout->replicas == 1; i++) {
        for (uint32_t j = 0; j < drained->count; j++) {
            if (layout->servers[i] == drained->servers[j]) {
                return true;
            }
        }
    }
    return false;
}

bool recopy_differs(const struct layout_text *layout, const struct policy_values *policy,
                    uint64_t names, const struct recopy_drained *drained)
{
    if (needs_drained(layout, drained)) {
        return true;
    }
    if (layout->replicas != policy->values[POLICY_REPLICAS]) {
        return names == 1 || layout->replicas < policy->values[POLICY_REPLICAS];
    }
    return names == 1 && (layout->morsel_bytes != policy->values[POLICY_MORSEL_SIZE] ||
                          layout->stripe_morsels != policy->values[POLICY_STRIPE_SIZE]);
}

/* Only where it has begun: a file that is in use for long is tried again and again. It is on the manager's disk before it has
 * a byte: bytes of a file that was lost with the manager's power belong to nobody. */
static enum recopy_outcome make_copy(struct recopy *r)
{
    if (r->to < 0) {
        r->to = open(r->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (r->to < 0 || fsync(r->to) != 0) {
            return recopy_failed(r, "make the copy");
        }
    }
    return RECOPY_DONE;
}

/* While others hold still there is nothing to be watched. */
static enum recopy_outcome copy_all(struct recopy *r)
{
    if (r->paused_ms == 0) {
        (void)recopy_watch(r);
    }
    return recopy_all(r);
}

/* Nothing of it comes later, now. */
static enum recopy_outcome copy_last(struct recopy *r)
{
    enum recopy_outcome outcome = make_copy(r);
    struct stat st;

    if (outcome == RECOPY_DONE) {
        outcome = r->watch != 0 ? recopy_changes(r) : copy_all(r);
    }
    if (outcome != RECOPY_DONE) {
        return outcome;
    }
    if (fstat(r->from, &st) != 0) {
        return recopy_failed(r, "look at it");
    }
    if (r->ended || (uint64_t)st.st_size != r->size) {
        errno = EAGAIN;
        return recopy_failed(r, "read");
    }
    return RECOPY_DONE;
}

static enum recopy_outcome copy_and_exchange(struct recopy *r)
{
    struct exchange_commit commit;
    enum recopy_outcome outcome;
    struct stat st;

    if (ioctl(r->from, EXCHANGE_BEGIN, &commit.state) != 0) {
        return recopy_failed(r, "begin");
    }
    r->begun = true;
    outcome = copy_last(r);
    r->begun = false;
    if (outcome != RECOPY_DONE) {
        return outcome;
    }
    if (fstat(r->to, &st) != 0) {
        return recopy_failed(r, "make the copy");
    }
    commit.with = st.st_ino;
    return ioctl(r->from, EXCHANGE_COMMIT, &commit) == 0 ? RECOPY_DONE
                                                         : recopy_failed(r, "exchange");
}

/* Would the others hold still at all? Nobody copies for hours to hear that they do not. */
static bool they_would(struct recopy *r)
{
    bool would = ioctl(r->from, EXCHANGE_PAUSE) == 0;

    (void)ioctl(r->from, EXCHANGE_RESUME);
    return would;
}

/* While others go on writing to it: all of it, and then what they have changed meanwhile, until that is little or does not become
 * less. Without a watch nothing is copied. */
static enum recopy_outcome copy_beforehand(struct recopy *r)
{
    enum recopy_outcome outcome = RECOPY_DONE;
    uint64_t before = UINT64_MAX;

    if (r->watch == 0) {
        if (!they_would(r)) {
            return recopy_busy(r, NOT_HELD);
        }
        outcome = recopy_watch(r) ? recopy_all(r) : RECOPY_DONE;
    }
    for (unsigned i = 0; i < ROUNDS_MAX && outcome == RECOPY_DONE && r->watch != 0; i++) {
        outcome = recopy_changes(r);
        if (!r->anew && ((r->changed <= ROUND_BYTES_FEW && r->changed <= *r->paused_bytes) ||
                         r->changed > before / 4 * 3)) {
            break;
        }
        before = r->anew ? UINT64_MAX : r->changed;
    }
    return outcome;
}

/* May others hold still for as long as it takes to copy what is left? */
static enum recopy_outcome check_little(struct recopy *r)
{
    struct stat st;

    if (r->watch != 0 && r->changed > *r->paused_bytes) {
        errmsg_set(r->why, "other mounts change it faster than it can be copied: try it when they "
                           "write less, or with a higher --rate where one is set");
        return RECOPY_OUTRUN;
    }
    if (r->watch == 0 && (fstat(r->from, &st) != 0 || (uint64_t)st.st_size > *r->paused_bytes)) {
        return recopy_busy(r, "it is open for writing on another mount, is too large to be held "
                              "still, and a storage server of it cannot say what is changed of it "
                              "meanwhile: see whether all are up, and of this version");
    }
    return RECOPY_DONE;
}

/* While other mounts that write to it hold still. */
static enum recopy_outcome pause_and_exchange(struct recopy *r)
{
    enum recopy_outcome outcome = check_little(r);

    if (outcome != RECOPY_DONE) {
        return outcome;
    }
    if (ioctl(r->from, EXCHANGE_PAUSE) != 0) {
        /* Whatever it said: a manager or a mount that does not know it is no reason to fail. */
        return recopy_busy(r, NOT_HELD);
    }
    r->paused_ms = recopy_now_ms();
    outcome = copy_and_exchange(r);
    r->paused_ms = 0;
    (void)ioctl(r->from, EXCHANGE_RESUME);
    if (!r->go_on(r->data, r->copied) && outcome != RECOPY_DONE) {
        outcome = RECOPY_STOPPED;
    }
    r->copied = 0;
    return outcome;
}

/* Other mounts write to it. */
static enum recopy_outcome exchange_beside(struct recopy *r)
{
    enum recopy_outcome outcome = make_copy(r);

    if (outcome == RECOPY_DONE && recopy_is_long(r)) {
        outcome = copy_beforehand(r);
    }
    return outcome == RECOPY_DONE ? pause_and_exchange(r) : outcome;
}

static enum recopy_outcome open_source(struct recopy *r, const char *path, const struct stat *found)
{
    struct stat st;

    r->from = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOATIME);
    if (r->from < 0 && errno != ENOENT && errno != ESTALE) {
        return recopy_failed(r, "open");
    }
    if (r->from < 0 || fstat(r->from, &st) != 0 || st.st_ino != found->st_ino ||
        st.st_dev != found->st_dev || !S_ISREG(st.st_mode) || st.st_nlink == 0) {
        return RECOPY_GONE;
    }
    return RECOPY_DONE;
}

static enum recopy_outcome open_and_copy(struct recopy *r, const char *path,
                                         const struct stat *found)
{
    enum recopy_outcome outcome = open_source(r, path, found);

    if (outcome != RECOPY_DONE) {
        return outcome;
    }
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        r->written = false;
        outcome = copy_and_exchange(r);
        if (outcome == RECOPY_BUSY && !r->written && *r->paused_bytes > 0) {
            outcome = exchange_beside(r);
        }
        if (!r->written && (outcome != RECOPY_BUSY || r->watch == 0)) {
            break;
        }
    }
    /* For others nobody copies all of it again in a moment. */
    return outcome == RECOPY_BUSY && r->watch != 0 && !r->written ? RECOPY_OUTRUN : outcome;
}

enum recopy_outcome recopy_one(const char *directory, const char *path, const struct stat *st,
                               uint64_t *paused_bytes, recopy_go_on go_on, void *data,
                               struct errmsg *why)
{
    struct recopy r = { .directory = directory,
                        .from = -1,
                        .to = -1,
                        .paused_bytes = paused_bytes,
                        .go_on = go_on,
                        .data = data,
                        .why = why };
    enum recopy_outcome outcome;

    why->text[0] = '\0';
    r.bytes = malloc(RECOPY_PIECE_BYTES);
    if (r.bytes == NULL) {
        errno = ENOMEM;
        outcome = recopy_failed(&r, "copy");
    } else if (geteuid() != 0 && geteuid() != st->st_uid) {
        errmsg_set(why, "it belongs to somebody else: its owner or root can do it");
        outcome = RECOPY_FAILED;
    } else {
        outcome = open_and_copy(&r, path, st);
    }
    if (r.to >= 0) {
        (void)close(r.to);
    }
    if (r.from >= 0) {
        (void)close(r.from);
    }
    free(r.bytes);
    return outcome;
}
