/* Looks for the manager's address, the nearest source first. */
#include "client/admin/manager_file.h"

#include "client/admin/cluster_proc.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

static const struct config_option options[] = { ADMIN_COMMON_OPTIONS };

const struct config_table manager_table = { "morsel", "", "", options, ARRAY_COUNT(options) };

bool manager_find(const struct admin_settings *settings, char address[CONFIG_STRING_MAX],
                  struct errmsg *err)
{
    const char *environment = getenv("MORSEL_MANAGER");
    struct admin_settings from_file;
    int rv;

    if (settings->manager[0] != '\0') {
        memcpy(address, settings->manager, CONFIG_STRING_MAX);
        return true;
    }
    if (environment != NULL && environment[0] != '\0' && strlen(environment) < CONFIG_STRING_MAX) {
        memcpy(address, environment, strlen(environment) + 1);
        return true;
    }
    config_defaults(&manager_table, &from_file);
    rv = config_read_file(&manager_table, &from_file, CLIENT_CONFIG_PATH, err);
    if (rv != 0 && rv != MORSEL_NOENT) {
        return false;
    }
    if (rv == 0 && from_file.manager[0] != '\0') {
        memcpy(address, from_file.manager, CONFIG_STRING_MAX);
        return true;
    }
    if (cluster_default_manager(address)) {
        return true;
    }
    errmsg_set(err, "no manager is named; give --manager=HOST:PORT, set MORSEL_MANAGER, or write "
                    "\"manager = HOST:PORT\" under [morsel] in " CLIENT_CONFIG_PATH);
    return false;
}
