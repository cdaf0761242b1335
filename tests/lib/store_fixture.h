/* A store in a directory of its own, for tests. */
#ifndef MORSEL_TESTS_STORE_FIXTURE_H
#define MORSEL_TESTS_STORE_FIXTURE_H

#include "common/store/store.h"

#include <stdatomic.h>

struct store_fixture
{
    char dir[256];
    struct store *store; /* NULL while closed. */
    struct store_options options;
    _Atomic unsigned lines; /* Said by the store. */
    char last_line[512];
};

/* Under TMPDIR or /tmp, with 64 open files, no reserve and boot id 1. */
void fixture_init(struct store_fixture *f);
void fixture_open(struct store_fixture *f);
void fixture_close(struct store_fixture *f);

/* Copy the directory as it is, as if this process had died here, and go on with the copy. */
void fixture_crash(struct store_fixture *f);
void fixture_free(struct store_fixture *f);

/* With right checksums; the status of the store. */
int fixture_write(struct store_fixture *f, struct object_id id, uint64_t offset, const void *bytes,
                  size_t length);

/* Fills up with zeros what lies behind the end. Also checks the checksums that came along. */
int fixture_read(struct store_fixture *f, struct object_id id, uint64_t offset, void *bytes,
                 size_t length);

/* The path of an object's file. */
void fixture_path(const struct store_fixture *f, struct object_id id, char path[512]);

/* Change one byte of a file. */
void fixture_flip(const char *path, uint64_t place);

#endif
