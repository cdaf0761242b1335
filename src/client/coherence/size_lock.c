/* Holds, their users, and the moment in which they are let go (size_lock.h). */
#include "client/coherence/size_lock.h"

#include "common/base/check.h"
#include "common/base/status.h"

#define TO(state) (1U << (state))

static const struct
{
    const char *name;
    unsigned may_become;
} states[SIZE_HOLD_STATES] = {
    [SIZE_HOLD_NEW] = { "new", TO(SIZE_HOLD_ASKING) },
    [SIZE_HOLD_ASKING] = { "asking",
                           TO(SIZE_HOLD_GRANTED) | TO(SIZE_HOLD_REFUSED) | TO(SIZE_HOLD_GONE) },
    [SIZE_HOLD_GRANTED] = { "granted", TO(SIZE_HOLD_LOST) | TO(SIZE_HOLD_RELEASING) },
    [SIZE_HOLD_LOST] = { "lost", TO(SIZE_HOLD_RELEASING) },
    [SIZE_HOLD_RELEASING] = { "releasing", TO(SIZE_HOLD_GONE) },
    [SIZE_HOLD_REFUSED] = { "refused", TO(SIZE_HOLD_GONE) },
    [SIZE_HOLD_GONE] = { "gone", 0 },
};

const char *size_hold_state_name(enum size_hold_state state)
{
    CHECK(state < SIZE_HOLD_STATES);
    return states[state].name;
}

static void become(struct size_hold *hold, enum size_hold_state state)
{
    CHECK((states[hold->state].may_become & TO(state)) != 0);
    hold->state = state;
}

static bool is_ours(const struct size_hold *hold)
{
    return hold->state == SIZE_HOLD_GRANTED || hold->state == SIZE_HOLD_LOST;
}

/* ---- Invariants ---- */

static void check_hold(const struct size_hold *hold)
{
    CHECK(hold->state > SIZE_HOLD_NEW && hold->state < SIZE_HOLD_GONE);
    CHECK(!list_empty(&hold->node));
    CHECK_IMPLIES(hold->joinable, hold->type == LOCK_SHARED && (hold->state == SIZE_HOLD_ASKING ||
                                                                hold->state == SIZE_HOLD_GRANTED));
    CHECK_IMPLIES(!is_ours(hold), hold->users == 0);
    CHECK_IMPLIES(hold->type == LOCK_EXCLUSIVE, hold->users <= 1);
    CHECK_IMPLIES(!list_empty(&hold->waiting), hold->state == SIZE_HOLD_ASKING || hold->telling);
}

void size_locks_check(const struct size_locks *locks)
{
    LIST_FOREACH(node, &locks->holds)
    {
        const struct size_hold *hold = LIST_ENTRY(node, struct size_hold, node);
        const struct size_hold *found;

        check_hold(hold);
        HASH_FIND(hh, locks->joinable, &hold->inode, sizeof(hold->inode), found);
        CHECK(hold->joinable == (found == hold));
    }
    CHECK(HASH_COUNT(locks->joinable) <= SIZE_LOCKS_JOINABLE_MAX);
}

/* ---- What is asked of it ---- */

void size_locks_init(struct size_locks *locks)
{
    *locks = (struct size_locks){ .joinable = NULL };
    list_init(&locks->holds);
}

bool size_lock_is_good(const struct size_lock *user)
{
    return user->granted && user->hold->state == SIZE_HOLD_GRANTED;
}

void size_lock_move(struct size_lock *to, struct size_lock *from)
{
    CHECK(from->granted && !to->granted);
    *to = (struct size_lock){ .hold = from->hold, .granted = true };
    list_init(&to->node);
    from->hold = NULL;
    from->granted = false;
}

static struct size_hold *find(const struct size_locks *locks, inode_id inode)
{
    struct size_hold *hold;

    HASH_FIND(hh, locks->joinable, &inode, sizeof(inode), hold);
    return hold;
}

void size_locks_note_size(struct size_locks *locks, inode_id inode, uint64_t size)
{
    struct size_hold *hold = find(locks, inode);

    if (hold != NULL && hold->state == SIZE_HOLD_GRANTED && size > hold->size) {
        hold->size = size;
    }
}

static void use(struct size_hold *hold, struct size_lock *user)
{
    user->hold = hold;
    user->granted = true;
    hold->users++;
}

struct size_lock *size_locks_next(struct size_hold *hold)
{
    struct list *node = list_pop_front(&hold->waiting);
    struct size_lock *user;

    if (node == NULL) {
        return NULL;
    }
    user = LIST_ENTRY(node, struct size_lock, node);
    user->hold = NULL;
    if (is_ours(hold)) {
        use(hold, user);
    }
    return user;
}

/* ---- Actions ---- */

static struct size_lock_action *act(struct size_lock_actions *out, enum size_lock_action_type type,
                                    struct size_hold *hold)
{
    struct size_lock_action *action = &out->items[out->count];

    CHECK(out->count < SIZE_ACTIONS_MAX);
    out->count++;
    *action = (struct size_lock_action){ .type = type, .hold = hold };
    return action;
}

static void tell(struct size_lock_actions *out, struct size_lock *user, int status)
{
    struct size_lock_action *action = act(out, SIZE_DONE, NULL);

    action->user = user;
    action->status = status;
}

static void stop_joining(struct size_locks *locks, struct size_hold *hold)
{
    if (hold->joinable) {
        HASH_DEL(locks->joinable, hold);
        hold->joinable = false;
    }
}

static void release_when_sure(struct size_hold *hold, bool sure, struct size_lock_actions *out)
{
    if (is_ours(hold) && hold->users == 0 && !hold->telling && !hold->joinable &&
        (sure || hold->state == SIZE_HOLD_LOST)) {
        (void)act(out, SIZE_RELEASE, hold);
    }
}

static void let_go(struct size_locks *locks, struct size_hold *hold, bool sure,
                   struct size_lock_actions *out)
{
    stop_joining(locks, hold);
    release_when_sure(hold, sure, out);
}

static void free_hold(struct size_locks *locks, struct size_hold *hold,
                      struct size_lock_actions *out)
{
    become(hold, SIZE_HOLD_GONE);
    stop_joining(locks, hold);
    list_remove(&hold->node);
    (void)act(out, SIZE_FREE, hold);
}

/* ---- One who wants it ---- */

static struct size_hold *find_good(struct size_locks *locks, const struct size_lock_event *event,
                                   struct size_lock_actions *out)
{
    struct size_hold *hold = find(locks, event->inode);

    if (hold != NULL && hold->state == SIZE_HOLD_GRANTED && !event->valid) {
        let_go(locks, hold, event->sure, out);
        hold = NULL;
    }
    return hold;
}

static void wait_for(struct size_hold *hold, struct size_lock *user)
{
    user->hold = hold;
    list_push_back(&hold->waiting, &user->node);
}

static void on_take(struct size_locks *locks, const struct size_lock_event *event,
                    struct size_lock_actions *out)
{
    struct size_lock *user = event->user;
    struct size_hold *hold = NULL;

    list_init(&user->node);
    user->hold = NULL;
    user->granted = false;
    if (event->lock_type == LOCK_SHARED) {
        hold = find_good(locks, event, out);
    } else if ((hold = find(locks, event->inode)) != NULL) {
        let_go(locks, hold, event->sure, out);
        hold = NULL;
    }
    if (hold == NULL) {
        act(out, SIZE_NEED, NULL)->user = user;
    } else if (hold->state == SIZE_HOLD_GRANTED) {
        use(hold, user);
        tell(out, user, MORSEL_OK);
    } else {
        wait_for(hold, user);
    }
}

static void on_room(struct size_locks *locks, const struct size_lock_event *event,
                    struct size_lock_actions *out)
{
    struct size_hold *hold = event->hold;

    if (hold == NULL) {
        tell(out, event->user, MORSEL_NOMEM);
        return;
    }
    become(hold, SIZE_HOLD_ASKING);
    hold->inode = event->inode;
    hold->type = event->lock_type;
    hold->owner = ++locks->last_owner;
    list_init(&hold->waiting);
    list_init(&hold->node);
    list_push_back(&locks->holds, &hold->node);
    wait_for(hold, event->user);
    if (hold->type == LOCK_SHARED && HASH_COUNT(locks->joinable) < SIZE_LOCKS_JOINABLE_MAX) {
        HASH_ADD(hh, locks->joinable, inode, sizeof(hold->inode), hold);
        hold->joinable = TABLE_ADDED(hold);
    }
    (void)act(out, SIZE_ASK, hold);
}

/* Only who has asked waits yet. */
static void on_unasked(struct size_locks *locks, const struct size_lock_event *event,
                       struct size_lock_actions *out)
{
    struct size_lock *user = size_locks_next(event->hold);

    free_hold(locks, event->hold, out);
    tell(out, user, event->status);
}

static void on_join(struct size_locks *locks, const struct size_lock_event *event,
                    struct size_lock_actions *out)
{
    struct size_hold *hold = find_good(locks, event, out);

    if (hold != NULL && hold->state == SIZE_HOLD_GRANTED && event->end <= hold->size) {
        use(hold, event->user);
    }
}

static void on_cancel(struct size_locks *locks, struct size_lock *user,
                      struct size_lock_actions *out)
{
    struct size_hold *hold = user->hold;

    if (hold == NULL || user->granted) {
        return;
    }
    list_remove(&user->node);
    user->hold = NULL;
    if (list_empty(&hold->waiting) && hold->state == SIZE_HOLD_ASKING) {
        stop_joining(locks, hold);
        (void)act(out, SIZE_GIVE_UP, hold);
    }
    tell(out, user, MORSEL_CANCELED);
}

static void on_end(const struct size_lock_event *event, struct size_lock_actions *out)
{
    struct size_lock *user = event->user;
    struct size_hold *hold = user->hold;

    if (!user->granted) {
        return;
    }
    user->granted = false;
    user->hold = NULL;
    CHECK(hold->users > 0);
    hold->users--;
    hold->idle_since_ms = event->now_ms;
    release_when_sure(hold, event->sure, out);
}

/* ---- A hold ---- */

static void on_answered(struct size_locks *locks, const struct size_lock_event *event,
                        struct size_lock_actions *out)
{
    struct size_hold *hold = event->hold;

    hold->status = event->status;
    hold->telling = true; /* It is not let go before all have heard. */
    become(hold, event->status == 0 ? SIZE_HOLD_GRANTED : SIZE_HOLD_REFUSED);
    if (event->status != 0 || event->waited) {
        stop_joining(locks, hold);
    }
    (void)act(out, SIZE_TELL, hold);
}

static void on_told(struct size_locks *locks, const struct size_lock_event *event,
                    struct size_lock_actions *out)
{
    struct size_hold *hold = event->hold;

    CHECK(list_empty(&hold->waiting));
    hold->telling = false;
    hold->idle_since_ms = event->now_ms;
    if (hold->state == SIZE_HOLD_REFUSED) {
        free_hold(locks, hold, out);
    } else {
        release_when_sure(hold, event->sure, out);
    }
}

static void on_lose(struct size_locks *locks, struct size_hold *hold)
{
    if (hold->state == SIZE_HOLD_GRANTED) {
        stop_joining(locks, hold);
        become(hold, SIZE_HOLD_LOST);
    }
}

static void on_tick(struct size_locks *locks, const struct size_lock_event *event,
                    struct size_lock_actions *out)
{
    struct size_hold *hold = event->hold;

    if (is_ours(hold) && hold->users == 0 && !hold->telling &&
        event->now_ms >= hold->idle_since_ms + SIZE_LOCK_KEPT_MS) {
        stop_joining(locks, hold);
    }
    release_when_sure(hold, event->sure, out);
}

static void step_hold(struct size_locks *locks, const struct size_lock_event *event,
                      struct size_lock_actions *out)
{
    struct size_hold *hold = event->hold;

    check_hold(hold);
    if (event->type == SIZE_UNASKED) {
        on_unasked(locks, event, out);
    } else if (event->type == SIZE_ANSWERED) {
        on_answered(locks, event, out);
    } else if (event->type == SIZE_TOLD) {
        on_told(locks, event, out);
    } else if (event->type == SIZE_LOSE) {
        on_lose(locks, hold);
    } else if (event->type == SIZE_TICK) {
        on_tick(locks, event, out);
    } else if (event->type == SIZE_SAID) {
        become(hold, SIZE_HOLD_RELEASING);
    } else if (event->type == SIZE_RELEASED) {
        free_hold(locks, hold, out);
    } else if (is_ours(hold)) {
        let_go(locks, hold, event->sure, out);
    }
    if (hold->state != SIZE_HOLD_GONE) {
        check_hold(hold);
    }
}

/* ---- Events ---- */

void size_locks_step(struct size_locks *locks, const struct size_lock_event *event,
                     struct size_lock_actions *out)
{
    struct size_hold *hold;

    CHECK(out->count == 0);
    switch (event->type) {
    case SIZE_TAKE:
        on_take(locks, event, out);
        break;
    case SIZE_ROOM:
        on_room(locks, event, out);
        break;
    case SIZE_JOIN:
        on_join(locks, event, out);
        break;
    case SIZE_CANCEL:
        on_cancel(locks, event->user, out);
        break;
    case SIZE_END:
        on_end(event, out);
        break;
    case SIZE_LET_GO:
        if ((hold = find(locks, event->inode)) != NULL) {
            let_go(locks, hold, event->sure, out);
        }
        break;
    case SIZE_UNASKED:
    case SIZE_ANSWERED:
    case SIZE_TOLD:
    case SIZE_LET_GO_OF:
    case SIZE_LOSE:
    case SIZE_TICK:
    case SIZE_SAID:
    case SIZE_RELEASED:
        step_hold(locks, event, out);
        break;
    }
}

void size_locks_abandon(struct size_locks *locks, struct size_hold *hold)
{
    stop_joining(locks, hold);
    list_remove(&hold->node);
}
