/* What the manager has told a server and the server keeps for the time when the manager cannot be
 * asked: a message in a small file of its own.
 *
 *   8 bytes of magic, format, checksum of the rest, and the packed message
 *
 * The manager tells it again to whoever has lost it, so a damaged file is no more than that. Calls
 * block: they are for the start, and for the pool. */
#ifndef MORSEL_IOD_KEPT_FILE_H
#define MORSEL_IOD_KEPT_FILE_H

#include "common/base/buf.h"
#include "common/base/errmsg.h"

#include <protobuf-c/protobuf-c.h>

struct kept_kind
{
    const char *name; /* Of the file. */
    char magic[8];
    const ProtobufCMessageDescriptor *descriptor;
    bool (*sound)(const ProtobufCMessage *message); /* Is it what a manager says? */
};

/* To be freed with protobuf_c_message_free_unpacked(); NULL when there is none, or it fails with one
 * sentence: MORSEL_CORRUPT, MORSEL_VERSION, MORSEL_NOMEM, MORSEL_IO ... */
int kept_read(const struct kept_kind *kind, const char *dir, ProtobufCMessage **message,
              struct errmsg *err);

/* What the file is to hold. False: no memory, or the message is not sound. */
bool kept_fill(const struct kept_kind *kind, const ProtobufCMessage *message, struct buf *bytes);

/* In place of what was there; 0 when it is on disk. */
int kept_write(const struct kept_kind *kind, const char *dir, const struct buf *bytes,
               struct errmsg *err);

#endif
