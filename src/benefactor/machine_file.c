/* Reads /proc and /sys. */
#include "benefactor/machine_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    TEXT_MAX = 256 << 10, /* /proc/interrupts of a large machine; what is longer is cut. */
    WORD_MAX = 64,
    SUPPLIES_MAX = 16,
    IOPRIO_WHO = 1,           /* ioprio_set(2): a thread; */
    IOPRIO_IDLE = 3 << 13 | 7 /* its idle class. */
};

/* A file, terminated; empty when it cannot be read. */
static const char *read_at(int dir_fd, const char *path, char *text, size_t room)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    ssize_t more = 0;

    while (fd >= 0 && count < room - 1 && (more = read(fd, text + count, room - 1 - count)) > 0) {
        count += (size_t)more;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[count] = '\0';
    return text;
}

static bool supply_is_emptied(int dir_fd, const char *name)
{
    char path[288], type[WORD_MAX], scope[WORD_MAX], status[WORD_MAX];

    (void)snprintf(path, sizeof(path), "%s/type", name);
    (void)read_at(dir_fd, path, type, sizeof(type));
    (void)snprintf(path, sizeof(path), "%s/scope", name);
    (void)read_at(dir_fd, path, scope, sizeof(scope));
    (void)snprintf(path, sizeof(path), "%s/status", name);
    return machine_is_emptied(type, scope, read_at(dir_fd, path, status, sizeof(status)));
}

static bool is_on_battery(void)
{
    DIR *dir = opendir("/sys/class/power_supply");
    const struct dirent *entry;
    bool emptied = false;

    if (dir == NULL) {
        return false;
    }
    for (int i = 0; !emptied && i < SUPPLIES_MAX && (entry = readdir(dir)) != NULL; i++) {
        emptied = entry->d_name[0] != '.' && supply_is_emptied(dirfd(dir), entry->d_name);
    }
    closedir(dir);
    return emptied;
}

void machine_look(int fd, struct governor_machine *m)
{
    char *text = malloc(TEXT_MAX);
    struct stat st;

    *m = (struct governor_machine){ .on_battery = is_on_battery() };
    if (text == NULL) {
        return;
    }
    m->pressure_known =
        machine_parse_pressure(read_at(AT_FDCWD, "/proc/pressure/memory", text, TEXT_MAX),
                               &m->memory_us) &&
        machine_parse_pressure(read_at(AT_FDCWD, "/proc/pressure/io", text, TEXT_MAX), &m->io_us);
    (void)machine_parse_cpu(read_at(AT_FDCWD, "/proc/stat", text, TEXT_MAX), m);
    if (fstat(fd, &st) == 0) {
        (void)machine_parse_disk(read_at(AT_FDCWD, "/proc/diskstats", text, TEXT_MAX),
                                 major(st.st_dev), minor(st.st_dev), m);
    }
    (void)machine_parse_input(read_at(AT_FDCWD, "/proc/interrupts", text, TEXT_MAX), m);
    free(text);
}

/* Kernels that make a group of each session weigh groups before they weigh who is in them. Ours, where this is a session of its own; else it is
 * that of the shell, and of all that its user has started there. */
static void session_stand_back(void)
{
    int fd = getsid(0) == getpid() ? open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        ssize_t written = write(fd, "19", 2);

        (void)written; /* As far as the kernel lets us. */
        close(fd);
    }
}

void machine_stand_back(void)
{
    struct sched_param none = { .sched_priority = 0 };

    (void)sched_setscheduler(0, SCHED_IDLE, &none);
    (void)setpriority(PRIO_PROCESS, 0, 19);
    session_stand_back();
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO, 0, IOPRIO_IDLE);
}
