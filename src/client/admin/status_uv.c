/* morsel status, morsel df: what the manager knows about itself and its storage servers. */
#include "client/admin/distrust_uv.h"
#include "client/admin/group_status_file.h"
#include "client/admin/print_file.h"
#include "client/admin/scrub_status_file.h"
#include "client/admin/to_manager_uv.h"
#include "client/admin/unavailable_uv.h"
#include "client/admin/voters_file.h"
#include "common/base/status.h"

#include "meta.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static size_t count_up(const Morsel__StatusReply *status)
{
    size_t up = 0;

    for (size_t i = 0; i < status->n_members; i++) {
        up += status->members[i]->up;
    }
    return up;
}

static void cluster_id_text(const Morsel__StatusReply *status, char text[33])
{
    text[0] = '\0';
    for (size_t i = 0; i < status->cluster_id.len && i < 16; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", status->cluster_id.data[i]);
    }
}

static size_t count_failed(const Morsel__StatusReply *status)
{
    size_t failed = 0;

    for (size_t i = 0; i < status->n_members; i++) {
        failed += status->members[i]->disk_failure[0] != 0;
    }
    return failed;
}

static const char *health_words(const Morsel__StatusReply *status)
{
    if (status->n_members == 0) {
        return "no servers";
    }
    return count_up(status) == status->n_members && count_failed(status) == 0 &&
                   groups_unwell(status) == 0 && scrubs_damaged(status) == 0
               ? "healthy"
               : "degraded";
}

static json_t *member_json(const Morsel__Member *member)
{
    char verifier[20] = "", device[20] = "";

    if (member->device != 0) {
        (void)snprintf(device, sizeof(device), "%016" PRIx64, member->device);
    }
    if (member->verifier != 0) {
        (void)snprintf(verifier, sizeof(verifier), "%016" PRIx64, member->verifier);
    }
    return json_pack("{s:I, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:b, s:b, "
                     "s:b, s:I, s:o}",
                     "id", (json_int_t)member->id, "address", member->address, "name", member->name,
                     "up", (int)member->up, "bytes_total", print_json_number(member->bytes_total),
                     "bytes_free", print_json_number(member->bytes_free), "objects",
                     print_json_number(member->objects), "silent_ms",
                     print_json_number(member->silent_ms), "device", device, "verifier", verifier,
                     "disk_failure", member->disk_failure, "blocks_mended",
                     print_json_number(member->blocks_mended), "blocks_lost",
                     print_json_number(member->blocks_lost), "leaves", (int)member->leaves, "waits",
                     (int)member->waits, "has_left", (int)leaver_has_left(member), "places",
                     (json_int_t)member->places, "scrub", scrub_json(member));
}

static json_t *members_json(const Morsel__StatusReply *status)
{
    json_t *members = json_array();

    for (size_t i = 0; i < status->n_members; i++) {
        (void)json_array_append_new(members, member_json(status->members[i]));
    }
    return members;
}

static json_t *new_files_json(const Morsel__StatusReply *status)
{
    char rule[12] = "auto";

    if (status->new_copies == 0) {
        return json_null();
    }
    if (status->new_copies_rule != 0) {
        (void)snprintf(rule, sizeof(rule), "%" PRIu32, status->new_copies_rule);
    }
    return json_pack("{s:I, s:s}", "replicas", (json_int_t)status->new_copies, "rule", rule);
}

static json_t *donors_json(const Morsel__StatusReply *status)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:o}", "count",
                     (json_int_t)status->donors, "here", (json_int_t)status->donors_here, "donated",
                     print_json_number(status->donated), "used",
                     print_json_number(status->donated_used), "morsels_short",
                     print_json_number(status->morsels_short), "morsels_away",
                     print_json_number(status->morsels_away), "morsels_fetching",
                     (json_int_t)status->morsels_fetching, "morsels_repaired",
                     print_json_number(status->morsels_repaired), "bytes_repaired",
                     print_json_number(status->bytes_repaired), "sets_unfinished",
                     (json_int_t)status->sets_unfinished, "distrusted", distrusted_json(status));
}

static bool print_status_json(const Morsel__StatusReply *status, const char *address)
{
    char cluster[33];

    cluster_id_text(status, cluster);
    return print_json(json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "health", health_words(status), "cluster", cluster, "manager", address, "manager_host",
        status->host, "version", status->version, "uptime_ms", print_json_number(status->uptime_ms),
        "sequence", print_json_number(status->sequence), "inodes",
        print_json_number(status->inodes), "sessions", print_json_number(status->sessions),
        "garbage", print_json_number(status->garbage), "resident_bytes",
        print_json_number(status->resident_bytes), "voters", voters_json(status->voters), "servers",
        members_json(status), "groups", group_status_json(status), "new_files",
        new_files_json(status), "donors", donors_json(status)));
}

static bool has_bad_blocks(const Morsel__Member *member)
{
    return member->blocks_mended + member->blocks_lost > 0;
}

static void print_member(const Morsel__Member *member)
{
    char total[PRINT_TEXT_MAX];
    char avail[PRINT_TEXT_MAX];
    char silent[PRINT_TEXT_MAX];
    char leaver[LEAVER_TEXT_MAX];

    (void)printf("%4" PRIu32 "  %-22s %-16s %10s %10s %4u%% %10" PRIu64 "  ", member->id,
                 member->address, member->name, print_bytes(member->bytes_total, total),
                 print_bytes(member->bytes_free, avail),
                 print_percent(member->bytes_total - member->bytes_free, member->bytes_total),
                 member->objects);
    if (member->up) {
        (void)printf("up%s%s%s", member->disk_failure[0] != 0 ? ", DISK FAILED" : "",
                     has_bad_blocks(member) ? ", BAD BLOCKS" : "",
                     scrub_damaged(member) > 0 ? ", DAMAGED FILES" : "");
    } else {
        (void)printf("DOWN for %s", print_duration_ms(member->silent_ms, silent));
    }
    if (member->waits) {
        (void)printf(", WAITS to be admitted");
    } else if (member->leaves) {
        (void)printf(", %s", leaver_words(member, leaver));
    }
    (void)printf("\n");
}

/* Servers of which nobody has said yet that they belong to the cluster. */
static void print_waiting(const Morsel__StatusReply *status)
{
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *member = status->members[i];

        if (member->waits) {
            (void)printf("\nServer %" PRIu32 " (%s, %s) is new, and gets nothing until somebody "
                         "admits it: `morsel iod admit %" PRIu32 "`.\n",
                         member->id, member->address, member->name, member->id);
        }
    }
}

/* What whoever runs the servers must act upon. */
static void print_disk_failures(const Morsel__StatusReply *status)
{
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *member = status->members[i];

        if (member->disk_failure[0] != 0) {
            (void)printf("\nThe disk of server %" PRIu32 " (%s, %s) failed: %s.\n"
                         "What was written there and not synced may be lost; programs are told by "
                         "fsync. Check the disk and its\n"
                         "cables (dmesg on that host), replace it if need be, then restart "
                         "morsel-iod there.\n",
                         member->id, member->address, member->name, member->disk_failure);
        }
    }
}

static void print_bad_blocks(const Morsel__StatusReply *status)
{
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *member = status->members[i];

        if (has_bad_blocks(member)) {
            (void)printf("\nThe disk of server %" PRIu32
                         " (%s, %s) gives wrong bytes or errors: since "
                         "morsel-iod was started there, %" PRIu64 " blocks were\n"
                         "repaired from other servers, and %" PRIu64
                         " times one was read that no server has. The log there names them. Check "
                         "the disk.\n",
                         member->id, member->address, member->name, member->blocks_mended,
                         member->blocks_lost);
        }
    }
}

/* The manager votes as each server does. Where everything is on one machine nobody has to be told. */
static void print_shared_host(const Morsel__StatusReply *status)
{
    const Morsel__Member *shares = NULL;
    bool others = false;

    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *member = status->members[i];

        if (strcmp(member->name, status->host) != 0) {
            others = true;
        } else if (!member->leaves && !member->waits) {
            shares = member;
        }
    }
    if (status->n_groups > 0 && shares != NULL && others) {
        (void)printf("\nThe manager runs on the machine of server %" PRIu32
                     " (%s): the loss of that one machine takes two of the votes by which copies\n"
                     "go on without a server. Better give the manager a machine of its own.\n",
                     shares->id, shares->name);
    }
}

/* What is not said by directories, and what that means. */
static void print_new_files(const Morsel__StatusReply *status)
{
    if (status->new_copies == 0) {
        return;
    }
    (void)printf("new files %" PRIu32 " %s each where no directory says otherwise",
                 status->new_copies, status->new_copies == 1 ? "copy" : "copies");
    if (status->new_copies_rule == 0 && status->new_copies == 1) {
        (void)printf(", until two I/O daemons have taken over groups: what is made before keeps "
                     "one, and is lost with its disk");
    } else if (status->new_copies == 1) {
        (void)printf(": what has one is lost with its disk");
    }
    (void)printf("\n");
}

static void print_donors(const Morsel__StatusReply *status)
{
    char donated[PRINT_TEXT_MAX], used[PRINT_TEXT_MAX];

    if (status->donors > 0) {
        (void)printf("donors    %" PRIu32 " here of %" PRIu32 ", %s donated, %s used\n",
                     status->donors_here, status->donors, print_bytes(status->donated, donated),
                     print_bytes(status->donated_used, used));
    }
}

static void print_unfinished(const Morsel__StatusReply *status)
{
    if (status->sets_unfinished > 0) {
        (void)printf("unfinished %" PRIu32
                     " of the data sets: nobody goes on with them, and nobody else "
                     "has their bytes (`morsel datasets`)\n",
                     status->sets_unfinished);
    }
}

/* Only while there is something to say. */
static void print_repair(const Morsel__StatusReply *status)
{
    char repaired[PRINT_TEXT_MAX];

    if (status->morsels_short == 0 && status->morsels_fetching == 0) {
        return;
    }
    (void)printf("morsels   %" PRIu64 " have fewer copies here than wanted, %" PRIu64
                 " of them none; %" PRIu32 " are being copied, %s were since the manager's start\n",
                 status->morsels_short, status->morsels_away, status->morsels_fetching,
                 print_bytes(status->bytes_repaired, repaired));
}

static void print_status_text(const Morsel__StatusReply *status, const char *address)
{
    char cluster[33];
    char uptime[PRINT_TEXT_MAX];
    char resident[PRINT_TEXT_MAX];

    cluster_id_text(status, cluster);
    (void)printf("health    %s, %zu of %zu storage servers up\n", health_words(status),
                 count_up(status), (size_t)status->n_members);
    (void)printf("cluster   %s\n", cluster);
    (void)printf("manager   %s, %s, up %s, %s resident\n", address, status->version,
                 print_duration_ms(status->uptime_ms, uptime),
                 print_bytes(status->resident_bytes, resident));
    (void)printf("contents  %" PRIu64 " inodes, %" PRIu64 " mounts, %" PRIu64
                 " deleted objects to be collected\n",
                 status->inodes, status->sessions, status->garbage);
    voters_print(status->voters);
    print_new_files(status);
    group_status_print(status);
    scrub_print(status);
    print_donors(status);
    print_repair(status);
    print_unfinished(status);
    (void)printf("\n");
    (void)printf("  ID  %-22s %-16s %10s %10s %5s %10s  STATE\n", "ADDRESS", "HOST", "SIZE", "FREE",
                 "USED", "OBJECTS");
    for (size_t i = 0; i < status->n_members; i++) {
        print_member(status->members[i]);
    }
    print_waiting(status);
    print_disk_failures(status);
    print_bad_blocks(status);
    scrub_print_damaged(status);
    distrusted_print(status);
    print_shared_host(status);
}

int command_status(const struct admin_arguments *arguments)
{
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;
    bool healthy;
    int code;

    if (arguments->settings.unavailable) {
        return status_unavailable(arguments);
    }
    code = admin_fetch_status(arguments, &status, address);
    if (status == NULL) {
        return code;
    }
    healthy = status->n_members > 0 && count_up(status) == status->n_members &&
              groups_unwell(status) == 0 && scrubs_damaged(status) == 0;
    if (!arguments->settings.json) {
        print_status_text(status, address);
        if (arguments->settings.show_loss) {
            group_status_print_loss(status);
        }
    } else if (!print_status_json(status, address)) {
        healthy = false;
    }
    morsel__status_reply__free_unpacked(status, NULL);
    return healthy ? ADMIN_OK : ADMIN_PROBLEM;
}

/* ---- df ---- */

struct space
{
    uint64_t total, free;
};

/* Does an earlier server that is up lie on the same disk? */
static bool is_counted(const Morsel__StatusReply *status, size_t index)
{
    const Morsel__Member *member = status->members[index];

    for (size_t i = 0; i < index; i++) {
        if (status->members[i]->up && !status->members[i]->waits && member->device != 0 &&
            status->members[i]->device == member->device) {
            return true;
        }
    }
    return false;
}

/* Of the disks of servers that are up, which is what a mount's statfs says. */
static struct space sum_space(const Morsel__StatusReply *status)
{
    struct space sum = { 0, 0 };

    for (size_t i = 0; i < status->n_members; i++) {
        if (status->members[i]->up && !status->members[i]->waits && !is_counted(status, i)) {
            sum.total += status->members[i]->bytes_total;
            sum.free += status->members[i]->bytes_free;
        }
    }
    return sum;
}

static void print_df_row(const char *name, uint64_t total, uint64_t avail, const char *remark)
{
    char size_text[PRINT_TEXT_MAX];
    char used_text[PRINT_TEXT_MAX];
    char free_text[PRINT_TEXT_MAX];

    (void)printf("%-24s %10s %10s %10s %4u%%%s\n", name, print_bytes(total, size_text),
                 print_bytes(total - avail, used_text), print_bytes(avail, free_text),
                 print_percent(total - avail, total), remark);
}

static void print_df_text(const Morsel__StatusReply *status, const struct space *sum)
{
    (void)printf("%-24s %10s %10s %10s %5s\n", "SERVER", "SIZE", "USED", "FREE", "USED");
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *member = status->members[i];
        char name[64];

        (void)snprintf(name, sizeof(name), "%" PRIu32 " %.48s", member->id, member->address);
        print_df_row(name, member->bytes_total, member->bytes_free,
                     !member->up             ? "  down"
                     : member->waits         ? "  waits to be admitted, and is not counted"
                     : is_counted(status, i) ? "  on a disk that is counted above"
                                             : "");
    }
    print_df_row("together", sum->total, sum->free, "");
}

int command_df(const struct admin_arguments *arguments)
{
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;
    struct space sum;
    int code = admin_fetch_status(arguments, &status, address);

    if (status == NULL) {
        return code;
    }
    sum = sum_space(status);
    if (!arguments->settings.json) {
        print_df_text(status, &sum);
    } else if (!print_json(
                   json_pack("{s:o, s:o, s:o, s:o}", "bytes_total", print_json_number(sum.total),
                             "bytes_free", print_json_number(sum.free), "inodes",
                             print_json_number(status->inodes), "servers", members_json(status)))) {
        code = ADMIN_PROBLEM;
    }
    morsel__status_reply__free_unpacked(status, NULL);
    return code;
}
