/* Words about benefactors that are not trusted, and one word to the manager. */
#include "client/admin/distrust_uv.h"

#include "client/admin/print_file.h"
#include "common.pb-c.h"
#include "dataset.pb-c.h"

#include <inttypes.h>
#include <stdio.h>

enum { BLAME_LIED = 2 }; /* Of the wire: enum blame_kind of the manager. */

static const char *why(const Morsel__DonorBlame *blame)
{
    return blame->distrusted == BLAME_LIED
               ? "it says that its copies are right, and others get something else from it"
               : "morsels there are found damaged again and again";
}

void donor_print_blame(const Morsel__Donor *donor, const char *indent)
{
    const Morsel__DonorBlame *blame = donor->blame;
    char since[PRINT_TEXT_MAX];

    if (blame == NULL) {
        return;
    }
    if (blame->distrusted == 0) {
        (void)printf("%s%" PRIu64 " copies there were wrong\n", indent,
                     blame->damaged + blame->lied);
        return;
    }
    (void)printf("%sdistrusted for %s: %s (%" PRIu64 " copies)\n"
                 "%scheck its disk, memory and network; then `morsel donors trust %" PRIu32
                 "`, or start it in an empty directory\n",
                 indent, print_duration_ms(blame->since_ms, since), why(blame),
                 blame->damaged + blame->lied, indent, donor->id);
}

void distrusted_print(const Morsel__StatusReply *status)
{
    for (size_t i = 0; i < status->n_distrusted; i++) {
        const Morsel__Donor *donor = status->distrusted[i];

        if (donor->blame != NULL) {
            (void)printf("\nBenefactor %" PRIu32
                         " (%s, %s) is not trusted: %s.\nIt gets nothing new, and what it has is "
                         "copied to others. Check its disk, memory and network; then `morsel "
                         "donors trust %" PRIu32 "`,\nor start it in an empty directory.\n",
                         donor->id, donor->name, donor->address, why(donor->blame), donor->id);
        }
    }
}

json_t *distrusted_json(const Morsel__StatusReply *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->n_distrusted; i++) {
        const Morsel__Donor *donor = status->distrusted[i];

        if (donor->blame != NULL) {
            (void)json_array_append_new(
                list, json_pack("{s:I, s:s, s:s, s:o, s:o, s:o}", "id", (json_int_t)donor->id,
                                "name", donor->name, "why",
                                donor->blame->distrusted == BLAME_LIED ? "lied" : "damaged",
                                "damaged", print_json_number(donor->blame->damaged), "lied",
                                print_json_number(donor->blame->lied), "since_ms",
                                print_json_number(donor->blame->since_ms)));
        }
    }
    return list;
}

int donors_trust(const struct admin_arguments *arguments)
{
    Morsel__DonorTrustRequest request = MORSEL__DONOR_TRUST_REQUEST__INIT;
    struct errmsg err = { "" };
    struct admin admin;
    void *reply;
    int code, rv;

    request.id = admin_donor_number(arguments->operands[1]);
    if (request.id == 0) {
        return ADMIN_USAGE;
    }
    code = admin_open_manager(&admin, &arguments->settings);
    if (code != ADMIN_OK) {
        return code;
    }
    rv = admin_call(&admin, admin.manager, MSG_DONOR_TRUST, &request.base,
                    &morsel__empty__descriptor, &reply, &err);
    admin_close(&admin);
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    morsel__empty__free_unpacked(reply, NULL);
    if (!arguments->settings.json) {
        (void)printf("Benefactor %" PRIu32 " counts again.\n", request.id);
        return ADMIN_OK;
    }
    return print_json(json_pack("{s:I}", "trusted", (json_int_t)request.id)) ? ADMIN_OK
                                                                             : ADMIN_PROBLEM;
}
