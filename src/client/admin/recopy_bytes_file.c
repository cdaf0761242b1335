/* Bytes and holes of a file into another one (recopy_bytes_file.h). */
#include "client/admin/recopy_bytes_file.h"

#include "common/fs/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    PAUSED_MS_MAX = 3000, /* The manager ends a pause a little later. */
    PAUSED_BYTES_LEAST = 1 << 20
};

uint64_t recopy_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

enum recopy_outcome recopy_failed(struct recopy *r, const char *what)
{
    bool busy = errno == EBUSY || errno == EAGAIN;

    r->written = errno == EAGAIN;
    if (errno == EBUSY) {
        errmsg_set(r->why,
                   "it is open for writing on another mount, and was not held still for it");
    } else if (errno == EAGAIN) {
        errmsg_set(r->why, "it is being written: try it again, or, where programs of this mount "
                           "never rest, through another mount, for which they are held still");
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

enum recopy_outcome recopy_busy(struct recopy *r, const char *why)
{
    r->written = false;
    errmsg_set(r->why, "%s", why);
    return RECOPY_BUSY;
}

/* While others hold still nobody rests, and not for long is copied: what the rate asks for comes behind that. */
static bool note_copied(struct recopy *r, uint64_t bytes)
{
    uint64_t fits;

    r->changed += bytes;
    if (r->paused_ms == 0) {
        return r->go_on(r->data, bytes);
    }
    r->copied += bytes;
    if (recopy_now_ms() < r->paused_ms + PAUSED_MS_MAX) {
        return true;
    }
    fits = r->watch == 0 ? r->size / 2 : r->copied;
    if (fits >= PAUSED_BYTES_LEAST) { /* Of a small one the server was slow just then. */
        *r->paused_bytes = fits < *r->paused_bytes ? fits : *r->paused_bytes;
    }
    return false;
}

/* Somebody has made it shorter: where it is watched, what lies behind that comes later. */
static enum recopy_outcome ended_early(struct recopy *r, uint64_t at)
{
    r->known = at < r->known ? at : r->known;
    r->ended = true;
    errno = EAGAIN;
    return r->watch != 0 ? RECOPY_DONE : recopy_failed(r, "read");
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static bool punch(struct recopy *r, uint64_t at, uint64_t end)
{
    return fallocate(r->to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                     (off_t)(end - at)) == 0;
}

/* What is at hand, at `at`: false, errno says why. */
static bool put(struct recopy *r, uint64_t at, size_t count)
{
    size_t done = 0;

    while (done < count) {
        ssize_t more = pwrite(r->to, r->bytes + done, count - done, (off_t)(at + done));

        if (more < 0) {
            return false;
        }
        done += (size_t)more;
    }
    return true;
}

/* [at, end), zeros among it (`holes`: as holes). */
static enum recopy_outcome copy_data(struct recopy *r, uint64_t at, uint64_t end, bool holes)
{
    while (at < end) {
        size_t wanted = end - at < RECOPY_PIECE_BYTES ? (size_t)(end - at) : RECOPY_PIECE_BYTES;
        ssize_t got = pread(r->from, r->bytes, wanted, (off_t)at);

        if (got <= 0) {
            return got < 0 ? recopy_failed(r, "read") : ended_early(r, at);
        }
        if (!(holes && is_zero(r->bytes, (size_t)got) ? punch(r, at, at + (uint64_t)got)
                                                      : put(r, at, (size_t)got))) {
            return recopy_failed(r, "write the copy");
        }
        at += (uint64_t)got;
        if (!note_copied(r, (uint64_t)got)) {
            return r->paused_ms != 0
                       ? recopy_busy(r, "it is open for writing on another mount, and "
                                        "takes longer to be copied than that may be "
                                        "held still for it")
                       : RECOPY_STOPPED;
        }
    }
    return RECOPY_DONE;
}

/* [at, end), of which the copy has nothing yet (`fresh`), or what was there before. Holes stay holes. */
static enum recopy_outcome copy_range(struct recopy *r, uint64_t at, uint64_t end, bool fresh)
{
    enum recopy_outcome outcome = RECOPY_DONE;

    while (outcome == RECOPY_DONE && at < end) {
        off_t data = lseek(r->from, (off_t)at, SEEK_DATA), hole;

        if (data < 0 && errno != ENXIO) {
            return recopy_failed(r, "look for its holes");
        }
        if (data < 0) { /* A hole up to its end, or it has ended. */
            r->known = at < r->known ? at : r->known;
        }
        data = data < 0 || (uint64_t)data > end ? (off_t)end : data;
        if (!fresh && (uint64_t)data > at && !punch(r, at, (uint64_t)data)) {
            return recopy_failed(r, "make a hole in the copy");
        }
        if ((uint64_t)data == end) {
            break;
        }
        hole = lseek(r->from, data, SEEK_HOLE);
        if (hole < 0) {
            return errno == ENXIO ? ended_early(r, (uint64_t)data)
                                  : recopy_failed(r, "look for its holes");
        }
        at = (uint64_t)hole < end ? (uint64_t)hole : end;
        outcome = copy_data(r, (uint64_t)data, at, false);
    }
    return outcome;
}

/* The copy is as long as the file. */
static enum recopy_outcome take_size(struct recopy *r, bool fresh)
{
    struct stat st;

    if (fstat(r->from, &st) != 0 || (fresh && ftruncate(r->to, 0) != 0) ||
        ftruncate(r->to, st.st_size) != 0) {
        return recopy_failed(r, "make the copy");
    }
    r->size = r->known = (uint64_t)st.st_size;
    r->ended = false;
    return RECOPY_DONE;
}

/* A number that nobody else has; 0: there is none. */
static uint64_t draw(void)
{
    uint64_t number;

    return getrandom(&number, sizeof(number), 0) == (ssize_t)sizeof(number) ? number : 0;
}

bool recopy_is_long(const struct recopy *r)
{
    struct stat st;

    return fstat(r->from, &st) == 0 &&
           ((uint64_t)st.st_size > RECOPY_WATCHED_BYTES || (uint64_t)st.st_size > *r->paused_bytes);
}

bool recopy_watch(struct recopy *r)
{
    struct exchange_watch wanted = { .begin = draw() };

    r->watch =
        recopy_is_long(r) && wanted.begin != 0 && ioctl(r->from, EXCHANGE_WATCH, &wanted) == 0
            ? wanted.begin
            : 0;
    return r->watch != 0;
}

enum recopy_outcome recopy_all(struct recopy *r)
{
    enum recopy_outcome outcome = take_size(r, true);

    if (outcome == RECOPY_DONE) {
        outcome = copy_range(r, 0, r->size, true);
    }
    if (outcome != RECOPY_DONE) {
        r->watch = 0;
    }
    return outcome;
}

/* Those of one answer. */
static enum recopy_outcome copy_stretches(struct recopy *r, const struct exchange_watch *watch)
{
    enum recopy_outcome outcome = RECOPY_DONE;

    for (uint32_t i = 0; outcome == RECOPY_DONE && i < watch->count; i++) {
        const struct exchange_stretch *s = &watch->stretches[i];
        uint64_t end = s->end < r->size ? s->end : r->size;

        if (s->start < end) {
            outcome = end - s->start <= RECOPY_PIECE_BYTES
                          ? copy_data(r, s->start, end, true) /* Quicker than to look for holes. */
                          : copy_range(r, s->start, end, false);
        }
    }
    return outcome;
}

/* Nobody knows what was changed. */
static enum recopy_outcome begin_anew(struct recopy *r)
{
    r->watch = 0;
    r->anew = true;
    if (r->paused_ms != 0 || (!recopy_watch(r) && !r->begun)) {
        return recopy_busy(r, "nobody knows what was changed of it while it was copied: a storage "
                              "server of it was started again, or gave way to another one, or a "
                              "write on this mount failed: try it again");
    }
    return recopy_all(r);
}

enum recopy_outcome recopy_changes(struct recopy *r)
{
    struct exchange_watch wanted = { .begin = draw() };
    uint64_t since = r->watch, next = wanted.begin, known = r->known;
    enum recopy_outcome outcome = RECOPY_DONE;

    r->changed = 0;
    r->anew = false;
    do {
        wanted.since = since;
        if (next == 0 || ioctl(r->from, EXCHANGE_WATCH, &wanted) != 0) {
            return errno == ENODATA ? begin_anew(r) : recopy_failed(r, "ask what was changed");
        }
        if (wanted.begin != 0) {
            outcome = take_size(r, false);
        }
        if (outcome == RECOPY_DONE) {
            outcome = copy_stretches(r, &wanted);
        }
        wanted.begin = 0;
        wanted.from = wanted.next;
    } while (outcome == RECOPY_DONE && wanted.next != UINT64_MAX);
    if (outcome == RECOPY_DONE) {
        outcome = copy_range(r, known, r->size, false);
    }
    if (outcome == RECOPY_DONE) {
        r->watch = next;
    } else {
        r->known = known < r->known ? known : r->known;
    }
    return outcome;
}
