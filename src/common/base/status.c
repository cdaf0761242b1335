/* The list of status.h as tables, by number. */
#include "common/base/status.h"

struct status_row
{
    int wire;
    int unix_errno;
    const char *name;
    const char *words;
};

#define X(name, wire, unix_errno, words) { wire, unix_errno, #name, words },
static const struct status_row status_rows[] = { { 0, 0, "MORSEL_OK", "success" }, STATUS_MAP(X) };
#undef X

static const struct status_row *status_find(int status)
{
    for (unsigned i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++) {
        if (status_rows[i].wire == status) {
            return &status_rows[i];
        }
    }
    return 0;
}

const char *status_words(int status)
{
    const struct status_row *row = status_find(status);

    return row ? row->words : "unknown status";
}

const char *status_name(int status)
{
    const struct status_row *row = status_find(status);

    return row ? row->name : "MORSEL_?";
}

int status_to_errno(int status)
{
    const struct status_row *row = status_find(status);

    return row ? row->unix_errno : EIO;
}

/* The first row of the file system's own part (wire <= -30) wins: ENOSPC is MORSEL_NOSPC and not
 * MORSEL_NO_SERVERS. A disk's EIO is MORSEL_IO, and nothing that is worth another try. */
int status_from_errno(int unix_errno)
{
    if (unix_errno == 0) {
        return MORSEL_OK;
    }
    if (unix_errno == EIO) {
        return MORSEL_IO;
    }
    for (unsigned i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++) {
        if (status_rows[i].wire <= MORSEL_NOENT && status_rows[i].unix_errno == unix_errno) {
            return status_rows[i].wire;
        }
    }
    switch (unix_errno) {
    case ENOMEM:
        return MORSEL_NOMEM;
    case EINTR:
        return MORSEL_CANCELED;
    case ETIMEDOUT:
        return MORSEL_TIMEDOUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPIPE:
        return MORSEL_UNREACHABLE;
    default:
        return MORSEL_IO;
    }
}
