/* Whose word holds, how long a pause lasts, and the lines that are kept of both. */
#include "benefactor/owner.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool same(const struct donation_share *a, const struct donation_share *b)
{
    return a->percent == b->percent && a->value == b->value;
}

/* ---- Whose word holds ---- */

/* True: the settings have spoken since. */
static bool forget_older(struct owner_word *word, const struct donation_share *settings)
{
    if (!word->said || same(&word->settings, settings)) {
        return false;
    }
    *word = (struct owner_word){ .said = false };
    return true;
}

static void say(struct owner_word *word, const struct donation_share *share,
                const struct donation_share *settings)
{
    if (share != NULL) {
        *word = (struct owner_word){ .said = true, .share = *share, .settings = *settings };
    }
}

void owner_wish(const struct owner *o, struct donation_wish *wish)
{
    *wish = o->settings;
    if (o->kept.donate.said) {
        wish->donate = o->kept.donate.share;
    }
    if (o->kept.keep_free.said) {
        wish->keep_free = o->kept.keep_free.share;
    }
}

void owner_set(struct owner *o, const struct donation_share *donate,
               const struct donation_share *keep_free)
{
    say(&o->kept.donate, donate, &o->settings.donate);
    say(&o->kept.keep_free, keep_free, &o->settings.keep_free);
}

/* ---- Pauses ---- */

static uint64_t end_of(uint64_t now_ms, uint64_t left_ms)
{
    return left_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + left_ms;
}

bool owner_begin(struct owner *o, const struct owner_kept *kept,
                 const struct donation_wish *settings, uint64_t wall_ms, uint64_t now_ms)
{
    bool donate, keep_free;
    uint64_t gone_ms;

    *o = (struct owner){ .kept = *kept, .settings = *settings };
    donate = forget_older(&o->kept.donate, &settings->donate);
    keep_free = forget_older(&o->kept.keep_free, &settings->keep_free);
    if (!owner_is_paused(o)) {
        return donate || keep_free;
    }
    gone_ms = wall_ms > kept->pause_at_ms ? wall_ms - kept->pause_at_ms : 0;
    if (kept->pause_ms == 0) {
        o->pause_end_ms = UINT64_MAX;
    } else if (gone_ms < kept->pause_ms) {
        o->pause_end_ms = end_of(now_ms, kept->pause_ms - gone_ms);
    } else {
        owner_resume(o);
        return true;
    }
    return donate || keep_free;
}

void owner_pause(struct owner *o, uint64_t pause_ms, uint64_t wall_ms, uint64_t now_ms)
{
    o->kept.pause_at_ms = wall_ms > 0 ? wall_ms : 1; /* 0 would be none. */
    o->kept.pause_ms = pause_ms;
    o->pause_end_ms = pause_ms == 0 ? UINT64_MAX : end_of(now_ms, pause_ms);
}

void owner_resume(struct owner *o)
{
    o->kept.pause_at_ms = o->kept.pause_ms = 0;
    o->pause_end_ms = 0;
}

bool owner_is_paused(const struct owner *o)
{
    return o->kept.pause_at_ms != 0;
}

bool owner_tick(struct owner *o, uint64_t now_ms)
{
    if (!owner_is_paused(o) || now_ms < o->pause_end_ms) {
        return false;
    }
    owner_resume(o);
    return true;
}

uint64_t owner_pause_left_ms(const struct owner *o, uint64_t now_ms)
{
    return o->pause_end_ms == UINT64_MAX || o->pause_end_ms <= now_ms ? 0
                                                                      : o->pause_end_ms - now_ms;
}

/* ---- The text ---- */

void owner_share_text(const struct donation_share *share, char text[OWNER_SHARE_TEXT_MAX])
{
    (void)snprintf(text, OWNER_SHARE_TEXT_MAX, "%" PRIu64 "%s", share->value,
                   share->percent ? "%" : "");
}

static int line_put(const char *name, const struct owner_word *word, char *text, size_t room)
{
    char share[OWNER_SHARE_TEXT_MAX] = "-", settings[OWNER_SHARE_TEXT_MAX] = "-";

    if (word->said) {
        owner_share_text(&word->share, share);
        owner_share_text(&word->settings, settings);
    }
    return snprintf(text, room, "%s = %s instead of %s\n", name, share, settings);
}

size_t owner_format(const struct owner_kept *kept, char text[OWNER_TEXT_BYTES_MAX])
{
    int count = snprintf(text, OWNER_TEXT_BYTES_MAX, "format = %d\n", OWNER_FORMAT);

    count += line_put("donate", &kept->donate, text + count, OWNER_TEXT_BYTES_MAX - (size_t)count);
    count +=
        line_put("keep-free", &kept->keep_free, text + count, OWNER_TEXT_BYTES_MAX - (size_t)count);
    count += snprintf(text + count, OWNER_TEXT_BYTES_MAX - (size_t)count,
                      "pause = %" PRIu64 " for %" PRIu64 "\n", kept->pause_at_ms, kept->pause_ms);
    CHECK(count > 0 && count < OWNER_TEXT_BYTES_MAX);
    return (size_t)count;
}

static bool word_parse(const char *share, const char *settings, struct owner_word *word)
{
    word->said = strcmp(share, "-") != 0;
    return !word->said || (donation_share_parse(share, &word->share, NULL) == 0 &&
                           donation_share_parse(settings, &word->settings, NULL) == 0);
}

/* sscanf() takes blanks and numbers that we do not write: what was read is written again, and compared. */
static bool fields_parse(const char *text, struct owner_kept *kept)
{
    char donate[OWNER_SHARE_TEXT_MAX], keep[OWNER_SHARE_TEXT_MAX], again[OWNER_TEXT_BYTES_MAX];
    char donate_over[OWNER_SHARE_TEXT_MAX], keep_over[OWNER_SHARE_TEXT_MAX];
    int fields = sscanf(text,
                        "format = 1 donate = %23s instead of %23s keep-free = %23s instead of %23s "
                        "pause = %20" SCNu64 " for %20" SCNu64,
                        donate, donate_over, keep, keep_over, &kept->pause_at_ms, &kept->pause_ms);

    return fields == 6 && word_parse(donate, donate_over, &kept->donate) &&
           word_parse(keep, keep_over, &kept->keep_free) &&
           owner_format(kept, again) == strlen(text) && strcmp(text, again) == 0;
}

int owner_parse(struct slice bytes, const char *path, struct owner_kept *kept, struct errmsg *err)
{
    char text[OWNER_TEXT_BYTES_MAX] = "";
    unsigned format = 0;

    memset(kept, 0, sizeof(*kept));
    if (bytes.count < sizeof(text) && memchr(bytes.data, '\0', bytes.count) == NULL) {
        memcpy(text, bytes.data, bytes.count);
    }
    if (sscanf(text, "format = %9u", &format) == 1 && format > OWNER_FORMAT) {
        errmsg_set(
            err,
            "%s/owner, what was said with `morsel donate`, is of format %u, and this program "
            "knows only up to %d: use a newer version",
            path, format, OWNER_FORMAT);
        return MORSEL_VERSION;
    }
    if (!fields_parse(text, kept)) {
        memset(kept, 0, sizeof(*kept));
        errmsg_set(err,
                   "%s/owner, what was said with `morsel donate`, is damaged: delete the file, and "
                   "say again what is to hold",
                   path);
        return MORSEL_CORRUPT;
    }
    return 0;
}
