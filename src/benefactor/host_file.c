/* Reads the disk, /proc/stat and what this process has cost. */
#include "benefactor/host_file.h"

#include "common/base/status.h"
#include "common/daemon/owner_key_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int host_disk(int fd, struct donation_disk *disk, struct errmsg *err)
{
    struct statvfs vfs;
    struct stat st;

    if (fstat(fd, &st) != 0 || fstatvfs(fd, &vfs) != 0) {
        errmsg_set(err, "ask how full the disk is: %s", strerror(errno));
        return MORSEL_IO;
    }
    if (st.st_nlink == 0) {
        errmsg_set(err, "it was deleted");
        return MORSEL_NOENT;
    }
    disk->total = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    disk->free = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    if ((vfs.f_flag & ST_RDONLY) != 0) {
        disk->free = 0;
        errmsg_set(err, "its file system is read-only now");
        return MORSEL_ROFS;
    }
    return 0;
}

/* Of /proc/stat (proc_pid_stat(5)) the line of all processors, and how many lines of single ones follow. */
static unsigned read_work(struct host_work *work)
{
    unsigned long long user, nice, system, idle, wait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "re");
    unsigned count = 0;
    char line[512];

    if (file == NULL) {
        return 0;
    }
    if (fgets(line, sizeof(line), file) != NULL &&
        sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
               &wait, &irq, &softirq, &steal) == 8) {
        work->busy = user + nice + system + irq + softirq + steal;
        work->all = work->busy + idle + wait;
        while (fgets(line, sizeof(line), file) != NULL && strncmp(line, "cpu", 3) == 0) {
            count++;
        }
    }
    (void)fclose(file);
    return count;
}

uint32_t host_load(struct host_work *last)
{
    struct host_work now = { 0, 0 };
    unsigned count = read_work(&now);
    uint64_t busy = now.busy - last->busy, all = now.all - last->all;

    /* The wait for disks may be counted back; so can all the rest when a processor is taken away. */
    if (count == 0 || now.busy < last->busy || now.all <= last->all || busy > all) {
        *last = now;
        return 0;
    }
    *last = now;
    return (uint32_t)(busy * count * 100 / all);
}

void host_cost(struct cost_counts *counts)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        return;
    }
    counts->cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                     (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    counts->read = (uint64_t)usage.ru_inblock * 512; /* getrusage(2) */
    counts->written = (uint64_t)usage.ru_oublock * 512;
}

uint64_t host_memory(void)
{
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%*s %llu", &resident) != 1) {
        resident = 0;
    }
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Make all directories above `path` that are missing, for its owner alone. */
static int make_parents(char *path, struct errmsg *err)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            errmsg_set(err, "make the directory %s: %s; name another one with data-dir", path,
                       strerror(errno));
            *slash = '/';
            return MORSEL_IO;
        }
        *slash = '/';
    }
    return 0;
}

int host_data_dir(char path[CONFIG_STRING_MAX], struct errmsg *err)
{
    int rv = owner_data_dir(path, err);

    return rv != 0 ? rv : make_parents(path, err);
}
