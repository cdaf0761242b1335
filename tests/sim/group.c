/* One group of one to three members that hold the same objects, and clients that write, sync and
 * read them at whichever member they like: src/iod/replica while members
 * are killed, lose power and are cut off.
 *
 * Clients write and read the same objects. Members that do not order are read only while nobody writes
 * the object, or may yet: in the product the manager's leases see to that. Where nobody has everything any more, or
 * nobody is there but one, that one may be named as the copy that counts. Whether what they read
 * can be is for group_judge.c to say. */
#include "tests/sim/group.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

enum { TRANSCRIPTS_MAX = 32 };

struct world *world_of(struct sim *s)
{
    return s->world;
}

/* ---- A client ---- */

static struct client *client_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->clients[node - world_of(s)->first_client];
}

static struct object_lease *lease_of(struct sim *s, const struct call *call)
{
    return &world_of(s)->objects[call->change.object.inode - 1];
}

void client_asks(struct sim *s, uint32_t node, uint32_t member)
{
    struct host_message m = { .kind = HOST_CALL, .from = node, .call = client_of(s, node)->call };

    sim_send_datagram(s, node, member, &m, sizeof(m));
}

static void send_call(struct sim *s, uint32_t node)
{
    const struct client *c = client_of(s, node);

    client_asks(s, node, (uint32_t)((c->call.number + c->tries) % world_of(s)->members));
}

/* ---- What it draws ---- */

static void draw_write(struct sim *s, uint32_t node)
{
    struct client *c = client_of(s, node);
    struct order_change *change = &c->call.change;
    uint64_t first = prng_below(&s->prng, CELLS);

    change->op = (struct op_id){ c->call.client + 1, ++c->operations };
    change->ended = c->operations - 1;
    change->generation = 1;
    change->span.start = first * CELL_BYTES;
    change->span.end = (first + 1 + prng_below(&s->prng, CELLS - first)) * CELL_BYTES;
    change->verifier = c->verifier;
    c->call.value = change->op.client << 24 | change->op.number;
    c->call.not_after_ms =
        s->now_ms + 100 + prng_below(&s->prng, prng_below(&s->prng, 4) == 0 ? 12000 : 3000);
}

/* From elsewhere in the group, also from the same object, but not onto what it reads. */
static void draw_source(struct sim *s, struct order_change *change)
{
    uint64_t bytes = change->span.end - change->span.start;
    uint64_t start = prng_below(&s->prng, CELLS - bytes / CELL_BYTES + 1) * CELL_BYTES;

    change->source.inode = 1 + prng_below(&s->prng, USED);
    if (change->source.inode == change->object.inode && start < change->span.end &&
        change->span.start < start + bytes) {
        change->source.inode = change->object.inode % USED + 1;
    }
    change->reads = (struct span){ start, start + bytes };
}

/* False: the leases do not allow it now. */
static bool draw_call(struct sim *s, uint32_t node)
{
    struct client *c = client_of(s, node);
    uint64_t drawn = prng_below(&s->prng, 24);
    struct object_lease *l;

    c->call = (struct call){ .client = node - world_of(s)->first_client };
    c->call.act = drawn < 9 ? ACT_WRITE : drawn < 11 ? ACT_FSYNC : drawn < 13 ? ACT_COPY : ACT_READ;
    c->call.change.object.inode = 1 + prng_below(&s->prng, USED);
    c->call.change.span = (struct span){ 0, CELLS * CELL_BYTES };
    l = lease_of(s, &c->call);
    if (c->call.act == ACT_READ && l->writers == 0 && l->unsettled && s->now_ms > l->unsettled_ms) {
        c->call.act = ACT_SETTLE;
    }
    if (act_changes(c->call.act) && l->readers > 0) {
        c->call.act = ACT_NONE;
        return false;
    }
    if (act_changes(c->call.act)) {
        draw_write(s, node);
        if (c->call.act == ACT_COPY) {
            draw_source(s, &c->call.change);
        }
        l->writers++;
    } else if (c->call.act == ACT_READ) {
        c->call.settled = l->writers == 0 && !l->unsettled;
        l->readers += c->call.settled;
    }
    return true;
}

/* ---- Its calls ---- */

static void run_next(struct sim *s, uint32_t node, uint64_t number);

static void end_call(struct sim *s, uint32_t node, const struct answer *answer, bool done)
{
    struct client *c = client_of(s, node);
    struct object_lease *l = lease_of(s, &c->call);

    judge_end(s, c->deed, answer, done);
    c->last = *answer;
    c->answered = done;
    if (act_changes(c->call.act)) {
        l->writers--;
        if (!done) {
            l->unsettled = true;
            if (c->call.not_after_ms > l->unsettled_ms) {
                l->unsettled_ms = c->call.not_after_ms;
            }
        }
    } else if (c->call.act == ACT_SETTLE && c->begun_ms > l->unsettled_ms) {
        l->unsettled = false;
    }
    l->readers -= c->call.settled;
    c->call.act = ACT_NONE;
    sim_after(s, node, 1 + prng_below(&s->prng, CLIENT_IDLE_MS_MAX), run_next, 0);
}

void client_begins(struct sim *s, uint32_t node, const struct call *call)
{
    struct client *c = client_of(s, node);

    CHECK(c->call.act == ACT_NONE);
    c->call = *call;
    c->call.number = ++c->calls;
    c->begun_ms = s->now_ms;
    c->deed = judge_begin(s, &c->call);
}

void client_gives_up(struct sim *s, uint32_t node)
{
    struct answer none = { .status = MORSEL_TIMEDOUT };

    sim_trace(s, node, "gives %llx up", (unsigned long long)client_of(s, node)->call.value);
    end_call(s, node, &none, false);
}

static void run_retry(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = client_of(s, node);

    if (c->call.act == ACT_NONE || c->call.number != number) {
        return;
    }
    if (act_changes(c->call.act) && s->now_ms > c->call.not_after_ms) {
        client_gives_up(s, node);
        return;
    }
    if (!slow_waits(s, node, c->begun_ms)) {
        return;
    }
    sim_worth(s, WORTH_RETRIED);
    c->tries++; /* At the next member. */
    send_call(s, node);
    sim_after(s, node, CLIENT_RETRY_MS, run_retry, number);
}

static void run_next(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = client_of(s, node);
    struct call call;

    (void)number;
    if (s->scripted || s->now_ms > FAULTS_MS + HEALING_MS - QUIET_MS) {
        return;
    }
    if (!draw_call(s, node)) {
        sim_after(s, node, 1 + prng_below(&s->prng, 20), run_next, 0);
        return;
    }
    call = c->call;
    c->call.act = ACT_NONE;
    client_begins(s, node, &call);
    send_call(s, node);
    sim_after(s, node, CLIENT_RETRY_MS, run_retry, c->call.number);
}

static void client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    static const char *const names[] = { "", "writes", "copies", "syncs", "reads", "settles" };
    struct client *c = client_of(s, node);
    struct host_message m;

    memcpy(&m, message->data, sizeof(m));
    if (c->call.act == ACT_NONE || m.answer.number != c->call.number) {
        return;
    }
    c->verifier = m.answer.verifier > c->verifier ? m.answer.verifier : c->verifier;
    if (m.answer.status == MORSEL_OVERLOAD) {
        return; /* It asks again. */
    }
    sim_trace(s, node, "%s %llx in object %llu at %s: %d, %llx %llx %llx %llx", names[c->call.act],
              (unsigned long long)c->call.value, (unsigned long long)c->call.change.object.inode,
              s->nodes[m.from].name, m.answer.status, (unsigned long long)m.answer.values[0],
              (unsigned long long)m.answer.values[1], (unsigned long long)m.answer.values[2],
              (unsigned long long)m.answer.values[3]);
    end_call(s, node, &m.answer, m.answer.status == MORSEL_OK);
}

static void run_trouble(struct sim *s, uint32_t node, uint64_t number);

/* The bytes of a member that serves are others, and it does not know; nobody reads these. The last comparison
 * begins behind the last of them, and has time to end. */
static void run_plant(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    uint32_t i = (uint32_t)prng_below(&s->prng, w->members);

    if (w->plants && s->nodes[i].up && w->member[i].joined != 0 && w->members > 1) {
        member_plant(s, i, (uint32_t)prng_below(&s->prng, CELLS), number);
    }
    if (s->now_ms < FAULTS_MS) {
        sim_after(s, node, 500 + prng_below(&s->prng, 2000), run_plant, number + 1);
    }
}

/* Where another fault is looked for nothing else is to repair it. */
static bool compares(struct sim *s)
{
    return s->canary == NULL || sim_canary(s, "looks_at_old_bytes") ||
           sim_canary(s, "overlooks_differences") || sim_canary(s, "repairs_nothing");
}

/* Another comparison. */
static void run_compare(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);

    w->verify_run = number;
    sim_after(s, node, 500 + prng_below(&s->prng, 2000), run_compare, number + 1);
}

static void client_start(struct sim *s, uint32_t node)
{
    client_of(s, node)->verifier = 1;
    run_next(s, node, 0);
    if (node == world_of(s)->first_client && !s->scripted) {
        run_trouble(s, node, 0);
        if (compares(s)) {
            run_plant(s, node, 1);
            run_compare(s, node, 1);
        }
    }
}

/* ---- The scenario ---- */

static void run_fall(struct sim *s, uint32_t node, uint64_t member)
{
    (void)node;
    if (s->nodes[member].up) {
        sim_crash(s, (uint32_t)member, true);
        sim_start_later(s, (uint32_t)member, 100 + prng_below(&s->prng, 300));
    }
}

/* Somebody acts in the newest set. */
static bool is_served(struct sim *s)
{
    const struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->members; i++) {
        const struct replica *r = w->member[i].replica;

        if (s->nodes[i].up && r != NULL && r->group.joined != 0 &&
            r->group.record.epoch == w->newest) {
            return true;
        }
    }
    return false;
}

/* Who is outside of the set comes back with an empty disk. */
static void renew(struct sim *s)
{
    struct world *w = world_of(s);
    uint32_t i = (uint32_t)prng_below(&s->prng, w->members);

    if ((*decided_in(w, w->newest) >> i & 1) == 0 && is_served(s)) {
        if (s->nodes[i].up) {
            sim_crash(s, i, true);
        }
        sim_trace(s, i, "** has another disk, which is empty");
        member_renew(s, i);
        sim_start_later(s, i, prng_below(&s->prng, 500));
        sim_worth(s, WORTH_RENEWED);
    }
}

/* Has anybody else a copy, of whatever age? */
static bool has_another(const struct world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->members; i++) {
        if (i != node && w->member[i].disk.record.epoch != 0 && !w->member[i].replaced) {
            return true;
        }
    }
    return false;
}

/* Who stands alone loses its disk: only a command helps. */
static void ruin(struct sim *s)
{
    struct world *w = world_of(s);
    group_set set = *decided_in(w, w->newest);
    uint32_t i = (uint32_t)__builtin_ctz(set);

    if ((set & (set - 1)) != 0 || !has_another(w, i) || w->ruined || w->forced == FORCED_MAX ||
        w->member[i].disk.record.begun != w->newest || s->now_ms > FAULTS_MS - RUIN_MS) {
        return;
    }
    if (s->nodes[i].up) {
        sim_crash(s, i, true);
    }
    sim_trace(s, i, "** stood alone, and has lost its disk");
    member_renew(s, i);
    judge_loss(s, i, true);
    sim_start_later(s, i, prng_below(&s->prng, 2000));
    w->ruined = true;
}

/* May the administrator name it? Nobody serves; and the others are not there, or have nothing to serve. */
static bool may_name(const struct sim *s, const struct world *w, uint32_t named)
{
    for (uint32_t i = 0; i < w->members; i++) {
        if (w->member[i].joined != 0 || (i != named && s->nodes[i].up && !w->ruined)) {
            return false;
        }
    }
    return w->members > 1 && w->forced < FORCED_MAX && s->nodes[named].up &&
           s->nodes[w->voter].up &&
           w->member[named].disk.record.epoch != 0; /* It had a copy once. */
}

/* What the others hold from then on counts for nothing. Whoever went on without that copy is told so before it serves
 * again, for that can be seen to; of the rest some. */
static void force(struct sim *s)
{
    struct world *w = world_of(s);
    uint32_t named = (uint32_t)prng_below(&s->prng, w->members);

    if (!may_name(s, w, named)) {
        return;
    }
    sim_trace(s, named, "** is named as the copy that counts");
    for (uint32_t i = 0; i < w->members; i++) {
        const struct group_record *r = &w->member[i].disk.record;
        bool without = group_in_sync(r->state) && (r->set >> named & 1) == 0;

        w->member[i].replaced = i != named && (without || prng_below(&s->prng, 2) == 0);
        if (i == named || (w->member[i].replaced && s->nodes[i].up)) {
            sim_crash(s, i, false);
            sim_start_later(s, i, i == named ? 0 : prng_below(&s->prng, 500));
        }
    }
    w->member[named].replaced = w->ruined = false;
    judge_force(s, named);
    member_force(s, named);
    if (!sim_canary(s, "names_without_voters")) {
        voter_learn(s, w->voter, w->newest, (group_set)(1U << named));
    }
}

/* Nobody is heard by it any more. */
static void run_deafen(struct sim *s, uint32_t node, uint64_t member)
{
    struct world *w = world_of(s);

    (void)node;
    sim_trace(s, (uint32_t)member, "** hears nobody");
    for (uint32_t i = 0; i <= w->voter && s->now_ms < FAULTS_MS; i++) {
        w->cut_until_ms[i][member] = s->now_ms + prng_below(&s->prng, 3000);
    }
}

/* Planned stops; now and then of all at once, or of one that is cut off meanwhile. */
static void stop_some(struct sim *s, uint32_t node)
{
    const struct world *w = world_of(s);
    uint64_t drawn = prng_below(&s->prng, 400);

    for (uint32_t i = 0; i < w->members; i++) {
        if (s->nodes[i].up && (drawn == i || drawn == i + REPLICAS_MAX || drawn == 399)) {
            member_quit(s, i);
            if (w->cuts && prng_below(&s->prng, 3) == 0) {
                sim_after(s, node, prng_below(&s->prng, 60), run_deafen, i);
            }
        }
    }
}

/* Links that carry nothing, one way or both, and members that fall almost together. */
static void run_trouble(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);

    (void)number;
    if (s->now_ms >= FAULTS_MS) {
        memset(w->cut_until_ms, 0, sizeof(w->cut_until_ms));
        if (w->ruined) {
            force(s);
            sim_after(s, node, 100, run_trouble, 0);
        }
        return;
    }
    if (w->cuts && prng_below(&s->prng, 100) < 4) {
        uint32_t a = (uint32_t)prng_below(&s->prng, w->members);
        uint32_t b = (uint32_t)prng_below(&s->prng, w->voter + 1);
        uint64_t until_ms = s->now_ms + prng_below(&s->prng, 5000);

        sim_trace(s, a, "** is cut off from %s", s->nodes[b].name);
        w->cut_until_ms[a][b] = until_ms;
        w->cut_until_ms[b][a] = prng_below(&s->prng, 3) == 0 ? 0 : until_ms;
        if (w->storms && a != b && b < w->members && w->members == 3 &&
            prng_below(&s->prng, 2) == 0) {
            sim_after(s, node, 300 + prng_below(&s->prng, 1500), run_fall, 3 - a - b);
        }
    }
    if (w->storms && prng_below(&s->prng, 100) < 2) {
        for (uint32_t i = 0; i <= w->voter; i++) {
            if (s->nodes[i].up && prng_below(&s->prng, 2) == 0) {
                sim_crash(s, i, prng_below(&s->prng, 2) == 0);
                sim_start_later(s, i, 100 + prng_below(&s->prng, 1500));
            }
        }
    }
    slow_trouble(s);
    if (!w->only_slow && prng_below(&s->prng, 100) < 5) {
        renew(s);
    }
    if (!w->only_slow && prng_below(&s->prng, 100) < 2) {
        ruin(s);
    }
    if (!w->only_slow && prng_below(&s->prng, 100) < 20) {
        force(s);
    }
    if (!w->only_slow) {
        stop_some(s, node);
    }
    sim_after(s, node, 100, run_trouble, 0);
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct host_message m;

    memcpy(&m, message->data, sizeof(m));
    (void)voter_receive(s, node, &m);
}

static const struct sim_actor voter_actor = { voter_start, voter_stop, manager_receive, NULL };
static const struct sim_actor client_actor = { client_start, NULL, client_receive, NULL };

static uint32_t draw_members(struct sim *s)
{
    uint64_t drawn = prng_below(&s->prng, 16);

    return drawn == 0 ? 1 : drawn < 5 ? 2 : 3;
}

static void open_members(struct sim *s, uint32_t members)
{
    static const char *const names[] = { "m0", "m1", "m2", "anna", "bert", "cleo", "dora" };
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL && sizeof(struct host_message) <= SIM_MESSAGE_BYTES_MAX);
    s->world = w;
    w->members = members != 0 ? members : draw_members(s);
    /* A deliberate fault is looked for where there is most trouble. */
    w->cuts = prng_below(&s->prng, 2) == 0 || s->canary != NULL;
    w->storms = prng_below(&s->prng, 3) == 0 || s->canary != NULL;
    w->coarse = !s->scripted && prng_below(&s->prng, 3) == 0;
    slow_draw(s);
    w->plants = !s->scripted && compares(s) && prng_below(&s->prng, 2) == 0;
    w->newest = 1;
    *decided_in(w, 1) = (group_set)((1U << w->members) - 1);
    s->options.crash_permille = (s->options.crash_permille + 2) / 3;
    s->options.power_permille = (s->options.power_permille + 1) / 2;
    for (uint32_t i = 0; i < w->members; i++) {
        (void)sim_node_add(s, names[i], &group_member_actor, true);
        member_format(s, i);
    }
    judge_open(s);
    w->voter = sim_node_add(s, "meta", &voter_actor, true);
    w->first_client = w->voter + 1;
    w->voter_set.version = 1;
    for (uint32_t i = 0; i <= w->voter; i++) {
        w->voter_set.ids[w->voter_set.count++] = i + 1;
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        (void)sim_node_add(s, names[REPLICAS_MAX + i], &client_actor, false);
    }
    for (uint32_t i = 0; i < s->node_count && !s->scripted; i++) {
        sim_start(s, i);
    }
}

static void scenario_open(struct sim *s)
{
    open_members(s, s->scripted ? 3 : 0);
}

static void pair_open(struct sim *s)
{
    open_members(s, 2);
    world_of(s)->slow_limit_ms = 1000;
    for (uint32_t i = 0; i <= world_of(s)->first_client; i++) {
        sim_start(s, i);
    }
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i <= w->voter; i++) {
        if (s->nodes[i].up) {
            voter_stop(s, i, false);
        }
        if (i < w->members && w->member[i].replica != NULL) {
            replica_free(w->member[i].replica);
            free(w->member[i].replica);
        }
    }
    judge_close(s);
    free(s->world);
}

/* With the rule of docs/replication.md that each breaks. Some take thousands of histories to be seen,
 * and are tests of their own: settles_at_once (settle), and at night one_lease_is_enough (lease), votes_in_memory (persist), memory_behind
 * (memorysync), grows_without_vote (vote, order), names_without_voters (group.h, Forced). */
static const char *const canaries[] = {
    "reads_without_lease",   /* lease */
    "does_not_wait",         /* wait */
    "speaks_before_durable", /* persist */
    "serves_unvouched",      /* rejoin */
    "stands_after_loss",     /* stand */
    "clears_intent_alone",   /* intent */
    "intent_in_memory",      /* intent */
    "forgets_intent",        /* intent */
    "forgets_logs",          /* log */
    "counts_before_flush",   /* flush */
    "keeps_its_own",         /* agree */
    "asks_one_only",         /* vouchall */
    "newcomer_is_whole",     /* newcomer */
    "begins_unbegun",        /* unbegun */
    "whole_in_memory",       /* known: on the disk */
    "answers_alone",         /* all of the set have it */
    "forgets_operations",    /* ownmemory */
    "hands_no_memory_over",  /* replymemory, merge */
    "takes_any_piece",       /* session: a piece behind one that is missing */
    "takes_what_is_behind",  /* sentbefore */
    "blames_nobody",         /* slow */
    "blames_at_once",        /* slow */
    "looks_at_old_bytes",    /* a difference counts while nothing is under way */
    "overlooks_differences", /* what differs is found, */
    "repairs_nothing",       /* and repaired */
    "names_without_jump",    /* group.h, Forced */
    "names_under_old_verifier",
    "replaced_keep_what_they_have",
    "reads_while_it_leaves",  /* leaver */
    "copies_what_may_change", /* order.h: what a copy reads is locked */
    NULL,
};

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_VOTE] = { "sets that shrink", 500 },
    [WORTH_GROWN] = { "sets that grow", 500 },
    [WORTH_SECONDARY] = { "reads beside the first member", 800 },
    [WORTH_VOUCHED] = { "sets that agree", 990 },
    [WORTH_UNBEGUN] = { "bytes of who has left", 1 },
    [WORTH_LOSS] = { "bytes that nobody has any more", 20 },
    [WORTH_SURVIVED] = { "losses of power that cost nothing", 250 },
    [WORTH_RETRIED] = { "calls that come again", 990 },
    [WORTH_LATE] = { "changes that are too late", 100 },
    [WORTH_BEHIND] = { "changes of before a loss", 80 },
    [WORTH_SETTLED] = { "objects that are settled", 800 },
    [WORTH_CLEARED] = { "write intent that leaves", 900 },
    [WORTH_VERIFIER] = { "losses that are told", 150 },
    [WORTH_SWEPT] = { "pages of objects that are there", 100 },
    [WORTH_RENEWED] = { "disks that come back empty", 100 },
    [WORTH_SLOW] = { "slow members that are left behind", 200 },
    [WORTH_SLOW_BACK] = { "slow members that are taken back", 200 },
    [WORTH_SLOW_ALONE] = { "slow members that stay, for there is nobody else", 50 },
    [WORTH_BORNE] = { "histories in which only slowness is to be borne", 100 },
    [WORTH_SEVERAL] = { "several pieces under way", 100 },
    [WORTH_VERIFIED] = { "comparisons that come to their end", 900 },
    [WORTH_HELD] = { "comparisons again, with nothing under way", 300 },
    [WORTH_FOUND] = { "differences that are found", 200 },
    [WORTH_FORCED] = { "copies that are named, with all that was synced", 20 },
    [WORTH_FORCED_STALE] = { "stale copies that are named", 50 },
    [WORTH_HANDED_OVER] = { "orders that are handed over", 50 },
    [WORTH_LEFT] = { "members that leave", 100 },
    [WORTH_COPIED] = { "copies within the group", 990 },
    [WORTH_COPIED_AGAIN] = { "copies that are carried out once more", 50 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "group",
                                              .faults_ms = FAULTS_MS,
                                              .healing_ms = HEALING_MS,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = group_judge_check,
                                              .finish = group_judge_finish,
                                              .canaries = canaries,
                                              .worth = worth };

const struct sim_scenario group_pair_scenario = { .name = "pair",
                                                  .open = pair_open,
                                                  .close = scenario_close,
                                                  .check = group_judge_check,
                                                  .finish = group_judge_finish };

/* ---- Transcript ---- */

/* One of three loses its power: the others vote it out, wait for the lease that it may hold, go on;
 * it returns, recovers, and is voted in. */
static bool a_member_falls_and_returns(struct sim *s)
{
    for (uint32_t i = 0; i <= world_of(s)->voter; i++) {
        sim_start(s, i);
    }
    sim_run_until(s, 1000);
    sim_crash(s, 2, true);
    sim_run_until(s, 6000);
    sim_start(s, 2);
    sim_run_until(s, 8000);
    return sim_expect(s, "[    0] m0 > starts, consistent in epoch 1\n"
                         "[    0] m0 > persists consistent, epoch 1, set 7\n"
                         "[    0] m1 > starts, consistent in epoch 1\n"
                         "[    0] m1 > persists consistent, epoch 1, set 7\n"
                         "[    0] m2 > starts, consistent in epoch 1\n"
                         "[    0] m2 > persists consistent, epoch 1, set 7\n"
                         "[   50] m0 > joined in epoch 1, set 7, verifier 1\n"
                         "[   50] m1 > joined in epoch 1, set 7, verifier 1\n"
                         "[   50] m2 > joined in epoch 1, set 7, verifier 1\n"
                         "[ 1000] m2 > ** power is lost\n"
                         "[ 1690] m0 > epoch 2 is set 3\n"
                         "[ 1690] m0 > persists standalone, epoch 2, set 3\n"
                         "[ 1690] m0 > leaves\n"
                         "[ 1725] m1 > persists standalone, epoch 2, set 3\n"
                         "[ 1725] m1 > leaves\n"
                         "[ 3213] m0 > persists standalone, epoch 2, set 3\n"
                         "[ 3250] m0 > joined in epoch 2, set 3, verifier 1\n"
                         "[ 3250] m1 > persists standalone, epoch 2, set 3\n"
                         "[ 3275] m1 > joined in epoch 2, set 3, verifier 1\n"
                         "[ 6000] m2 > starts, consistent in epoch 1\n"
                         "[ 6000] m2 > persists consistent, epoch 1, set 7\n"
                         "[ 6025] m2 > persists stale, epoch 1, set 7\n"
                         "[ 6525] m2 > persists recovering, epoch 2, set 3, not whole\n"
                         "[ 6560] m0 > epoch 3 is set 7\n"
                         "[ 6560] m0 > persists consistent, epoch 3, set 7\n"
                         "[ 6560] m0 > leaves\n"
                         "[ 6575] m1 > persists consistent, epoch 3, set 7\n"
                         "[ 6575] m1 > leaves\n"
                         "[ 6575] m2 > persists consistent, epoch 3, set 7, not whole\n"
                         "[ 6650] m0 > persists consistent, epoch 3, set 7\n"
                         "[ 6675] m0 > joined in epoch 3, set 7, verifier 1\n"
                         "[ 6675] m1 > persists consistent, epoch 3, set 7\n"
                         "[ 6675] m2 > persists consistent, epoch 3, set 7\n"
                         "[ 6700] m1 > joined in epoch 3, set 7, verifier 1\n"
                         "[ 6700] m2 > joined in epoch 3, set 7, verifier 1\n");
}

int main(int argc, char **argv)
{
    struct sim_transcript transcripts[TRANSCRIPTS_MAX] = {
        { "a_member_falls_and_returns", a_member_falls_and_returns, NULL },
    };

    for (uint32_t i = 0; group_cases[i].name != NULL; i++) {
        CHECK(i + 2 < TRANSCRIPTS_MAX);
        transcripts[i + 1] = group_cases[i];
    }
    return sim_main(argc, argv, &scenario, transcripts);
}
