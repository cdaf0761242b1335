/* Acknowledged bytes that a server may have lost: who learns of it, and who is told. */
#ifndef MORSEL_CLIENT_DATA_DURABLE_UV_H
#define MORSEL_CLIENT_DATA_DURABLE_UV_H

#include "client/data/file_uv.h"

/* What the answers of servers say of bytes on their disks, and of changes whose end nobody knows. */
extern const struct column_hooks durable_column_hooks;

/* Bytes of the file that were acknowledged are lost: every handle is told EIO, once, and what was
 * read from it before is forgotten. `why` for the log. */
void durable_lost(struct file *file, const char *why);

/* A change of the file's attributes that was answered has not come to the manager, and never will:
 * every handle of it is told EIO by its next fsync, or the first that is opened. */
void durable_change_lost(struct client *client, inode_id inode);

/* The manager's record of what anybody has reported and nobody has synced, with its answer. */
void durable_listed(struct file_flush *flush, Morsel__Unsynced **columns, size_t count);

/* The flush waited for the report of another one, and for nothing else from the manager: it has the
 * same answer. */
void durable_listed_too(struct file_flush *flush, const struct file_flush *reported);

/* The record is forgotten: it is not of where the flush has synced the file. */
void durable_unlisted(struct file_flush *flush);

/* The flush is durable: compare the record with what the servers said. What is synced, and what is
 * lost and told now, leaves the record, behind. */
void durable_compare(struct file_flush *flush);

/* Is there anything that was written, and perhaps cut off again, and that a server may not have on its
 * disk? */
bool durable_is_unsynced(const struct file *file);

/* What the handle is to be told by fsync beside file_take_error(), once: 0 or MORSEL_IO. */
int durable_take_loss(struct handle *handle);

/* What an answer of the manager of this type says of changes and of its disk. */
void durable_learn(struct client *client, const ProtobufCMessageDescriptor *type,
                   const void *message);

/* What the manager has on its disk, of this run and of those before. NULL: it tells nothing. */
void durable_heard(struct client *client, const Morsel__Durable *durable);

#endif
