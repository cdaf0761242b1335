/* morsel donors: the benefactors, page by page. */
#include "client/admin/distrust_uv.h"
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PAGES_MAX = 64 }; /* Each is of hundreds: more is no manager's answer. */

/* Numbers of the wire: enum donor_state of the manager. */
enum { STATE_AWAY = 0, STATE_DOUBTED = 1, STATE_HERE = 2 };

struct pages
{
    Morsel__DonorListReply *items[PAGES_MAX];
    size_t count;
};

static void pages_free(struct pages *pages)
{
    for (size_t i = 0; i < pages->count; i++) {
        morsel__donor_list_reply__free_unpacked(pages->items[i], NULL);
    }
}

/* The last page is the newest: it has the sums. */
static const Morsel__DonorListReply *sums_of(const struct pages *pages)
{
    return pages->items[pages->count - 1];
}

static int fetch(struct admin *admin, struct pages *pages)
{
    Morsel__DonorListRequest request = MORSEL__DONOR_LIST_REQUEST__INIT;
    struct errmsg err;
    void *reply;
    int rv;

    do {
        rv = admin_call(admin, admin->manager, MSG_DONOR_LIST, &request.base,
                        &morsel__donor_list_reply__descriptor, &reply, &err);
        if (rv != 0) {
            return admin_failed(admin_exit_code(rv), "%s", err.text);
        }
        pages->items[pages->count++] = reply;
        request.from = sums_of(pages)->next;
    } while (request.from != 0 && pages->count < PAGES_MAX);
    return ADMIN_OK;
}

static bool is_heard(const Morsel__Donor *donor)
{
    return donor->address[0] != '\0';
}

static const char *state_words(const Morsel__Donor *donor)
{
    switch (donor->state) {
    case STATE_HERE:
        if (donor->blame != NULL && donor->blame->distrusted != 0) {
            return "distrusted";
        }
        if (donor->report != NULL && donor->report->leaving) {
            return "leaving";
        }
        return donor->report != NULL && donor->report->paused ? "paused"
               : donor->shut                                  ? "shut"
                                                              : "here";
    case STATE_DOUBTED:
        return is_heard(donor) ? "silent" : "not back";
    default:
        return "away";
    }
}

static json_t *donor_json(const Morsel__Donor *donor)
{
    const Morsel__DonorReport none = MORSEL__DONOR_REPORT__INIT;
    const Morsel__DonorReport *report = donor->report != NULL ? donor->report : &none;

    const Morsel__DonorLeft nothing = MORSEL__DONOR_LEFT__INIT;
    const Morsel__DonorLeft *left = donor->left != NULL ? donor->left : &nothing;
    const Morsel__DonorBlame innocent = MORSEL__DONOR_BLAME__INIT;
    const Morsel__DonorBlame *blame = donor->blame != NULL ? donor->blame : &innocent;

    return json_pack(
        "{s:I, s:b, s:s, s:s, s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:b}",
        "id", (json_int_t)donor->id, "shut", donor->shut, "name", donor->name, "address",
        donor->address, "state", state_words(donor), "donated", print_json_number(report->donated),
        "used", print_json_number(report->used), "load_percent", (json_int_t)report->load, "up_s",
        print_json_number(report->up_s), "since_ms", print_json_number(donor->since_ms), "heard_ms",
        print_json_number(donor->heard_ms), "excess", print_json_number(report->excess),
        "stuck_bytes", print_json_number(left->stuck_bytes), "left",
        print_json_number(left->wanted), "moved", print_json_number(left->moved), "damaged",
        print_json_number(blame->damaged), "lied", print_json_number(blame->lied), "distrusted",
        (int)(blame->distrusted != 0));
}

static bool print_donors_json(const struct pages *pages)
{
    const Morsel__DonorListReply *sums = sums_of(pages);
    json_t *donors = json_array();

    for (size_t i = 0; i < pages->count; i++) {
        for (size_t j = 0; j < pages->items[i]->n_donors; j++) {
            (void)json_array_append_new(donors, donor_json(pages->items[i]->donors[j]));
        }
    }
    return print_json(json_pack("{s:I, s:I, s:o, s:o, s:o}", "count", (json_int_t)sums->count,
                                "here", (json_int_t)sums->here, "donated",
                                print_json_number(sums->donated), "used",
                                print_json_number(sums->used), "donors", donors));
}

/* What one that is not here said last is shown, but for what changes by the minute. */
static void print_donor(const Morsel__Donor *donor)
{
    char donated[PRINT_TEXT_MAX] = "-", used[PRINT_TEXT_MAX] = "-", load[PRINT_TEXT_MAX] = "-",
         up[PRINT_TEXT_MAX] = "-", since[PRINT_TEXT_MAX];

    if (is_heard(donor) && donor->report != NULL) {
        (void)print_bytes(donor->report->donated, donated);
        (void)print_bytes(donor->report->used, used);
    }
    if (donor->state == STATE_HERE && donor->report != NULL) {
        (void)snprintf(load, sizeof(load), "%" PRIu32 "%%", donor->report->load);
        (void)print_duration_ms(
            donor->report->up_s < UINT64_MAX / 1000 ? donor->report->up_s * 1000 : UINT64_MAX, up);
    }
    (void)printf("%5" PRIu32 "  %-20s %-22s %-8s %10s %10s %6s %8s %8s\n", donor->id, donor->name,
                 is_heard(donor) ? donor->address : "-", state_words(donor), donated, used, load,
                 up, print_duration_ms(donor->since_ms, since));
}

/* What is to be moved off it, and cannot be, or is. */
static void print_left(const Morsel__Donor *donor)
{
    char size[PRINT_TEXT_MAX], stuck[PRINT_TEXT_MAX];

    if (donor->state != STATE_HERE || donor->left == NULL || donor->report == NULL) {
        return;
    }
    if (donor->blame != NULL && donor->blame->distrusted != 0) {
        (void)printf("       %" PRIu64 " of its morsels have too few copies elsewhere yet\n",
                     donor->left->wanted);
    } else if (donor->report->leaving) {
        (void)printf("       leaves: %" PRIu64 " of its morsels have too few copies elsewhere\n",
                     donor->left->wanted);
    } else if (donor->left->stuck_bytes > 0) {
        (void)printf("       gives %s less than it has; no other benefactor has room for %s of "
                     "that\n",
                     print_bytes(donor->report->excess, size),
                     print_bytes(donor->left->stuck_bytes, stuck));
    } else {
        (void)printf("       gives %s less than it has: others get them now\n",
                     print_bytes(donor->report->excess, size));
    }
}

static void print_door(const Morsel__Donor *donor)
{
    if (donor->shut) {
        (void)printf(
            "       nobody opens at its address, so nothing new is placed there: let a firewall of "
            "that machine pass the port, or start its benefactor with --advertise\n");
    }
}

static void print_donors_text(const struct pages *pages)
{
    const Morsel__DonorListReply *sums = sums_of(pages);
    char donated[PRINT_TEXT_MAX], used[PRINT_TEXT_MAX];

    if (sums->count == 0) {
        (void)printf("No benefactor has joined this cluster yet.\n");
        return;
    }
    (void)printf("%5s  %-20s %-22s %-8s %10s %10s %6s %8s %8s\n", "ID", "NAME", "ADDRESS", "STATE",
                 "DONATED", "USED", "LOAD", "UP", "SINCE");
    for (size_t i = 0; i < pages->count; i++) {
        for (size_t j = 0; j < pages->items[i]->n_donors; j++) {
            print_donor(pages->items[i]->donors[j]);
            print_door(pages->items[i]->donors[j]);
            donor_print_blame(pages->items[i]->donors[j], "       ");

            print_left(pages->items[i]->donors[j]);
        }
    }
    (void)printf("\n%" PRIu32 " here of %" PRIu32 ", %s donated, %s used\n", sums->here,
                 sums->count, print_bytes(sums->donated, donated), print_bytes(sums->used, used));
}

static int list_donors(const struct admin_arguments *arguments)
{
    struct pages pages = { .count = 0 };
    struct admin admin;
    int code;

    code = admin_open_manager(&admin, &arguments->settings);
    if (code != ADMIN_OK) {
        return code;
    }
    code = fetch(&admin, &pages);
    admin_close(&admin);
    if (code == ADMIN_OK && !arguments->settings.json) {
        print_donors_text(&pages);
    } else if (code == ADMIN_OK && !print_donors_json(&pages)) {
        code = ADMIN_PROBLEM;
    }
    pages_free(&pages);
    return code;
}

int command_donors(const struct admin_arguments *arguments)
{
    const char *word = arguments->operands_count > 0 ? arguments->operands[0] : "";

    if (arguments->operands_count == 0) {
        return list_donors(arguments);
    }
    if (arguments->operands_count == 2 && strcmp(word, "forget") == 0) {
        return donors_forget(arguments);
    }
    if (arguments->operands_count == 2 && strcmp(word, "trust") == 0) {
        return donors_trust(arguments);
    }
    return admin_failed(ADMIN_USAGE, "beside nothing donors knows `morsel donors forget ID` and "
                                     "`morsel donors trust ID`, with the ID that `morsel donors` "
                                     "shows");
}
