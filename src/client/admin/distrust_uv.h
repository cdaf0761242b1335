/* Benefactors that gave out something else than what was stored there: what is said of them, and who is trusted again. */
#ifndef MORSEL_CLIENT_ADMIN_DISTRUST_UV_H
#define MORSEL_CLIENT_ADMIN_DISTRUST_UV_H

#include "client/admin/to_manager_uv.h"

#include <jansson.h>

/* What was found wrong there, and what to do, in lines that begin with `indent`; nothing when there is nothing to be said. */
void donor_print_blame(const Morsel__Donor *donor, const char *indent);

/* For `morsel status`: one paragraph each. */
void distrusted_print(const Morsel__StatusReply *status);
json_t *distrusted_json(const Morsel__StatusReply *status);

/* morsel donors trust ID: two operands. */
int donors_trust(const struct admin_arguments *arguments);

#endif
