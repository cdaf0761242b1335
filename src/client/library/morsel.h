/* Data sets of MorselFS for programs in C: link with -lmorsel (pkg-config morsel).
 *
 * A data set is a file in a directory of class scavenged ("morsel setpolicy DIR class=scavenged") of a mounted MorselFS. Its bytes
 * lie in morsels on the disks that others donate. It is written once, sealed, and then read:
 *
 *   morsel_set *set;                                     morsel_set *set;
 *   morsel_store("/m/sets/run7", size, &set);            morsel_retrieve("/m/sets/run7", &set);
 *   morsel_put(set, offset, bytes, count);  ...          morsel_get(set, offset, bytes, count);  ...
 *   morsel_seal(set);                                    morsel_close(set);
 *   morsel_close(set);
 *
 * (Each answers with an error: below.) What the set is to have is said before its first byte: one that the cloud is too small for
 * is refused at once, not behind some hours of work; and it is sealed by morsel_seal(), when all of that is there, and never
 * before, whatever happens to the program. One that was interrupted is gone on with by the same morsel_store(), on any machine. Whoever looks at the file sees
 * it grow; whoever retrieves the set gets all of it.
 *
 * The library goes through the mount, and so has the mount's cache, read-ahead, verification, and order with what other programs
 * and machines do; it has no connection and no thread of its own. The same files can be read by any program, and morsel_get() and
 * read(2) may be mixed.
 *
 * Calls block. Different sets, and reservations, may be used by any threads at once. On one set several threads may be in
 * morsel_put(), or in morsel_get(), at once, at places that do not overlap; morsel_seal() and morsel_close() come when the others
 * are through. A set belongs to the process that has opened it; it does not survive fork(2) to be used on both sides.
 *
 * Errors. Calls return 0, or a count where they say so; otherwise a negative number, -errno of errno(3), and then nothing that they
 * hand out is there. morsel_error_text() tells each in a sentence. Those that mean something of their own here:
 *
 *   -EINVAL        an argument makes no sense: a size of 0, a null pointer, a file that is no regular one
 *   -ENODEV        the path lies on no mounted MorselFS
 *   -EOPNOTSUPP    files there do not lie on benefactors: their directory is not of class scavenged
 *   -EDQUOT        it is larger than a third of what all benefactors give
 *   -ENOSPC        no benefactor has room
 *   -EFBIG         it is behind the end that was declared; or too large for morsels of that size
 *   -EEXIST        the file is there, and is to be something else: it has bytes that were not declared so, or another size
 *   -EPERM         the set is sealed
 *   -EBUSY         another program, or another mount, is storing it
 *   -EAGAIN        it is not sealed: it cannot be retrieved yet
 *   -ENODATA       not all of it was put: it cannot be sealed yet; or nothing is reserved there
 *   -EBADF         a set that is retrieved is put, or the other way round; or it is sealed already
 *   -EIO           bytes are lost, or could not be stored; the log of the mount says which
 *
 * What others mean is said in the manual pages of open(2), read(2), write(2) and fsync(2). */
#ifndef MORSEL_CLIENT_LIBRARY_MORSEL_H
#define MORSEL_CLIENT_LIBRARY_MORSEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A data set that is being stored, or retrieved. */
typedef struct morsel_set morsel_set;

/* There is to be a data set of `size` bytes, from 1 on: its file is made, empty, and "morsel datasets" shows it as reserved. May be
 * said again of one that is not sealed: nothing changes, or, as long as nothing is stored, the size. Room is not kept for it. */
int morsel_reserve(const char *path, uint64_t size);

/* There is not to be one after all: what was reserved, or is not sealed, is removed with its file. -ENODATA: it is neither. */
int morsel_cancel(const char *path);

/* Store a data set of `size` bytes, from 1 on, which is reserved by this or was before. What an earlier morsel_store() of that size
 * has left counts: morsel_stored(). The bytes must be the same, then. The caller owns *set_out, until morsel_close(). */
int morsel_store(const char *path, uint64_t size, morsel_set **set_out);

/* Bytes from the beginning of the set that were there when it was opened, and need not be put again. 0 for a new one. */
uint64_t morsel_stored(const morsel_set *set);

/* These bytes begin at `offset` of the set. Pieces may have any size and come in any order; in order, and large, is fastest. They may
 * still be on their way when it returns. All of the set behind morsel_stored() has to be put, each
 * byte once. */
int morsel_put(morsel_set *set, uint64_t offset, const void *bytes, size_t count);

/* All was put: it is complete, and read-only from now on. When this returns 0 each byte is on the disk of one benefactor at least,
 * and with as many as there are to be copies. With -ENODATA more may be put, and it may be sealed again; behind other errors it is to
 * be closed, and stored again. */
int morsel_seal(morsel_set *set);

/* Read a data set that is sealed. The caller owns *set_out, until morsel_close(). */
int morsel_retrieve(const char *path, morsel_set **set_out);

/* Bytes: what it has, or is to have. */
uint64_t morsel_size(const morsel_set *set);

/* Bytes from `offset` of the set on. Returns how many: `count`, and fewer only where the set ends. In order is fastest: what comes
 * next is then fetched from all benefactors at once. `count` is at most INT64_MAX. */
int64_t morsel_get(morsel_set *set, uint64_t offset, void *bytes, size_t count);

/* Done with it. One that is being stored, and is not sealed, stays as far as it came; morsel_store() goes on. NULL is allowed. */
void morsel_close(morsel_set *set);

/* A sentence without its full stop: what that negative number means. Never NULL; it stays. */
const char *morsel_error_text(int error);

#ifdef __cplusplus
}
#endif

#endif
