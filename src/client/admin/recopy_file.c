/* Copies a file into one without a name, and has the two exchange their bytes (recopy_file.h). */
#include "client/admin/recopy_file.h"

#include "common/fs/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    COPY_BYTES = 1 << 20,
    TRIES_MAX = 3,
    PAUSED_MS_MAX = 3000, /* The manager ends a pause a little later. */
    PAUSED_BYTES_LEAST = 1 << 20
};

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

/* The two files while one is copied into the other. */
struct recopy
{
    const char *directory;
    int from, to;   /* -1: not open. */
    uint8_t *bytes; /* COPY_BYTES */
    uint64_t size;
    recopy_go_on go_on;
    void *data;
    uint64_t paused_ms; /* Others hold still for us since then (now_ms()); 0: they do not. */
    uint64_t copied;    /* Meanwhile. */
    uint64_t *paused_bytes;
    bool written; /* Somebody wrote meanwhile: the copy came to nothing. */
    struct errmsg *why;
};

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static enum recopy_outcome failed(struct recopy *r, const char *what)
{
    bool busy = errno == EBUSY || errno == EAGAIN;

    r->written = errno == EAGAIN;
    if (errno == EBUSY) {
        errmsg_set(r->why,
                   "it is open for writing on another mount, and was not held still for it");
    } else if (errno == EAGAIN) {
        errmsg_set(r->why, "it is being written");
    } else if (errno == EOPNOTSUPP || errno == ENOTTY) {
        errmsg_set(r->why,
                   "this mount cannot do it: it must be of this version, and not -o nocache");
    } else if (errno == ENOSPC) {
        errmsg_set(r->why, "%s: no space, or too few storage servers are up; see \"morsel df\"",
                   what);
    } else {
        errmsg_set(r->why, "%s: %s", what, strerror(errno));
    }
    return busy ? RECOPY_BUSY : RECOPY_FAILED;
}

static enum recopy_outcome busy(struct recopy *r)
{
    errno = EBUSY;
    return failed(r, "copy");
}

/* While others hold still nobody rests, and not for long is copied: what the rate asks for comes behind that. */
static bool note_copied(struct recopy *r, uint64_t bytes)
{
    if (r->paused_ms == 0) {
        return r->go_on(r->data, bytes);
    }
    r->copied += bytes;
    if (now_ms() < r->paused_ms + PAUSED_MS_MAX) {
        return true;
    }
    if (r->size >= 2 * PAUSED_BYTES_LEAST) { /* A small one: its server was slow just then. */
        *r->paused_bytes = r->size / 2;
    }
    return false;
}

/* [at, end) is data. */
static enum recopy_outcome copy_range(struct recopy *r, uint64_t at, uint64_t end)
{
    while (at < end) {
        size_t wanted = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
        ssize_t got = pread(r->from, r->bytes, wanted, (off_t)at), put = 0;

        if (got < 0) {
            return failed(r, "read");
        }
        if (got == 0) {
            errno = EAGAIN; /* Somebody has made it shorter. */
            return failed(r, "read");
        }
        while (put < got) {
            ssize_t more = pwrite(r->to, r->bytes + put, (size_t)(got - put), (off_t)at + put);

            if (more < 0) {
                return failed(r, "write the copy");
            }
            put += more;
        }
        at += (uint64_t)got;
        if (!note_copied(r, (uint64_t)got)) {
            return r->paused_ms != 0 ? busy(r) : RECOPY_STOPPED;
        }
    }
    return RECOPY_DONE;
}

/* Holes stay holes. */
static enum recopy_outcome copy_bytes(struct recopy *r)
{
    enum recopy_outcome outcome = RECOPY_DONE;
    uint64_t at = 0;
    struct stat st;

    if (fstat(r->from, &st) != 0 || ftruncate(r->to, 0) != 0 || ftruncate(r->to, st.st_size) != 0) {
        return failed(r, "make the copy");
    }
    r->size = (uint64_t)st.st_size;
    while (outcome == RECOPY_DONE && at < r->size) {
        off_t data = lseek(r->from, (off_t)at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO) {
            break; /* The rest is a hole. */
        }
        hole = data < 0 ? -1 : lseek(r->from, data, SEEK_HOLE);
        if (hole < 0) {
            return failed(r, "look for its holes");
        }
        at = (uint64_t)hole < r->size ? (uint64_t)hole : r->size;
        outcome = copy_range(r, (uint64_t)data, at);
    }
    return outcome;
}

/* Only where it has begun: a file that is in use for long is tried again and again. It is on the manager's disk before it has
 * a byte: bytes of a file that was lost with the manager's power belong to nobody. */
static enum recopy_outcome make_copy(struct recopy *r)
{
    if (r->to < 0) {
        r->to = open(r->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (r->to < 0 || fsync(r->to) != 0) {
            return failed(r, "make the copy");
        }
    }
    return RECOPY_DONE;
}

static enum recopy_outcome copy_and_exchange(struct recopy *r)
{
    struct exchange_commit commit;
    enum recopy_outcome outcome;
    struct stat st;

    if (ioctl(r->from, EXCHANGE_BEGIN, &commit.state) != 0) {
        return failed(r, "begin");
    }
    outcome = make_copy(r);
    if (outcome == RECOPY_DONE) {
        outcome = copy_bytes(r);
    }
    if (outcome != RECOPY_DONE) {
        return outcome;
    }
    if (fstat(r->to, &st) != 0) {
        return failed(r, "make the copy");
    }
    commit.with = st.st_ino;
    return ioctl(r->from, EXCHANGE_COMMIT, &commit) == 0 ? RECOPY_DONE : failed(r, "exchange");
}

/* While other mounts that write to it hold still. */
static enum recopy_outcome pause_and_exchange(struct recopy *r)
{
    enum recopy_outcome outcome = make_copy(r);
    struct stat st;

    if (outcome != RECOPY_DONE) {
        return outcome;
    }
    if (fstat(r->from, &st) != 0 || (uint64_t)st.st_size > *r->paused_bytes ||
        ioctl(r->from, EXCHANGE_PAUSE) != 0) {
        return busy(
            r); /* Whatever it said: a manager or a mount that does not know it is no reason to fail. */
    }
    r->paused_ms = now_ms();
    outcome = copy_and_exchange(r);
    r->paused_ms = 0;
    (void)ioctl(r->from, EXCHANGE_RESUME);
    if (!r->go_on(r->data, r->copied) && outcome != RECOPY_DONE) {
        outcome = RECOPY_STOPPED;
    }
    r->copied = 0;
    return outcome;
}

static enum recopy_outcome open_source(struct recopy *r, const char *path, const struct stat *found)
{
    struct stat st;

    r->from = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOATIME);
    if (r->from < 0 && errno != ENOENT && errno != ESTALE) {
        return failed(r, "open");
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
            outcome = pause_and_exchange(r);
        }
        if (!r->written) {
            break;
        }
    }
    return outcome;
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
    r.bytes = malloc(COPY_BYTES);
    if (r.bytes == NULL) {
        errno = ENOMEM;
        outcome = failed(&r, "copy");
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
