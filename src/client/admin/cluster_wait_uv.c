/* Asks the manager again and again how many storage servers are up, until there are enough, and whether
 * copies are complete. */
#include "client/admin/cluster_wait_uv.h"

#include "client/admin/admin_uv.h"
#include "client/admin/group_status_file.h"
#include "common/base/status.h"

#include "meta.pb-c.h"

#include <inttypes.h>

enum { ASK_AGAIN_MS = 20, CALL_MS_MAX = 5000 };

static int count_up(struct admin *admin, uint32_t *up_out, struct errmsg *err)
{
    Morsel__MembersRequest request = MORSEL__MEMBERS_REQUEST__INIT;
    Morsel__MembersReply *members;
    void *reply;
    int rv = admin_call(admin, admin->manager, MSG_MEMBERS, &request.base,
                        &morsel__members_reply__descriptor, &reply, err);

    *up_out = 0;
    if (rv != 0) {
        return rv;
    }
    members = reply;
    for (size_t i = 0; i < members->n_members; i++) {
        *up_out += members->members[i]->up != 0;
    }
    morsel__members_reply__free_unpacked(members, NULL);
    return 0;
}

static void on_timer(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
}

/* Let the loop run for a moment: a manager tells nobody when a server has come up. */
static void pause_ms(struct admin *admin, uint64_t delay_ms)
{
    uv_timer_t timer;

    uv_timer_init(&admin->loop, &timer);
    uv_timer_start(&timer, on_timer, delay_ms, 0);
    while (!uv_is_closing((uv_handle_t *)&timer)) {
        (void)uv_run(&admin->loop, UV_RUN_ONCE);
    }
    (void)uv_run(&admin->loop, UV_RUN_NOWAIT); /* Lets go of the timer. */
}

int cluster_wait_servers(const char *manager, uint32_t servers, uint64_t timeout_ms,
                         struct errmsg *err)
{
    uint64_t deadline_ns = uv_hrtime() + timeout_ms * 1000000;
    struct admin admin;
    uint32_t up = 0;
    int rv = admin_open(&admin, manager, CALL_MS_MAX, err);

    if (rv != 0) {
        return rv;
    }
    while ((rv = count_up(&admin, &up, err)) == 0 && up < servers) {
        if (uv_hrtime() > deadline_ns) {
            errmsg_set(err,
                       "only %" PRIu32 " of %" PRIu32 " storage servers have come up; their logs "
                       "tell why",
                       up, servers);
            rv = MORSEL_TIMEDOUT;
            break;
        }
        pause_ms(&admin, ASK_AGAIN_MS);
    }
    admin_close(&admin);
    return rv;
}

static int count_unwell(struct admin *admin, size_t *unwell_out, struct errmsg *err)
{
    Morsel__StatusRequest request = MORSEL__STATUS_REQUEST__INIT;
    void *reply;
    int rv = admin_call(admin, admin->manager, MSG_STATUS, &request.base,
                        &morsel__status_reply__descriptor, &reply, err);

    *unwell_out = 0;
    if (rv == 0) {
        *unwell_out = groups_unwell(reply);
        morsel__status_reply__free_unpacked(reply, NULL);
    }
    return rv;
}

int cluster_wait_copies(const char *manager, uint64_t timeout_ms, struct errmsg *err)
{
    uint64_t deadline_ns = uv_hrtime() + timeout_ms * 1000000;
    struct admin admin;
    size_t unwell;
    int rv = admin_open(&admin, manager, CALL_MS_MAX, err);

    if (rv != 0) {
        return rv;
    }
    while ((rv = count_unwell(&admin, &unwell, err)) == 0 && unwell > 0 &&
           uv_hrtime() < deadline_ns) {
        pause_ms(&admin, ASK_AGAIN_MS);
    }
    admin_close(&admin);
    return rv;
}
