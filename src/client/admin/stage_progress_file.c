/* The line of a download (stage_progress_file.h). */
#include "client/admin/stage_progress_file.h"

#include "client/admin/print_file.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHOW_MS = 200, BAR_CELLS = 24 };

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void stage_progress_init(struct stage_progress *p, bool wanted)
{
    *p = (struct stage_progress){ .shows = wanted && isatty(STDERR_FILENO) };
}

void stage_progress_begin(struct stage_progress *p, uint64_t from, uint64_t whole)
{
    p->from = from;
    p->whole = whole;
    p->begun_ms = now_ms();
    p->last_ms = 0;
}

static void show_line(struct stage_progress *p, uint64_t now, const char *behind)
{
    char bytes[PRINT_TEXT_MAX], whole[PRINT_TEXT_MAX], bar[BAR_CELLS + 1];
    size_t cells;

    if (p->whole == UINT64_MAX || p->whole == 0) {
        (void)fprintf(stderr, "\r%s%s\033[K", print_bytes(now, bytes), behind);
    } else {
        now = now < p->whole ? now : p->whole;
        cells = (size_t)((double)now / (double)p->whole * BAR_CELLS);
        memset(bar, '.', BAR_CELLS);
        memset(bar, '#', cells);
        bar[BAR_CELLS] = '\0';
        (void)fprintf(stderr, "\r[%s] %3d%%  %s of %s%s\033[K", bar,
                      (int)((double)now / (double)p->whole * 100), print_bytes(now, bytes),
                      print_bytes(p->whole, whole), behind);
    }
    p->shown = true;
}

void stage_progress_show(struct stage_progress *p, uint64_t now)
{
    char behind[3 * PRINT_TEXT_MAX] = "", rate[PRINT_TEXT_MAX], left[PRINT_TEXT_MAX];
    uint64_t at_ms = now_ms(), took_ms = at_ms - p->begun_ms;
    double each_ms = took_ms > 0 ? (double)(now - p->from) / (double)took_ms : 0;

    if (!p->shows || at_ms - p->last_ms < SHOW_MS) {
        return;
    }
    p->last_ms = at_ms;
    if (each_ms > 0) {
        int count = snprintf(behind, sizeof(behind), ", %s/s",
                             print_bytes((uint64_t)(each_ms * 1000), rate));

        if (p->whole != UINT64_MAX && p->whole > now) {
            (void)snprintf(behind + count, sizeof(behind) - (size_t)count, ", %s left",
                           print_duration_ms((uint64_t)((double)(p->whole - now) / each_ms), left));
        }
    }
    show_line(p, now, behind);
}

void stage_progress_wait(struct stage_progress *p, uint64_t now, uint64_t whole)
{
    if (p->shows) {
        p->whole = whole;
        show_line(p, now, ", by another morsel stage");
    }
}

void stage_progress_end(struct stage_progress *p)
{
    if (p->shown) {
        (void)fprintf(stderr, "\r\033[K");
    }
    p->shown = false;
}
