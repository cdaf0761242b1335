/* Chunks: what a file's write buffer is made of, and their way to the servers. struct chunk is in
 * file_uv.h, what makes one of the bytes that programs write in write_uv.c, truncations in
 * truncate_uv.c, how much of one goes at once in room_uv.c, all else in chunk_uv.c.
 */
#ifndef MORSEL_CLIENT_DATA_CHUNK_UV_H
#define MORSEL_CLIENT_DATA_CHUNK_UV_H

#include "client/data/file_uv.h"

enum { CHUNK_BYTES_MAX = 1 << 20 };

/* Of all files; for the write buffer's own files only. */
struct write_buffers
{
    uint64_t dirty_bytes;     /* In chunks. */
    struct list room_waiting; /* struct file: chunks that the link to their server does not take. */
};

/* client->data.buffers. MORSEL_NOMEM. */
int write_buffers_open(struct client *client);
void write_buffers_close(struct client *client);

bool chunk_overlaps(const struct chunk *c, uint64_t offset, uint64_t length);

/* So many bytes more wait in the buffer. */
void file_dirty_add(struct file *file, uint64_t bytes);

/* Chunks are in the order in which they were made: what was dirty when somebody began to wait
 * (file->buffer.made was `upto`) has gone when the oldest is younger than that. */
bool file_is_drained(const struct file *file, uint64_t upto);

/* It does not wait for neighbours any more. Harmless when repeated. */
void chunk_ready(struct chunk *chunk);

/* None does; they are sent, as far as they may go. */
void file_all_ready(struct file *file);

/* May the chunk, which is ready, be sent now? Then it is cut to what the link takes at once: the
 * rest is another chunk, right behind it. Otherwise its file is told when there is room. */
bool chunk_take_room(struct chunk *chunk);

/* It goes into the file's list, as the youngest. */
void chunk_enlist(struct chunk *chunk, struct file *file);

/* What was not sent of it from `from` on is not going to be; a truncation goes as a whole. Perhaps
 * nothing is left of it. */
void chunk_trim(struct chunk *chunk, uint64_t from);

/* It came too late, and is ready to go again. False: that has been so for too long. */
bool chunk_may_try_again(struct chunk *chunk);

/* The servers of these columns (bits) have not answered in io_timeout. What waits for them and is
 * as old has waited as long, and is given up; younger ones get what is left of it. */
void file_fail_behind(struct file *file, uint64_t columns);

/* What programs were told is written will not be: they are told, and the kernel drops it. */
void chunk_lost(struct chunk *chunk, int status);

/* So many bytes of it have come to where they belong. */
void chunk_landed(struct chunk *chunk);

/* It was answered, well or not, and goes. */
void chunk_end(struct chunk *chunk);

/* Some have gone, or come: others may go, and who waited may go on. */
void file_chunks_changed(struct file *file);

/* ---- Of scavenged files (scavenged_uv.c) ---- */

enum { SCAVENGED_SENDING_MAX = 32 /* Chunks under way, of one file. */ };

/* May one more chunk be sent? */
bool scavenged_has_room(const struct file *file);

/* Send the chunk; it ends with chunk_end(). Otherwise than 0 it will not. */
int scavenged_write(struct chunk *chunk);

#endif
