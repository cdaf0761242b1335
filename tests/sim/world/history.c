#include "tests/sim/world/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OTHERS_BLOCKS_MAX = 12 << 20 }; /* Of a disk of 16 Mi: how full disks are differs. */

/* Each call may take its time, and one program may have several of what is lost before it. */
void history_wait_for_programs(struct history *h)
{
    uint64_t until_ns = 0, answers = UINT64_MAX;

    while (h->programs_running > 0) {
        if (answers != h->counts.calls) {
            answers = h->counts.calls;
            until_ns = h->world->now_ns + HISTORY_CALL_S * WORLD_S;
        }
        if (h->world->now_ns > until_ns) {
            world_fail("%u programs wait for an answer that does not come", h->programs_running);
        }
        world_run_until(h->world->now_ns + 10 * WORLD_MS);
    }
}

void history_begin_cluster(struct history *h)
{
    char name[WORLD_NAME_MAX];

    h->meta_host = world_host_add("meta");
    for (unsigned i = 0; i < h->iods_count; i++) {
        (void)snprintf(name, sizeof(name), "iod%u", i + 1);
        h->iod_hosts[i] = world_host_add(name);
        h->iod_hosts[i]->disk_others_blocks = world_draw(OTHERS_BLOCKS_MAX);
    }
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        (void)snprintf(name, sizeof(name), "mount%u", i + 1);
        h->mount_hosts[i] = world_host_add(name);
    }
    h->admin_host = world_host_add("admin");
    h->by_name = world_chance(3);
    h->admin = host_admin_start(h->admin_host, "admin");
    h->meta = host_meta_start(h->meta_host, "meta");
    for (unsigned i = 0; i < h->iods_count; i++) {
        (void)snprintf(name, sizeof(name), "iod%u", i + 1);
        h->iods[i] = host_iod_start(h->iod_hosts[i], name, h->meta_host);
    }
    world_run_until(5 * WORLD_S);
    if (host_meta_servers_up(h->meta) != h->iods_count) {
        world_fail("only %u servers are up", host_meta_servers_up(h->meta));
    }
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        (void)snprintf(name, sizeof(name), "mount%u", i + 1);
        h->mounts[i] = host_mount_start(h->mount_hosts[i], name, h->meta_host, h->by_name);
    }
}

static void sum_up_kernel(struct history *h, const struct kernel_counts *k)
{
    h->counts.names_kept += k->names_kept;
    h->counts.attributes_kept += k->attributes_kept;
    h->counts.pages_read += k->pages_read;
    h->counts.notified += k->notified;
    h->counts.page_waits += k->page_waits;
    h->counts.passed_over += k->passed_over;
    h->counts.short_reads += k->short_reads;
    h->counts.direct += k->direct;
    h->counts.plus += k->linked;
    h->counts.copied_here += k->copied_here;
}

void history_sum_up(struct history *h)
{
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        if (h->mounts[i]->process->alive && h->mounts[i]->client != NULL) {
            h->counts.recalls += h->mounts[i]->client->counters.recalls;
            sum_up_kernel(h, &h->mounts[i]->session.counts);
        }
    }
    h->counts.forgotten =
        h->world->counts.pages_lost + h->world->counts.names_lost + h->world->counts.batches_lost;
    h->counts.names_asked = h->world->counts.names_asked;
    h->counts.refused = host_meta_refused();
    h->counts.full = host_meta_full();
    h->counts.disk_refusals = h->world->counts.disk_refusals;
    h->counts.broken = h->world->counts.broken;
    h->counts.resets = h->world->counts.resets + h->world->counts.timeouts;
}

/* ---- Orderly ends ---- */

static bool all_have_ended(const struct history *h, bool servers)
{
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        if (h->mounts[i]->process->alive) {
            return false;
        }
    }
    for (unsigned i = 0; servers && i < h->iods_count; i++) {
        if (host_iod_process(h->iods[i])->alive) {
            return false;
        }
    }
    return !servers || !host_meta_process(h->meta)->alive;
}

static void wait_for_ends(struct history *h, bool servers)
{
    uint64_t until_ns = h->world->now_ns + HISTORY_CALL_S * WORLD_S;

    while (!all_have_ended(h, servers)) {
        if (h->world->now_ns > until_ns) {
            world_fail("a %s does not come to its end", servers ? "daemon" : "mount");
        }
        world_run_until(h->world->now_ns + 10 * WORLD_MS);
    }
}

/* Everything is unmounted and stopped, and begins anew: it is all there. */
static void end_and_begin(struct history *h)
{
    char name[WORLD_NAME_MAX];

    h->resting = true;
    h->one_struck = false; /* All are stopped: that may be noticed. */
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        host_mount_unmount(h->mounts[i]);
    }
    wait_for_ends(h, false);
    host_meta_stop(h->meta);
    for (unsigned i = 0; i < h->iods_count; i++) {
        host_iod_stop(h->iods[i]);
    }
    wait_for_ends(h, true);
    h->counts.unmounts++;
    h->meta = host_meta_start(h->meta_host, "meta");
    for (unsigned i = 0; i < h->iods_count; i++) {
        (void)snprintf(name, sizeof(name), "iod%u", i + 1);
        h->iods[i] = host_iod_start(h->iod_hosts[i], name, h->meta_host);
    }
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        (void)snprintf(name, sizeof(name), "mount%u", i + 1);
        h->mounts[i] = host_mount_start(h->mount_hosts[i], name, h->meta_host, h->by_name);
    }
    h->resting = false;
}

/* Mostly a few seconds: more histories see more than longer ones. */
static uint64_t how_long_ns(const struct history *h)
{
    return (h->one_struck ? HISTORY_STRUCK_S_MIN : HISTORY_FAULTS_S_MIN) * WORLD_S +
           world_draw_skewed((HISTORY_FAULTS_S_MAX - HISTORY_FAULTS_S_MIN) * WORLD_S);
}

void history_run(struct history *h, struct world *world, const char *canary)
{
    char why[256];

    memset(h, 0, sizeof(*h));
    h->world = world;
    h->canary = canary;
    copies_draw(h);
    copies_listen(h);
    history_begin_cluster(h);
    programs_first(h);
    history_wait_for_programs(h);
    programs_begin(h);
    faults_begin(h);
    world_run_until(world->now_ns + how_long_ns(h));
    faults_end(h);
    world_run_until(world->now_ns + HISTORY_CALM_S * WORLD_S);
    h->ended = true;
    history_wait_for_programs(h);
    programs_look(h, HISTORY_MOUNTS);
    history_wait_for_programs(h);
    history_sum_up(h);
    programs_check(h);
    history_wait_for_programs(h);
    copies_judge(h);
    if (world_chance(3)) {
        end_and_begin(h);
        programs_look(h, 1);
        history_wait_for_programs(h);
    }
    locks_judge(h);
    tree_judge(h);
    if (!judge_registers(&h->judge, why, sizeof(why))) {
        world_fail("%s", why);
    }
}
