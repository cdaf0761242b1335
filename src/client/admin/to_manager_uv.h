/* The way of a command to its manager: the address that manager_file.h finds, called as admin_uv.h
 * does it.
 */
#ifndef MORSEL_CLIENT_ADMIN_TO_MANAGER_UV_H
#define MORSEL_CLIENT_ADMIN_TO_MANAGER_UV_H

#include "client/admin/admin_uv.h"

/* Open with the manager of the settings, $MORSEL_MANAGER, the configuration file or the development
 * cluster. ADMIN_OK, and admin_close() is due; otherwise the error is printed, and this is its exit
 * code. */
int admin_open_manager(struct admin *admin, const struct admin_settings *settings);

#endif
