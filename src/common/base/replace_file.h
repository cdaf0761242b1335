/* Replace a small file as a whole: behind any crash it is the old one or the new one.
 *
 * Written beside it as NAME.tmp and synced, renamed over it, and the directory synced; without the
 * syncs, file systems may let the name go ahead of the bytes (Pillai et al., "All file systems are
 * not created equal", OSDI 2014). One caller at a time for each file.
 */
#ifndef MORSEL_COMMON_BASE_REPLACE_FILE_H
#define MORSEL_COMMON_BASE_REPLACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { REPLACE_NAME_BYTES_MAX = 64 };

/* `name` in the directory `dir_fd`: at most REPLACE_NAME_BYTES_MAX bytes. With `anyway` the new
 * file takes its place even if it could not be synced, as long as all of it was written. 0 once it
 * is on disk; -1 with errno otherwise. */
int replace_file(int dir_fd, const char *name, const void *bytes, size_t count, bool anyway);

/* Write all from the beginning of the file, whatever the kernel takes at a time. False with errno:
 * ENOSPC if it took nothing. */
bool write_whole_file(int fd, const void *bytes, size_t count);

#endif
