/* Configuration files: any bytes are read over the settings, or refused with a sentence that names
 * the file. */
#include "common/daemon/config.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct settings
{
    char text[CONFIG_STRING_MAX];
    uint64_t number, bytes, time_ms;
    bool flag;
};

static const struct config_option options[] = {
    { "text", CONFIG_STRING, offsetof(struct settings, text), "default", 0, 0, "TEXT", "A text." },
    { "number", CONFIG_NUMBER, offsetof(struct settings, number), "7", 1, 1000, "N", "A number." },
    { "bytes", CONFIG_BYTES, offsetof(struct settings, bytes), "64K", 4096, 1 << 30, "BYTES",
      "A size." },
    { "time", CONFIG_TIME_MS, offsetof(struct settings, time_ms), "30s", 100, 3600000, "TIME",
      "A time." },
    { "flag", CONFIG_BOOL, offsetof(struct settings, flag), "no", 0, 0, "", "A flag." },
};

static const struct config_table table = { "program", "A summary.", "", options,
                                           ARRAY_COUNT(options) };

/* One file in memory for all inputs: making it costs more than parsing. */
static void put_file(const uint8_t *data, size_t size, char path[64])
{
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("config", 0);
    }
    CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    (void)snprintf(path, 64, "/proc/self/fd/%d", fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct errmsg err = { "" };
    struct settings s;
    char path[64];
    int rv;

    put_file(data, size, path);
    config_defaults(&table, &s);
    rv = config_read_file(&table, &s, path, &err);
    if (rv == MORSEL_OK) {
        CHECK(s.number >= 1 && s.number <= 1000);
        CHECK(s.bytes >= 4096 && s.bytes <= 1 << 30);
        CHECK(s.time_ms >= 100 && s.time_ms <= 3600000);
        CHECK(memchr(s.text, '\0', sizeof(s.text)) != NULL);
    } else {
        CHECK(strstr(err.text, path) != NULL);
    }
    return 0;
}
