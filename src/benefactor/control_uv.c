/* Who is let in, what each of the owner's words does, and how it is then. */
#include "benefactor/control_uv.h"

#include "benefactor/host_file.h"
#include "common/base/check.h"
#include "common/base/replace_file.h"
#include "common/base/status.h"
#include "common/daemon/owner_key_file.h"
#include "donate.pb-c.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PAUSE_MS_MAX = 1000000000, /* More than eleven days. */
    LEAVE_MS_MAX = 86400000,
    LEAVE_LOOK_MS = 50
};

static uint64_t wall_ms(void)
{
    uv_timeval64_t now = { 0 };

    (void)uv_gettimeofday(&now);
    return now.tv_sec > 0 ? (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_usec / 1000 : 0;
}

/* ---- What is kept ---- */

static int open_dir(const struct control *c)
{
    return open(c->datadir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool keep(struct control *c, struct errmsg *err)
{
    char text[OWNER_TEXT_BYTES_MAX];
    int dir_fd = open_dir(c);
    bool kept = dir_fd >= 0 &&
                replace_file(dir_fd, "owner", text, owner_format(&c->owner.kept, text), false) == 0;
    const int code = errno;

    if (dir_fd >= 0) {
        close(dir_fd);
    }
    if (!kept) {
        errmsg_set(err, "write %s/owner: %s", c->datadir->path, strerror(code));
        log_error(c->log, "%s: what the owner says holds until this program ends", err->text);
    }
    return kept;
}

static int read_kept(const struct control *c, struct owner_kept *kept, struct errmsg *err)
{
    uint8_t bytes[OWNER_TEXT_BYTES_MAX]; /* A file that fills it is longer than ours. */
    int dir_fd = open_dir(c);
    int fd = dir_fd >= 0 ? openat(dir_fd, "owner", O_RDONLY | O_CLOEXEC) : -1;
    ssize_t count = fd >= 0 ? read(fd, bytes, sizeof(bytes)) : -1;
    const int code = errno;
    const bool none = dir_fd >= 0 && fd < 0 && code == ENOENT;

    if (fd >= 0) {
        close(fd);
    }
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    *kept = (struct owner_kept){ .pause_at_ms = 0 };
    if (none) {
        return 0;
    }
    if (count < 0) {
        errmsg_set(err, "read %s/owner: %s", c->datadir->path, strerror(code));
        return MORSEL_IO;
    }
    return owner_parse((struct slice){ bytes, (size_t)count }, c->datadir->path, kept, err);
}

static void log_owner(const struct control *c)
{
    char donate[OWNER_SHARE_TEXT_MAX], keep_free[OWNER_SHARE_TEXT_MAX];
    struct donation_wish wish;

    owner_wish(&c->owner, &wish);
    owner_share_text(&wish.donate, donate);
    owner_share_text(&wish.keep_free, keep_free);
    log_info(c->log, "the owner of %s donates %s, keeps %s free%s", c->datadir->path, donate,
             keep_free, control_is_paused(c) ? ", and has paused it" : "");
}

/* ---- How it is ---- */

static void note_state(struct control *c, uint64_t now_ms)
{
    if (c->donation->state != c->state || c->state_since_ms == 0) {
        c->state = c->donation->state;
        c->state_since_ms = now_ms;
    }
}

static const char *state_word(enum donation_state state)
{
    static const char *const words[] = { [DONATION_NOTHING] = "nothing",
                                         [DONATION_GIVES] = "gives",
                                         [DONATION_SHORT] = "short",
                                         [DONATION_GIVES_WAY] = "gives way" };

    return words[state];
}

/* What points into `c`, or nowhere, stays there. */
static void fill(const struct control *c, Morsel__DonateReply *reply, uint64_t now_ms)
{
    const struct donation *d = c->donation;

    morsel__donate_reply__init(reply);
    reply->path = (char *)(uintptr_t)c->datadir->path;
    reply->state = (char *)(uintptr_t)state_word(d->state);
    reply->state_ms = now_ms - c->state_since_ms;
    reply->donated = d->donated;
    reply->said = d->said;
    reply->kept_free = d->keep;
    reply->used = d->used;
    reply->excess = d->excess;
    reply->disk_total = c->disk->total;
    reply->disk_free = c->disk->free;
    reply->said_here = c->owner.kept.donate.said;
    reply->kept_free_here = c->owner.kept.keep_free.said;
    reply->paused = control_is_paused(c);
    reply->paused_left_ms = owner_pause_left_ms(&c->owner, now_ms);
    reply->id = c->datadir->node;
    reply->manager = (char *)(uintptr_t)rpc_peer_address(c->joining->manager);
    reply->joined = joining_is_member(c->joining);
    reply->shut = c->joining->shut;
    reply->door = (char *)(uintptr_t)c->joining->door;
    reply->cpu_permille = (uint32_t)(c->cost.rate.cpu_us / 1000);
    reply->memory = host_memory();
    reply->read_rate = c->cost.rate.read;
    reply->write_rate = c->cost.rate.written;
    reply->receive_rate = c->cost.rate.received;
    reply->send_rate = c->cost.rate.sent;
}

static void fill_leaving(const struct leaving *l, Morsel__DonateReply *reply, uint64_t now_ms)
{
    reply->leaving = l->state != LEAVING_STAYS;
    reply->leave_left_ms = reply->leaving && l->due_ms > now_ms ? l->due_ms - now_ms : 0;
    reply->leave_end = (char *)(uintptr_t)leaving_end_word(l);
    reply->left_counted = l->left.counted;
    reply->left_wanted = l->left.wanted;
    reply->left_wanted_bytes = l->left.wanted_bytes;
    reply->left_only = l->left.only;
    reply->left_stuck = l->left.stuck;
    reply->left_stuck_bytes = l->left.stuck_bytes;
    reply->moved = l->moved + l->left.moved;
    reply->moved_bytes = l->moved_bytes + l->left.moved_bytes;
}

static void fill_pace(const struct governor_uv *g, Morsel__DonateReply *reply, uint64_t now_ms)
{
    const uint64_t rate = governor_rate(&g->governor);

    reply->pace = (char *)(uintptr_t)governor_words(g->governor.reason);
    reply->pace_ms = now_ms - g->governor.reason_since_ms;
    reply->pace_rate = rate == UINT64_MAX ? 0 : rate;
    reply->held = g->held_count;
}

static void answer(struct control *c, struct rpc_request *request, const char *not_kept)
{
    char words[DONATION_TEXT_MAX], said[OWNER_SHARE_TEXT_MAX], keep_free[OWNER_SHARE_TEXT_MAX];
    const uint64_t now_ms = rpc_boot_ms();
    struct donation_wish wish;
    Morsel__DonateReply reply;

    note_state(c, now_ms);
    fill(c, &reply, now_ms);
    fill_pace(c->governor, &reply, now_ms);
    fill_leaving(&c->leaving, &reply, now_ms);
    leaving_heard(&c->leaving);
    owner_wish(&c->owner, &wish);
    owner_share_text(&wish.donate, said);
    owner_share_text(&wish.keep_free, keep_free);
    donation_words(c->donation, words);
    reply.words = words;
    reply.said_as = said;
    reply.kept_free_as = keep_free;
    reply.not_kept = (char *)(uintptr_t)not_kept;
    rpc_reply(request, &reply.base, NULL);
}

/* ---- The owner's words ---- */

/* 0: `*share_out` is what was said; NULL when nothing was. */
static int take_share(const char *name, const char *text, struct donation_share *share,
                      const struct donation_share **share_out, struct errmsg *err)
{
    int rv;

    *share_out = NULL;
    if (text[0] == '\0') {
        return 0;
    }
    rv = donation_share_parse(text, share, err);
    if (rv != 0) {
        errmsg_wrap(err, "%s", name);
    }
    *share_out = share;
    return rv;
}

static int set(struct control *c, const Morsel__DonateRequest *m, struct errmsg *err)
{
    const struct donation_share *donate, *keep_free;
    struct donation_share shares[2];
    int rv = take_share("donate", m->donate, &shares[0], &donate, err);

    if (rv == 0) {
        rv = take_share("keep-free", m->keep_free, &shares[1], &keep_free, err);
    }
    if (rv == 0 && donate == NULL && keep_free == NULL) {
        errmsg_set(err, "neither is said how much is donated nor how much stays free");
        rv = MORSEL_INVAL;
    }
    if (rv == 0) {
        owner_set(&c->owner, donate, keep_free);
    }
    return rv;
}

static int pause_it(struct control *c, uint64_t pause_ms, struct errmsg *err)
{
    if (pause_ms > PAUSE_MS_MAX) {
        errmsg_set(err, "a pause that ends by itself is one of at most 11 days: leave the time "
                        "out, and resume when it is to go on");
        return MORSEL_INVAL;
    }
    owner_pause(&c->owner, pause_ms, wall_ms(), rpc_boot_ms());
    return 0;
}

static int resume(struct control *c, struct errmsg *err)
{
    if (c->leaving.state == LEAVING_OVER) {
        errmsg_set(err, "this benefactor is about to end, for it has left: start it again");
        return MORSEL_BUSY;
    }
    if (leaving_cancel(&c->leaving)) {
        uv_timer_stop(&c->leave_timer);
        log_info(c->log, "the owner of %s wants it to stay", c->datadir->path);
    }
    owner_resume(&c->owner);
    return 0;
}

static int obey(struct control *c, const Morsel__DonateRequest *m, struct errmsg *err)
{
    switch (m->what) {
    case DONATE_SET:
        return set(c, m, err);
    case DONATE_PAUSE:
        return pause_it(c, m->pause_ms, err);
    case DONATE_RESUME:
        return resume(c, err);
    default:
        errmsg_set(err, "this benefactor does not know what is asked: use `morsel` of its version");
        return MORSEL_UNKNOWN_TYPE;
    }
}

static void log_left(const struct control *c)
{
    const struct leaving_left *left = &c->leaving.left;

    log_info(c->log,
             "%s leaves (%s): %llu morsels were copied to others, %llu have fewer copies elsewhere "
             "than wanted%s",
             c->datadir->path, leaving_end_word(&c->leaving),
             (unsigned long long)(c->leaving.moved + left->moved), (unsigned long long)left->wanted,
             left->counted ? "" : ", as far as is known: the manager has not counted them");
}

static void on_leave_timer(uv_timer_t *timer)
{
    struct control *c = timer->data;
    const uint64_t now_ms = rpc_boot_ms();

    if (leaving_tick(&c->leaving, c->used(c->data), now_ms)) {
        log_left(c);
    }
    if (leaving_may_end(&c->leaving, now_ms)) {
        uv_timer_stop(&c->leave_timer);
        c->leave(c->data);
    }
}

static void leave(struct control *c, struct rpc_request *request, uint64_t leave_ms)
{
    if (leave_ms > LEAVE_MS_MAX) {
        rpc_reply_failure(request, MORSEL_INVAL, "the deadline is one of at most 24 hours");
        return;
    }
    log_info(c->log, "the owner of %s wants it to end, in %llu seconds at the latest",
             c->datadir->path, (unsigned long long)(leave_ms / 1000));
    leaving_begin(&c->leaving, leave_ms, rpc_boot_ms());
    if (leave_ms > 0) {
        c->spoken(c->data);
    }
    answer(c, request, "");
    uv_timer_start(&c->leave_timer, on_leave_timer, 0, LEAVE_LOOK_MS);
}

static bool is_owner(const struct control *c, const Morsel__DonateRequest *m)
{
    return m->secret.len == OWNER_SECRET_BYTES && owner_secret_equal(m->secret.data, c->key.secret);
}

static void serve(struct control *c, struct rpc_request *request, const Morsel__DonateRequest *m)
{
    struct errmsg err = { "" };
    int rv;

    if (m->what == DONATE_STATUS) {
        answer(c, request, "");
        return;
    }
    if (m->what == DONATE_LEAVE) {
        leave(c, request, m->leave_ms);
        return;
    }
    rv = obey(c, m, &err);
    if (rv != 0) {
        rpc_reply_failure(request, rv, err.text);
        return;
    }
    (void)keep(c, &err);
    log_owner(c);
    c->spoken(c->data);
    answer(c, request, err.text);
}

void control_handle(struct control *c, struct rpc_request *request)
{
    Morsel__DonateRequest *m = rpc_request_unpack(request, &morsel__donate_request__descriptor);

    if (m == NULL) {
        return;
    }
    if (is_owner(c, m)) {
        serve(c, request, m);
    } else {
        if (!c->stranger_said) {
            c->stranger_said = true;
            log_warning(c->log, "%s asks as the owner of %s, and is not", rpc_request_peer(request),
                        c->datadir->path);
        }
        rpc_reply_failure(request, MORSEL_ACCES,
                          "only who can read the donated directory may ask that");
    }
    morsel__donate_request__free_unpacked(m, NULL);
}

/* ---- The face ---- */

int control_open(struct control *c, const char *listens, struct errmsg *err)
{
    struct owner_kept kept;
    struct errmsg not_kept;
    int rv = read_kept(c, &kept, err);

    if (rv != 0) {
        return rv;
    }
    if (owner_key_make(c->datadir, listens, &c->key, &not_kept) != 0) {
        log_error(c->log, "%s", not_kept.text); /* A full disk is no reason not to run. */
    }
    if (owner_begin(&c->owner, &kept, &c->settings, wall_ms(), rpc_boot_ms())) {
        (void)keep(c, &not_kept);
    }
    log_owner(c);
    uv_timer_init(c->loop, &c->leave_timer);
    c->leave_timer.data = c;
    c->opened = true;
    return 0;
}

void control_wish(const struct control *c, struct donation_wish *wish)
{
    owner_wish(&c->owner, wish);
}

bool control_is_paused(const struct control *c)
{
    return owner_is_paused(&c->owner);
}

bool control_is_leaving(const struct control *c)
{
    return c->leaving.state != LEAVING_STAYS;
}

void control_told_left(struct control *c, const Morsel__DonorLeft *left)
{
    const struct leaving_left told = { left->counted, left->wanted,     left->wanted_bytes,
                                       left->only,    left->stuck,      left->stuck_bytes,
                                       left->moved,   left->moved_bytes };

    leaving_told(&c->leaving, &told);
}

void control_tick(struct control *c, uint64_t bytes_in, uint64_t bytes_out)
{
    struct cost_counts counts = { .received = bytes_in, .sent = bytes_out };
    const uint64_t now_ms = rpc_boot_ms();
    struct errmsg err;

    note_state(c, now_ms);
    host_cost(&counts);
    cost_look(&c->cost, &counts, now_ms);
    if (owner_tick(&c->owner, now_ms)) {
        (void)keep(c, &err);
        log_owner(c);
        c->spoken(c->data);
    }
}

void control_stop(struct control *c)
{
    if (!c->opened || c->stopped) {
        return;
    }
    c->stopped = true;
    owner_key_remove(c->datadir);
    uv_close((uv_handle_t *)&c->leave_timer, NULL);
}
