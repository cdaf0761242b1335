/* The file DIR/key (owner_key.h), and where DIR is when nobody says it. */
#ifndef MORSEL_COMMON_DAEMON_OWNER_KEY_FILE_H
#define MORSEL_COMMON_DAEMON_OWNER_KEY_FILE_H

#include "common/daemon/config.h"
#include "common/daemon/datadir_file.h"
#include "common/daemon/owner_key.h"

/* Where morsels of the user who runs us lie when he says nothing: /var/lib/morselfs/benefactor for root, otherwise
 * $XDG_DATA_HOME/morselfs, which is ~/.local/share/morselfs unless that is set. Nothing is made. */
int owner_data_dir(char path[CONFIG_STRING_MAX], struct errmsg *err);

/* Write the key of this process, with a new secret, for who listens on `listens`. The directory is open. */
int owner_key_make(const struct datadir *datadir, const char *listens, struct owner_key *key,
                   struct errmsg *err);

/* It is of no use any more. Harmless when it is gone already. */
void owner_key_remove(const struct datadir *datadir);

/* The key of the benefactor that runs with the directory `path`. MORSEL_NOENT: none runs there; MORSEL_ACCES: whoever
 * asks may not read it; MORSEL_IO, and those of owner_key_parse(). */
int owner_key_read(const char *path, struct owner_key *key, struct errmsg *err);

#endif
