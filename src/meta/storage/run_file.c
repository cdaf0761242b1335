/* Reads and replaces DIR/run. */
#include "meta/storage/run_file.h"

#include "common/base/replace_file.h"
#include "common/base/status.h"
#include "common/daemon/datadir_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t fresh_run(void)
{
    uint64_t run;

    do {
        random_bytes(&run, sizeof(run));
    } while (run == 0);
    return run;
}

/* False: there is none, or it makes no sense; then nothing is known of what was before. */
static bool run_read(struct runs *runs, int dir_fd)
{
    char text[RUNS_TEXT_BYTES_MAX];
    int fd = openat(dir_fd, "run", O_RDONLY | O_CLOEXEC);
    ssize_t count;

    if (fd < 0) {
        return false;
    }
    count = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[count > 0 ? count : 0] = 0;
    return runs_parse(runs, text);
}

static int run_write(const struct runs *runs, int dir_fd)
{
    char text[RUNS_TEXT_BYTES_MAX];
    size_t count = runs_format(runs, text);

    return replace_file(dir_fd, "run", text, count, false);
}

int run_begin(struct runs *runs, const char *dir, uint64_t number, struct errmsg *err)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct runs known;
    int rv = -1;

    if (dir_fd >= 0) {
        runs_begin(runs, run_read(&known, dir_fd) ? &known : NULL, boot_id(), number, fresh_run());
        rv = run_write(runs, dir_fd);
    }
    if (rv != 0) {
        errmsg_set(err, "write %s/run: %s", dir, strerror(errno));
    }
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    return rv == 0 ? 0 : MORSEL_IO;
}

void run_close(struct runs *runs, const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir_fd >= 0) {
        runs->closed = true;
        (void)run_write(runs, dir_fd);
        close(dir_fd);
    }
}

void run_fail(struct runs *runs, const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    runs_begin(runs, NULL, runs->boot_id, 0, fresh_run());
    if (dir_fd >= 0) {
        (void)unlinkat(dir_fd, "run", 0); /* After a reset it is back, and its boot is another. */
        close(dir_fd);
    }
}
