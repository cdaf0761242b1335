/* What the calls of libmorsel answer, for tests/cluster/library.sh: one step after the other on one data set.
 *
 *   library_calls PATH STEP...
 *
 *   reserve=N cancel store=N retrieve       as in morsel.h; store and retrieve open the set for the steps behind
 *   stored size                             prints it
 *   put=OFFSET:N get=OFFSET:N               bytes that are drawn from their place; get compares
 *   puts=THREADS gets=THREADS               all of the set, by so many threads
 *   seal close
 *   wait                                    prints "waits", and waits for a line
 *
 * Each prints a line: its name, and the error by its name, or what it returned. */
#include <morsel.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 150001, THREADS_MAX = 16 };

struct job
{
    morsel_set *set;
    uint64_t from, step, size;
    bool puts;
    int64_t result;
};

static void fill(unsigned char *bytes, uint64_t offset, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)(((offset + i) * 2654435761U) >> 16);
    }
}

static int64_t put(morsel_set *set, uint64_t offset, size_t count)
{
    unsigned char *bytes = malloc(count + 1);
    int64_t rv = -ENOMEM;

    if (bytes != NULL) {
        fill(bytes, offset, count);
        rv = morsel_put(set, offset, bytes, count);
    }
    free(bytes);
    return rv;
}

/* -EILSEQ: they are others. */
static int64_t get(morsel_set *set, uint64_t offset, size_t count)
{
    unsigned char *bytes = malloc(count + 1), *wanted = malloc(count + 1);
    int64_t rv = -ENOMEM;

    if (bytes != NULL && wanted != NULL) {
        fill(wanted, offset, count);
        rv = morsel_get(set, offset, bytes, count);
        rv = rv > 0 && memcmp(bytes, wanted, (size_t)rv) != 0 ? -EILSEQ : rv;
    }
    free(bytes);
    free(wanted);
    return rv;
}

static void *run(void *data)
{
    struct job *job = data;

    for (uint64_t at = job->from; job->result >= 0 && at < job->size; at += job->step) {
        size_t count = job->size - at < PIECE ? (size_t)(job->size - at) : PIECE;

        job->result = job->puts ? put(job->set, at, count) : get(job->set, at, count);
        if (!job->puts && job->result >= 0 && (size_t)job->result != count) {
            job->result = -ENODATA;
        }
    }
    return NULL;
}

static int64_t run_threads(morsel_set *set, unsigned count, bool puts)
{
    pthread_t threads[THREADS_MAX];
    struct job jobs[THREADS_MAX];
    int64_t result = 0;

    count = count < THREADS_MAX ? count : THREADS_MAX;
    for (unsigned i = 0; i < count; i++) {
        jobs[i] =
            (struct job){ set, (uint64_t)i * PIECE, (uint64_t)count * PIECE, morsel_size(set), puts,
                          0 };
        if (pthread_create(&threads[i], NULL, run, &jobs[i]) != 0) {
            abort();
        }
    }
    for (unsigned i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
        result = jobs[i].result < 0 ? jobs[i].result : result;
    }
    return result;
}

static int64_t waits(void)
{
    (void)printf("waits\n");
    (void)fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}

/* The number behind "=", and the one behind ":" if there is one. */
static int64_t step(const char *path, const char *words, morsel_set **set)
{
    uint64_t first = 0, second = 0;
    char name[16] = "";

    (void)sscanf(words, "%15[a-z]=%" SCNu64 ":%" SCNu64, name, &first, &second);
    return strcmp(name, "reserve") == 0    ? morsel_reserve(path, first)
           : strcmp(name, "cancel") == 0   ? morsel_cancel(path)
           : strcmp(name, "store") == 0    ? morsel_store(path, first, set)
           : strcmp(name, "retrieve") == 0 ? morsel_retrieve(path, set)
           : strcmp(name, "stored") == 0   ? (int64_t)morsel_stored(*set)
           : strcmp(name, "size") == 0     ? (int64_t)morsel_size(*set)
           : strcmp(name, "put") == 0      ? put(*set, first, (size_t)second)
           : strcmp(name, "get") == 0      ? get(*set, first, (size_t)second)
           : strcmp(name, "puts") == 0     ? run_threads(*set, (unsigned)first, true)
           : strcmp(name, "gets") == 0     ? run_threads(*set, (unsigned)first, false)
           : strcmp(name, "seal") == 0     ? morsel_seal(*set)
           : strcmp(name, "wait") == 0     ? waits()
           : strcmp(name, "close") == 0    ? (morsel_close(*set), *set = NULL, 0)
                                           : -ENOSYS;
}

int main(int argc, char **argv)
{
    morsel_set *set = NULL;

    for (int i = 2; i < argc; i++) {
        int64_t rv = step(argv[1], argv[i], &set);

        if (rv < 0) {
            (void)printf("%s %s: %s\n", argv[i], strerrorname_np((int)-rv),
                         morsel_error_text((int)rv));
        } else {
            (void)printf("%s %" PRId64 "\n", argv[i], rv);
        }
        (void)fflush(stdout);
    }
    morsel_close(set);
    return 0;
}
