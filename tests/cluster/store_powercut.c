/* Power cuts under the object store: an ext4 of its own is shut down in mid-work, which loses what
 * was not flushed, and mounted again. What was synced must be there, byte for byte; nothing may be
 * taken for damage.
 *
 * store_powercut DEVICE MOUNTPOINT ROUNDS SEED    (see store_powercut.sh)
 */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/store/store.h"
#include "common/store/store_format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

enum { OBJECTS = 12, OBJECT_BYTES = 5 << 18, BLOCKS = OBJECT_BYTES / BLOCK_BYTES, STEPS_MAX = 300 };

/* From the kernel's ext4.h, which is not exported. */
#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
static const uint32_t GOING_NOLOGFLUSH = 2;

struct model
{
    uint8_t bytes[OBJECT_BYTES];
    bool changed[BLOCKS]; /* Since the last sync: may be anything after a power cut. */
    bool unknown[BLOCKS]; /* Was changed at a power cut, and nobody has looked. */
};

struct cut
{
    const char *device;
    const char *mount_point;
    struct store *store;
    struct store_options options;
    struct prng prng;
    struct model *models;
    unsigned taken; /* Lines of the store about unsynced bytes. */
    unsigned damage;
};

static void take_line(void *data, const char *line)
{
    struct cut *cut = data;

    if (strstr(line, "taken as they are") != NULL) {
        cut->taken++;
    } else if (strstr(line, "checksum") != NULL) {
        cut->damage++;
        fprintf(stderr, "store_powercut: %s\n", line);
    }
}

static void fail(const char *what)
{
    fprintf(stderr, "store_powercut: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void open_store(struct cut *cut)
{
    struct errmsg err = { "" };

    if (mount(cut->device, cut->mount_point, "ext4", 0, "") != 0) {
        fail("mount");
    }
    cut->options.boot_id++;
    if (store_open(cut->mount_point, &cut->options, &cut->store, &err) != 0) {
        fprintf(stderr, "store_powercut: %s\n", err.text);
        exit(1);
    }
}

static void cut_power(struct cut *cut)
{
    uint32_t flag = GOING_NOLOGFLUSH;
    int fd = open(cut->mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || ioctl(fd, EXT4_IOC_SHUTDOWN, &flag) != 0) {
        fail("EXT4_IOC_SHUTDOWN");
    }
    close(fd);
    store_close(cut->store); /* Cannot note that all is well any more. */
    if (umount(cut->mount_point) != 0) {
        fail("umount");
    }
}

static void mark_changed(struct model *m, uint64_t offset, uint64_t length)
{
    for (uint64_t block = offset / BLOCK_BYTES; block * BLOCK_BYTES < offset + length; block++) {
        uint64_t at = block * BLOCK_BYTES;

        m->changed[block] = true;
        if (at >= offset && at + BLOCK_BYTES <= offset + length) {
            m->unknown[block] = false;
        }
    }
}

static void step_change(struct cut *cut, struct object_id id, struct model *m, uint64_t dice)
{
    static uint8_t bytes[OBJECT_BYTES];
    static uint32_t crcs[BLOCKS + 1];
    uint64_t offset = prng_below(&cut->prng, OBJECT_BYTES - 1);
    uint64_t length = 1 + prng_below(&cut->prng, prng_below(&cut->prng, OBJECT_BYTES - offset) + 1);

    if (dice % 2 == 0) {
        offset -= offset % BLOCK_BYTES;
    }
    if (dice < 80) {
        memset(bytes, (int)prng_below(&cut->prng, 256), length);
        crc32c_of_pieces(offset, bytes, length, crcs);
        CHECK(store_write(cut->store, id, offset, bytes, length, crcs, false, NULL, NULL) == 0);
    } else if (dice < 90) {
        memset(bytes, 0, length);
        CHECK(store_punch(cut->store, id, offset, length, NULL, NULL) == 0);
    } else {
        length = OBJECT_BYTES - offset;
        memset(bytes, 0, length);
        CHECK(store_truncate(cut->store, id, offset, NULL, NULL) == 0);
    }
    memcpy(m->bytes + offset, bytes, length);
    mark_changed(m, offset, length);
}

/* Send a part of a file to the disk without its metadata, as the kernel does when it likes. */
static void step_write_back(struct cut *cut, struct object_id id)
{
    char path[512], name[STORE_NAME_BYTES];
    int fd;

    store_name(id, name);
    snprintf(path, sizeof(path), "%s/objects/%s", cut->mount_point, name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        sync_file_range(fd, (off_t)prng_below(&cut->prng, OBJECT_BYTES), 300000,
                        SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        close(fd);
    }
}

static void work(struct cut *cut)
{
    uint64_t steps = prng_below(&cut->prng, STEPS_MAX);

    for (uint64_t step = 0; step < steps; step++) {
        uint32_t i = (uint32_t)prng_below(&cut->prng, OBJECTS);
        struct object_id id = { .inode = 100 + i, .column = i };
        uint64_t dice = prng_below(&cut->prng, 1000);

        if (dice < 700) {
            step_change(cut, id, &cut->models[i], dice % 100);
        } else if (dice < 850) {
            CHECK(store_sync(cut->store, id, NULL) == 0);
            memset(cut->models[i].changed, 0, sizeof(cut->models[i].changed));
        } else if (dice < 950) {
            step_write_back(cut, id);
        } else if (dice < 980) {
            CHECK(store_checkpoint(cut->store, 0, NULL) == 0);
        } else {
            sync();
        }
    }
}

/* Blocks that were not changed since their sync are exactly there; the model follows the others. */
static void check(struct cut *cut, bool all)
{
    static uint8_t bytes[OBJECT_BYTES];
    static uint32_t crcs[BLOCKS + 1];

    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct object_id id = { .inode = 100 + i, .column = i };
        struct model *m = &cut->models[i];
        struct errmsg err = { "" };
        size_t count;

        if (!all && prng_below(&cut->prng, 3) == 0) {
            for (uint64_t block = 0; block < BLOCKS; block++) {
                m->unknown[block] = m->unknown[block] || m->changed[block];
            }
            continue; /* What the next power cut finds is then a heap of two. */
        }
        if (store_read(cut->store, id, 0, bytes, sizeof(bytes), &count, crcs, &err) != 0) {
            fprintf(stderr, "store_powercut: %s\n", err.text);
            exit(1);
        }
        memset(bytes + count, 0, sizeof(bytes) - count);
        for (uint64_t block = 0; block < BLOCKS; block++) {
            uint64_t at = block * BLOCK_BYTES;

            if (!m->changed[block] && !m->unknown[block] &&
                memcmp(bytes + at, m->bytes + at, BLOCK_BYTES) != 0) {
                fprintf(stderr, "store_powercut: object %u lost the synced block %llu\n", i,
                        (unsigned long long)block);
                exit(1);
            }
        }
        memcpy(m->bytes, bytes, sizeof(bytes));
        memset(m->unknown, 0, sizeof(m->unknown));
    }
}

int main(int argc, char **argv)
{
    struct cut cut = { .options = { .open_files_max = 16 } };
    long rounds;

    if (argc != 5) {
        fprintf(stderr, "usage: store_powercut DEVICE MOUNTPOINT ROUNDS SEED\n");
        return 2;
    }
    cut.device = argv[1];
    cut.mount_point = argv[2];
    rounds = strtol(argv[3], NULL, 10);
    prng_seed(&cut.prng, strtoull(argv[4], NULL, 10));
    cut.options.log = take_line;
    cut.options.log_data = &cut;
    cut.models = calloc(OBJECTS, sizeof(*cut.models));
    CHECK(cut.models != NULL);
    open_store(&cut);
    for (long round = 0; round < rounds; round++) {
        work(&cut);
        cut_power(&cut);
        open_store(&cut);
        check(&cut, round % 2 == 0);
    }
    check(&cut, true);
    store_close(cut.store);
    CHECK(umount(cut.mount_point) == 0);
    printf(
        "%ld power cuts, %u stretches of unsynced bytes taken as they were, %u taken for damage\n",
        rounds, cut.taken, cut.damage);
    free(cut.models);
    return cut.damage == 0 ? 0 : 1;
}
