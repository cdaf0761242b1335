/* What the machine says of itself, and where a user who names no directory donates. */
#ifndef MORSEL_BENEFACTOR_HOST_FILE_H
#define MORSEL_BENEFACTOR_HOST_FILE_H

#include "benefactor/cost.h"
#include "benefactor/donation.h"
#include "common/daemon/config.h"

/* How busy the processors have been, up to the last look. */
struct host_work
{
    uint64_t busy, all; /* Ticks of all of them together since the machine was started. */
};

/* The file system on which the open file `fd` lies: total and free; `used` stays as it is. It waits for the disk.
 * MORSEL_NOENT: the file was deleted, and with it, it seems, the directory that was donated; MORSEL_ROFS: nothing can be written
 * there, and so nothing is free; MORSEL_IO. */
int host_disk(int fd, struct donation_disk *disk, struct errmsg *err);

/* How busy the processors have been since the last look (at the first: since the machine was started), in percent of
 * one: 100 for each that was busy all the time. 0 where the kernel does not say. */
uint32_t host_load(struct host_work *last);

/* What this process has cost; what it received and sent stays as it is. */
void host_cost(struct cost_counts *counts);

/* Bytes of memory that this process has; 0 where the kernel does not say. */
uint64_t host_memory(void);

/* Where morsels of the user who runs us lie when he says nothing (owner_data_dir()). The directories above it that are
 * missing are made. */
int host_data_dir(char path[CONFIG_STRING_MAX], struct errmsg *err);

#endif
