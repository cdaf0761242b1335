/* morsel stats: the counters of a daemon. */
#include "client/admin/admin_uv.h"
#include "client/admin/print_file.h"

#include "common.pb-c.h"

#include <inttypes.h>
#include <stdio.h>

static bool print_counters(const Morsel__Statistics *statistics, bool json)
{
    json_t *document = json ? json_object() : NULL;

    for (size_t i = 0; i < statistics->n_counters; i++) {
        const Morsel__Counter *counter = statistics->counters[i];

        if (json) {
            (void)json_object_set_new(document, counter->name, print_json_number(counter->value));
        } else {
            (void)printf("%-40s %20" PRIu64 "\n", counter->name, counter->value);
        }
    }
    return !json || print_json(document);
}

int command_stats(const struct admin_arguments *arguments)
{
    Morsel__Empty request = MORSEL__EMPTY__INIT;
    struct admin_settings settings = arguments->settings;
    struct admin admin;
    struct rpc_peer *peer;
    struct errmsg err;
    void *reply;
    int code;
    int rv;

    if (arguments->operands_count == 1) {
        (void)snprintf(settings.manager, sizeof(settings.manager), "%s", arguments->operands[0]);
    }
    code = admin_open_manager(&admin, &settings);
    if (code != ADMIN_OK) {
        return code;
    }
    peer = admin.manager;
    if (arguments->operands_count == 1) {
        admin.manager = NULL; /* Any daemon may be asked; messages call it a server then. */
    }
    rv = admin_call(&admin, peer, MSG_STATISTICS, &request.base, &morsel__statistics__descriptor,
                    &reply, &err);
    admin_close(&admin);
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    code = print_counters(reply, settings.json) ? ADMIN_OK : ADMIN_PROBLEM;
    morsel__statistics__free_unpacked(reply, NULL);
    return code;
}
