/* Scrubs, for people and for scripts. */
#include "client/admin/scrub_status_file.h"

#include "common/base/limits.h"
#include "common/fs/placing.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { PART_WHOLE = 1000000, TIME_TEXT_MAX = 32 };

uint32_t scrub_damaged(const Morsel__Member *member)
{
    return member->scrub != NULL ? member->scrub->damaged : 0;
}

uint64_t scrubs_damaged(const Morsel__StatusReply *status)
{
    uint64_t damaged = 0;

    for (size_t i = 0; i < status->n_members; i++) {
        damaged += scrub_damaged(status->members[i]);
    }
    return damaged;
}

/* Of a manager that tells none, and of an object that is nobody's: by whose number it is called. */
static uint64_t file_of(const Morsel__ScrubFinding *f)
{
    return f->file != INODE_NONE ? f->file : f->inode;
}

static json_t *finding_json(const Morsel__ScrubFinding *f)
{
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:b}", "inode", print_json_number(file_of(f)),
                     "column", (json_int_t)placing_column(f->column), "group",
                     (json_int_t)placing_group(f->column), "first_block",
                     print_json_number(f->start / BLOCK_BYTES), "blocks",
                     print_json_number(f->blocks), "end_block",
                     print_json_number(f->end / BLOCK_BYTES), "unreadable", (int)f->unreadable);
}

json_t *scrub_json(const Morsel__Member *member)
{
    const Morsel__Scrub *s = member->scrub;
    json_t *findings;

    if (s == NULL) {
        return json_null();
    }
    findings = json_array();
    for (size_t i = 0; i < s->n_findings; i++) {
        (void)json_array_append_new(findings, finding_json(s->findings[i]));
    }
    return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "rate",
                     print_json_number(s->rate), "running", (int)s->running, "began",
                     print_json_number(s->began_s), "ended", print_json_number(s->ended_s),
                     "part_millionths", print_json_number(s->part), "objects",
                     print_json_number(s->objects), "bytes", print_json_number(s->bytes),
                     "damaged_objects", (json_int_t)s->damaged, "damaged_blocks",
                     print_json_number(s->damaged_blocks), "damaged", findings);
}

/* Unix time, in words. */
static const char *when(uint64_t unix_s, char text[TIME_TEXT_MAX])
{
    time_t at = (time_t)unix_s;
    struct tm tm;

    if (gmtime_r(&at, &tm) == NULL ||
        strftime(text, TIME_TEXT_MAX, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        (void)snprintf(text, TIME_TEXT_MAX, "at second %" PRIu64, unix_s);
    }
    return text;
}

static void print_one(const Morsel__Scrub *s)
{
    char at[TIME_TEXT_MAX], bytes[PRINT_TEXT_MAX];

    if (s->running) {
        (void)printf("%u%% of a pass, %s read; ", print_percent(s->part, PART_WHOLE),
                     print_bytes(s->bytes, bytes));
    }
    if (s->ended_s == 0) {
        (void)printf("no whole pass has ended yet\n");
    } else {
        (void)printf("the last whole pass ended %s\n", when(s->ended_s, at));
    }
}

void scrub_print(const Morsel__StatusReply *status)
{
    const char *label = "scrub     ";

    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *member = status->members[i];

        if (!member->up) {
            continue;
        }
        (void)printf("%sserver %" PRIu32 ": ", label, member->id);
        if (member->scrub != NULL) {
            print_one(member->scrub);
        } else {
            (void)printf("off\n");
        }
        label = "          ";
    }
}

static void print_finding(const Morsel__ScrubFinding *f)
{
    (void)printf("  inode %" PRIu64 " (object %" PRIu64 ".%" PRIu32 "): ", file_of(f), f->inode,
                 f->column);
    if (f->end == 0) {
        (void)printf("its header is damaged\n");
    } else {
        (void)printf("%" PRIu64 " of its blocks %" PRIu64 " to %" PRIu64 " %s\n", f->blocks,
                     f->start / BLOCK_BYTES, f->end / BLOCK_BYTES - 1,
                     f->unreadable ? "cannot be read" : "do not match their checksums");
    }
}

void scrub_print_damaged(const Morsel__StatusReply *status)
{
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *member = status->members[i];
        const Morsel__Scrub *s = member->scrub;

        if (scrub_damaged(member) == 0) {
            continue;
        }
        (void)printf("\nServer %" PRIu32 " (%s, %s) has %" PRIu32
                     " objects with damage that nobody "
                     "can repair, %" PRIu64 " blocks in all. Find the file of each\n"
                     "with `find MOUNTPOINT -inum INODE`, restore it from elsewhere, and check the "
                     "disk of that server.\n",
                     member->id, member->address, member->name, s->damaged, s->damaged_blocks);
        for (size_t k = 0; k < s->n_findings; k++) {
            print_finding(s->findings[k]);
        }
        if (s->n_findings < s->damaged) {
            (void)printf("  ... and more: the log of morsel-iod there names them.\n");
        }
    }
}
