/* Takes the text behind -o apart, and says of each option what it could not do with it. */
#include "client/fuse/options.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <linux/mount.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name) offsetof(struct mount_settings, name)

static const struct config_option command_options[] = {
    { "o", CONFIG_STRING, FIELD(options), "", 0, 0, "OPTION,...", "Mount options, listed below." },
    { "f", CONFIG_BOOL, FIELD(foreground), "no", 0, 0, "",
      "Stay in the foreground; as mount.fuse.morsel: do everything but mount." },
    { "s", CONFIG_BOOL, FIELD(sloppy), "no", 0, 0, "", "Pass over unknown mount options." },
    { "n", CONFIG_BOOL, FIELD(no_mtab), "no", 0, 0, "", "Taken for mount(8), without effect." },
    { "v", CONFIG_BOOL, FIELD(verbose), "no", 0, 0, "", "Log at level debug." },
    { "t", CONFIG_STRING, FIELD(type), "", 0, 0, "TYPE", "Taken for mount(8), without effect." },
    { "log-file", CONFIG_STRING, FIELD(log_file), "", 0, 0, "FILE",
      "Write the log there instead of the journal, or standard error in the foreground." },
    { "log-level", CONFIG_STRING, FIELD(log_level), "info", 0, 0, "LEVEL",
      "error, warning, info or debug." },
};

static const struct config_option mount_options[] = {
    { "ro", CONFIG_BOOL, FIELD(read_only), "no", 0, 0, "", "Mount read-only." },
    { "rw", CONFIG_BOOL, FIELD(read_write), "no", 0, 0, "",
      "Mount for reading and writing (the default)." },
    { "remount", CONFIG_BOOL, FIELD(remount), "no", 0, 0, "",
      "Change the kernel's flags (ro, noatime, ...) of what is mounted there." },
    { "allow_other", CONFIG_BOOL, FIELD(allow_other), "no", 0, 0, "",
      "Let other users in; for ordinary users /etc/fuse.conf must say user_allow_other." },
    { "soft", CONFIG_BOOL, FIELD(soft), "no", 0, 0, "",
      "Calls end with ETIMEDOUT instead of EIO when a server cannot be reached." },
    { "hard", CONFIG_BOOL, FIELD(hard), "no", 0, 0, "",
      "Calls wait for a server that cannot be reached until a signal interrupts them." },
    { "nocache", CONFIG_BOOL, FIELD(nocache), "no", 0, 0, "",
      "Keep nothing: every call asks the manager and the servers." },
    { "no_origins", CONFIG_BOOL, FIELD(no_origins), "no", 0, 0, "",
      "Do not fetch from its origin what is not left of a data set: who reads it hears EIO." },
    { "io_timeout", CONFIG_TIME_MS, FIELD(io_timeout_ms), "30s", 100, 3600000, "TIME",
      "How long a call waits for a server; a bare number is seconds." },
    { "write_buffer", CONFIG_BYTES, FIELD(write_buffer_bytes), "16M", 1 << 20, 1 << 30, "BYTES",
      "Written data that may wait to be sent, per open file." },
    { "read_ahead", CONFIG_BYTES, FIELD(read_ahead_bytes), "8M", 0, 32 << 20, "BYTES",
      "How far to fetch ahead of a sequential reader." },
    { "kernel", CONFIG_STRING, FIELD(kernel), "", 0, 0, "VERSION",
      "" }, /* For tests; not listed. */
};

/* Flags of the kernel that libfuse hands on; "ro" and "rw" are options of ours as well. */
static const struct kernel_flag
{
    const char *name;
    unsigned long flag;
    bool set; /* False: the option takes it away. */
} kernel_flags[] = {
    { "ro", MS_RDONLY, true },
    { "rw", MS_RDONLY, false },
    { "dev", MS_NODEV, false },
    { "nodev", MS_NODEV, true },
    { "suid", MS_NOSUID, false },
    { "nosuid", MS_NOSUID, true },
    { "exec", MS_NOEXEC, false },
    { "noexec", MS_NOEXEC, true },
    { "sync", MS_SYNCHRONOUS, true },
    { "async", MS_SYNCHRONOUS, false },
    { "dirsync", MS_DIRSYNC, true },
    { "atime", MS_NOATIME, false },
    { "noatime", MS_NOATIME, true },
    { "relatime", MS_RELATIME, true },
    { "norelatime", MS_RELATIME, false },
    { "nodiratime", MS_NODIRATIME, true },
    { "diratime", MS_NODIRATIME, false },
    { "strictatime", MS_STRICTATIME, true },
    { "nostrictatime", MS_STRICTATIME, false },
};

/* For mount(8), systemd and fstab; they mean nothing here. */
static const char *const others_flags[] = { "_netdev",
                                            "nofail",
                                            "auto",
                                            "noauto",
                                            "user",
                                            "users",
                                            "nouser",
                                            "owner",
                                            "group",
                                            "defaults",
                                            "default_permissions" };

/* What /proc/self/mountinfo shows of a mount of ours besides; mount(8) hands it back with
 * "remount". */
static const char *const shown_options[] = { "user_id=", "group_id=", "max_read=" };

static const struct config_table command_table = {
    .program = "morsel-mount",
    .summary = "Mount a MorselFS: morsel-mount manager.example.org:7460 /mnt/morsel",
    .operands = "HOST:PORT MOUNTPOINT",
    .options = command_options,
    .options_count = ARRAY_COUNT(command_options)
};

static const struct config_table option_table = { .program = "morsel-mount -o",
                                                  .summary = "Mount options, separated by commas.",
                                                  .operands = "",
                                                  .options = mount_options,
                                                  .options_count = ARRAY_COUNT(mount_options) };

const struct config_table *mount_command_table(void)
{
    return &command_table;
}

const struct config_table *mount_option_table(void)
{
    return &option_table;
}

static bool is_one_of(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static const struct kernel_flag *kernel_flag_find(const char *text)
{
    for (size_t i = 0; i < ARRAY_COUNT(kernel_flags); i++) {
        if (strcmp(text, kernel_flags[i].name) == 0) {
            return &kernel_flags[i];
        }
    }
    return NULL;
}

static int take_own(struct mount_settings *settings, char *name, struct errmsg *err)
{
    char *value = strchr(name, '=');
    const struct config_option *option;

    if (value != NULL) {
        *value++ = '\0';
    }
    option = config_find(&option_table, name);
    if (option == NULL) {
        const char *close = config_suggest(&option_table, name);

        if (settings->sloppy) {
            return MORSEL_OK;
        }
        errmsg_set(err, "unknown mount option \"%s\"%s%s%s; \"morsel-mount --help\" lists all",
                   name, close != NULL ? ": did you mean \"" : "", close != NULL ? close : "",
                   close != NULL ? "\"?" : "");
        return MORSEL_INVAL;
    }
    if (value == NULL && option->type != CONFIG_BOOL) {
        errmsg_set(err, "mount option \"%s\" needs a value: %s=%s", name, name, option->value_name);
        return MORSEL_INVAL;
    }
    return config_set(&option_table, settings, name, value == NULL ? "yes" : value, err);
}

static bool is_for_others(const char *text)
{
    for (size_t i = 0; i < ARRAY_COUNT(shown_options); i++) {
        if (strncmp(text, shown_options[i], strlen(shown_options[i])) == 0) {
            return true;
        }
    }
    return is_one_of(text, others_flags, ARRAY_COUNT(others_flags)) ||
           strncmp(text, "x-", 2) == 0 || strncmp(text, "comment=", 8) == 0;
}

static int take_option(struct mount_settings *settings, char *text, char *kernel,
                       struct errmsg *err)
{
    size_t used = strlen(kernel);

    if (text[0] == '\0' || is_for_others(text)) {
        return MORSEL_OK;
    }
    if (kernel_flag_find(text) != NULL && config_find(&option_table, text) == NULL) {
        (void)snprintf(kernel + used, MOUNT_KERNEL_OPTIONS_MAX - used, ",%s", text);
        return MORSEL_OK;
    }
    return take_own(settings, text, err);
}

static int take_kernel(struct mount_settings *settings, struct errmsg *err)
{
    unsigned major, minor;
    char rest;

    if (settings->kernel[0] == '\0') {
        return MORSEL_OK;
    }
    if (sscanf(settings->kernel, "%5u.%5u%c", &major, &minor, &rest) != 2 || major > UINT16_MAX ||
        minor > UINT16_MAX) {
        errmsg_set(err, "mount option \"kernel=%s\": give a version such as 6.1", settings->kernel);
        return MORSEL_INVAL;
    }
    settings->kernel_version = MOUNT_KERNEL(major, minor);
    return MORSEL_OK;
}

int mount_options_parse(struct mount_settings *settings, char kernel[MOUNT_KERNEL_OPTIONS_MAX],
                        struct errmsg *err)
{
    char text[CONFIG_STRING_MAX];
    char *rest = text, *option;
    int rv = MORSEL_OK;

    kernel[0] = '\0';
    (void)snprintf(text, sizeof(text), "%s", settings->options);
    while (rv == 0 && (option = strsep(&rest, ",")) != NULL) {
        rv = take_option(settings, option, kernel, err);
    }
    if (rv == 0) {
        rv = take_kernel(settings, err);
    }
    if (rv == 0 && settings->soft && settings->hard) {
        errmsg_set(err, "mount options \"soft\" and \"hard\" exclude each other; choose one");
        rv = MORSEL_INVAL;
    }
    if (rv == 0 && settings->read_only && settings->read_write) {
        errmsg_set(err, "mount options \"ro\" and \"rw\" exclude each other; choose one");
        rv = MORSEL_INVAL;
    }
    return rv;
}

unsigned long mount_flags_apply(const char *options, unsigned long flags)
{
    char text[CONFIG_STRING_MAX];
    char *rest = text, *option;

    (void)snprintf(text, sizeof(text), "%s", options);
    while ((option = strsep(&rest, ",")) != NULL) {
        const struct kernel_flag *flag = kernel_flag_find(option);

        if (flag != NULL) {
            flags = flag->set ? flags | flag->flag : flags & ~flag->flag;
        }
    }
    return flags;
}

bool mount_options_fixed(const struct mount_settings *settings, char name[CONFIG_STRING_MAX])
{
    char text[CONFIG_STRING_MAX];
    char *rest = text, *option;

    (void)snprintf(text, sizeof(text), "%s", settings->options);
    while ((option = strsep(&rest, ",")) != NULL) {
        option[strcspn(option, "=")] = '\0';
        if (config_find(&option_table, option) != NULL && kernel_flag_find(option) == NULL &&
            strcmp(option, "remount") != 0 && strcmp(option, "allow_other") != 0) {
            (void)snprintf(name, CONFIG_STRING_MAX, "%s", option);
            return true;
        }
    }
    return false;
}
