/* Where the manager is: --manager, $MORSEL_MANAGER, /etc/morselfs/client.conf, the development
 * cluster. */
#ifndef MORSEL_CLIENT_ADMIN_MANAGER_FILE_H
#define MORSEL_CLIENT_ADMIN_MANAGER_FILE_H

#include "client/admin/admin.h"

#define CLIENT_CONFIG_PATH "/etc/morselfs/client.conf"

/* The first of the places above that names one. False with a sentence when none does, or the file
 * is bad. */
bool manager_find(const struct admin_settings *settings, char address[CONFIG_STRING_MAX],
                  struct errmsg *err);

/* Options that every command knows; the table that reads the configuration file. */
extern const struct config_table manager_table;

#endif
