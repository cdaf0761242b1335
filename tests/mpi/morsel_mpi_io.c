/* MPI-IO on MorselFS, in the manner of PVFS2's mpi_io_test (Settlemyer, "Redundancy in PVFS2",
 * 2006, chapter 4): N ranks write, then read, one file.
 *
 *   mpirun -n N morsel_mpi_io [--mib M] [--mode MODE]... FILE
 *
 *   block       each rank a block of M MiB (16) of its own, independently
 *   collective  the same with collective calls
 *   strided     each rank every N-th piece of 64 KiB, independently: data sieving reads, changes
 * and writes larger pieces, under locks strided-all the same with collective calls: two-phase I/O
 *   atomic      all ranks write the same bytes in atomic mode; what is read is one rank's, whole
 *   shared      all ranks append records through the shared file pointer; none is lost
 *
 * Each mode prints "MODE RANKS WRITE READ" in MB/s of all ranks together, counted until the last
 * has its bytes with the servers (MPI_File_sync). Every byte is compared; exit status 1 at a
 * difference.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 64 << 10,
    RECORD_BYTES = 512,
    RECORDS = 100,
    ATOMIC_BYTES = 1 << 20,
    MODES_MAX = 8
};

static int rank, ranks;

static void must(int rv, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;

    if (rv != MPI_SUCCESS) {
        (void)MPI_Error_string(rv, text, &length);
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
        (void)MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void check(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "rank %d: DIFFERENCE: %s\n", rank, what);
        (void)MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1); /* Not reached; MPI does not declare that it does not return. */
    }
}

/* What byte `at` of the file is, when rank `who` wrote it. */
static uint8_t byte_of(uint64_t at, int who)
{
    return (uint8_t)(at * 131 + at / 4096 * 7 + (uint64_t)who * 37);
}

static MPI_File open_file(const char *path, bool fresh)
{
    MPI_File file;

    if (fresh && rank == 0) {
        (void)MPI_File_delete(path, MPI_INFO_NULL);
    }
    must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
    must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
         "open");
    return file;
}

/* Seconds that the slowest rank took. */
static double slowest(double began)
{
    double took = MPI_Wtime() - began, most;

    must(MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "reduce");
    return most;
}

static void report(const char *mode, double bytes, double writing, double reading)
{
    if (rank == 0) {
        printf("%s %d %.1f %.1f\n", mode, ranks, bytes / writing / 1e6, bytes / reading / 1e6);
        (void)fflush(stdout);
    }
}

/* ---- Blocks and strides ---- */

static MPI_Datatype set_view(MPI_File file, bool strided, MPI_Offset bytes)
{
    MPI_Datatype type = MPI_BYTE;
    MPI_Offset begin = strided ? (MPI_Offset)rank * PIECE_BYTES : (MPI_Offset)rank * bytes;

    if (strided) {
        must(MPI_Type_vector((int)(bytes / PIECE_BYTES), PIECE_BYTES, PIECE_BYTES * ranks, MPI_BYTE,
                             &type),
             "vector");
        must(MPI_Type_commit(&type), "commit");
    }
    must(MPI_File_set_view(file, begin, MPI_BYTE, type, "native", MPI_INFO_NULL), "view");
    return type;
}

/* Where in the file byte `i` of this rank is. */
static uint64_t place(uint64_t i, bool strided, uint64_t bytes)
{
    return strided ? i / PIECE_BYTES * PIECE_BYTES * (uint64_t)ranks +
                         (uint64_t)rank * PIECE_BYTES + i % PIECE_BYTES
                   : (uint64_t)rank * bytes + i;
}

static double write_part(const char *path, uint8_t *buffer, int bytes, bool strided, bool together)
{
    MPI_File file = open_file(path, true);
    MPI_Datatype type = set_view(file, strided, bytes);
    double began, took;

    for (int i = 0; i < bytes; i++) {
        buffer[i] = byte_of(place((uint64_t)i, strided, (uint64_t)bytes), rank);
    }
    must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
    began = MPI_Wtime();
    must(together ? MPI_File_write_at_all(file, 0, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                  : MPI_File_write_at(file, 0, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE),
         "write");
    must(MPI_File_sync(file), "sync");
    took = slowest(began);
    must(MPI_File_close(&file), "close");
    if (strided) {
        (void)MPI_Type_free(&type);
    }
    return took;
}

static double read_part(const char *path, uint8_t *buffer, int bytes, bool strided, bool together)
{
    MPI_File file = open_file(path, false);
    MPI_Datatype type = set_view(file, strided, bytes);
    double began, took;

    memset(buffer, 0, (size_t)bytes);
    must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
    began = MPI_Wtime();
    must(together ? MPI_File_read_at_all(file, 0, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                  : MPI_File_read_at(file, 0, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE),
         "read");
    took = slowest(began);
    for (int i = 0; i < bytes; i++) {
        check(buffer[i] == byte_of(place((uint64_t)i, strided, (uint64_t)bytes), rank),
              "a byte that was read");
    }
    must(MPI_File_close(&file), "close");
    if (strided) {
        (void)MPI_Type_free(&type);
    }
    return took;
}

static void run_parts(const char *mode, const char *path, int mib, bool strided, bool together)
{
    int bytes = mib << 20;
    uint8_t *buffer = malloc((size_t)bytes);
    double writing, reading;

    check(buffer != NULL, "memory");
    writing = write_part(path, buffer, bytes, strided, together);
    reading = read_part(path, buffer, bytes, strided, together);
    report(mode, (double)bytes * ranks, writing, reading);
    free(buffer);
}

/* ---- Atomic mode and the shared pointer ---- */

static void run_atomic(const char *path)
{
    static uint8_t buffer[ATOMIC_BYTES];
    MPI_File file = open_file(path, true);
    double began = MPI_Wtime(), writing;

    must(MPI_File_set_atomicity(file, 1), "atomicity");
    for (int round = 0; round < 4; round++) {
        memset(buffer, rank + 1, sizeof(buffer));
        must(MPI_File_write_at(file, 0, buffer, ATOMIC_BYTES, MPI_BYTE, MPI_STATUS_IGNORE),
             "write");
        must(MPI_File_read_at(file, 0, buffer, ATOMIC_BYTES, MPI_BYTE, MPI_STATUS_IGNORE), "read");
        for (int i = 1; i < ATOMIC_BYTES; i++) {
            check(buffer[i] == buffer[0] && buffer[0] != 0,
                  "bytes of two ranks in one atomic write");
        }
    }
    writing = slowest(began);
    must(MPI_File_close(&file), "close");
    report("atomic", 8.0 * ATOMIC_BYTES * ranks, writing, writing);
}

static void check_records(MPI_File file)
{
    static uint8_t record[RECORD_BYTES];
    int *counts = calloc((size_t)ranks, sizeof(*counts));
    MPI_Offset size;

    check(counts != NULL, "memory");
    must(MPI_File_get_size(file, &size), "size");
    check(size == (MPI_Offset)RECORD_BYTES * RECORDS * ranks, "the number of records");
    for (int i = 0; i < RECORDS * ranks; i++) {
        must(MPI_File_read_at(file, (MPI_Offset)i * RECORD_BYTES, record, RECORD_BYTES, MPI_BYTE,
                              MPI_STATUS_IGNORE),
             "read");
        check(record[0] < ranks && record[RECORD_BYTES - 1] == record[0], "a torn record");
        counts[record[0]]++;
    }
    for (int i = 0; i < ranks; i++) {
        check(counts[i] == RECORDS, "the records of a rank");
    }
    free(counts);
}

static void run_shared(const char *path)
{
    static uint8_t record[RECORD_BYTES];
    MPI_File file = open_file(path, true);
    double began, writing;

    memset(record, rank, sizeof(record));
    must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
    began = MPI_Wtime();
    for (int i = 0; i < RECORDS; i++) {
        must(MPI_File_write_shared(file, record, RECORD_BYTES, MPI_BYTE, MPI_STATUS_IGNORE),
             "write_shared");
    }
    writing = slowest(began);
    must(MPI_File_sync(file), "sync");
    must(MPI_Barrier(MPI_COMM_WORLD), "barrier");
    must(MPI_File_sync(file), "sync");
    if (rank == 0) {
        check_records(file);
    }
    must(MPI_File_close(&file), "close");
    report("shared", (double)RECORD_BYTES * RECORDS * ranks, writing, writing);
}

static void run(const char *mode, const char *path, int mib)
{
    if (strcmp(mode, "block") == 0) {
        run_parts(mode, path, mib, false, false);
    } else if (strcmp(mode, "collective") == 0) {
        run_parts(mode, path, mib, false, true);
    } else if (strcmp(mode, "strided") == 0) {
        run_parts(mode, path, mib, true, false);
    } else if (strcmp(mode, "strided-all") == 0) {
        run_parts(mode, path, mib, true, true);
    } else if (strcmp(mode, "atomic") == 0) {
        run_atomic(path);
    } else if (strcmp(mode, "shared") == 0) {
        run_shared(path);
    } else {
        check(false, "an unknown mode; see the head of morsel_mpi_io.c");
    }
}

int main(int argc, char **argv)
{
    static const char *const all[] = { "block",       "collective", "strided",
                                       "strided-all", "atomic",     "shared" };
    const char *modes[MODES_MAX];
    int modes_count = 0, mib = 16, i = 1;

    must(MPI_Init(&argc, &argv), "init");
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "size");
    for (; i + 1 < argc - 1 && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--mib") == 0) {
            mib = atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--mode") == 0 && modes_count < MODES_MAX) {
            modes[modes_count++] = argv[i + 1];
        }
    }
    check(i == argc - 1 && mib >= 1 && mib <= 1024 && ranks < 256,
          "usage: morsel_mpi_io [--mib M] [--mode MODE]... FILE");
    if (modes_count == 0) {
        memcpy(modes, all, sizeof(all));
        modes_count = sizeof(all) / sizeof(all[0]);
    }
    for (int k = 0; k < modes_count; k++) {
        run(modes[k], argv[i], mib);
    }
    must(MPI_Finalize(), "finalize");
    return 0;
}
