/* Reads the groups from /proc/PID/status, which is all that FUSE tells us of who asks. */
#include "client/fuse/groups_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t parse(const char *text, uint32_t groups[GROUPS_MAX])
{
    uint32_t count = 0;

    while (count < GROUPS_MAX) {
        char *end;
        unsigned long gid = strtoul(text, &end, 10);

        if (end == text) {
            break;
        }
        groups[count++] = (uint32_t)gid;
        text = end;
    }
    return count;
}

uint32_t groups_of_process(pid_t pid, uint32_t groups[GROUPS_MAX])
{
    static const char prefix[] = "Groups:";
    char path[64];
    char *line = NULL;
    size_t size = 0;
    uint32_t count = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    f = fopen(path, "re");
    if (f == NULL) {
        return 0;
    }
    while (getline(&line, &size, f) >= 0) {
        if (strncmp(line, prefix, sizeof(prefix) - 1) == 0) {
            count = parse(line + sizeof(prefix) - 1, groups);
            break;
        }
    }
    free(line);
    (void)fclose(f);
    return count;
}
