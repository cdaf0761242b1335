/* Mount options: the text behind -o, ours and the kernel's.
 *
 * Pure. Ours set fields of the settings; flags that mount(8) knows go on to libfuse, or to the
 * kernel when what is mounted is changed (remount); those that are for others (_netdev, nofail,
 * x-...) are passed over; anything else is an error that names the option.
 */
#ifndef MORSEL_CLIENT_FUSE_OPTIONS_H
#define MORSEL_CLIENT_FUSE_OPTIONS_H

#include "common/daemon/config.h"

struct mount_settings
{
    /* Command line */
    bool foreground; /* As mount.fuse.morsel: -f, pretend. */
    bool sloppy, no_mtab, verbose;
    char options[CONFIG_STRING_MAX];
    char type[CONFIG_STRING_MAX];
    char log_file[CONFIG_STRING_MAX];
    char log_level[CONFIG_STRING_MAX];
    /* -o */
    bool read_only, read_write;
    bool remount;
    bool allow_other;
    bool soft, hard;
    bool nocache;
    bool no_origins;
    char kernel[CONFIG_STRING_MAX]; /* For tests: "6.1". */
    uint32_t kernel_version;        /* As MOUNT_KERNEL(); 0: the one that runs. */
    uint64_t io_timeout_ms;
    uint64_t write_buffer_bytes;
    uint64_t read_ahead_bytes;
};

/* A version of Linux, for comparison. */
#define MOUNT_KERNEL(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

enum { MOUNT_KERNEL_OPTIONS_MAX = CONFIG_STRING_MAX + 16 };

/* The command line's table, and that of -o. */
const struct config_table *mount_command_table(void);
const struct config_table *mount_option_table(void);

/* Read settings->options into the other fields, and the flags for libfuse into `kernel`
 * ("noatime,nodev"). With settings->sloppy unknown options are passed over. MORSEL_INVAL with a
 * sentence. */
int mount_options_parse(struct mount_settings *settings, char kernel[MOUNT_KERNEL_OPTIONS_MAX],
                        struct errmsg *err);

/* `flags` (MS_* of mount(2)) as changed by those of `options`, separated by commas, that are flags
 * of the kernel, "ro" and "rw" among them; others are passed over. */
unsigned long mount_flags_apply(const char *options, unsigned long flags);

/* The first option of ours in settings->options that only a new mount can change, copied into
 * `name`. False: there is none. */
bool mount_options_fixed(const struct mount_settings *settings, char name[CONFIG_STRING_MAX]);

#endif
