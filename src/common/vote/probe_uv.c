/* One connection for each question, closed as soon as it has said something. */
#include "common/vote/probe_uv.h"

#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/conn_uv.h"
#include "replica.pb-c.h"

#include <stdlib.h>

struct probing
{
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_connect_t connect;
    struct prober *prober;
    struct rpc_request *request;
    unsigned handles; /* That are open. */
};

static void answer(struct rpc_request *request, bool refused)
{
    Morsel__ProbeReply reply = MORSEL__PROBE_REPLY__INIT;

    reply.refused = refused;
    rpc_reply(request, &reply.base, NULL);
}

static void on_closed(uv_handle_t *handle)
{
    struct probing *p = handle->data;

    if (--p->handles == 0) {
        p->prober->count--;
        free(p);
    }
}

static void end(struct probing *p, bool refused)
{
    struct rpc_request *request = p->request;

    if (request == NULL) {
        return;
    }
    p->request = NULL;
    answer(request, refused);
    uv_close((uv_handle_t *)&p->tcp, on_closed);
    uv_close((uv_handle_t *)&p->timer, on_closed);
}

static void on_connect(uv_connect_t *connect, int status)
{
    end(connect->data, status == UV_ECONNREFUSED);
}

static void on_timer(uv_timer_t *timer)
{
    end(timer->data, false);
}

/* False: nothing was begun. */
static bool begin(struct prober *prober, uv_loop_t *loop, struct rpc_request *request,
                  const struct sockaddr_storage *address)
{
    struct probing *p = prober->count < PROBES_MAX ? calloc(1, sizeof(*p)) : NULL;

    if (p == NULL) {
        return false;
    }
    p->prober = prober;
    p->request = request;
    p->tcp.data = p->timer.data = p->connect.data = p;
    p->handles = 2;
    prober->count++;
    (void)uv_tcp_init(loop, &p->tcp);
    (void)uv_timer_init(loop, &p->timer);
    (void)uv_timer_start(&p->timer, on_timer, PROBE_MS, 0);
    if (uv_tcp_connect(&p->connect, &p->tcp, (const struct sockaddr *)address, on_connect) != 0) {
        end(p, false);
    }
    return true;
}

void probe_handle(struct prober *prober, uv_loop_t *loop, struct rpc_request *request)
{
    Morsel__ProbeRequest *m = rpc_request_unpack(request, &morsel__probe_request__descriptor);
    struct sockaddr_storage socket_address;
    struct address address;
    struct errmsg err;
    bool known;

    if (m == NULL) {
        return;
    }
    known = address_parse(m->address, &address, &err) == MORSEL_OK &&
            conn_address_numeric(&address, &socket_address);
    morsel__probe_request__free_unpacked(m, NULL);
    if (request->role != ROLE_IOD) {
        rpc_reply_failure(request, MORSEL_PERM, "only storage servers ask this");
    } else if (prober->stopped || !known || !begin(prober, loop, request, &socket_address)) {
        answer(request, false);
    }
}
