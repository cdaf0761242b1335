/* Formats numbers for people and escapes text for JSON. */
#include "client/admin/print_file.h"

#include "client/admin/admin.h"

#include <inttypes.h>
#include <stdio.h>

const char *print_bytes(uint64_t bytes, char text[PRINT_TEXT_MAX])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, PRINT_TEXT_MAX, unit > 0 && value < 100 ? "%.1f %s" : "%.0f %s", value,
                   units[unit]);
    return text;
}

const char *print_duration_ms(uint64_t duration_ms, char text[PRINT_TEXT_MAX])
{
    uint64_t seconds = duration_ms / 1000;

    if (seconds < 120) {
        (void)snprintf(text, PRINT_TEXT_MAX, "%" PRIu64 " s", seconds);
    } else if (seconds < 7200) {
        (void)snprintf(text, PRINT_TEXT_MAX, "%" PRIu64 " min", seconds / 60);
    } else if (seconds < 172800) {
        (void)snprintf(text, PRINT_TEXT_MAX, "%" PRIu64 " h", seconds / 3600);
    } else {
        (void)snprintf(text, PRINT_TEXT_MAX, "%" PRIu64 " d", seconds / 86400);
    }
    return text;
}

unsigned print_percent(uint64_t part, uint64_t whole)
{
    if (whole == 0) {
        return 0;
    }
    return (unsigned)(((double)part * 100 + (double)whole - 1) / (double)whole);
}

json_t *print_json_number(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

bool print_json(json_t *document)
{
    bool good = document != NULL && json_dumpf(document, stdout, JSON_INDENT(2)) == 0;

    (void)putchar('\n');
    json_decref(document);
    if (!good) {
        (void)admin_failed(ADMIN_PROBLEM, "cannot write the result: out of memory or output");
    }
    return good;
}
