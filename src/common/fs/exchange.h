/* A file gets another layout while it is in use: how its bytes move, and what a mount offers for it.
 *
 * Pure. Who wants a file to lie otherwise (`morsel recopy`) copies it through a mount, as anybody could,
 * and then asks for an exchange:
 *
 *   0. where other mounts have it open for writing, PAUSE (below), before 2. and, as it ends by itself, not for long
 *   1. open the file, to read is enough, and make one without a name in its directory (O_TMPFILE), which gets the
 *      layout that new files get there
 *   2. EXCHANGE_BEGIN on the file: everything that was written to it is on disk. It tells a state
 *   3. copy the bytes
 *   4. EXCHANGE_COMMIT on the file, with that state: the two exchange layouts and objects, in one change
 *   5. close the file without a name: with it go the objects that the file had before
 *
 * Nobody ever sees a byte that is older than one that was there, whatever is killed between any two of these
 * steps, for these reasons:
 *
 * - Nothing has been written since the state was told. No other mount wrote, for this one has held a lease
 *   on the file without a gap, R or W, and who opens it for writing elsewhere takes that; nor did this one, for each change that it sends to a server counts. Else:
 *   EAGAIN, the copy is worth nothing. Both are looked at when nothing of the file is under way.
 * - Nothing of either file is under way while they exchange. The mount keeps what the kernel asks about them
 *   (src/client/fuse/exchange_fuse.c), and waits for what it has begun.
 * - No other mount has the file open for writing, but those that hold still (below), or has its size lock, under which it
 *   might be cutting it: else the manager refuses: EBUSY. And no other mount keeps where it lies, for the manager takes back all leases on it before.
 * - Other mounts may have it open to read. What they ask of its servers while the file moves is answered with the bytes
 *   of before, which are those of now; or, when these are deleted, with nothing, as a hole is. So where no lease was
 *   held from the question to the answer, what is missing is asked for again, behind a word of the manager's and under
 *   the size lock, beside which nothing moves (read_uv.h; for holes range_is_sure()).
 * - Whatever a mount is told of the file says where its bytes are now (Attr.place), before it may ask the servers for
 *   any: it waits until it knows that (size_uv.h). So it is, too, with a mount that the manager had given up, or that
 *   had not yet told a manager that was started again, which may have it open for writing: what programs ask meanwhile
 *   and cannot wait is refused (file_uv.h, Astray).
 * - Two mounts that want the same do not wait for each other's leases: the second one is refused (EBUSY).
 * - The copy is on the disks of its servers before, and the change on the manager's before it is answered. So
 *   neither what is written next goes to objects that are forgotten, nor is the only copy deleted.
 * - The numbers of objects are never used again (src/meta/namespace/namespace_exchange.c): a late deletion
 *   of those of before meets nothing else.
 * - Whether it was done or not, the mount asks the manager where the files lie, as often as it takes, before
 *   it goes on with either: an answer that was lost leaves nobody at the wrong objects. Who asks about the files
 *   meanwhile, and who has asked for the exchange, waits for io_timeout and gets EIO.
 * - Who copies may die at any moment. Its file without a name ends with it, with whichever objects that has
 *   by then.
 *
 * PAUSE. What other mounts have open for writing moves while they hold still. Who copies asks the manager for that, which asks
 * all of them (meta/coherence/pauses.h). Each keeps what its kernel asks about the file from then on, waits for what it has begun,
 * with its size locks, has everything that it wrote on the disks of the servers, and says so (PAUSED); what it has lost it tells
 * to whoever wrote it, and then it does not hold still (client/fuse/pause_fuse.c). When all have said so nobody changes the file,
 * and who asked is granted a lease on it, as where nobody else had it open. Then it begins (2.).
 *
 * - Who holds still does so until the manager has answered its PAUSED, however long that takes: cut off, stopped, or behind a new
 *   run of the manager. So no clock decides whether it does: it has said so, and was not answered. The manager looks at that when
 *   it carries the exchange out, and refuses it while somebody has the file open for writing who does not: EBUSY.
 * - It is answered when the pause is over: with the exchange, RESUME, the end of who asked, somebody who opens the file for
 *   writing, or its time; and before, the lease of who asked is taken back, so an exchange that comes later is refused. The
 *   answer says where the file lies, and that is on the manager's disk: what is written there stays there.
 * - A mount that was given up, its session over, counts no more, as ever; whatever it asks next it is told that the file has moved.
 *   What it says of bytes that are not synced is not recorded, and what is recorded it does not compare with what the servers say
 *   that have the file no more: what it had to sync it syncs where the file lies (client/data/flush_uv.c).
 *   The end of its lease period is the end of what it had sent.
 * - A mount that does not know how to hold still (its SESSION says so), or is away, is not waited for: EBUSY.
 * - Programs whose calls are kept see nothing but a call that took longer; only when the manager is away for io_timeout besides, EIO.
 *
 * Copied beforehand. What is large is copied while everybody goes on, and only what was changed since once more, while they hold
 * still: each server that orders changes of an object can be told to watch it (WATCH; common/store/watches.h), before the
 * first byte is read, and says later which parts were changed since. All who change it are heard there, be it which mount it may.
 *
 * - A change that was carried out before the watch began is read by who copies. One that is carried out later is noted before it
 *   changes a byte. Of a group with copies it is who orders that watches, and answers, by the rules by which it answers a read of the
 *   whole object: so no change that anybody was told of is missing, nor one that is under way.
 * - A watch is known to one server, in memory. Where that was started again, or another one orders, or the file has moved, nobody
 *   knows it: then all has to be copied again. So it is, too, where a write of the copying mount itself came to nothing, for who
 *   reads there has perhaps read it, and no server has heard of it.
 * - When what was changed since is copied in turn, the next watch has begun before that is asked for.
 * - Behind where the file ended when it was read nothing is known: bytes may lie there since before the watch began, of a call that was
 *   not over yet, so that nobody had heard how long the file is with them. That is copied the next time, whatever the servers say.
 * - The last time it is asked behind 2., and what it says is copied before 4.
 *
 * What a program has mapped is written back by the kernel behind the exchange, to where the file lies then. */
#ifndef MORSEL_COMMON_FS_EXCHANGE_H
#define MORSEL_COMMON_FS_EXCHANGE_H

#include "common/base/types.h"

#include <linux/ioctl.h>

struct exchange_state
{
    uint64_t lease;   /* Which one this mount has held since, */
    uint64_t changes; /* and how many changes it has begun. */
};

struct exchange_commit
{
    struct exchange_state state;
    uint64_t
        with; /* The inode of the other file: open for writing on the same mount, without a name, and as
                      long. Who asks owns both, or is root. */
};

/* PAUSE: EBUSY: they do not all hold still; where it has been done nobody goes on for some seconds. RESUME: nothing is wrong
 * where nobody holds still.
 * BEGIN: EAGAIN: it is being changed just now; begin again. COMMIT: EAGAIN: it has been written since.
 * Both: EBUSY: it is open for writing on another mount, or something of it does not come to its end; try later.
 * EOPNOTSUPP: the mount keeps nothing (-o nocache), and so cannot know that nobody writes. */
#define EXCHANGE_BEGIN  _IOR('M', 1, struct exchange_state)
#define EXCHANGE_COMMIT _IOW('M', 2, struct exchange_commit)
enum {
    EXCHANGE_PAUSED_MS =
        8000 /* A mount holds still for so long, and for what a lease takes to come back. */
};

#define EXCHANGE_PAUSE  _IO('M', 3)
#define EXCHANGE_RESUME _IO('M', 4)

/* Bytes from `start` up to, without, `end`. */
struct exchange_stretch
{
    uint64_t start, end;
};

enum { EXCHANGE_STRETCHES_MAX = 500 };

struct exchange_watch
{
    uint64_t begin; /* The number of a watch that begins, drawn at random; 0: none does. */
    uint64_t since; /* What was changed since that one began? 0: nothing is asked. */
    uint64_t from;  /* And behind that offset. */
    uint64_t next;  /* Answered: ask on from there; UINT64_MAX: that was all. */
    uint32_t
        count; /* Answered: so many, in their order. They may be longer than what was changed, and than the file. */
    uint32_t unused;
    struct exchange_stretch stretches[EXCHANGE_STRETCHES_MAX];
};

/* For root, and who owns the file. ENODATA: it is not known what was changed since; all may have been. EOPNOTSUPP: a server of the
 * file is of an older version. */
#define EXCHANGE_WATCH _IOWR('M', 5, struct exchange_watch)

#endif
