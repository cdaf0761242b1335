/* Finds the manager's address, and makes ready to call it (to_manager_uv.h). */
#include "client/admin/to_manager_uv.h"

#include "client/admin/manager_file.h"

int admin_open_manager(struct admin *admin, const struct admin_settings *settings)
{
    char address[CONFIG_STRING_MAX];
    struct errmsg err;

    if (!manager_find(settings, address, &err)) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    if (admin_open(admin, address, settings->timeout_ms, &err) != 0) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    return ADMIN_OK;
}
