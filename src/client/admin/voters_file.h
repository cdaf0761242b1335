/* The voters, as `morsel status` prints them. */
#ifndef MORSEL_CLIENT_ADMIN_VOTERS_FILE_H
#define MORSEL_CLIENT_ADMIN_VOTERS_FILE_H

#include "client/admin/print_file.h"
#include "meta.pb-c.h"

/* NULL, of an older manager: null, and nothing is printed. */
json_t *voters_json(const Morsel__VotersStatus *voters);
void voters_print(const Morsel__VotersStatus *voters);

#endif
