/* How the owner of a desktop finds the benefactor that runs on it, and is let in. Pure; owner_key_file.h has the file.
 *
 * The running benefactor has a file DIR/key in its donated directory, which only the user whose it is may read (and root):
 *
 *   format = 1
 *   lock = 1311
 *   secret = <32 hex digits>
 *   address = 127.0.0.1:7462
 *
 * Each line is there once, in this order. The *secret* is random in each process: who can say it can read the directory, and
 * who answers at the address when that process has ended learns one that is worth nothing. It goes no way but the one inside
 * this machine. *lock* is the number of the inode of DIR/lock: a copy of the directory has another one, and speaks for nobody.
 */
#ifndef MORSEL_COMMON_DAEMON_OWNER_KEY_H
#define MORSEL_COMMON_DAEMON_OWNER_KEY_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

enum {
    OWNER_KEY_FORMAT = 1,
    OWNER_SECRET_BYTES = 16,
    OWNER_ADDRESS_BYTES_MAX = 272,  /* With the zero at the end. */
    OWNER_KEY_TEXT_BYTES_MAX = 512, /* With the zero at the end. */
};

struct owner_key
{
    uint64_t lock; /* Inode. */
    uint8_t secret[OWNER_SECRET_BYTES];
    char address[OWNER_ADDRESS_BYTES_MAX];
};

/* Where somebody on this machine reaches who listens on `listens`: 0.0.0.0:7462 is every address of it. */
void owner_key_address(const char *listens, char address[OWNER_ADDRESS_BYTES_MAX]);

/* The text, terminated. Returns its length without the zero. */
size_t owner_key_format(const struct owner_key *key, char text[OWNER_KEY_TEXT_BYTES_MAX]);

/* Read the bytes of the file; `path` is the directory, for the words. MORSEL_CORRUPT: owner_key_format() does not write
 * this. MORSEL_VERSION: a newer format. */
int owner_key_parse(struct slice bytes, const char *path, struct owner_key *key,
                    struct errmsg *err);

/* In a time that does not depend on where they differ. */
bool owner_secret_equal(const uint8_t a[OWNER_SECRET_BYTES], const uint8_t b[OWNER_SECRET_BYTES]);

#endif
