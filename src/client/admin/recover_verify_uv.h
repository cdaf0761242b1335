/* morsel recover verify, and what `morsel recover status` says of comparisons. */
#ifndef MORSEL_CLIENT_ADMIN_RECOVER_VERIFY_UV_H
#define MORSEL_CLIENT_ADMIN_RECOVER_VERIFY_UV_H

#include "client/admin/admin.h"
#include "meta.pb-c.h"

#include <jansson.h>

int recover_verify(const struct admin_arguments *arguments);

/* One line; nothing where nobody has asked for a comparison. JSON: null. */
void verify_status_print(const Morsel__StatusReply *status);
json_t *verify_status_json(const Morsel__StatusReply *status);

#endif
