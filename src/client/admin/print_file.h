/* Numbers for people, JSON for programs, on standard output. */
#ifndef MORSEL_CLIENT_ADMIN_PRINT_FILE_H
#define MORSEL_CLIENT_ADMIN_PRINT_FILE_H

#include "common/base/types.h"

#include <jansson.h>

enum { PRINT_TEXT_MAX = 32 };

/* "1.5 GiB", "512 B": three digits at most. */
const char *print_bytes(uint64_t bytes, char text[PRINT_TEXT_MAX]);

/* "3 d 4 h", "12 min", "8 s". */
const char *print_duration_ms(uint64_t duration_ms, char text[PRINT_TEXT_MAX]);

/* Whole per cent of `part` in `whole`, rounded up; 0 when `whole` is 0. */
unsigned print_percent(uint64_t part, uint64_t whole);

/* A number for JSON, which knows signed 64 bits only. */
json_t *print_json_number(uint64_t value);

/* Print the document and let go of it. NULL (no memory) gives false, with a line on standard error.
 */
bool print_json(json_t *document);

#endif
