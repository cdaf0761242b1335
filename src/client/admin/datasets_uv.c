/* morsel datasets: the data sets on benefactors, page by page. */
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"
#include "common/fs/eviction.h"

#include "dataset.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* Numbers of the wire: enum set_state of the manager. */
enum { STATE_STORING = 1, STATE_SEALED = 2, STATE_ABANDONED = 3, STATE_RESERVED = 4 };

/* What all of them come to. */
struct sums
{
    uint64_t count, bytes, away;
};

static const char *state_words(const Morsel__SetInfo *set)
{
    switch (set->state) {
    case STATE_STORING:
        return "being stored";
    case STATE_SEALED:
        return "sealed";
    case STATE_ABANDONED:
        return "unfinished";
    case STATE_RESERVED:
        return "reserved";
    default:
        return "unknown";
    }
}

static const char *eviction_words(const Morsel__SetInfo *set)
{
    return set->next_to_go ? "goes next" : eviction_word((enum eviction_state)set->eviction);
}

/* How much of it is here no more because room was made; exact, but for a set whose morsels have holes between them. */
static double evicted_percent(const Morsel__SetInfo *set)
{
    return set->morsels > 0 ? 100.0 * set->morsels_evicted / set->morsels : 0;
}

/* Accesses to all its morsels, of each copy, lately. */
static double heat(const Morsel__SetInfo *set)
{
    return (double)set->heat_milli / 1000;
}

/* "-": none. */
static void time_text(uint64_t unix_s, char text[32])
{
    time_t seconds = (time_t)unix_s;
    struct tm tm;

    (void)snprintf(text, 32, "-");
    if (unix_s != 0 && localtime_r(&seconds, &tm) != NULL) {
        (void)strftime(text, 32, "%Y-%m-%d %H:%M", &tm);
    }
}

/* Nobody goes on with it: that is worth a line of its own, with what can be done. */
static void print_unfinished(const Morsel__SetInfo *set)
{
    char since[32];

    if (set->quiet_since_s != 0) {
        time_text(set->quiet_since_s, since);
        (void)printf(
            "%12s nothing was done to it since %s, and nobody else has its bytes: store the "
            "rest, or remove the file\n",
            "", since);
    }
}

static json_t *set_json(const Morsel__SetInfo *set)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:b, s:b, s:I, s:o, s:f, "
        "s:s, s:s, s:o}",
        "set", print_json_number(set->set), "inode", print_json_number(set->inode), "size",
        print_json_number(set->size), "reserved", print_json_number(set->reserved), "state",
        state_words(set), "copies", (json_int_t)set->copies, "morsel_size",
        (json_int_t)set->morsel_bytes, "morsels", (json_int_t)set->morsels, "morsels_short",
        (json_int_t)set->morsels_short, "morsels_away", (json_int_t)set->morsels_away, "donors",
        (json_int_t)set->donors, "made_s", print_json_number(set->made_s), "scratch",
        (int)set->scratch, "pinned", (int)set->pinned, "morsels_evicted",
        (json_int_t)set->morsels_evicted, "last_used_s", print_json_number(set->last_used_s),
        "heat", heat(set), "eviction", eviction_words(set), "origin", set->origin,
        "unfinished_since_s", print_json_number(set->quiet_since_s));
}

static void print_head(void)
{
    (void)printf("%12s %12s %10s  %-12s %6s %8s %8s %8s %6s %7s %-16s %8s  %-16s  %s\n", "SET",
                 "INODE", "SIZE", "STATE", "COPIES", "MORSELS", "SHORT", "AWAY", "DONORS",
                 "EVICTED", "LAST USE", "HEAT", "EVICTION", "ORIGIN");
}

static void print_set(const Morsel__SetInfo *set)
{
    char size[PRINT_TEXT_MAX], used[32];

    time_text(set->last_used_s, used);
    (void)printf("%12" PRIu64 " %12" PRIu64 " %10s  %-12s %6" PRIu32 " %8" PRIu32 " %8" PRIu32
                 " %8" PRIu32 " %6" PRIu32 " %6.1f%% %-16s %8.1f  %-16s  %s\n",
                 set->set, set->inode,
                 print_bytes(set->state == STATE_RESERVED ? set->reserved : set->size, size),
                 state_words(set), set->copies, set->morsels, set->morsels_short, set->morsels_away,
                 set->donors, evicted_percent(set), used, heat(set), eviction_words(set),
                 set->origin[0] != '\0' ? set->origin : "-");
    print_unfinished(set);
}

static void take_page(const Morsel__SetListReply *page, json_t *sets, struct sums *sums)
{
    for (size_t i = 0; i < page->n_sets; i++) {
        const Morsel__SetInfo *set = page->sets[i];

        if (sets != NULL) {
            (void)json_array_append_new(sets, set_json(set));
        } else {
            if (sums->count == 0) {
                print_head();
            }
            print_set(set);
        }
        sums->count++;
        sums->bytes += set->size;
        sums->away += set->morsels_away > 0;
    }
}

/* Each page is shown as it comes: there may be a million sets. */
static int fetch(struct admin *admin, json_t *sets, struct sums *sums)
{
    Morsel__SetListRequest request = MORSEL__SET_LIST_REQUEST__INIT;
    uint64_t before;

    do {
        Morsel__SetListReply *page;
        struct errmsg err;
        void *reply;
        int rv = admin_call(admin, admin->manager, MSG_SET_LIST, &request.base,
                            &morsel__set_list_reply__descriptor, &reply, &err);

        if (rv != 0) {
            return admin_failed(admin_exit_code(rv), "%s", err.text);
        }
        page = reply;
        take_page(page, sets, sums);
        before = request.from;
        request.from = page->next;
        morsel__set_list_reply__free_unpacked(page, NULL);
    } while (request.from > before);
    return ADMIN_OK;
}

static void print_sums(const struct sums *sums)
{
    char bytes[PRINT_TEXT_MAX];

    if (sums->count == 0) {
        (void)printf("No data sets lie on benefactors.\n");
        return;
    }
    (void)printf("\n%" PRIu64 " data sets, %s", sums->count, print_bytes(sums->bytes, bytes));
    if (sums->away > 0) {
        (void)printf("; of %" PRIu64 " a part is not here now", sums->away);
    }
    (void)printf("\n");
}

static bool print_sums_json(json_t *sets, const struct sums *sums)
{
    return print_json(json_pack("{s:o, s:o, s:o, s:O}", "count", print_json_number(sums->count),
                                "bytes", print_json_number(sums->bytes), "incomplete",
                                print_json_number(sums->away), "datasets", sets));
}

int command_datasets(const struct admin_arguments *arguments)
{
    json_t *sets = arguments->settings.json ? json_array() : NULL;
    struct sums sums = { 0 };
    struct admin admin;
    int code = admin_open_manager(&admin, &arguments->settings);

    if (code == ADMIN_OK) {
        code = fetch(&admin, sets, &sums);
        admin_close(&admin);
        if (code == ADMIN_OK && sets == NULL) {
            print_sums(&sums);
        } else if (code == ADMIN_OK && !print_sums_json(sets, &sums)) {
            code = ADMIN_PROBLEM;
        }
    }
    json_decref(sets);
    return code;
}
