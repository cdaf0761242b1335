/* morsel donors forget: the manager looks and forgets by steps; it is asked until that is over. */
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { ASK_NS = 50000000 };

static int ask(struct admin *admin, Morsel__DonorForgetRequest *request)
{
    const struct timespec pause = { 0, ASK_NS };
    struct errmsg err;
    bool done = false;

    while (!done) {
        void *reply;
        int rv = admin_call(admin, admin->manager, MSG_DONOR_FORGET, &request->base,
                            &morsel__donor_forget_reply__descriptor, &reply, &err);

        if (rv != 0) {
            return admin_failed(admin_exit_code(rv), "%s", err.text);
        }
        done = ((Morsel__DonorForgetReply *)reply)->done;
        morsel__donor_forget_reply__free_unpacked(reply, NULL);
        request->begun = true;
        if (!done) {
            (void)nanosleep(&pause, NULL);
        }
    }
    return ADMIN_OK;
}

int donors_forget(const struct admin_arguments *arguments)
{
    Morsel__DonorForgetRequest request = MORSEL__DONOR_FORGET_REQUEST__INIT;
    struct admin admin;
    int code;

    request.id = admin_donor_number(arguments->operands[1]);
    request.force = arguments->settings.force;
    if (request.id == 0) {
        return ADMIN_USAGE;
    }
    if ((code = admin_open_manager(&admin, &arguments->settings)) != ADMIN_OK) {
        return code;
    }
    code = ask(&admin, &request);
    admin_close(&admin);
    if (code == ADMIN_OK && arguments->settings.json) {
        return print_json(json_pack("{s:I}", "forgotten", (json_int_t)request.id)) ? ADMIN_OK
                                                                                   : ADMIN_PROBLEM;
    }
    if (code == ADMIN_OK) {
        (void)printf("benefactor %" PRIu32 " is forgotten; if it comes back it is a new one\n",
                     request.id);
    }
    return code;
}
