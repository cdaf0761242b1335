/* What answers teach of what is on the disks, where losses of power lie between them. */
#include "client/data/durable_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/data/unsynced.h"
#include "client/manager/groups_uv.h"
#include "data.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GROUP = 3 };

struct fixture
{
    uv_loop_t loop;
    struct client client;
    struct file file;
    struct handle handle;
    struct client_group *group;
};

static void on_dropped(struct client *client, inode_id inode)
{
    (void)client;
    (void)inode;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    Morsel__Group group = MORSEL__GROUP__INIT;
    uint32_t servers[] = { 1, 2 };

    assert_non_null(f);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    f->client.loop = &f->loop;
    group.number = GROUP;
    group.servers = servers;
    group.n_servers = 2;
    assert_int_equal(client_groups_open(&f->client), 0);
    assert_int_equal(client_groups_learn(&f->client, &group), 0);
    assert_int_equal(kernel_drops_open(&f->client, on_dropped), 0);
    f->group = client_groups_find(&f->client, GROUP);
    f->file = (struct file){ .client = &f->client, .inode = 9 };
    f->file.columns.stripe.width = 1;
    f->file.columns.groups[0] = GROUP;
    f->file.durable.unsynced = unsynced_new(1, true);
    list_init(&f->file.fetched.slots);
    list_init(&f->file.handles);
    list_init(&f->handle.node);
    list_push_back(&f->file.handles, &f->handle.node);
    *state = f;
    return f->file.durable.unsynced == NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    unsynced_free(f->file.durable.unsynced);
    kernel_drops_close(&f->client);
    client_groups_close(&f->client);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

/* The servers' answer to a change, or to a SYNC, under that verifier. */
static void answer(struct fixture *f, bool sync, uint64_t verifier, bool durable)
{
    struct unsynced *unsynced = f->file.durable.unsynced;
    Morsel__Done done = MORSEL__DONE__INIT;
    uint8_t body[32];
    struct rpc_reply reply = { .body = body };

    done.verifier = verifier;
    reply.body_count = morsel__done__pack(&done, body);
    if (sync) {
        (void)durable_column_hooks.synced(&f->file.columns, 0, unsynced_mark(unsynced, 0), &reply);
    } else {
        durable_column_hooks.changed(&f->file.columns, 0, &reply, durable);
    }
}

/* A change was answered, then all servers of the group lost their power, and another file hears of that before the
 * answer comes: the change may be gone, although there was nothing of the file to lose when that was heard. */
static void a_late_answer_of_before_a_loss_is_a_loss(void **state)
{
    struct fixture *f = *state;

    (void)group_note_verifier(f->group, 1);
    answer(f, false, 1, false);
    answer(f, true, 1, false);
    assert_false(unsynced_is(f->file.durable.unsynced, 0));
    (void)group_note_verifier(f->group, 2);
    answer(f, false, 1, true); /* On the disks of all. */
    assert_false(f->handle.lost);
    answer(f, false, 1, false);
    assert_true(f->handle.lost);
}

/* What was changed since is not synced by a SYNC of before, nor lost by a late answer. */
static void late_answers_say_nothing_of_what_was_changed_since(void **state)
{
    struct fixture *f = *state;
    uint64_t verifiers[UNSYNCED_OWN_MAX];

    (void)group_note_verifier(f->group, 2);
    answer(f, false, 2, false);
    answer(f, true, 1, false);
    assert_true(unsynced_is(f->file.durable.unsynced, 0));
    answer(f, false, 1, false);
    assert_int_equal(unsynced_verifiers(f->file.durable.unsynced, 0, verifiers), 1);
    assert_int_equal(verifiers[0], 2);
    answer(f, true, 2, false);
    assert_false(unsynced_is(f->file.durable.unsynced, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_late_answer_of_before_a_loss_is_a_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(late_answers_say_nothing_of_what_was_changed_since, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
