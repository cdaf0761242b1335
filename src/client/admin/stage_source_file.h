/* What `morsel stage` is asked for: the URL as it is kept, and with which keys it is fetched. Those of S3 come from the environment and
 * the files of who runs the command, as other programs that speak with S3 find them. */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_SOURCE_FILE_H
#define MORSEL_CLIENT_ADMIN_STAGE_SOURCE_FILE_H

#include "client/admin/s3.h"

struct stage_source
{
    char url[ORIGIN_URL_MAX + 1]; /* http, https, ftp, sftp or file. No secret is in it. */
    bool is_s3;                   /* It was given as s3://. */
    struct s3_access s3;          /* If so. */
};

/* `given` as the user wrote it. 0, or MORSEL_INVAL with words that name it. */
int stage_source_read(struct stage_source *source, const char *given, struct errmsg *why);

#endif
