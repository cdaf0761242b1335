/* A message that gains context on its way up, for the one line that is logged where an error is
 * handled: "load root inode: read MANIFEST: no such file".
 *
 * Pure. A fixed buffer by value; what does not fit is cut. NULL is allowed everywhere and means
 * that the caller does not want the words.
 */
#ifndef MORSEL_COMMON_BASE_ERRMSG_H
#define MORSEL_COMMON_BASE_ERRMSG_H

struct errmsg
{
    char text[512]; /* Always terminated; empty when nothing was set. */
};

/* Replace the message. */
void errmsg_set(struct errmsg *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Put "context: " in front of the message. */
void errmsg_wrap(struct errmsg *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
