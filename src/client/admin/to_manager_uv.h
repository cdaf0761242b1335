/* The way of a command to its manager: the address that manager_file.h finds, called as admin_uv.h
 * does it.
 */
#ifndef MORSEL_CLIENT_ADMIN_TO_MANAGER_UV_H
#define MORSEL_CLIENT_ADMIN_TO_MANAGER_UV_H

#include "client/admin/admin_uv.h"

#include "meta.pb-c.h"

/* Open with the manager of the settings, $MORSEL_MANAGER, the configuration file or the development
 * cluster. ADMIN_OK, and admin_close() is due; otherwise the error is printed, and this is its exit
 * code. */
int admin_open_manager(struct admin *admin, const struct admin_settings *settings);

/* What the manager says of the cluster, and where it is. On failure NULL: why is printed, and this is its exit
 * code. */
int admin_fetch_status(const struct admin_arguments *arguments, Morsel__StatusReply **reply_out,
                       char address[CONFIG_STRING_MAX]);

/* Servers that are lost, or are to leave (MSG_RECOVER). ADMIN_OK, and the reply is to be freed; otherwise why is
 * printed. */
int admin_recover(const struct admin_arguments *arguments, Morsel__RecoverRequest *request,
                  Morsel__RecoverReply **reply_out);

/* A server, or a group, by its number in `morsel status`; a benefactor, in `morsel donors`. 0: it is none, and that was said. */
uint32_t admin_donor_number(const char *text);
uint32_t admin_server_number(const char *text);
uint32_t admin_group_number(const char *text);

#endif
