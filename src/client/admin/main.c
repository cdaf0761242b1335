/* morsel: finds the command, reads its options, runs it. */
#include "client/admin/admin.h"
#include "client/admin/manager_file.h"
#include "common/base/check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct command
{
    const char *name;
    struct config_table table;
    size_t operands_min, operands_max;
    int (*run)(const struct admin_arguments *arguments);
};

#define FIELD(name) offsetof(struct admin_settings, name)

enum { WAIT_MS_MAX = 1000000000 }; /* More than eleven days. */

static const struct config_option common_options[] = { ADMIN_COMMON_OPTIONS };

static const struct config_option donate_options[] = {
    { "data-dir", CONFIG_STRING, FIELD(data_dir), "", 0, 0, "DIR",
      "The donated directory; unless it is named the one that morsel-benefactor takes by itself: "
      "for root /var/lib/morselfs/benefactor, for others $XDG_DATA_HOME/morselfs "
      "(~/.local/share/morselfs)." },
    { "keep-free", CONFIG_STRING, FIELD(keep_free), "", 0, 0, "SIZE|PERCENT",
      "set: so much of the disk stays free for its owner." },
    { "deadline", CONFIG_STRING, FIELD(deadline), "", 0, 0, "TIME",
      "leave: wait so long at most for others to copy what is here; 60s unless it is said." },
    { "now", CONFIG_BOOL, FIELD(now), "no", 0, 0, "", "leave: wait for nothing." },
    ADMIN_ANSWER_OPTIONS
};

static const struct config_option stage_options[] = {
    { "r", CONFIG_BOOL, FIELD(recursive), "no", 0, 0, "",
      "Stage all files of a local directory, and below, to the same places below DEST." },
    { "list", CONFIG_STRING, FIELD(list), "", 0, 0, "FILE",
      "Stage all URLs that stand in the file (\"-\": standard input), one on a line." },
    { "fresh", CONFIG_BOOL, FIELD(fresh), "no", 0, 0, "", "Begin anew, whatever is there." },
    { "quiet", CONFIG_BOOL, FIELD(quiet), "no", 0, 0, "",
      "Show neither how far it is nor what came of it." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option donors_options[] = {
    { "force", CONFIG_BOOL, FIELD(force), "no", 0, 0, "",
      "forget: also if it has what nobody else has, which is lost then." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option reserve_options[] = {
    { "cancel", CONFIG_BOOL, FIELD(cancel), "no", 0, 0, "",
      "There is not to be one after all: remove the file, if it is not sealed." },
    ADMIN_COMMON_OPTIONS
};

/* Of put and get. */
static const struct config_option transfer_options[] = {
    { "force", CONFIG_BOOL, FIELD(force), "no", 0, 0, "", "Replace what has that name." },
    { "quiet", CONFIG_BOOL, FIELD(quiet), "no", 0, 0, "",
      "Show neither how far it is nor what came of it." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option evict_options[] = {
    { "keep", CONFIG_STRING, FIELD(keep), "0", 0, 0, "SIZE|PERCENT",
      "Keep so much of the beginning of each, in whole morsels." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option layout_options[] = {
    { "all", CONFIG_BOOL, FIELD(all), "no", 0, 0, "",
      "Show every range, not only the first ones." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option fsck_options[] = { { "repair", CONFIG_BOOL, FIELD(repair), "no",
                                                       0, 0, "", "Repair what is found." },
                                                     ADMIN_COMMON_OPTIONS };

static const struct config_option cluster_options[] = {
    { "servers", CONFIG_NUMBER, FIELD(servers), "0", 0, 64, "N",
      "start: number of I/O daemons; 0: as many as there were, four at first." },
    { "benefactors", CONFIG_NUMBER, FIELD(benefactors), "0", 0, 64, "N",
      "start: number of benefactors; 0: as many as there were, none at first." },
    { "donate", CONFIG_STRING, FIELD(donate), "", 0, 0, "SIZE|PERCENT",
      "start: how much of the disk each benefactor gives, as for morsel-benefactor; as before, 1G "
      "at first." },
    { "mount", CONFIG_STRING, FIELD(mount), "", 0, 0, "DIR",
      "start: mount the cluster there too." },
    { "options", CONFIG_STRING, FIELD(options), "", 0, 0, "LIST",
      "start: options of the mount, as for mount -o." },
    { "replicas", CONFIG_STRING, FIELD(replicas), "", 0, 0, "NUMBER",
      "start: copies of new files, as for morsel-meta; if the manager does not run yet." },
    { "force", CONFIG_BOOL, FIELD(force), "no", 0, 0, "",
      "unmount, stop: also while files are open there." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option recopy_options[] = {
    { "rate", CONFIG_BYTES, FIELD(rate), "0", 0, INT64_MAX, "BYTES",
      "Copy at most so many bytes a second; 0: as fast as it goes." },
    { "wait", CONFIG_TIME_MS, FIELD(wait_ms), "0", 0, WAIT_MS_MAX, "TIME",
      "Try files that other mounts write to, and that could not be moved, again for so long; 0: "
      "three times more." },
    { "pause", CONFIG_BOOL, FIELD(pause), "yes", 0, 0, "",
      "Move files that other mounts have open for writing: writes there wait for a moment." },
    { "dry-run", CONFIG_BOOL, FIELD(dry_run), "no", 0, 0, "", "Only count what would be copied." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option top_options[] = {
    { "interval", CONFIG_TIME_MS, FIELD(interval_ms), "2s", 100, 3600000, "TIME",
      "Time between two looks." },
    { "rounds", CONFIG_NUMBER, FIELD(rounds), "0", 0, 1000000000, "N",
      "Stop after so many; 0: when interrupted." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option iod_options[] = {
    { "cancel", CONFIG_BOOL, FIELD(cancel), "no", 0, 0, "", "drain: the server stays after all." },
    { "lost", CONFIG_BOOL, FIELD(lost), "no", 0, 0, "",
      "remove: also when only this server has parts of files; they are lost." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option status_options[] = {
    { "unavailable", CONFIG_BOOL, FIELD(unavailable), "no", 0, 0, "",
      "List the data sets of which some bytes can be read nowhere now, and who would have them." },
    { "show-loss", CONFIG_BOOL, FIELD(show_loss), "no", 0, 0, "",
      "Show what is at risk: where copies are missing, since when, and what would be lost." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option recover_options[] = {
    { "yes", CONFIG_BOOL, FIELD(yes), "no", 0, 0, "",
      "force: do it without asking; what may be lost is lost." },
    { "show-loss", CONFIG_BOOL, FIELD(show_loss), "no", 0, 0, "",
      "status: show what is at risk as well." },
    { "all", CONFIG_BOOL, FIELD(all), "no", 0, 0, "", "verify: all groups." },
    { "wait", CONFIG_BOOL, FIELD(wait), "no", 0, 0, "",
      "verify: until it is done, and show how far it is; status: until all copies are complete, or "
      "--timeout is over." },
    ADMIN_COMMON_OPTIONS
};

static const struct config_option rebalance_options[] = {
    { "dry-run", CONFIG_BOOL, FIELD(dry_run), "no", 0, 0, "", "Only show what would move." },
    { "yes", CONFIG_BOOL, FIELD(yes), "no", 0, 0, "", "Do it without asking." },
    { "wait", CONFIG_BOOL, FIELD(wait), "no", 0, 0, "",
      "Until it is done, and show how far it is; with --status: of what has begun." },
    { "status", CONFIG_BOOL, FIELD(show_status), "no", 0, 0, "", "Show how far it is." },
    { "stop", CONFIG_BOOL, FIELD(stop), "no", 0, 0, "",
      "No other copy begins to move; those that have begun are brought to their end." },
    ADMIN_COMMON_OPTIONS
};

#define TABLE(words, summary, operands, options)                                                   \
    {                                                                                              \
        "morsel " words, summary, operands, options, ARRAY_COUNT(options)                          \
    }

static const struct command commands[] = {
    { "status", TABLE("status", "Show members, capacity and health.", "", status_options), 0, 0,
      command_status },
    { "df", TABLE("df", "Show space, server by server.", "", common_options), 0, 0, command_df },
    { "donors",
      TABLE("donors",
            "List the benefactors: who is here, and what they donate; forget one that does not "
            "come back; trust one again that "
            "was found to give out something else than what was stored there.",
            "[forget|trust ID]", donors_options),
      0, 2, command_donors },
    { "datasets",
      TABLE("datasets", "List the data sets on benefactors, and what is here of them.", "",
            common_options),
      0, 0, command_datasets },
    { "stage",
      TABLE("stage",
            "Fetch what lies at a URL (http, https, s3, ftp, sftp, file) or a path into a data "
            "set: a file in a directory of class scavenged. The same command goes on where one "
            "was interrupted.",
            "URL|PATH FILE|DIR", stage_options),
      1, 2, command_stage },
    { "reserve",
      TABLE("reserve",
            "Make a data set that is to have SIZE, without its bytes: a file in a directory of "
            "class scavenged. One that the benefactors are too small for is refused.",
            "FILE [SIZE]", reserve_options),
      1, 2, command_reserve },
    { "put",
      TABLE("put",
            "Store a local file as a data set: a file in a directory of class scavenged, which is "
            "there when all of it is.",
            "FILE|- PATH", transfer_options),
      2, 2, command_put },
    { "get",
      TABLE("get", "Fetch a data set into a local file, which is there when all of it is.",
            "PATH FILE|-", transfer_options),
      2, 2, command_get },
    { "donate",
      TABLE("donate",
            "The benefactor that runs on this machine, for its owner: show what it gives and "
            "costs, say how much that is to be, pause it, let it leave.",
            "status|set|pause|resume|leave [SIZE|PERCENT|TIME]", donate_options),
      1, 2, command_donate },
    { "layout", TABLE("layout", "Show where every byte of a file lies.", "FILE...", layout_options),
      1, ADMIN_OPERANDS_MAX, command_layout },
    { "setpolicy",
      TABLE("setpolicy",
            "Say what new files in a directory get: class, replicas, morsel_size, stripe_size, "
            "stripe_width (VALUE \"inherit\": what the parent says).",
            "DIR KEY=VALUE...", common_options),
      2, ADMIN_OPERANDS_MAX, command_setpolicy },
    { "getpolicy",
      TABLE("getpolicy", "Show what new files in a directory get.", "DIR", common_options), 1, 1,
      command_getpolicy },
    { "pin",
      TABLE("pin", "Keep data sets that may be evicted from that.", "FILE...", common_options), 1,
      ADMIN_OPERANDS_MAX, command_pin },
    { "unpin", TABLE("unpin", "Take that back.", "FILE...", common_options), 1, ADMIN_OPERANDS_MAX,
      command_unpin },
    { "evict",
      TABLE(
          "evict",
          "Give back now what data sets take that may be evicted, from their end on, as happens by "
          "itself when there is no room.",
          "FILE...", evict_options),
      1, ADMIN_OPERANDS_MAX, command_evict },
    { "recopy",
      TABLE("recopy",
            "Give files that are there what new ones would get: the number of copies, and how they "
            "are striped; move those with one copy off servers that are drained; while they are in "
            "use.",
            "PATH...", recopy_options),
      1, ADMIN_OPERANDS_MAX, command_recopy },
    { "fsck",
      TABLE("fsck", "Check the metadata, and the objects of all servers against it.", "",
            fsck_options),
      0, 0, command_fsck },
    { "stats",
      TABLE("stats",
            "Show the counters of the manager, of the daemon at ADDRESS, or of the mount on DIR.",
            "[ADDRESS|DIR]", common_options),
      0, 1, command_stats },
    { "top",
      TABLE("top",
            "Show live what the daemons and the mounts of this machine do, and how long "
            "it takes them.",
            "", top_options),
      0, 0, command_top },
    { "recover",
      TABLE("recover",
            "Show how copies of lost servers are made anew; replace a server, by another one or by "
            "any; do not replace servers that are away, or do so again; compare all copies, and "
            "repair what differs; name the copy of a group that counts, when the others do not "
            "come back.",
            "status|replace|pause|start|verify|force [OLD NEW|auto] [GROUP [SERVER]]",
            recover_options),
      1, 3, command_recover },
    { "rebalance",
      TABLE("rebalance",
            "Even out how full the disks of the storage servers are, by moving copies of groups "
            "from fuller ones to emptier ones; while files are in use.",
            "", rebalance_options),
      0, 0, command_rebalance },
    { "iod",
      TABLE("iod",
            "List the storage servers; admit one that is new; make one ready to be stopped for "
            "good; take one that is gone "
            "for good out of the cluster.",
            "list|admit|drain|remove [SERVER]", iod_options),
      1, 2, command_iod },
    { "cluster",
      TABLE("cluster", "Run a development cluster on this machine, in DIR.",
            "start|unmount|stop|status [DIR]", cluster_options),
      1, 2, command_cluster },
};

int admin_failed(enum admin_exit code, const char *format, ...)
{
    va_list args;

    (void)fflush(stdout);
    (void)fprintf(stderr, "morsel: ");
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "\n");
    return (int)code;
}

static int print_overview(void)
{
    (void)printf("Usage: morsel COMMAND [OPTION...] [ARGUMENT...]\n"
                 "Look after a MorselFS cluster.\n\n");
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        (void)printf("  %-10s %s\n", commands[i].name, commands[i].table.summary);
    }
    (void)printf("\n\"morsel COMMAND --help\" lists the options of a command.\n"
                 "Exit codes: 0 good, 1 a problem was found, 2 wrong usage, 3 cannot reach the "
                 "cluster, 4 fsck or verify repaired everything.\n");
    return ADMIN_OK;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* Where the command's name stands in argv: behind options that all commands know, and their values.
 * 0: nowhere. */
static int find_command_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const struct config_option *option;

        if (argv[i][0] != '-') {
            return i;
        }
        option = strncmp(argv[i], "--", 2) == 0 ? config_find(&manager_table, argv[i] + 2) : NULL;
        if (strcmp(argv[i], "--config") == 0 || (option != NULL && option->type != CONFIG_BOOL)) {
            i++;
        }
    }
    return 0;
}

static int check_operands(const struct command *command, const struct admin_arguments *arguments)
{
    if (arguments->operands_count >= command->operands_min) {
        return ADMIN_OK;
    }
    return admin_failed(ADMIN_USAGE, "%s needs arguments: %s (\"morsel %s --help\" tells more)",
                        command->name, command->table.operands, command->name);
}

/* `argv` without the command's name. */
static int run_command(const struct command *command, int argc, char **argv)
{
    struct admin_arguments arguments;
    struct errmsg err;
    enum config_verdict verdict =
        config_command_line(&command->table, &arguments.settings, argc, argv, arguments.operands,
                            command->operands_max, &arguments.operands_count, &err);
    int code;

    if (verdict == CONFIG_BAD) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    if (verdict != CONFIG_RUN) {
        return config_answer(&command->table, verdict, &err);
    }
    code = check_operands(command, &arguments);
    if (code == ADMIN_OK) {
        code = command->run(&arguments);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return admin_failed(ADMIN_PROBLEM, "cannot write the result to standard output");
    }
    return code;
}

int main(int argc, char **argv)
{
    int at = find_command_word(argc, argv);
    const struct command *command = at == 0 ? NULL : find_command(argv[at]);

    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "origin-part") == 0) {
        return command_origin_part(argc - 2, argv + 2);
    }
    if (command == NULL && at != 0) {
        return admin_failed(ADMIN_USAGE, "unknown command \"%s\" (\"morsel --help\" lists all)",
                            argv[at]);
    }
    if (command == NULL && argc > 1 && strcmp(argv[1], "--version") == 0) {
        (void)printf("morsel %s\n", MORSELFS_VERSION);
        return ADMIN_OK;
    }
    if (command == NULL && argc > 1 &&
        (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        return print_overview();
    }
    if (command == NULL) {
        return admin_failed(ADMIN_USAGE, "no command is given (\"morsel --help\" lists all)");
    }
    memmove(&argv[at], &argv[at + 1], (size_t)(argc - at) * sizeof(argv[0]));
    return run_command(command, argc - 1, argv);
}
