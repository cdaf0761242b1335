/* What the kernel believes of an open file: what it was told of it last, what its pages may hold, and
 * what it is at just now; and so what it is to be told next, and what it has to drop.
 *
 * Pure, one for each open file (file->kernel). The kernel's side of it: it keeps pages and a size.
 * Before a read through its pages it asks (GETATTR with a handle, a question of its own) when what it
 * knows is old. It takes over the answer, unless anything has been taken over since it asked: the
 * answer to a WRITE, to another question, a notification. Then it passes the answer over, and goes
 * on with the size and the pages that it has.
 *
 *            PAGES OF OUR OWN -- a question or READ of a time of sharing, a direct WRITE --> SHARED PAGES
 *                   ^                                                                          |
 *                   +------------- a question when the file is ours again: they go ------------+
 *
 *   Pages of our own  hold what we have read under a lease, and our own writes: to these questions
 *                     the time of the last change is the one that the kernel knows, or it would drop
 *                     them.
 *   Shared pages      are of use to nobody: they go before each question is answered, so that the
 *                     READ behind it comes to us. But that makes the kernel pass over the answer. So
 *                     only the answer itself tells that a file is shorter than was told last, with a
 *                     time that never repeats, and the pages stay: they go with the size.
 *                     Where it may be passed over all the same (kernel_question_crossed()) they go
 *                     first, and the READ tells it, by how little it brings: for its sake WRITEs
 *                     are answered behind the READs that were there before them. Where nothing has
 *                     crossed it, nothing shall: it is only taken in when the thread that asked runs
 *                     again, so WRITEs are not answered until that thread asks for something else,
 *                     or KERNEL_TAKES_IN_MS are over. Likewise the answer to a WRITE crosses when the
 *                     thread that wrote takes it in, which may be for KERNEL_WRITER_MS, unless it is
 *                     the one that asks.
 *
 * A file that is ours again may have become longer meanwhile. Where the first answer of that lease may
 * be passed over, the kernel would read on up to the end that it knows: then it is told the size, and
 * the pages go. From then on nobody else makes it longer, as long as the lease is held.
 *
 * What is mapped asks nothing: it is dropped now and then, from the first look that finds the file
 * shared until one that does not (pages_old). That drop, too, makes the kernel pass over what it has
 * been told since it asked, and over how little a READ brings: the reader would get zeros for the end.
 * So it comes where no question and no READ behind one is under way, nor has been just now; as long as
 * there are some, they drop the pages themselves.
 *
 * Invariants: questions, READs and WRITEs under way are counted as often as they end (asked_reads <=
 * reads); who waits among `held` is a WRITE that is under way, and waits for at least one READ that is,
 * or for an answer to be taken in.
 *
 * Source: Linux, fs/fuse: fuse_change_attributes() and fuse_reverse_inval_inode() (inode.c),
 * fuse_cache_read_iter() and fuse_short_read() (file.c).
 */
#ifndef MORSEL_CLIENT_COHERENCE_KERNEL_VIEW_H
#define MORSEL_CLIENT_COHERENCE_KERNEL_VIEW_H

#include "common/base/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* On a busy machine. Nobody knows better: it does not say when it has taken an answer in. */
enum { KERNEL_TAKES_IN_MS = 1000, KERNEL_WRITER_MS = 20 };

/* A READ that comes later, and is not the first, is not of who has asked, but of what is mapped. */
enum { KERNEL_QUIET_MS = 250 };

enum { KERNEL_READ_LONG_MS = 500 };

/* Looked into by kernel_view.c alone. */
struct kernel_view
{
    struct timespec mtime; /* It was told last; 0: not known. */
    uint64_t size;         /* It was told last, or has written since. */
    uint64_t written;      /* It has written up to there, and was told of no earlier end since. */
    uint64_t lease;        /* Under this one it has heard how long the file is; 0: not yet. */
    unsigned asks;         /* Questions of its own that the manager is asked, */
    unsigned writes;       /* WRITEs that are not answered yet, */
    unsigned reads;        /* and READs for its pages, of a time of sharing; */
    unsigned asked_reads;  /* those of them that came behind a question. */
    uint64_t read_ms;      /* Then one has ended, or the first of these has begun. */
    uint64_t asked_ms;     /* Then a question, or a READ behind one, was answered. */
    struct list held;      /* struct kernel_write: for the end of those, or for the taker. */
    struct list awaited;   /* In the list of kernel_question_answered(): an answer tells that it */
    uint32_t taker;        /* is shorter, and has not been taken in by this thread; 0: not known. */
    uint64_t taken_in_ms;  /* Then it has been. */
    uint32_t writer;       /* This thread (0: several, or not known) was given the answer to its */
    uint64_t wrote_ms;     /* WRITE then, and may have to take it in yet. */
    uint64_t changes;      /* What makes it pass over answers to questions that were asked */
    uint64_t changed_ms;   /* before: how often, and when it happened last. */
    bool read_follows;     /* A question was answered, and no READ came since. */
    bool pages_shared;     /* Shared pages, */
    bool pages_old;        /* and those that are to be dropped now and then. */
};

void kernel_view_init(struct kernel_view *v);

/* The file is closed: nothing waits (checked). */
void kernel_view_end(struct kernel_view *v);

/* ---- What it is told ---- */

/* It has been answered, or told, what makes it pass over the answers to what it has asked before. */
void kernel_view_changed(struct kernel_view *v, uint64_t now_ms);

/* It is told that the file is as long, and when it was changed: by an answer to anything but a
 * question of its own. */
void kernel_view_told(struct kernel_view *v, uint64_t size, const struct timespec *mtime);

/* A question of its own. Zeroed before the first kernel_question_begin(). */
struct kernel_question
{
    uint64_t changes; /* view->changes, when it was asked; */
    bool crossed;     /* another one may have come between the question and us. */
    uint64_t shorter; /* The answer tells that the file is shorter than this; 0: not so. */
    uint64_t size;    /* So long is it by the answer, */
    uint64_t lease;   /* and under this lease it is ours; 0: others may change it. */
};

/* It is here; or asked anew, for the answer had to wait. `v` NULL: the file is not open. */
void kernel_question_begin(struct kernel_question *q, const struct kernel_view *v, uint64_t now_ms);

/* The answer will have to wait: much may happen. */
void kernel_question_delayed(struct kernel_question *q);

/* Answer it: what the attributes say, and is to be told. */
struct kernel_answer
{
    uint64_t size;
    struct timespec mtime;
    bool fleeting; /* Not to be kept for any time. */
    bool drop;     /* The pages first. */
};

/* `lease`: that under which the file is ours, a number that no other lease on it has; 0: others may
 * change the file. `never_twice` is counted up where a time is to be like no other. */
void kernel_question_answer(struct kernel_question *q, struct kernel_view *v, uint64_t lease,
                            uint32_t *never_twice, struct kernel_answer *answer);

/* Does the answer tell that the file is shorter, or may the kernel believe in an earlier end than it
 * tells; and will it be passed over, or may it be? Then the pages go first all the same, and with them
 * the kernel hears that the file has at least so many bytes; that it is shorter the next answer tells
 * again. `drops`: the kernel is being told to drop something. `thread` has asked; 0: not known. `v`
 * NULL: no. */
bool kernel_question_crossed(const struct kernel_question *q, struct kernel_view *v, bool drops,
                             uint32_t thread, uint64_t now_ms);

/* The answer goes to the kernel, without a drop before it; `thread` has asked, 0: not known. Where it
 * tells that the file is shorter, `v` is among `awaited` from now on, the views of all files of the
 * mount of which that is so, oldest first. `v` NULL: nothing happens. */
void kernel_question_answered(const struct kernel_question *q, struct kernel_view *v,
                              uint32_t thread, uint64_t now_ms, struct list *awaited);

/* The thread asks for something (else, the next time): it has taken in what it was answered; or it is
 * so late, and whoever is awaited must have. WRITEs that are to be answered then come into `free`
 * (empty before). */
void kernel_views_heard(struct list *awaited, uint32_t thread, struct list *free);
void kernel_views_late(struct list *awaited, uint64_t now_ms, struct list *free);

/* When kernel_views_late() is due; UINT64_MAX: it is not. */
uint64_t kernel_views_due_ms(const struct list *awaited);

/* ---- What it is at ---- */

/* The manager is asked for its sake; and it is answered (by whomever). */
void kernel_view_asks(struct kernel_view *v);
void kernel_view_asked(struct kernel_view *v, uint64_t now_ms);

/* Is what is read and written through a handle to pass by the pages? Of a shared file they are of no
 * use, and in the way: it would ask before each read. And an append that crosses pages would come in
 * two WRITEs, between which another mount could append. */
struct kernel_handle
{
    bool maps_direct; /* The kernel maps handles that pass by its pages; */
    bool shared;      /* only then does it matter whether the file is shared. */
    bool append, reads, writes;
};
bool kernel_handle_is_direct(const struct kernel_handle *h);

/* A READ, embedded in the host's request. Zeroed before. */
struct kernel_read
{
    bool counts; /* It is for its pages, of a time of sharing. */
    bool asked;  /* It came behind a question. */
};

/* One that counts is here; and any has been answered, which puts the WRITEs into `free` (empty before)
 * that are to be answered then. */
void kernel_view_reads(struct kernel_view *v, struct kernel_read *r, uint64_t now_ms);
void kernel_view_read_ends(struct kernel_view *v, const struct kernel_read *r, uint64_t now_ms,
                           struct list *free);

/* A WRITE, embedded in the host's request. */
struct kernel_write
{
    struct list node; /* In view->held, or `free`. */
    unsigned behind;  /* So many READs are to end first; and nothing may be awaited. */
};

/* It is here. */
void kernel_view_writes(struct kernel_view *v);

/* It has been done, up to `end`; 0: it has failed. `more`: it goes on with what comes next, for which
 * a READ may be waiting. False: it is not to be answered before it comes with a list `free`. */
bool kernel_view_wrote(struct kernel_view *v, struct kernel_write *w, bool direct, uint64_t end,
                       bool more);

/* It is answered now, to the thread. */
void kernel_view_write_ends(struct kernel_view *v, uint32_t thread, uint64_t now_ms);

/* ---- What is mapped ---- */

/* A look, now and then: may it hold pages that grow old? */
bool kernel_view_grows_old(struct kernel_view *v, bool shared);

/* May they be dropped now, when all that it has asked for has been read? Not beside a question, or a READ behind one, or shortly
 * behind these, for it would pass over what they tell; nor while READs have not been answered for long: the drop would wait for
 * their pages, and take them from who reads, whatever the answer is, so that he asks for them anew, and never hears of an error.
 * Then the next look tries again. */
bool kernel_view_may_freshen(const struct kernel_view *v, uint64_t now_ms);

/* They are being dropped. */
void kernel_view_freshened(struct kernel_view *v, bool shared);

#endif
