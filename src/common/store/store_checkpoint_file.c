/* Keeps the record of the checkpoints, in memory and in DIR/epochs. */
#include "common/store/store_checkpoint_file.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/replace_file.h"
#include "common/base/status.h"
#include "common/daemon/datadir_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    RECORD_BYTES_MAX = 8192,
    CHECKPOINT_FORMAT = 1,
    CHECKPOINTS_AHEAD = 1024, /* A crashed run may have counted on after its last record */
    CHECKPOINTS_NEAR = 16     /* Crashed ranges of one boot this close become one */
};

/* A second has 2^20 checkpoints to itself: more than there can be. Without a record, skip an hour
 * of them, in case the clock was ahead. */
static const uint64_t SECOND_CHECKPOINTS = UINT64_C(1) << 20;
static const uint64_t LOST_RECORD_S = 3600;

static const char RECORD_NAME[] = "epochs";

static int record_format(const struct checkpoint_record *r, char *text)
{
    int count =
        snprintf(text, RECORD_BYTES_MAX,
                 "format = %d\nboot = %016" PRIx64 "\ncurrent = %" PRIu64 "\ndurable = %" PRIu64
                 "\nclosed = %d\nobjects = %" PRIu64 "\n",
                 CHECKPOINT_FORMAT, r->boot_id, r->current, r->durable, r->closed, r->objects);

    for (uint32_t i = 0; i < r->ranges_count; i++) {
        count += snprintf(text + count, (size_t)(RECORD_BYTES_MAX - count),
                          "crashed = %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", r->ranges[i].first,
                          r->ranges[i].last, r->ranges[i].boot_id);
    }
    count += snprintf(text + count, (size_t)(RECORD_BYTES_MAX - count),
                      "verifier = %016" PRIx64 "\nfailed = %d\nfailures = %" PRIu64 "\n",
                      r->verifier, r->failed, r->failures);
    count += snprintf(text + count, (size_t)(RECORD_BYTES_MAX - count), "check = %08x\n",
                      crc32c(0, text, (size_t)count));
    CHECK(count < RECORD_BYTES_MAX);
    return count;
}

/* The fields behind the format line, whose checksum was right. */
static int record_parse_fields(const char *at, struct checkpoint_record *r)
{
    int closed;
    int failed = 0;
    int used = 0;

    if (sscanf(at,
               "boot = %16" SCNx64 " current = %20" SCNu64 " durable = %20" SCNu64
               " closed = %1d objects = %20" SCNu64 "\n%n",
               &r->boot_id, &r->current, &r->durable, &closed, &r->objects, &used) != 5) {
        return MORSEL_CORRUPT;
    }
    r->closed = closed == 1;
    for (at += used; strncmp(at, "crashed", 7) == 0; at += used) {
        struct crashed_range *range = &r->ranges[r->ranges_count];

        if (r->ranges_count == CRASHED_RANGES_MAX ||
            sscanf(at, "crashed = %20" SCNu64 " %20" SCNu64 " %16" SCNx64 "\n%n", &range->first,
                   &range->last, &range->boot_id, &used) != 3) {
            return MORSEL_CORRUPT;
        }
        r->ranges_count++;
    }
    if (sscanf(at, "verifier = %16" SCNx64 " failed = %1d failures = %20" SCNu64, &r->verifier,
               &failed, &r->failures) < 2) {
        r->verifier = 0; /* The oldest programs end here, older ones behind `failed`. */
    }
    r->failed = failed == 1;
    return 0;
}

static int record_parse(char *text, struct checkpoint_record *r)
{
    char *check = strstr(text, "check = ");
    int format = 0;
    unsigned crc;
    int used = 0;

    memset(r, 0, sizeof(*r));
    if (sscanf(text, "format = %9d\n%n", &format, &used) != 1) {
        return MORSEL_CORRUPT;
    }
    if (format > CHECKPOINT_FORMAT) {
        return MORSEL_VERSION;
    }
    if (check == NULL || sscanf(check, "check = %8x", &crc) != 1 ||
        crc != crc32c(0, text, (size_t)(check - text))) {
        return MORSEL_CORRUPT;
    }
    return record_parse_fields(text + used, r);
}

/* MORSEL_NOENT when there is no file. */
static int record_read(int dir_fd, struct checkpoint_record *r, struct errmsg *err)
{
    char text[RECORD_BYTES_MAX];
    int fd = openat(dir_fd, RECORD_NAME, O_RDONLY | O_CLOEXEC);
    ssize_t count;
    int rv;

    if (fd < 0) {
        rv = status_from_errno(errno);
        errmsg_set(err, "open %s: %s", RECORD_NAME, strerror(errno));
        return rv;
    }
    count = pread(fd, text, sizeof(text) - 1, 0);
    close(fd);
    if (count < 0) {
        errmsg_set(err, "read %s: %s", RECORD_NAME, strerror(errno));
        return MORSEL_IO;
    }
    text[count] = 0;
    rv = record_parse(text, r);
    if (rv == MORSEL_VERSION) {
        errmsg_set(err, "%s is of a newer format than this program knows: run a newer one",
                   RECORD_NAME);
    } else if (rv != 0) {
        errmsg_set(
            err,
            "%s is damaged: remove the file, and objects will be verified as after a power cut",
            RECORD_NAME);
    }
    return rv;
}

/* On a full disk the daemon must start all the same: over the old record, which needs no space.
 * Should a crash tear it, its checksum will tell. */
static int record_overwrite(int dir_fd, const char *text, int count)
{
    int fd = openat(dir_fd, RECORD_NAME, O_WRONLY | O_CLOEXEC);
    bool good;

    if (fd < 0) {
        return -1;
    }
    good = write_whole_file(fd, text, (size_t)count) && ftruncate(fd, count) == 0 && fsync(fd) == 0;
    return close(fd) == 0 && good ? 0 : -1;
}

/* With record_lock, or before anybody else knows `e`. */
static int record_write(const struct checkpoints *e, struct errmsg *err)
{
    char text[RECORD_BYTES_MAX];
    int count = record_format(&e->record, text);

    /* After a failed sync the new record takes the place of the old one even if it is not known to
       be on disk: a run after this one that finds the kernel alive is to read it. */
    if (replace_file(e->dir_fd, RECORD_NAME, text, (size_t)count, e->record.failed) != 0 &&
        ((errno != ENOSPC && !e->record.failed) || record_overwrite(e->dir_fd, text, count) != 0)) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "write %s: %s", RECORD_NAME, strerror(errno));
        return rv;
    }
    return 0;
}

static void record_add_range(struct checkpoint_record *r, struct crashed_range range)
{
    struct crashed_range *newest = r->ranges_count == 0 ? NULL : &r->ranges[r->ranges_count - 1];

    if (range.first > range.last) {
        return;
    }
    if (newest != NULL && newest->boot_id == range.boot_id &&
        range.first - newest->last <= CHECKPOINTS_NEAR) {
        newest->last =
            range.last; /* A daemon that dies again and again fills the table with one range. */
        return;
    }
    if (r->ranges_count == CRASHED_RANGES_MAX) {
        r->ranges[1].first = r->ranges[0].first;
        r->ranges[1].boot_id = 0;
        r->ranges_count--;
        memmove(r->ranges, r->ranges + 1, r->ranges_count * sizeof(r->ranges[0]));
    }
    r->ranges[r->ranges_count++] = range;
}

static uint64_t verifier_new(void)
{
    uint64_t verifier = 0;

    while (verifier == 0) {
        random_bytes(&verifier, sizeof(verifier));
    }
    return verifier;
}

/* Was nothing lost between the run that wrote `old` and this one? */
static bool verifier_holds(const struct checkpoint_record *old, uint64_t boot_id)
{
    return old->verifier != 0 && !old->failed && (old->closed || old->boot_id == boot_id);
}

int checkpoints_open(struct checkpoints *e, int dir_fd, uint64_t boot_id, bool fresh,
                     uint64_t now_s, struct errmsg *err)
{
    uint64_t first = now_s * SECOND_CHECKPOINTS;
    struct checkpoint_record old = { .ranges_count = 0 };
    int rv;

    memset(e, 0, sizeof(*e));
    e->dir_fd = dir_fd;
    rv = record_read(dir_fd, &old, err);
    if (rv == MORSEL_NOENT) {
        old.closed = fresh;
        old.current = first;
        first += fresh ? 1 : LOST_RECORD_S * SECOND_CHECKPOINTS;
    } else if (rv != 0) {
        return rv;
    } else if (first <= old.current + CHECKPOINTS_AHEAD) {
        first = old.current + CHECKPOINTS_AHEAD + 1;
    }
    e->record = old;
    if (!old.closed) {
        record_add_range(&e->record, (struct crashed_range){ .first = old.durable + 1,
                                                             .last = first - 1,
                                                             .boot_id = old.boot_id });
    }
    /* Room for the two checkpoints before the first, whose objects need a flushed stamp. */
    e->first = first + 2;
    e->record.closed = false;
    e->record.boot_id = boot_id;
    e->record.current = e->first;
    e->record.durable = e->first - 1;
    e->record.verifier = verifier_holds(&old, boot_id) ? old.verifier : verifier_new();
    e->record.failures += old.failed;
    e->record.failed = false;
    atomic_init(&e->verifier, e->record.verifier);
    atomic_init(&e->durable, e->record.durable);
    atomic_init(&e->current, e->first);
    atomic_init(&e->last_change, 0);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->record_lock, NULL);
    pthread_cond_init(&e->drained, NULL);
    return record_write(e, err);
}

int checkpoints_close(struct checkpoints *e, bool clean, uint64_t objects, struct errmsg *err)
{
    int rv = 0;

    if (clean && !e->record.failed) {
        e->record.current = atomic_load(&e->current);
        e->record.durable = e->record.current;
        e->record.closed = true;
        e->record.objects = objects;
        rv = record_write(e, err);
    }
    pthread_cond_destroy(&e->drained);
    pthread_mutex_destroy(&e->record_lock);
    pthread_mutex_destroy(&e->lock);
    return rv;
}

int checkpoints_fail(struct checkpoints *e, bool again, struct errmsg *err)
{
    int rv;

    pthread_mutex_lock(&e->record_lock);
    if (!again) {
        e->record.failed = true;
        e->record.verifier = verifier_new();
        atomic_store(&e->failure_unsaved, true);
        atomic_store(&e->failed, true);
        atomic_store(&e->verifier, e->record.verifier);
    }
    rv = record_write(e, err);
    if (rv == 0) {
        atomic_store(&e->failure_unsaved, false);
    }
    pthread_mutex_unlock(&e->record_lock);
    return rv;
}

uint64_t checkpoints_enter(struct checkpoints *e)
{
    for (;;) {
        uint64_t checkpoint = atomic_load(&e->current);

        atomic_fetch_add(&e->changing[checkpoint & 1], 1);
        if (atomic_load(&e->current) == checkpoint) {
            atomic_store(&e->last_change, checkpoint);
            return checkpoint;
        }
        checkpoints_leave(e, checkpoint);
    }
}

void checkpoints_leave(struct checkpoints *e, uint64_t checkpoint)
{
    uint32_t before = atomic_fetch_sub(&e->changing[checkpoint & 1], 1);

    CHECK(before > 0);
    if (before == 1 && atomic_load(&e->waiting)) {
        pthread_mutex_lock(&e->lock);
        pthread_cond_broadcast(&e->drained);
        pthread_mutex_unlock(&e->lock);
    }
}

enum store_trust checkpoints_trust(const struct checkpoints *e, uint64_t checkpoint)
{
    for (uint32_t i = 0; i < e->record.ranges_count; i++) {
        const struct crashed_range *range = &e->record.ranges[i];

        if (checkpoint >= range->first && checkpoint <= range->last) {
            return range->boot_id == e->record.boot_id ? SUSPECT : LOST;
        }
    }
    return checkpoint > atomic_load(&e->current) ? LOST : TRUSTED;
}

bool checkpoints_pending(struct checkpoints *e)
{
    return atomic_load(&e->last_change) > atomic_load(&e->durable);
}

bool checkpoints_cover(const struct checkpoints *e, uint64_t checkpoint)
{
    return checkpoint <= atomic_load(&e->durable);
}

void checkpoints_advance(struct checkpoints *e)
{
    uint64_t ended = atomic_load(&e->current);

    pthread_mutex_lock(&e->lock);
    atomic_store(&e->waiting, true);
    atomic_store(&e->current, ended + 1);
    while (atomic_load(&e->changing[ended & 1]) != 0) {
        pthread_cond_wait(&e->drained, &e->lock);
    }
    atomic_store(&e->waiting, false);
    pthread_mutex_unlock(&e->lock);
}

int checkpoints_complete(struct checkpoints *e, uint64_t objects, struct errmsg *err)
{
    struct checkpoint_record before;
    int rv = 0;

    pthread_mutex_lock(&e->record_lock);
    before = e->record;
    if (!e->record.failed) {
        e->record.current = atomic_load(&e->current);
        e->record.durable = e->record.current - 2;
        e->record.objects = objects;
        rv = record_write(e, err);
    }
    if (rv != 0) {
        e->record = before;
    }
    atomic_store(&e->durable, e->record.durable);
    pthread_mutex_unlock(&e->record_lock);
    return rv;
}
