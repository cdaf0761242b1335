/* Finds the manager's address, and makes ready to call it (to_manager_uv.h). */
#include "client/admin/to_manager_uv.h"

#include "client/admin/manager_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int admin_open_manager(struct admin *admin, const struct admin_settings *settings)
{
    char address[CONFIG_STRING_MAX];
    struct errmsg err;

    *admin = (struct admin){ .manager = NULL };
    if (!manager_find(settings, address, &err)) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    if (admin_open(admin, address, settings->timeout_ms, &err) != 0) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    return ADMIN_OK;
}

int admin_fetch_status(const struct admin_arguments *arguments, Morsel__StatusReply **reply_out,
                       char address[CONFIG_STRING_MAX])
{
    Morsel__StatusRequest request = MORSEL__STATUS_REQUEST__INIT;
    struct admin admin;
    struct errmsg err;
    void *reply;
    int code;
    int rv;

    *reply_out = NULL;
    code = admin_open_manager(&admin, &arguments->settings);
    if (code != ADMIN_OK) {
        return code;
    }
    rv = admin_call(&admin, admin.manager, MSG_STATUS, &request.base,
                    &morsel__status_reply__descriptor, &reply, &err);
    (void)snprintf(address, CONFIG_STRING_MAX, "%s", rpc_peer_address(admin.manager));
    admin_close(&admin);
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    *reply_out = reply;
    return ADMIN_OK;
}

int admin_recover(const struct admin_arguments *arguments, Morsel__RecoverRequest *request,
                  Morsel__RecoverReply **reply_out)
{
    struct admin admin;
    struct errmsg err;
    void *reply = NULL;
    int code = admin_open_manager(&admin, &arguments->settings);
    int rv;

    *reply_out = NULL;
    if (code != ADMIN_OK) {
        return code;
    }
    rv = admin_call(&admin, admin.manager, MSG_RECOVER, &request->base,
                    &morsel__recover_reply__descriptor, &reply, &err);
    admin_close(&admin);
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    *reply_out = reply;
    return ADMIN_OK;
}

/* 0: it is no number. */
static uint32_t number_of(const char *text)
{
    unsigned long number;
    char *end;

    errno = 0;
    number = strtoul(text, &end, 10);
    return text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > UINT32_MAX
               ? 0
               : (uint32_t)number;
}

uint32_t admin_donor_number(const char *text)
{
    uint32_t number = number_of(text);

    if (number == 0) {
        (void)admin_failed(ADMIN_USAGE,
                           "\"%s\" is no benefactor: give its number, the first column of `morsel "
                           "donors`",
                           text);
    }
    return number;
}

uint32_t admin_server_number(const char *text)
{
    uint32_t number = number_of(text);

    if (number == 0) {
        (void)admin_failed(ADMIN_USAGE,
                           "\"%s\" is no storage server: give its number, the first column of "
                           "`morsel status`",
                           text);
    }
    return number;
}

uint32_t admin_group_number(const char *text)
{
    uint32_t number = number_of(text);

    if (number == 0) {
        (void)admin_failed(
            ADMIN_USAGE,
            "\"%s\" is no group of servers: give its number, as `morsel status` shows "
            "those that are not well",
            text);
    }
    return number;
}
