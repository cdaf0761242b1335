/* The one list of outcomes: name, number on the wire, errno for FUSE, words for people.
 *
 * Pure. Every fallible function of MorselFS returns an `int` that is 0 (MORSEL_OK) or one of these
 * negative numbers. The numbers are part of the wire format: never renumber, only append.
 */
#ifndef MORSEL_COMMON_BASE_STATUS_H
#define MORSEL_COMMON_BASE_STATUS_H

#include <errno.h>

#define STATUS_MAP(X)                                                                              \
    X(MORSEL_MALFORMED, -1, EPROTO, "message or record is malformed")                              \
    X(MORSEL_VERSION, -2, EPROTO, "version is not supported")                                      \
    X(MORSEL_UNKNOWN_TYPE, -3, EOPNOTSUPP, "message type is unknown")                              \
    X(MORSEL_CHECKSUM, -4, EIO, "data does not match its checksum")                                \
    X(MORSEL_CORRUPT, -5, EIO, "stored record is damaged")                                         \
    X(MORSEL_WRONG_CLUSTER, -6, EIO, "peer or directory belongs to another cluster")               \
    X(MORSEL_UNREACHABLE, -7, EIO, "server cannot be reached")                                     \
    X(MORSEL_TIMEDOUT, -8, ETIMEDOUT, "no answer within the time limit")                           \
    X(MORSEL_CANCELED, -9, EINTR, "operation was interrupted")                                     \
    X(MORSEL_SHUTDOWN, -10, EIO, "server is shutting down")                                        \
    X(MORSEL_NOMEM, -11, ENOMEM, "out of memory")                                                  \
    X(MORSEL_IO, -12, EIO, "input/output error")                                                   \
    X(MORSEL_OVERLOAD, -13, ENOBUFS, "server is at its limit of requests")                         \
    X(MORSEL_NO_SERVERS, -14, ENOSPC, "no storage server is available for placement")              \
    X(MORSEL_NO_SESSION, -15, ESTALE, "client has no session with the manager")                    \
    X(MORSEL_EXISTS_LOCKED, -16, EBUSY, "directory is in use by another process")                  \
    X(MORSEL_TOO_LARGE, -17, EMSGSIZE, "message exceeds a limit")                                  \
    X(MORSEL_NOENT, -30, ENOENT, "no such file or directory")                                      \
    X(MORSEL_EXIST, -31, EEXIST, "already exists")                                                 \
    X(MORSEL_NOTDIR, -32, ENOTDIR, "not a directory")                                              \
    X(MORSEL_ISDIR, -33, EISDIR, "is a directory")                                                 \
    X(MORSEL_NOTEMPTY, -34, ENOTEMPTY, "directory is not empty")                                   \
    X(MORSEL_ACCES, -35, EACCES, "permission denied")                                              \
    X(MORSEL_PERM, -36, EPERM, "operation is not permitted")                                       \
    X(MORSEL_XDEV, -37, EXDEV, "crosses file systems")                                             \
    X(MORSEL_INVAL, -38, EINVAL, "argument is invalid")                                            \
    X(MORSEL_NAMETOOLONG, -39, ENAMETOOLONG, "name is too long")                                   \
    X(MORSEL_NOSPC, -40, ENOSPC, "no space left")                                                  \
    X(MORSEL_DQUOT, -41, EDQUOT, "quota exceeded")                                                 \
    X(MORSEL_FBIG, -42, EFBIG, "file is too large")                                                \
    X(MORSEL_MLINK, -43, EMLINK, "too many links")                                                 \
    X(MORSEL_NODATA, -44, ENODATA, "no such attribute")                                            \
    X(MORSEL_RANGE, -45, ERANGE, "result does not fit")                                            \
    X(MORSEL_ROFS, -46, EROFS, "file system is read-only")                                         \
    X(MORSEL_STALE, -47, ESTALE, "file no longer exists")                                          \
    X(MORSEL_BUSY, -48, EBUSY, "resource is busy")                                                 \
    X(MORSEL_NOTSUP, -49, EOPNOTSUPP, "operation is not supported")                                \
    X(MORSEL_NXIO, -50, ENXIO, "offset is beyond the end of the file")                             \
    X(MORSEL_2BIG, -51, E2BIG, "argument is too large")                                            \
    X(MORSEL_AGAIN, -52, EAGAIN, "try again")                                                      \
    X(MORSEL_NOLCK, -53, ENOLCK, "no room for more locks")                                         \
    X(MORSEL_DEADLK, -54, EDEADLK, "waiting for this lock would never end")                        \
    X(MORSEL_TOO_LATE, -55, EIO,                                                                   \
      "the client's lease period was over before its request was carried out")                     \
    X(MORSEL_UNSURE, -56, EIO, "the server cannot know whether the change was made before")        \
    X(MORSEL_NOT_HERE, -57, EIO, "another server of the group answers this")                       \
    X(MORSEL_LEFT_BEHIND, -58, ESTALE, "data directory is an old copy of another one")             \
    X(MORSEL_REMOVED, -59, EIO, "server was removed from the cluster")

#define X(name, wire, unix_errno, words) name = wire,
enum morsel_status { MORSEL_OK = 0, STATUS_MAP(X) };
#undef X

/* Words for `status`, without a final full stop. A number that is not in the list, which can only
 * come from the wire, gives "unknown status". Never NULL. */
const char *status_words(int status);

/* The symbolic name, "MORSEL_NOENT"; "MORSEL_?" for a number that is not in the list. */
const char *status_name(int status);

/* The positive errno that a system call returns for `status`; 0 for MORSEL_OK, EIO for a number
 * that is not in the list. */
int status_to_errno(int status);

/* The status for a positive errno of this machine; MORSEL_IO where the list has no better one. */
int status_from_errno(int unix_errno);

#endif
