/* One line for the set in effect, and one for what is to come of it. */
#include "client/admin/voters_file.h"

#include "common/base/check.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAMED_MAX = 16 };

/* As enum voter_state and enum voters_state of the manager number them. */
static const char *const state_names[] = { "votes", "joins", "lost" };
static const char *const step_names[] = { "idle", "planning", "reading", "writing", "committing" };

static const char *name_of(const char *const *names, size_t count, uint32_t number)
{
    return number < count ? names[number] : "unknown";
}

static const char *state_of(const Morsel__VoterStatus *voter)
{
    return name_of(state_names, ARRAY_COUNT(state_names), voter->state);
}

static const char *step_of(const Morsel__VotersStatus *voters)
{
    return name_of(step_names, ARRAY_COUNT(step_names), voters->step);
}

/* ---- JSON ---- */

static json_t *change_json(const Morsel__VotersStatus *voters)
{
    if (voters->next == 0) {
        return json_null();
    }
    return json_pack("{s:o, s:s}", "version", print_json_number(voters->next), "step",
                     step_of(voters));
}

json_t *voters_json(const Morsel__VotersStatus *voters)
{
    json_t *items = json_array();

    if (voters == NULL) {
        json_decref(items);
        return json_null();
    }
    for (size_t i = 0; i < voters->n_voters; i++) {
        const Morsel__VoterStatus *voter = voters->voters[i];
        char id[20];

        (void)snprintf(id, sizeof(id), "%016" PRIx64, voter->id);
        (void)json_array_append_new(
            items, json_pack("{s:s, s:I, s:s, s:b}", "id", id, "server", (json_int_t)voter->server,
                             "state", state_of(voter), "awaited", (int)voter->awaited));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "version", print_json_number(voters->version),
                     "version_known", print_json_number(voters->version_known), "change",
                     change_json(voters), "members", items);
}

/* ---- Words ---- */

typedef bool (*voter_fits)(const Morsel__VoterStatus *voter);

static bool is_in_set(const Morsel__VoterStatus *voter)
{
    return voter->state != 1;
}

static bool joins(const Morsel__VoterStatus *voter)
{
    return voter->state == 1;
}

static bool is_lost(const Morsel__VoterStatus *voter)
{
    return voter->state == 2;
}

static bool is_awaited(const Morsel__VoterStatus *voter)
{
    return voter->awaited;
}

static size_t count_of(const Morsel__VotersStatus *voters, voter_fits fits)
{
    size_t count = 0;

    for (size_t i = 0; i < voters->n_voters; i++) {
        count += fits(voters->voters[i]);
    }
    return count;
}

/* "manager, server 1, server 2"; nothing if there is none. */
static void print_names(const char *before, const Morsel__VotersStatus *voters, voter_fits fits)
{
    size_t named = 0, count = count_of(voters, fits);

    for (size_t i = 0; i < voters->n_voters && named < NAMED_MAX; i++) {
        const Morsel__VoterStatus *voter = voters->voters[i];

        if (!fits(voter)) {
            continue;
        }
        (void)printf("%s", named == 0 ? before : ", ");
        if (voter->server == 0) {
            (void)printf("manager");
        } else {
            (void)printf("server %" PRIu32, voter->server);
        }
        named++;
    }
    if (named < count) {
        (void)printf(" and %zu more", count - named);
    }
}

void voters_print(const Morsel__VotersStatus *voters)
{
    if (voters == NULL) {
        return;
    }
    (void)printf("voters    %zu, version %" PRIu64, count_of(voters, is_in_set), voters->version);
    print_names(": ", voters, is_in_set);
    (void)printf("\n");
    if (voters->next != 0) {
        (void)printf("          change to version %" PRIu64 " under way (%s)", voters->next,
                     step_of(voters));
        print_names("; votes are lost of ", voters, is_lost);
        print_names("; to join: ", voters, joins);
        print_names("; waits for ", voters, is_awaited);
        (void)printf("\n");
    }
    if (voters->version_known != 0) {
        (void)printf("          a voter knows of version %" PRIu64
                     ": was the manager's database put back to an older state?\n",
                     voters->version_known);
    }
}
