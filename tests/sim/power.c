/* A loss of power while clients live on: what they wrote and did not sync may be gone, and fsync
 * must say so, to every handle, once; whatever it has covered is there. */
#include "tests/sim/power.h"

#include "common/base/check.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>

struct world *world_of(struct sim *s)
{
    return s->world;
}

static struct client *client_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->clients[node];
}

/* ---- The grid ---- */

/* Servers lose power more often than the simulator draws it for itself: it is what this is about.
 */
static void run_outage(struct sim *s, uint32_t node, uint64_t number)
{
    uint32_t server =
        prng_below(&s->prng, 2) == 0 ? MANAGER : (uint32_t)prng_below(&s->prng, CLIENT_FIRST);

    if (number > 0 && s->faulty && s->nodes[server].up) {
        sim_crash(s, server, true);
        sim_start_later(s, server, SIM_REBOOT_MS_MIN + prng_below(&s->prng, 200));
    }
    if (!s->scripted) {
        sim_after(s, node, 1 + prng_below(&s->prng, OUTAGE_MS_MAX), run_outage, number + 1);
    }
}

static void grid_start(struct sim *s, uint32_t node)
{
    run_outage(s, node, 0);
}

static const struct sim_actor grid = { grid_start, NULL, NULL, NULL };

/* ---- The scenario ---- */

static void scenario_open(struct sim *s)
{
    static const char *const names[] = { "meta", "st1", "st2", "anna", "ben", "cleo" };
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    s->world = w;
    w->boot_id = 1;
    w->sync_percent = 1 + prng_below(&s->prng, prng_below(&s->prng, 2) == 0 ? 4 : 25);
    for (uint32_t i = 0; i < NODES; i++) {
        (void)sim_node_add(s, names[i],
                           i == MANAGER       ? &power_manager
                           : i < CLIENT_FIRST ? &power_store
                                              : &power_client,
                           true);
    }
    db_init(&w->db, s, MANAGER);
    w->count = 1; /* OP_FORMAT */
    (void)sim_node_add(s, "grid", &grid, false);
    for (uint32_t i = 0; i < s->node_count; i++) {
        sim_start(s, i);
    }
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = CLIENT_FIRST; i < NODES; i++) {
        for (uint32_t file = 0; file < FILES; file++) {
            unsynced_free(w->clients[i].files[file].unsynced);
        }
    }
    reply_cache_free(w->window);
    db_free(&w->db);
    free(w);
}

static bool scenario_check(struct sim *s)
{
    return !s->failed;
}

static bool scenario_finish(struct sim *s)
{
    judge_end(s);
    return !s->failed;
}

static const char *const canaries[] = { "same_verifier",
                                        "same_run",
                                        "ignores_the_run",
                                        "lying_fsync",
                                        "believes_every_sync",
                                        "clears_when_sent",
                                        "forgotten_at_close",
                                        "ignores_the_record",
                                        "tells_one_handle",
                                        "tells_twice",
                                        "keeps_the_record_to_itself",
                                        "believes_the_next_report",
                                        "skips_the_manager",
                                        NULL };

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_BYTES_LOST] = { "losses of power that take acknowledged bytes", 400 },
    [WORTH_CHANGES_LOST] = { "losses of power that take acknowledged changes", 100 },
    [WORTH_FILE_EIO] = { "files of which fsync says EIO", 400 },
    [WORTH_DIR_EIO] = { "directories of which fsync says EIO", 60 },
    [WORTH_LISTED_EIO] = { "losses told by the manager's record", 200 },
    [WORTH_FSYNCS] = { "fsyncs that say yes of something new", 700 },
    [WORTH_KEPT] = { "bytes that an fsync covered and a loss of power leaves", 250 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "power",
                                              .faults_ms = 2500,
                                              .healing_ms = 1500,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = scenario_check,
                                              .finish = scenario_finish,
                                              .canaries = canaries,
                                              .worth = worth };

/* ---- Transcripts ---- */

enum { ST1 = STORE_FIRST, ST2, ANNA = CLIENT_FIRST, BEN };

static void begin(struct sim *s)
{
    sim_run_until(s, 10);
    sim_skip(s);
}

static void outage(struct sim *s, uint32_t node)
{
    sim_crash(s, node, true);
    sim_run_until(s, s->now_ms + SIM_REBOOT_MS_MIN);
    sim_start(s, node);
    sim_run_until(s, s->now_ms + 2 * RECONNECT_MS);
}

static void fsync_now(struct sim *s, uint32_t node, uint32_t handle)
{
    fsync_file(s, node, handle, false);
    sim_run_until(s, s->now_ms + 100);
}

static bool each_handle_is_told_once(struct sim *s)
{
    struct client *anna = client_of(s, ANNA);

    begin(s);
    open_file(s, ANNA, &anna->handles[0], 0);
    open_file(s, ANNA, &anna->handles[1], 0);
    write_block(s, ANNA, &anna->handles[0], 0);
    sim_run_until(s, 20);
    outage(s, ST1);
    fsync_now(s, ANNA, 0);
    fsync_now(s, ANNA, 0);
    fsync_now(s, ANNA, 1);
    fsync_now(s, ANNA, 1);
    return sim_expect(s,
                      "[   10] anna > opens file 0\n"
                      "[   10] anna > opens file 0\n"
                      "[   10] anna > writes block 0 of file 0\n"
                      "[   10] st1 > has block 0 of file 0\n"
                      "[   20] st1 > ** power is lost\n"
                      "[   20] anna > ** connection 2 breaks\n"
                      "[   20] ben > ** connection 5 breaks\n"
                      "[   20] cleo > ** connection 8 breaks\n"
                      "[  120] st1 > start\n"
                      "[  150] anna > reports a size of 1 of file 0\n"
                      "[  150] meta > operation 7\n"
                      "[  220] anna > begins to sync file 0\n"
                      "[  250] st1 > has synced file 0\n"
                      "[  250] anna > may have lost bytes of file 0: a store has another verifier\n"
                      "[  250] anna > has synced file 0: EIO\n"
                      "[  250] meta > operation 8\n"
                      "[  320] anna > begins to sync file 0\n"
                      "[  340] anna > has synced file 0: yes\n"
                      "[  420] anna > begins to sync file 0\n"
                      "[  440] anna > has synced file 0: EIO\n"
                      "[  520] anna > begins to sync file 0\n"
                      "[  540] anna > has synced file 0: yes\n");
}

/* Its last block comes through when the tick has made its report already. */
static bool what_comes_behind_a_report_is_reported(struct sim *s)
{
    struct client *anna = client_of(s, ANNA), *ben = client_of(s, BEN);

    begin(s);
    open_file(s, ANNA, &anna->handles[0], 0);
    sim_partition(s, ST1, 190);
    sim_partition(s, ST2, 290);
    write_block(s, ANNA, &anna->handles[0], 0);
    sim_run_until(s, 160);
    write_block(s, ANNA, &anna->handles[0], 1);
    sim_run_until(s, 250);
    close_file(s, ANNA, 0);
    sim_run_until(s, 400);
    outage(s, ST2);
    open_file(s, BEN, &ben->handles[0], 0);
    fsync_now(s, BEN, 0);
    return sim_expect(
        s, "[   10] anna > opens file 0\n"
           "[   10] st1 > ** cut off for 190 ms\n"
           "[   10] st2 > ** cut off for 290 ms\n"
           "[   10] anna > writes block 0 of file 0\n"
           "[  160] anna > writes block 1 of file 0\n"
           "[  200] st1 > has block 0 of file 0\n"
           "[  200] anna > reports a size of 2 of file 0\n"
           "[  200] meta > operation 7\n"
           "[  250] anna > closes file 0\n"
           "[  300] st2 > has block 1 of file 0\n"
           "[  300] anna > reports a size of 0 of file 0\n"
           "[  300] meta > operation 8\n"
           "[  300] anna > lets go of file 0\n"
           "[  400] st2 > ** power is lost\n"
           "[  400] anna > ** connection 3 breaks\n"
           "[  400] ben > ** connection 6 breaks\n"
           "[  400] cleo > ** connection 9 breaks\n"
           "[  500] st2 > start\n"
           "[  600] ben > opens file 0\n"
           "[  600] ben > begins to sync file 0\n"
           "[  630] st1 > has synced file 0\n"
           "[  630] st2 > has synced file 0\n"
           "[  630] ben > may have lost bytes of file 0: the manager has an older verifier\n"
           "[  630] ben > has synced file 0: EIO\n"
           "[  630] meta > operation 9\n"
           "[  630] meta > operation 10\n");
}

/* Nobody had it open when its client heard of the loss. */
static bool a_loss_that_nobody_is_told_of_is_reported(struct sim *s)
{
    struct client *anna = client_of(s, ANNA), *ben = client_of(s, BEN);

    begin(s);
    open_file(s, ANNA, &anna->handles[0], 0);
    write_block(s, ANNA, &anna->handles[0], 0);
    sim_run_until(s, 20);
    sim_partition(s, MANAGER, 500);
    close_file(s, ANNA, 0);
    open_file(s, ANNA, &anna->handles[1], 1);
    outage(s, ST1);
    write_block(s, ANNA, &anna->handles[1], 0);
    sim_run_until(s, 700);
    open_file(s, BEN, &ben->handles[0], 0);
    fsync_now(s, BEN, 0);
    return sim_expect(
        s, "[   10] anna > opens file 0\n"
           "[   10] anna > writes block 0 of file 0\n"
           "[   10] st1 > has block 0 of file 0\n"
           "[   20] meta > ** cut off for 500 ms\n"
           "[   20] anna > closes file 0\n"
           "[   20] anna > reports a size of 1 of file 0\n"
           "[   20] anna > opens file 1\n"
           "[   20] st1 > ** power is lost\n"
           "[   20] anna > ** connection 2 breaks\n"
           "[   20] ben > ** connection 5 breaks\n"
           "[   20] cleo > ** connection 8 breaks\n"
           "[  120] st1 > start\n"
           "[  220] anna > writes block 0 of file 1\n"
           "[  220] st1 > has block 0 of file 1\n"
           "[  220] anna > may have lost bytes of file 0: a store has another verifier\n"
           "[  300] anna > reports a size of 1 of file 1\n"
           "[  520] meta > operation 7\n"
           "[  520] meta > operation 8\n"
           "[  520] anna > lets go of file 0\n"
           "[  700] ben > opens file 0\n"
           "[  700] ben > begins to sync file 0\n"
           "[  730] st1 > has synced file 0\n"
           "[  730] st2 > has synced file 0\n"
           "[  730] ben > may have lost bytes of file 0: the manager has an older verifier\n"
           "[  730] ben > has synced file 0: EIO\n"
           "[  730] meta > operation 9\n");
}

/* It waits for the manager, and meanwhile the server loses its power and acknowledges more. */
static bool a_flush_that_was_answered_before_a_loss_tells_of_none(struct sim *s)
{
    struct client *anna = client_of(s, ANNA);

    begin(s);
    open_file(s, ANNA, &anna->handles[0], 0);
    write_block(s, ANNA, &anna->handles[0], 0);
    sim_run_until(s, 160);
    sim_partition(s, MANAGER, 400);
    fsync_file(s, ANNA, 0, false);
    sim_run_until(s, 200);
    outage(s, ST1);
    write_block(s, ANNA, &anna->handles[0], 0);
    sim_run_until(s, 700);
    fsync_now(s, ANNA, 0);
    return sim_expect(s, "[   10] anna > opens file 0\n"
                         "[   10] anna > writes block 0 of file 0\n"
                         "[   10] st1 > has block 0 of file 0\n"
                         "[  150] anna > reports a size of 1 of file 0\n"
                         "[  150] meta > operation 7\n"
                         "[  160] meta > ** cut off for 400 ms\n"
                         "[  160] anna > begins to sync file 0\n"
                         "[  190] st1 > has synced file 0\n"
                         "[  200] st1 > ** power is lost\n"
                         "[  200] anna > ** connection 2 breaks\n"
                         "[  200] ben > ** connection 5 breaks\n"
                         "[  200] cleo > ** connection 8 breaks\n"
                         "[  300] st1 > start\n"
                         "[  400] anna > writes block 0 of file 0\n"
                         "[  400] st1 > has block 0 of file 0\n"
                         "[  580] anna > has synced file 0: yes\n"
                         "[  580] meta > operation 8\n"
                         "[  600] anna > reports a size of 1 of file 0\n"
                         "[  600] meta > operation 9\n"
                         "[  700] anna > begins to sync file 0\n"
                         "[  730] st1 > has synced file 0\n"
                         "[  730] anna > has synced file 0: yes\n"
                         "[  730] meta > operation 10\n");
}

static bool a_directory_is_told_of_the_managers_loss(struct sim *s)
{
    begin(s);
    open_dir(s, ANNA, 0, 0);
    change_name(s, ANNA, NAME_MAKE, 0, 'a');
    sim_run_until(s, 12);
    outage(s, MANAGER);
    fsync_dir(s, ANNA, 0);
    sim_run_until(s, s->now_ms + 100);
    fsync_dir(s, ANNA, 0);
    sim_run_until(s, s->now_ms + 100);
    return sim_expect(s, "[   10] meta > operation 7\n"
                         "[   12] meta > ** power is lost\n"
                         "[   12] anna > ** connection 1 breaks\n"
                         "[   12] ben > ** connection 4 breaks\n"
                         "[   12] cleo > ** connection 7 breaks\n"
                         "[   12] meta > 0 of 1 unsynced batches survived\n"
                         "[  112] meta > start behind operation 6\n"
                         "[  212] anna > begins to sync directory 0\n"
                         "[  232] anna > has synced directory 0: EIO\n"
                         "[  312] anna > begins to sync directory 0\n"
                         "[  332] anna > has synced directory 0: yes\n");
}

/* A change that is answered while the fsync that tells of an older loss is on its way. */
static bool a_second_loss_is_told_too(struct sim *s)
{
    begin(s);
    open_dir(s, ANNA, 0, 0);
    change_name(s, ANNA, NAME_MAKE, 0, 'a');
    sim_run_until(s, 12);
    outage(s, MANAGER);
    fsync_dir(s, ANNA, 0);
    sim_run_until(s, s->now_ms + 5);
    for (int name = 'b'; name < 'h'; name++) {
        change_name(s, ANNA, NAME_MAKE, 0, (char)name);
    }
    sim_run_until(s, s->now_ms + 20);
    outage(s, MANAGER);
    fsync_dir(s, ANNA, 0);
    sim_run_until(s, s->now_ms + 100);
    return sim_expect(s, "[   10] meta > operation 7\n"
                         "[   12] meta > ** power is lost\n"
                         "[   12] anna > ** connection 1 breaks\n"
                         "[   12] ben > ** connection 4 breaks\n"
                         "[   12] cleo > ** connection 7 breaks\n"
                         "[   12] meta > 0 of 1 unsynced batches survived\n"
                         "[  112] meta > start behind operation 6\n"
                         "[  212] anna > begins to sync directory 0\n"
                         "[  217] meta > operation 8\n"
                         "[  217] meta > operation 9\n"
                         "[  217] meta > operation 10\n"
                         "[  217] meta > operation 11\n"
                         "[  217] meta > operation 12\n"
                         "[  217] meta > operation 13\n"
                         "[  232] anna > has synced directory 0: EIO\n"
                         "[  237] meta > ** power is lost\n"
                         "[  237] cleo > ** connection 10 breaks\n"
                         "[  237] ben > ** connection 11 breaks\n"
                         "[  237] anna > ** connection 12 breaks\n"
                         "[  237] meta > 1 of 6 unsynced batches survived\n"
                         "[  337] meta > start behind operation 8\n"
                         "[  437] anna > begins to sync directory 0\n"
                         "[  457] anna > has synced directory 0: EIO\n");
}

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = {
        { "each_handle_is_told_once", each_handle_is_told_once, NULL },
        { "what_comes_behind_a_report_is_reported", what_comes_behind_a_report_is_reported, NULL },
        { "a_loss_that_nobody_is_told_of_is_reported", a_loss_that_nobody_is_told_of_is_reported,
          NULL },
        { "a_flush_that_was_answered_before_a_loss_tells_of_none",
          a_flush_that_was_answered_before_a_loss_tells_of_none, NULL },
        { "a_directory_is_told_of_the_managers_loss", a_directory_is_told_of_the_managers_loss,
          NULL },
        { "a_second_loss_is_told_too", a_second_loss_is_told_too, NULL },
        { NULL, NULL, NULL },
    };

    return sim_main(argc, argv, &scenario, transcripts);
}
