/* A download with libcurl: what the origin is comes to be known with its first byte, and the caller says then whether it goes on. */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_CURL_H
#define MORSEL_CLIENT_ADMIN_STAGE_CURL_H

#include "client/admin/s3.h"

enum { DOWNLOAD_REFUSAL_MAX = 2047 }; /* Bytes of what a server says that gives nothing. */

enum download_end {
    DOWNLOAD_DONE,
    DOWNLOAD_STOPPED,     /* begin() or take() said so. */
    DOWNLOAD_NO_RANGE,    /* It has no bytes from there on any more. */
    DOWNLOAD_UNREACHABLE, /* With words, as those that follow. */
    DOWNLOAD_REFUSED,     /* It is not there, or not for us. */
    DOWNLOAD_BROKEN       /* It ended in the middle. */
};

struct download
{
    /* The caller's. `known`: as it is believed to be, with its URL; `from`: bytes are wanted from there on, if it still is that.
     */
    struct origin known;
    uint64_t from;
    uint64_t timeout_ms; /* For a connection. */
    uint64_t length;     /* So many bytes are wanted; 0: all. More may come. */
    uint64_t whole_ms;   /* All of it has to be over by then; 0: it takes what it takes. */
    uint64_t silent_ms;  /* It breaks when nothing comes for so long; 0: 5 minutes. */
    /* For somebody else, with nobody's rights: http and https alone, no passwords of ours, no addresses that are this machine's own
     * affair (visit.h). */
    bool on_behalf;
    const struct s3_access
        *s3; /* It lies at an S3, and is asked for with these keys; NULL: it does not. */
    void *data;
    /* Once, before the first byte: it is `now`, and its bytes come from `at` on, which is `from`, or 0 when it has become another
     * one or cannot begin elsewhere. False: enough. */
    bool (*begin)(void *data, const struct origin *now, uint64_t at);
    bool (*take)(void *data, const void *bytes, size_t count);

    /* The module's own. */
    void *handle;
    char etag[ORIGIN_ETAG_MAX + 1];
    uint64_t range_from, range_total; /* Of Content-Range. */
    bool ranged, begun, stopped, barred;
    char refusal[DOWNLOAD_REFUSAL_MAX + 1],
        region[S3_REGION_MAX + 1]; /* Of s3, if it does not give it. */
    size_t refusal_count;
};

enum download_end download_run(struct download *d, struct errmsg *why);

/* What the URL names in a directory: the end of its path, %XX read. False: it names nothing. */
bool download_name(const char *url, char *name, size_t room);

#endif
