/* When a run goes on and when another one begins; and the text of DIR/run. */
#include "meta/storage/runs.h"

#include "common/base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void runs_begin(struct runs *runs, const struct runs *known, uint64_t boot_id, uint64_t number,
                uint64_t fresh)
{
    CHECK(fresh != 0);
    memset(runs, 0, sizeof(*runs));
    if (known != NULL) {
        *runs = *known;
    }
    if (known == NULL || (!known->closed && known->boot_id != boot_id)) {
        if (known != NULL) {
            runs->count = known->count < RUNS_KEPT ? known->count + 1 : RUNS_KEPT;
            memmove(runs->before + 1, known->before, (runs->count - 1) * sizeof(runs->before[0]));
            runs->before[0] = (struct run_before){ known->run, number };
        }
        runs->run = fresh;
    }
    runs->boot_id = boot_id;
    runs->closed = false;
}

uint64_t runs_held(const struct runs *runs, uint64_t run, uint64_t durable)
{
    if (run == runs->run) {
        return durable;
    }
    for (uint32_t i = 0; i < runs->count; i++) {
        if (runs->before[i].run == run) {
            return runs->before[i].number;
        }
    }
    return 0;
}

size_t runs_format(const struct runs *runs, char text[RUNS_TEXT_BYTES_MAX])
{
    int count =
        snprintf(text, RUNS_TEXT_BYTES_MAX, "morsel-run 1 %016" PRIx64 " %016" PRIx64 " %d\n",
                 runs->run, runs->boot_id, runs->closed);

    for (uint32_t i = 0; i < runs->count; i++) {
        count += snprintf(text + count, RUNS_TEXT_BYTES_MAX - (size_t)count,
                          "before %016" PRIx64 " %" PRIu64 "\n", runs->before[i].run,
                          runs->before[i].number);
    }
    count += snprintf(text + count, RUNS_TEXT_BYTES_MAX - (size_t)count, "end\n");
    CHECK(count < RUNS_TEXT_BYTES_MAX);
    return (size_t)count;
}

bool runs_parse(struct runs *runs, const char *text)
{
    int closed, used = 0;

    memset(runs, 0, sizeof(*runs));
    if (sscanf(text, "morsel-run 1 %" SCNx64 " %" SCNx64 " %d\n%n", &runs->run, &runs->boot_id,
               &closed, &used) != 3 ||
        runs->run == 0 || used == 0) {
        return false;
    }
    runs->closed = closed == 1;
    for (text += used; runs->count < RUNS_KEPT; text += used) {
        struct run_before *before = &runs->before[runs->count];

        used = 0;
        if (sscanf(text, "before %" SCNx64 " %" SCNu64 "\n%n", &before->run, &before->number,
                   &used) != 2 ||
            used == 0) {
            break;
        }
        runs->count++;
    }
    return strcmp(text, "end\n") == 0;
}
