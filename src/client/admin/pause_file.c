/* Pauses of commands (pause_file.h). */
#include "client/admin/pause_file.h"

#include <time.h>

void pause_ms(uint64_t ms)
{
    const struct timespec time = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

    (void)nanosleep(&time, NULL);
}
