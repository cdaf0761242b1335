/* A command that looks again and again lets some time pass between. */
#ifndef MORSEL_CLIENT_ADMIN_PAUSE_FILE_H
#define MORSEL_CLIENT_ADMIN_PAUSE_FILE_H

#include "common/base/types.h"

/* A signal may end it before. */
void pause_ms(uint64_t ms);

#endif
