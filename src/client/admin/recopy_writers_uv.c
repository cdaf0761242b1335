/* Asks the manager who has a file open for writing (recopy_writers_uv.h). */
#include "client/admin/recopy_writers_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void list_writers(const Morsel__WritersReply *reply, char text[RECOPY_WRITERS_BYTES])
{
    size_t used = 0;

    for (size_t i = 0; i < reply->n_address && used < RECOPY_WRITERS_BYTES; i++) {
        used += (size_t)snprintf(text + used, RECOPY_WRITERS_BYTES - used, "%s%s",
                                 i > 0 ? ", " : "", reply->address[i]);
    }
    if (reply->more > 0 && used < RECOPY_WRITERS_BYTES) {
        (void)snprintf(text + used, RECOPY_WRITERS_BYTES - used, " and %" PRIu32 " more",
                       reply->more);
    }
}

bool recopy_writers(struct admin *admin, uint64_t inode, char text[RECOPY_WRITERS_BYTES])
{
    Morsel__WritersRequest request = MORSEL__WRITERS_REQUEST__INIT;
    struct errmsg err;
    void *reply;
    int rv;

    text[0] = '\0';
    request.inode = inode;
    rv = admin_call(admin, admin->manager, MSG_WRITERS, &request.base,
                    &morsel__writers_reply__descriptor, &reply, &err);
    if (rv != 0) {
        return false; /* It may be an older one, or away. */
    }
    list_writers(reply, text);
    morsel__writers_reply__free_unpacked(reply, NULL);
    return true;
}
