/* Why a message of the manager was not read (unread_uv.h). */
#include "client/manager/unread_uv.h"

#include "common/base/status.h"

void manager_note_unread(const struct client *client, const char *what, int status)
{
    if (status == MORSEL_NOMEM) {
        log_warning(client->options.log, "no memory for a message of manager %s %s",
                    rpc_peer_address(client->manager), what);
    } else {
        log_error(client->options.log,
                  "a message of manager %s %s is malformed; are both of one version?",
                  rpc_peer_address(client->manager), what);
    }
}
