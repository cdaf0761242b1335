/* morsel recover verify: all copies compared. */
#include "client/admin/recover_verify_uv.h"

#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_MS = 500, BAR_WIDE = 20, MILLIONTHS = 1000000 };

/* Comparisons together: of one run, or with 0 of all. */
struct sums
{
    size_t groups, done, begun;
    uint64_t objects, bytes, damaged, differing, repaired, broken;
    uint64_t parts; /* Millionths of each group. */
    uint64_t asked_ms;
};

static struct sums add_up(const Morsel__StatusReply *status, uint64_t run)
{
    struct sums n = { .groups = 0 };

    for (size_t i = 0; i < status->n_groups; i++) {
        const Morsel__VerifyState *v = status->groups[i]->verify;

        if (v == NULL || (run != 0 && v->run != run)) {
            continue;
        }
        n.groups++;
        n.done += v->done != 0;
        n.begun += v->server != 0 && !v->done;
        n.objects += v->objects;
        n.bytes += v->bytes;
        n.damaged += v->damaged;
        n.differing += v->differing;
        n.repaired += v->repaired;
        n.broken += v->broken;
        n.parts += v->part;
        n.asked_ms = v->asked_ms > n.asked_ms ? v->asked_ms : n.asked_ms;
    }
    return n;
}

static json_t *sums_json(const struct sums *n)
{
    return json_pack("{s:b, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "done",
                     (int)(n->done == n->groups), "groups", (json_int_t)n->groups, "groups_done",
                     (json_int_t)n->done, "objects", print_json_number(n->objects), "bytes",
                     print_json_number(n->bytes), "damaged", print_json_number(n->damaged),
                     "differing", print_json_number(n->differing), "repaired",
                     print_json_number(n->repaired), "broken", print_json_number(n->broken),
                     "millionths", print_json_number(n->groups == 0 ? 0 : n->parts / n->groups));
}

static void print_found(FILE *to, const struct sums *n)
{
    if (n->damaged + n->differing == 0) {
        (void)fprintf(to, "no difference");
        return;
    }
    (void)fprintf(to,
                  "%" PRIu64 " differences (%" PRIu64 " blocks with wrong checksums, %" PRIu64
                  " with right ones), %" PRIu64 " repaired, %" PRIu64 " not repairable",
                  n->damaged + n->differing, n->damaged, n->differing, n->repaired, n->broken);
}

/* "[#####...............] 27%, 3 of 8 groups, 1.2 GiB in 40 objects, about 2 min to go; no difference" */
static void print_progress(FILE *to, const struct sums *n)
{
    uint64_t whole = (uint64_t)n->groups * MILLIONTHS;
    char bytes[PRINT_TEXT_MAX], time[PRINT_TEXT_MAX];
    int wide = whole == 0 ? 0 : (int)(n->parts * BAR_WIDE / whole);

    (void)fprintf(to, "[%.*s%.*s] %u%%, %zu of %zu groups, %s in %" PRIu64 " objects", wide,
                  "####################", BAR_WIDE - wide, "....................",
                  whole == 0 ? 0 : (unsigned)(n->parts * 100 / whole), n->done, n->groups,
                  print_bytes(n->bytes, bytes), n->objects);
    if (n->parts > 0 && n->parts < whole) {
        double left = (double)n->asked_ms * (double)(whole - n->parts) / (double)n->parts;

        (void)fprintf(to, ", about %s to go", print_duration_ms((uint64_t)left, time));
    } else if (n->done < n->groups && n->begun == 0) {
        (void)fprintf(to, ", waits until all copies are complete");
    }
    (void)fprintf(to, "; ");
    print_found(to, n);
}

void verify_status_print(const Morsel__StatusReply *status)
{
    struct sums n = add_up(status, 0);

    if (n.groups > 0) {
        (void)printf("verify    ");
        print_progress(stdout, &n);
        (void)printf("\n");
    }
}

json_t *verify_status_json(const Morsel__StatusReply *status)
{
    struct sums n = add_up(status, 0);

    return n.groups > 0 ? sums_json(&n) : json_null();
}

/* ---- The command ---- */

static int begin(const struct admin_arguments *arguments, uint32_t group, uint64_t *run,
                 uint32_t *groups)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    struct admin admin;
    struct errmsg err;
    void *answer = NULL;
    int code = admin_open_manager(&admin, &arguments->settings);
    int rv;

    if (code != ADMIN_OK) {
        return code;
    }
    request.what = RECOVER_VERIFY;
    request.group = group;
    rv = admin_call(&admin, admin.manager, MSG_RECOVER, &request.base,
                    &morsel__recover_reply__descriptor, &answer, &err);
    admin_close(&admin);
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    reply = answer;
    *run = reply->run;
    *groups = reply->groups;
    morsel__recover_reply__free_unpacked(reply, NULL);
    return ADMIN_OK;
}

static int end(const struct admin_arguments *arguments, const struct sums *n)
{
    char bytes[PRINT_TEXT_MAX];

    if (arguments->settings.json) {
        if (!print_json(sums_json(n))) {
            return ADMIN_PROBLEM;
        }
    } else {
        (void)printf("%zu groups compared: %" PRIu64 " objects, %s; ", n->groups, n->objects,
                     print_bytes(n->bytes, bytes));
        print_found(stdout, n);
        (void)printf("%s\n",
                     n->damaged + n->differing > 0 ? ": the logs of the servers name them" : "");
    }
    if (n->broken > 0) {
        return ADMIN_PROBLEM;
    }
    return n->damaged + n->differing > 0 ? ADMIN_REPAIRED : ADMIN_OK;
}

/* Until all are done. Somebody who looks on is shown how far it is. */
static int wait_for(const struct admin_arguments *arguments, uint64_t run, uint32_t groups)
{
    bool shows = isatty(STDERR_FILENO) && !arguments->settings.json;
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;
    struct sums n;

    for (;;) {
        int code = admin_fetch_status(arguments, &status, address);

        if (status == NULL) {
            return code;
        }
        n = add_up(status, run);
        morsel__status_reply__free_unpacked(status, NULL);
        if (shows) {
            (void)fprintf(stderr, "\r\033[K");
        }
        if (n.groups < groups) {
            return admin_failed(ADMIN_PROBLEM,
                                "the comparison is not under way any more: another one was asked "
                                "for, or the manager was started again; ask for it again");
        }
        if (n.done == n.groups) {
            return end(arguments, &n);
        }
        if (shows) {
            print_progress(stderr, &n);
        }
        uv_sleep(LOOK_MS);
    }
}

/* 0: all, or it is none, and `*code` says so. */
static uint32_t group_asked(const struct admin_arguments *arguments, int *code)
{
    const char *text = arguments->operands_count > 1 ? arguments->operands[1] : NULL;
    unsigned long number = 0;
    char *last;

    *code = ADMIN_OK;
    if ((text != NULL) == arguments->settings.all || arguments->operands_count > 2) {
        *code = admin_failed(ADMIN_USAGE, "recover verify needs the number of a group, or --all");
        return 0;
    }
    if (text == NULL) {
        return 0;
    }
    errno = 0;
    number = strtoul(text, &last, 10);
    if (text[0] < '0' || text[0] > '9' || *last != '\0' || errno != 0 || number == 0 ||
        number > UINT32_MAX) {
        *code = admin_failed(ADMIN_USAGE,
                             "\"%s\" is no group: give its number, as `morsel status` names it, or "
                             "--all",
                             text);
    }
    return (uint32_t)number;
}

int recover_verify(const struct admin_arguments *arguments)
{
    int code;
    uint32_t group = group_asked(arguments, &code), groups = 0;
    uint64_t run = 0;

    if (code != ADMIN_OK || (code = begin(arguments, group, &run, &groups)) != ADMIN_OK) {
        return code;
    }
    if (arguments->settings.wait) {
        return wait_for(arguments, run, groups);
    }
    if (arguments->settings.json) {
        return print_json(json_pack("{s:I}", "groups", (json_int_t)groups)) ? ADMIN_OK
                                                                            : ADMIN_PROBLEM;
    }
    (void)printf("%" PRIu32 " groups are being compared; `morsel recover status` shows how far it "
                 "is\n",
                 groups);
    return ADMIN_OK;
}
