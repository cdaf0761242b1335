/* Until when it stays. */
#include "benefactor/leaving.h"

#include <stddef.h>

static void over(struct leaving *l, enum leaving_end end, uint64_t now_ms)
{
    l->state = LEAVING_OVER;
    l->end = end;
    l->over_ms = now_ms;
}

void leaving_begin(struct leaving *l, uint64_t in_ms, uint64_t now_ms)
{
    if (l->state == LEAVING_OVER) {
        return;
    }
    if (l->state == LEAVING_STAYS) {
        *l = (struct leaving){ .state = LEAVING_LEAVES };
    }
    l->due_ms = now_ms + in_ms;
    if (in_ms == 0) {
        over(l, LEAVING_NOW, now_ms);
    }
}

bool leaving_cancel(struct leaving *l)
{
    if (l->state != LEAVING_LEAVES) {
        return false;
    }
    l->state = LEAVING_STAYS;
    return true;
}

/* A manager that was restarted counts what it moves anew. */
void leaving_told(struct leaving *l, const struct leaving_left *left)
{
    if (left->moved < l->left.moved) {
        l->moved += l->left.moved;
        l->moved_bytes += l->left.moved_bytes;
    }
    l->left = *left;
}

bool leaving_tick(struct leaving *l, uint64_t used, uint64_t now_ms)
{
    if (l->state != LEAVING_LEAVES) {
        return false;
    }
    if (used == 0 || (l->left.counted && l->left.wanted == 0)) {
        over(l, LEAVING_ALL, now_ms);
    } else if (l->left.counted && l->left.wanted == l->left.stuck) {
        over(l, LEAVING_STUCK, now_ms);
    } else if (now_ms >= l->due_ms) {
        over(l, LEAVING_LATE, now_ms);
    }
    return l->state == LEAVING_OVER;
}

void leaving_heard(struct leaving *l)
{
    l->heard |= l->state == LEAVING_OVER;
}

bool leaving_may_end(const struct leaving *l, uint64_t now_ms)
{
    return l->state == LEAVING_OVER &&
           (l->end == LEAVING_NOW || l->heard || now_ms - l->over_ms >= LEAVING_LINGER_MS);
}

const char *leaving_end_word(const struct leaving *l)
{
    static const char *const words[] = { [LEAVING_NOW] = "now",
                                         [LEAVING_ALL] = "all",
                                         [LEAVING_STUCK] = "stuck",
                                         [LEAVING_LATE] = "late" };

    return l->state == LEAVING_OVER ? words[l->end] : "";
}
