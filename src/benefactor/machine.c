/* Numbers out of lines of the kernel. */
#include "benefactor/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool machine_parse_pressure(const char *text, uint64_t *some_us)
{
    return sscanf(text, "some avg10=%*s avg60=%*s avg300=%*s total=%" SCNu64, some_us) == 1;
}

bool machine_parse_cpu(const char *text, struct governor_machine *m)
{
    uint64_t user, nice, system, idle, wait, irq, softirq, steal;

    if (sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal) != 8) {
        return false;
    }
    m->cpu_busy = user + nice + system + irq + softirq + steal;
    m->cpu_all = m->cpu_busy + idle + wait;
    m->cpu_known = true;
    return true;
}

/* The line behind this one, or NULL. */
static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end == NULL || end[1] == '\0' ? NULL : end + 1;
}

bool machine_parse_disk(const char *text, unsigned major, unsigned minor,
                        struct governor_machine *m)
{
    uint64_t reads, read_sectors, writes, write_sectors;
    unsigned a, b;

    for (const char *line = text; line != NULL; line = next_line(line)) {
        if (sscanf(line,
                   "%u %u %*s %" SCNu64 " %*u %" SCNu64 " %*u %" SCNu64 " %*u %" SCNu64 " %*u", &a,
                   &b, &reads, &read_sectors, &writes, &write_sectors) == 6 &&
            a == major && b == minor) {
            m->disk_operations = reads + writes;
            m->disk_bytes = (read_sectors + write_sectors) * 512;
            m->disk_known = true;
            return true;
        }
    }
    return false;
}

/* The numbers behind the first word of a line, summed: one for each processor. */
static uint64_t sum_of(const char *line)
{
    uint64_t sum = 0, number;
    int count = 0;

    line = strchr(line, ':');
    while (line != NULL && sscanf(++line, "%" SCNu64 "%n", &number, &count) == 1) {
        sum += number;
        line += count - 1;
    }
    return sum;
}

bool machine_parse_input(const char *text, struct governor_machine *m)
{
    for (const char *line = text; line != NULL; line = next_line(line)) {
        const char *found = strstr(line, "i8042"), *end = strchr(line, '\n');

        if (found != NULL && (end == NULL || found < end)) {
            m->input_events += sum_of(line);
            m->input_known = true;
        }
    }
    return m->input_known;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool machine_is_emptied(const char *type, const char *scope, const char *status)
{
    return begins(type, "Battery") && !begins(scope, "Device") && begins(status, "Discharging");
}
