/* morsel stats: the counters of a daemon or of a mount. */
#include "client/admin/gather_uv.h"
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool print_counters(const struct counter_list *list, bool json)
{
    json_t *document = json ? json_object() : NULL;

    for (size_t i = 0; i < list->count; i++) {
        const struct counter *counter = &list->items[i];

        if (json) {
            (void)json_object_set_new(document, counter->name, print_json_number(counter->value));
        } else {
            (void)printf("%-40s %20" PRIu64 "\n", counter->name, counter->value);
        }
    }
    return !json || print_json(document);
}

/* The manager, or the daemon at `address` (may be NULL). */
static int ask_daemon(const struct admin_arguments *arguments, const char *address,
                      struct counter_list *list)
{
    struct admin_settings settings = arguments->settings;
    struct admin admin;
    struct rpc_peer *peer;
    struct errmsg err;
    int code;
    int rv;

    if (address != NULL) {
        (void)snprintf(settings.manager, sizeof(settings.manager), "%s", address);
    }
    code = admin_open_manager(&admin, &settings);
    if (code != ADMIN_OK) {
        return code;
    }
    peer = admin.manager;
    if (address != NULL) {
        admin.manager = NULL; /* Any daemon may be asked; messages call it a server then. */
    }
    rv = gather_daemon(&admin, peer, list, &err);
    admin_close(&admin);
    return rv == 0 ? ADMIN_OK : admin_failed(admin_exit_code(rv), "%s", err.text);
}

int command_stats(const struct admin_arguments *arguments)
{
    const char *of = arguments->operands_count == 1 ? arguments->operands[0] : NULL;
    struct counter_list *list = calloc(1, sizeof(*list));
    struct errmsg err;
    int code = ADMIN_OK;

    if (list == NULL) {
        return admin_failed(ADMIN_PROBLEM, "out of memory");
    }
    if (of == NULL || strchr(of, '/') == NULL) {
        code = ask_daemon(arguments, of, list);
    } else if (gather_mount(of, list, &err) != 0) {
        code = admin_failed(ADMIN_PROBLEM, "%s", err.text);
    }
    if (code == ADMIN_OK && !print_counters(list, arguments->settings.json)) {
        code = ADMIN_PROBLEM;
    }
    free(list);
    return code;
}
