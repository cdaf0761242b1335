/* morsel layout: where every byte of a file lies. */
#include "client/admin/dataset_layout_uv.h"
#include "client/admin/mount_file.h"
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "common/fs/policy_text.h"
#include "common/fs/stripe.h"

#include "meta.pb-c.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

enum { RANGES_SHOWN = 4 }; /* Of a column, unless --all is given. */

struct file_layout
{
    const char *path;
    uint64_t inode;
    uint64_t size;
    struct layout_text layout;
    struct stripe stripe;
    Morsel__MembersReply *members; /* NULL: the manager does not answer. */
};

/* Read the layout of `path` from its mount. */
static int fetch_layout(const char *path, struct file_layout *f)
{
    char text[LAYOUT_TEXT_MAX];
    struct stat st;
    ssize_t count;

    if (stat(path, &st) != 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return admin_failed(ADMIN_USAGE,
                            "%s: is not a regular file; \"morsel getpolicy\" shows what a "
                            "directory hands down",
                            path);
    }
    count = getxattr(path, POLICY_XATTR_LAYOUT, text, sizeof(text) - 1);
    if (count < 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: cannot read " POLICY_XATTR_LAYOUT ": %s", path,
                            strerror(errno));
    }
    text[count] = '\0';
    if (layout_parse(text, &f->layout) != 0) {
        return admin_failed(ADMIN_PROBLEM,
                            "%s: " POLICY_XATTR_LAYOUT " holds \"%s\", which this version cannot "
                            "read",
                            path, text);
    }
    f->path = path;
    f->inode = st.st_ino;
    f->size = (uint64_t)st.st_size;
    f->stripe =
        (struct stripe){ f->layout.morsel_bytes, f->layout.stripe_morsels, f->layout.width };
    return ADMIN_OK;
}

/* The addresses of the servers. The layout is worth showing without them too, so a silent manager
 * only costs the exit code. */
static int fetch_members(const struct admin_settings *settings, struct file_layout *f)
{
    Morsel__MembersRequest request = MORSEL__MEMBERS_REQUEST__INIT;
    struct admin admin;
    struct errmsg err;
    void *reply;
    int code;
    int rv;

    code = admin_open_manager(&admin, settings);
    if (code != ADMIN_OK) {
        return code;
    }
    rv = admin_call(&admin, admin.manager, MSG_MEMBERS, &request.base,
                    &morsel__members_reply__descriptor, &reply, &err);
    admin_close(&admin);
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    f->members = reply;
    return ADMIN_OK;
}

static const Morsel__Member *find_member(const struct file_layout *f, server_id id)
{
    for (size_t i = 0; f->members != NULL && i < f->members->n_members; i++) {
        if (f->members->members[i]->id == id) {
            return f->members->members[i];
        }
    }
    return NULL;
}

static const char *member_address(const Morsel__Member *member)
{
    return member == NULL ? "?" : member->address;
}

static const char *member_state(const struct file_layout *f, const Morsel__Member *member)
{
    if (member == NULL) {
        return f->members == NULL ? "unknown" : "missing";
    }
    return member->up ? "up" : "down";
}

static uint64_t stripe_bytes(const struct file_layout *f)
{
    return (uint64_t)f->stripe.morsel_bytes * f->stripe.stripe_morsels;
}

/* How many stretches of the file the column holds. */
static uint64_t count_ranges(const struct file_layout *f, uint32_t column)
{
    uint64_t bytes = stripe_object_size(&f->stripe, column, f->size);

    return (bytes + stripe_bytes(f) - 1) / stripe_bytes(f);
}

static struct stripe_run range_at(const struct file_layout *f, uint32_t column, uint64_t index)
{
    uint64_t start = stripe_file_offset(&f->stripe, column, index * stripe_bytes(f));

    return stripe_run_at(&f->stripe, start, f->size - start);
}

/* The servers of a column: one, or those of its group. */
static const server_id *column_servers(const struct file_layout *f, uint32_t column,
                                       uint32_t *count)
{
    const struct layout_text_group *group = &f->layout.groups[column];

    *count = group->count > 0 ? group->count : 1;
    return group->count > 0 ? group->servers : &f->layout.servers[column];
}

/* ---- JSON ---- */

/* Of a column with copies. */
static json_t *copies_json(const struct file_layout *f, uint32_t column)
{
    json_t *copies = json_array();
    uint32_t count;
    const server_id *servers = column_servers(f, column, &count);

    for (uint32_t i = 0; i < count; i++) {
        const Morsel__Member *member = find_member(f, servers[i]);

        (void)json_array_append_new(
            copies, json_pack("{s:I, s:s, s:s}", "server", (json_int_t)servers[i], "address",
                              member_address(member), "state", member_state(f, member)));
    }
    return copies;
}

static json_t *servers_json(const struct file_layout *f, uint32_t column)
{
    json_t *ids = json_array();
    uint32_t count;
    const server_id *servers = column_servers(f, column, &count);

    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(ids, json_integer((json_int_t)servers[i]));
    }
    return ids;
}

static json_t *ranges_json(const struct file_layout *f, uint32_t column, bool all)
{
    json_t *ranges = json_array();
    uint64_t count = count_ranges(f, column);

    for (uint64_t i = 0; i < count && (all || i < RANGES_SHOWN); i++) {
        struct stripe_run run = range_at(f, column, i);

        (void)json_array_append_new(ranges, json_pack("[o, o]", print_json_number(run.file_offset),
                                                      print_json_number(run.length)));
    }
    return ranges;
}

static json_t *column_json(const struct file_layout *f, uint32_t column, bool all)
{
    server_id id = f->layout.servers[column];
    const Morsel__Member *member = find_member(f, id);
    uint32_t group = f->layout.groups[column].number;
    char object[40];
    json_t *json;

    (void)snprintf(object, sizeof(object), "%016" PRIx64 ".%" PRIu32, f->inode,
                   placing_object(group, column));
    json = json_pack(
        "{s:i, s:I, s:s, s:s, s:s, s:o, s:o, s:o}", "column", (int)column, "server", (json_int_t)id,
        "address", member_address(member), "state", member_state(f, member), "object", object,
        "bytes", print_json_number(stripe_object_size(&f->stripe, column, f->size)), "ranges_count",
        print_json_number(count_ranges(f, column)), "ranges", ranges_json(f, column, all));
    if (json != NULL && group != 0) {
        (void)json_object_set_new(json, "group", json_integer((json_int_t)group));
        (void)json_object_set_new(json, "servers", servers_json(f, column));
        (void)json_object_set_new(json, "copies", copies_json(f, column));
    }
    return json;
}

static json_t *layout_json(const struct file_layout *f, bool all)
{
    json_t *columns = json_array();
    char layout_class[POLICY_VALUE_TEXT_MAX];

    policy_value_format(POLICY_CLASS, f->layout.layout_class, layout_class);
    for (uint32_t i = 0; i < f->stripe.width; i++) {
        (void)json_array_append_new(columns, column_json(f, i, all));
    }
    return json_pack("{s:s, s:o, s:o, s:s, s:i, s:i, s:i, s:i, s:o}", "file", f->path, "inode",
                     print_json_number(f->inode), "size", print_json_number(f->size), "class",
                     layout_class, "replicas", (int)f->layout.replicas, "morsel_size",
                     (int)f->stripe.morsel_bytes, "stripe_size", (int)f->stripe.stripe_morsels,
                     "stripe_width", (int)f->stripe.width, "columns", columns);
}

/* ---- Text ---- */

/* The other copies, below the first one. */
static void print_copies(const struct file_layout *f, uint32_t column)
{
    uint32_t count;
    const server_id *servers = column_servers(f, column, &count);

    for (uint32_t i = 1; i < count; i++) {
        const Morsel__Member *member = find_member(f, servers[i]);

        (void)printf("%6s %6" PRIu32 "  %-22s %-8s %10s  copy, in group %" PRIu32 "\n", "",
                     servers[i], member_address(member), member_state(f, member), "",
                     f->layout.groups[column].number);
    }
}

static void print_column(const struct file_layout *f, uint32_t column, bool all)
{
    server_id id = f->layout.servers[column];
    const Morsel__Member *member = find_member(f, id);
    uint64_t count = count_ranges(f, column);
    char bytes[PRINT_TEXT_MAX];

    (void)printf("%6" PRIu32 " %6" PRIu32 "  %-22s %-8s %10s  ", column, id, member_address(member),
                 member_state(f, member),
                 print_bytes(stripe_object_size(&f->stripe, column, f->size), bytes));
    for (uint64_t i = 0; i < count && (all || i < RANGES_SHOWN); i++) {
        struct stripe_run run = range_at(f, column, i);

        (void)printf("%s%" PRIu64 "-%" PRIu64, i == 0 ? "" : ",", run.file_offset,
                     run.file_offset + run.length - 1);
    }
    if (!all && count > RANGES_SHOWN) {
        (void)printf(",... %" PRIu64 " ranges", count);
    }
    (void)printf("%s\n", count == 0 ? "-" : "");
    print_copies(f, column);
}

static void print_layout(const struct file_layout *f, bool all)
{
    char size[PRINT_TEXT_MAX];
    char morsel[PRINT_TEXT_MAX];
    char layout_class[POLICY_VALUE_TEXT_MAX];

    policy_value_format(POLICY_CLASS, f->layout.layout_class, layout_class);
    (void)printf("%s: inode %" PRIu64 ", %s, %s, %" PRIu32 " %s; morsels of %s, %" PRIu32
                 " to a stripe, over %" PRIu32 " %s\n",
                 f->path, f->inode, print_bytes(f->size, size), layout_class, f->layout.replicas,
                 f->layout.replicas == 1 ? "copy" : "copies",
                 print_bytes(f->stripe.morsel_bytes, morsel), f->stripe.stripe_morsels,
                 f->stripe.width,
                 f->layout.groups[0].number == 0 ? "servers" : "groups of servers");
    (void)printf("%6s %6s  %-22s %-8s %10s  %s\n", "COLUMN", "SERVER", "ADDRESS", "STATE", "BYTES",
                 "RANGES OF THE FILE (first-last byte)");
    for (uint32_t i = 0; i < f->stripe.width; i++) {
        print_column(f, i, all);
    }
}

/* A server that is down or missing is a problem that scripts want to see. */
static bool all_servers_up(const struct file_layout *f)
{
    for (uint32_t i = 0; i < f->stripe.width; i++) {
        uint32_t count;
        const server_id *servers = column_servers(f, i, &count);

        for (uint32_t j = 0; j < count; j++) {
            const Morsel__Member *member = find_member(f, servers[j]);

            if (member == NULL || !member->up) {
                return false;
            }
        }
    }
    return true;
}

/* Bytes on storage servers. */
static int show_columns(const struct admin_settings *settings, struct file_layout *f, json_t *files)
{
    int code = fetch_members(settings, f);

    if (files != NULL) {
        (void)json_array_append_new(files, layout_json(f, settings->all));
    } else {
        print_layout(f, settings->all);
    }
    if (code == ADMIN_OK && !all_servers_up(f)) {
        code = ADMIN_PROBLEM;
    }
    if (f->members != NULL) {
        morsel__members_reply__free_unpacked(f->members, NULL);
    }
    return code;
}

static int show_file(const struct admin_arguments *arguments, const char *path, json_t *files)
{
    struct admin_settings settings = arguments->settings;
    struct file_layout f = { .members = NULL };
    struct mount_info mount;
    struct errmsg err;
    int code;
    int rv;

    rv = mount_find_morsel(path, &mount, &err);
    if (rv != 0) {
        return admin_failed(rv == MORSEL_INVAL ? ADMIN_USAGE : ADMIN_PROBLEM, "%s", err.text);
    }
    code = fetch_layout(path, &f);
    if (code != ADMIN_OK) {
        return code;
    }
    if (settings.manager[0] == '\0') {
        (void)snprintf(settings.manager, sizeof(settings.manager), "%.*s", CONFIG_STRING_MAX - 1,
                       mount.source);
    }
    if (f.layout.layout_class == CLASS_SCAVENGED) {
        return dataset_layout(&settings, &(struct dataset_file){ path, f.inode, f.size, &f.layout },
                              files);
    }
    return show_columns(&settings, &f, files);
}

int command_layout(const struct admin_arguments *arguments)
{
    json_t *files = arguments->settings.json ? json_array() : NULL;
    int worst = ADMIN_OK;

    for (size_t i = 0; i < arguments->operands_count; i++) {
        int code = show_file(arguments, arguments->operands[i], files);

        worst = code > worst ? code : worst;
    }
    if (files != NULL && !print_json(files)) {
        worst = ADMIN_PROBLEM;
    }
    return worst;
}
