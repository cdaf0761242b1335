/* What the owner has said against what the disk says; the way down at once, the way up with patience. */
#include "benefactor/donation.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/config.h"

#include <stdio.h>
#include <string.h>

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* a - b, or 0. */
static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* ---- Shares ---- */

/* "30%" */
static bool parse_percent(const char *text, uint64_t *value)
{
    size_t digits = strspn(text, "0123456789");

    *value = 0;
    if (digits == 0 || digits > 3 || strcmp(text + digits, "%") != 0) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return *value <= 100;
}

int donation_share_parse(const char *text, struct donation_share *share, struct errmsg *err)
{
    share->percent = parse_percent(text, &share->value);
    if (share->percent || config_bytes_parse(text, &share->value)) {
        return 0;
    }
    errmsg_set(err, "\"%s\" is no part of a disk: give a size such as 50G, or a part such as 30%%",
               text);
    return MORSEL_INVAL;
}

uint64_t donation_share_of(const struct donation_share *share, uint64_t total)
{
    if (!share->percent) {
        return share->value;
    }
    CHECK(share->value <= 100);
    return total / 100 * share->value + total % 100 * share->value / 100;
}

/* ---- The donation ---- */

void donation_init(struct donation *d, const struct donation_wish *wish, uint64_t calm_ms)
{
    *d = (struct donation){ .wish = *wish, .calm_ms = calm_ms };
}

void donation_change(struct donation *d, const struct donation_wish *wish)
{
    d->wish = *wish;
    d->settled = false;
}

static uint64_t band_of(const struct donation *d)
{
    uint64_t band = d->said / DONATION_BAND_PARTS;

    return band > 0 ? band : 1;
}

/* The room as it is now: has it been greater by the band, and for long enough? */
static void note_calm(struct donation *d, uint64_t now_ms)
{
    if (beyond(d->room, d->donated) < band_of(d)) {
        d->calm = false;
        return;
    }
    if (!d->calm) {
        d->calm = true;
        d->calm_since_ms = now_ms;
        d->calm_room = UINT64_MAX;
    }
    d->calm_room = lesser(d->calm_room, d->room);
}

static void adapt(struct donation *d, uint64_t now_ms)
{
    if (!d->settled) {
        d->donated = lesser(d->said, d->room);
        d->settled = true;
        d->calm = false;
    }
    d->donated = lesser(d->donated, lesser(d->said, d->room));
    note_calm(d, now_ms);
    if (d->calm && now_ms - d->calm_since_ms >= d->calm_ms) {
        d->donated = lesser(d->said, d->calm_room);
        d->calm = false;
        note_calm(d, now_ms);
    }
}

static enum donation_state state_of(const struct donation *d)
{
    if (d->excess > 0) {
        return DONATION_GIVES_WAY;
    }
    if (d->donated == 0) {
        return DONATION_NOTHING;
    }
    return d->donated == d->said ? DONATION_GIVES : DONATION_SHORT;
}

bool donation_look(struct donation *d, const struct donation_disk *disk, uint64_t now_ms)
{
    const enum donation_state before = d->state;
    uint64_t ours;

    if (__builtin_add_overflow(disk->free, disk->used, &ours)) {
        ours = UINT64_MAX;
    }
    d->said = donation_share_of(&d->wish.donate, disk->total);
    d->keep = donation_share_of(&d->wish.keep_free, disk->total);
    d->room = beyond(ours, d->keep);
    d->used = disk->used;
    adapt(d, now_ms);
    d->excess = beyond(d->used, d->donated);
    d->pressed = disk->sick ? 0 : lesser(d->excess, beyond(d->keep, disk->free));
    d->state = state_of(d);
    if (d->state == before && beyond(d->donated, d->told) < band_of(d) &&
        beyond(d->told, d->donated) < band_of(d)) {
        return false;
    }
    d->told = d->donated;
    return true;
}

void donation_check(const struct donation *d)
{
    CHECK(d->donated <= d->said && d->donated <= d->room);
    CHECK(d->excess == beyond(d->used, d->donated));
    CHECK(d->pressed <= d->excess);
    CHECK((d->state == DONATION_GIVES_WAY) == (d->excess > 0));
    CHECK_IMPLIES(d->state == DONATION_NOTHING, d->donated == 0 && d->used == 0);
    CHECK_IMPLIES(d->state == DONATION_GIVES, d->donated == d->said);
    CHECK_IMPLIES(d->calm, beyond(d->calm_room, d->donated) >= band_of(d));
}

/* ---- Words ---- */

/* "12.5 GiB" */
static void size_words(uint64_t bytes, char text[24])
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    uint64_t tenths = bytes / 1024 * 10 + bytes % 1024 * 10 / 1024;
    size_t unit = 0;

    while (tenths >= 10240 && unit + 1 < ARRAY_COUNT(units)) {
        tenths /= 1024;
        unit++;
    }
    (void)snprintf(text, 24, "%llu.%llu %s", (unsigned long long)(tenths / 10),
                   (unsigned long long)(tenths % 10), units[unit]);
}

void donation_words(const struct donation *d, char text[DONATION_TEXT_MAX])
{
    const char *const stays = "of the disk stay free for its owner";
    char donated[24], said[24], keep[24], excess[24];

    size_words(d->donated, donated);
    size_words(d->said, said);
    size_words(d->keep, keep);
    size_words(d->excess, excess);
    if (d->state == DONATION_GIVES) {
        (void)snprintf(text, DONATION_TEXT_MAX, "gives %s", donated);
    } else if (d->state == DONATION_SHORT) {
        (void)snprintf(text, DONATION_TEXT_MAX, "gives %s of %s: %s %s", donated, said, keep,
                       stays);
    } else if (d->state == DONATION_NOTHING && d->said > 0) {
        (void)snprintf(text, DONATION_TEXT_MAX, "gives nothing: %s %s, and there is no more", keep,
                       stays);
    } else if (d->state == DONATION_NOTHING) {
        (void)snprintf(text, DONATION_TEXT_MAX, "gives nothing: its owner wants it so");
    } else if (d->donated == d->said) {
        (void)snprintf(text, DONATION_TEXT_MAX, "gives way: %s have to go, its owner gives %s now",
                       excess, said);
    } else {
        (void)snprintf(text, DONATION_TEXT_MAX, "gives way: %s have to go, for %s %s", excess, keep,
                       stays);
    }
}
