/* Store a data set on benefactors, piece by piece, and read it back.
 *
 *   cc -o dataset dataset.c $(pkg-config --cflags --libs morsel)
 *   ./dataset /mnt/morsel/sets/example 100000000
 *
 * Its bytes are drawn from their place, so that reading tells whether each is what was put there. Exit code 0: they are. */
#include <morsel.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 300000 };

static void fill(unsigned char *bytes, uint64_t offset, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t at = offset + i;

        bytes[i] = (unsigned char)((at * 2654435761U) >> 16);
    }
}

static size_t piece(uint64_t size, uint64_t offset)
{
    return size - offset < PIECE_BYTES ? (size_t)(size - offset) : PIECE_BYTES;
}

static int failed(const char *path, const char *what, int64_t error)
{
    fprintf(stderr, "%s: %s: %s\n", path, what, morsel_error_text((int)error));
    return EXIT_FAILURE;
}

static int store(const char *path, uint64_t size)
{
    unsigned char bytes[PIECE_BYTES];
    morsel_set *set;
    int rv = morsel_store(path, size, &set);

    if (rv != 0) {
        return failed(path, "store", rv);
    }
    /* Of one that was interrupted only the rest is missing. */
    if (morsel_stored(set) > 0) {
        printf("%s: %" PRIu64 " bytes are there already\n", path, morsel_stored(set));
    }
    for (uint64_t at = morsel_stored(set); rv == 0 && at < size; at += piece(size, at)) {
        fill(bytes, at, piece(size, at));
        rv = morsel_put(set, at, bytes, piece(size, at));
    }
    if (rv == 0) {
        rv = morsel_seal(set);
    }
    morsel_close(set);
    return rv == 0 ? EXIT_SUCCESS : failed(path, "put", rv);
}

static int compare(const char *path, morsel_set *set)
{
    unsigned char bytes[PIECE_BYTES], wanted[PIECE_BYTES];
    uint64_t size = morsel_size(set);

    for (uint64_t at = 0; at < size; at += piece(size, at)) {
        int64_t count = morsel_get(set, at, bytes, piece(size, at));

        if (count < 0) {
            return failed(path, "get", count);
        }
        fill(wanted, at, (size_t)count);
        if ((size_t)count != piece(size, at) || memcmp(bytes, wanted, (size_t)count) != 0) {
            fprintf(stderr, "%s: the piece at %" PRIu64 " is not what was put\n", path, at);
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

static int retrieve(const char *path, uint64_t size)
{
    morsel_set *set;
    int rv = morsel_retrieve(path, &set), code;

    if (rv != 0) {
        return failed(path, "retrieve", rv);
    }
    code = compare(path, set);
    if (code == EXIT_SUCCESS && morsel_size(set) != size) {
        fprintf(stderr, "%s: has %" PRIu64 " bytes\n", path, morsel_size(set));
        code = EXIT_FAILURE;
    }
    morsel_close(set);
    return code;
}

int main(int argc, char **argv)
{
    uint64_t size = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    int code;

    if (size == 0) {
        fprintf(stderr, "Usage: %s FILE BYTES\n", argv[0]);
        return 2;
    }
    code = store(argv[1], size);
    return code == EXIT_SUCCESS ? retrieve(argv[1], size) : code;
}
