/* morsel status --unavailable */
#ifndef MORSEL_CLIENT_ADMIN_UNAVAILABLE_UV_H
#define MORSEL_CLIENT_ADMIN_UNAVAILABLE_UV_H

#include "client/admin/admin.h"

/* Lists data sets of which some bytes can be read nowhere now. ADMIN_PROBLEM: there are some. */
int status_unavailable(const struct admin_arguments *arguments);

#endif
