/* Asks one program for its counters and checks what comes back. */
#include "client/admin/gather_uv.h"

#include "common.pb-c.h"
#include "common/base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

enum { TEXT_MAX = 65536 /* XATTR_SIZE_MAX */ };

int gather_daemon(struct admin *admin, struct rpc_peer *peer, struct counter_list *list,
                  struct errmsg *err)
{
    Morsel__Empty request = MORSEL__EMPTY__INIT;
    Morsel__Statistics *statistics;
    void *reply;
    int rv = admin_call(admin, peer, MSG_STATISTICS, &request.base, &morsel__statistics__descriptor,
                        &reply, err);

    list->count = 0;
    if (rv != 0) {
        return rv;
    }
    statistics = reply;
    for (size_t i = 0; i < statistics->n_counters; i++) {
        counters_add(list, NULL, statistics->counters[i]->name, statistics->counters[i]->value);
    }
    morsel__statistics__free_unpacked(statistics, NULL);
    return MORSEL_OK;
}

/* Lines "name value". */
static void parse(char *text, struct counter_list *list)
{
    char *rest = text;
    char *line;

    while ((line = strsep(&rest, "\n")) != NULL) {
        char *space = strchr(line, ' ');

        if (space != NULL) {
            *space = '\0';
            counters_add(list, NULL, line, strtoull(space + 1, NULL, 10));
        }
    }
}

int gather_mount(const char *point, struct counter_list *list, struct errmsg *err)
{
    char *text = malloc(TEXT_MAX + 1);
    ssize_t count;
    int error;

    list->count = 0;
    if (text == NULL) {
        return MORSEL_NOMEM;
    }
    count = getxattr(point, "user.morsel.statistics", text, TEXT_MAX);
    error = errno;
    if (count >= 0) {
        text[count] = '\0';
        parse(text, list);
    }
    free(text);
    if (count >= 0) {
        return MORSEL_OK;
    }
    errmsg_set(err, "%s: %s", point,
               error == ENODATA || error == ENOTSUP
                   ? "has no counters; name the directory on which a MorselFS is mounted"
                   : strerror(error));
    return error == ENODATA || error == ENOTSUP ? MORSEL_INVAL : status_from_errno(error);
}
