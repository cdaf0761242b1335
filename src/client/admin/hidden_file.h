/* A file that nobody sees before it is complete: it is made without a name (O_TMPFILE) and gets its name in the end, in one step. So
 * whoever is killed in between leaves nothing.
 *
 * Where a kernel or a file system cannot do that it has a hidden name until then, ".morsel-" and a number, and the signals with which
 * a user ends a command are held back meanwhile: hidden_interrupted() sees them. So they are while one that takes another's place has
 * a hidden name for a moment, for rename(2) wants one. Only SIGKILL leaves such a file. */
#ifndef MORSEL_CLIENT_ADMIN_HIDDEN_FILE_H
#define MORSEL_CLIENT_ADMIN_HIDDEN_FILE_H

#include "common/base/types.h"

enum { HIDDEN_PATH_MAX = 4096 };

struct hidden_file
{
    char until_then
        [HIDDEN_PATH_MAX]; /* Its name for the time being; empty: it has none, or its own. */
};

/* The directory in which the path is: "." where it names none. */
void hidden_directory_of(const char *path, char directory[HIDDEN_PATH_MAX]);

/* Make it in that directory, for reading and writing. Returns the descriptor, which is the caller's, or -1 and errno. */
int hidden_make(struct hidden_file *h, const char *directory);

/* Does the user want the command to end, and is that held back? */
bool hidden_interrupted(void);

/* It gets its name, through any descriptor of it, in the directory where it was made; `replace`: in the place of what may have that
 * name. 0, or -1 and errno: EEXIST. */
int hidden_name(struct hidden_file *h, int fd, const char *path, bool replace);

/* It is not wanted any more. Nothing happens to one that has got its name, or has none. */
void hidden_drop(struct hidden_file *h);

#endif
