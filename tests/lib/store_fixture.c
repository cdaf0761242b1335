#include "tests/lib/store_fixture.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/store/store_format.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void take_line(void *data, const char *line)
{
    struct store_fixture *f = data;

    if (atomic_fetch_add(&f->lines, 1) == 0) {
        snprintf(f->last_line, sizeof(f->last_line), "%s", line);
    }
}

static void run(const char *format, const char *a, const char *b)
{
    char command[1024];

    snprintf(command, sizeof(command), "%s '%s' '%s'", format, a, b);
    CHECK(system(command) == 0);
}

void fixture_init(struct store_fixture *f)
{
    const char *tmp = getenv("TMPDIR");

    memset(f, 0, sizeof(*f));
    snprintf(f->dir, sizeof(f->dir), "%s/morsel-store-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    CHECK(mkdtemp(f->dir) != NULL);
    f->options = (struct store_options){
        .open_files_max = 64, .boot_id = 1, .log = take_line, .log_data = f
    };
}

void fixture_open(struct store_fixture *f)
{
    struct errmsg err = { "" };

    if (store_open(f->dir, &f->options, &f->store, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

void fixture_close(struct store_fixture *f)
{
    store_close(f->store);
    f->store = NULL;
}

void fixture_crash(struct store_fixture *f)
{
    char copy[sizeof(f->dir) + 8];

    snprintf(copy, sizeof(copy), "%s-c", f->dir);
    run("cp -a --sparse=auto", f->dir, copy);
    fixture_close(f);
    run("rm -rf", f->dir, f->dir);
    CHECK(rename(copy, f->dir) == 0);
    fixture_open(f);
}

void fixture_free(struct store_fixture *f)
{
    if (f->store != NULL) {
        fixture_close(f);
    }
    run("rm -rf", f->dir, f->dir);
}

int fixture_write(struct store_fixture *f, struct object_id id, uint64_t offset, const void *bytes,
                  size_t length)
{
    uint32_t *crcs = calloc(crc32c_pieces(offset, length) + 1, sizeof(*crcs));
    struct errmsg err;
    int rv;

    CHECK(crcs != NULL);
    crc32c_of_pieces(offset, bytes, length, crcs);
    rv = store_write(f->store, id, offset, bytes, length, crcs, false, NULL, &err);
    free(crcs);
    return rv;
}

int fixture_read(struct store_fixture *f, struct object_id id, uint64_t offset, void *bytes,
                 size_t length)
{
    uint32_t *crcs = calloc(crc32c_pieces(offset, length) + 1, 2 * sizeof(*crcs));
    uint32_t *expected = crcs + crc32c_pieces(offset, length) + 1;
    size_t count = 0;
    struct errmsg err;
    int rv;

    CHECK(crcs != NULL);
    rv = store_read_cached(f->store, id, offset, bytes, length, &count, crcs);
    if (rv != 0) {
        rv = store_read(f->store, id, offset, bytes, length, &count, crcs, &err);
    }
    if (rv == 0) {
        CHECK(count <= length);
        crc32c_of_pieces(offset, bytes, count, expected);
        CHECK(memcmp(crcs, expected, crc32c_pieces(offset, count) * sizeof(*crcs)) == 0);
        memset((uint8_t *)bytes + count, 0, length - count);
    }
    free(crcs);
    return rv;
}

void fixture_path(const struct store_fixture *f, struct object_id id, char path[512])
{
    char name[STORE_NAME_BYTES];

    store_name(id, name);
    snprintf(path, 512, "%s/objects/%s", f->dir, name);
}

void fixture_flip(const char *path, uint64_t place)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    CHECK(fd >= 0 && pread(fd, &byte, 1, (off_t)place) == 1);
    byte ^= 0x10;
    CHECK(pwrite(fd, &byte, 1, (off_t)place) == 1);
    CHECK(close(fd) == 0);
}
