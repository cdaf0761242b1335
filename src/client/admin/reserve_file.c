/* morsel reserve: a data set that is to be, by way of the interface that programs have (client/library). */
#include "client/admin/admin.h"
#include "client/admin/print_file.h"
#include "client/library/morsel.h"
#include "common/daemon/config.h"

#include <errno.h>
#include <stdio.h>

static int answer(const struct admin_arguments *arguments, uint64_t size)
{
    const char *path = arguments->operands[0];
    char bytes[PRINT_TEXT_MAX];
    bool cancel = arguments->settings.cancel;

    if (arguments->settings.json) {
        return print_json(json_pack("{s:s, s:o, s:b}", "file", path, "reserved",
                                    print_json_number(size), "canceled", (int)cancel))
                   ? ADMIN_OK
                   : ADMIN_PROBLEM;
    }
    if (cancel) {
        (void)printf("%s: is removed\n", path);
    } else {
        (void)printf("%s: %s are reserved\n", path, print_bytes(size, bytes));
    }
    return ADMIN_OK;
}

int command_reserve(const struct admin_arguments *arguments)
{
    const char *path = arguments->operands[0];
    bool cancel = arguments->settings.cancel;
    uint64_t size = 0;
    int rv;

    if (arguments->operands_count != (cancel ? 1 : 2)) {
        return admin_failed(ADMIN_USAGE, cancel ? "reserve --cancel needs a FILE, and no SIZE"
                                                : "reserve needs a FILE and a SIZE");
    }
    if (!cancel && (!config_bytes_parse(arguments->operands[1], &size) || size == 0)) {
        return admin_failed(ADMIN_USAGE, "\"%s\" is no size; give bytes, or 100M, 10G",
                            arguments->operands[1]);
    }
    rv = cancel ? morsel_cancel(path) : morsel_reserve(path, size);
    if (rv == -ENODATA) {
        return admin_failed(ADMIN_PROBLEM, "%s: nothing is reserved there", path);
    }
    return rv == 0 ? answer(arguments, size)
                   : admin_failed(ADMIN_PROBLEM, "%s: %s", path, morsel_error_text(rv));
}
