/* A run of the command as a client of the cluster: calls that wait.
 *
 * The command does one thing after another, so a call here runs the loop until its answer has come.
 * Errors name the peer: "manager at 10.0.0.1:7460: no answer within the time limit".
 */
#ifndef MORSEL_CLIENT_ADMIN_ADMIN_UV_H
#define MORSEL_CLIENT_ADMIN_ADMIN_UV_H

#include "client/admin/admin.h"
#include "common/rpc/rpc_uv.h"

struct admin
{
    uv_loop_t loop;
    struct rpc *rpc;
    struct rpc_peer *manager;
    client_id id;
    op_sequence sequence; /* Of the last changing operation. */
    uint64_t timeout_ms;
};

/* Make ready to call the manager at `address`; nothing is sent yet. MORSEL_INVAL for a bad address.
 */
int admin_open(struct admin *admin, const char *address, uint64_t timeout_ms, struct errmsg *err);

void admin_close(struct admin *admin);

/* A storage server, by address. The peer lives until admin_close(). */
int admin_peer(struct admin *admin, const char *address, struct rpc_peer **peer_out,
               struct errmsg *err);

/* Call and wait. `*reply_out` is an unpacked message of `reply_type`; free it with
 * protobuf_c_message_free_unpacked(). */
int admin_call(struct admin *admin, struct rpc_peer *peer, enum message_type type,
               const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
               void **reply_out, struct errmsg *err);

/* The exit code for a failed call: ADMIN_UNREACHABLE or ADMIN_PROBLEM. */
enum admin_exit admin_exit_code(int status);

#endif
