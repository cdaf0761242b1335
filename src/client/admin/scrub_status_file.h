/* What storage servers say of their scrubs (docs/store.md), for `morsel status`. */
#ifndef MORSEL_CLIENT_ADMIN_SCRUB_STATUS_FILE_H
#define MORSEL_CLIENT_ADMIN_SCRUB_STATUS_FILE_H

#include "client/admin/print_file.h"
#include "meta.pb-c.h"

#include <stdbool.h>

/* Objects of that server, or of all of them, that are damaged and that nobody can repair. */
uint32_t scrub_damaged(const Morsel__Member *member);
uint64_t scrubs_damaged(const Morsel__StatusReply *status);

/* null: it is off, or nothing was heard of it yet. */
json_t *scrub_json(const Morsel__Member *member);

/* How far each is: a line a server. */
void scrub_print(const Morsel__StatusReply *status);

/* What is damaged, and what to do: nothing, if nothing is. */
void scrub_print_damaged(const Morsel__StatusReply *status);

#endif
