/* DIR/run: the manager's run (runs.h), across its starts. */
#ifndef MORSEL_META_STORAGE_RUN_FILE_H
#define MORSEL_META_STORAGE_RUN_FILE_H

#include "common/base/errmsg.h"
#include "meta/storage/runs.h"

/* At a start, before anything is served: `number` is that of the last operation in the database.
 * What it returns is on disk. MORSEL_IO. */
int run_begin(struct runs *runs, const char *dir, uint64_t number, struct errmsg *err);

/* An orderly end, and everything is on disk. A failure only makes the next start begin a new run.
 */
void run_close(struct runs *runs, const char *dir);

/* A sync failed: what was acknowledged may be lost already. Now and at the next start it is another
 * run. */
void run_fail(struct runs *runs, const char *dir);

#endif
