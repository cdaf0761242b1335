/* A connection that says nothing (knock_uv.h). */
#include "common/rpc/knock_uv.h"

#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/conn_uv.h"

#include <stdlib.h>

struct knock
{
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_connect_t connect;
    knock_done done; /* NULL: nobody waits. */
    void *data;
    unsigned handles; /* That are open. */
};

static void on_closed(uv_handle_t *handle)
{
    struct knock *k = handle->data;

    if (--k->handles == 0) {
        free(k);
    }
}

static void end(struct knock *k, enum knock_outcome outcome)
{
    knock_done done = k->done;

    if (uv_is_closing((uv_handle_t *)&k->tcp)) {
        return;
    }
    k->done = NULL;
    uv_close((uv_handle_t *)&k->tcp, on_closed);
    uv_close((uv_handle_t *)&k->timer, on_closed);
    if (done != NULL) {
        done(k->data, outcome);
    }
}

static void on_connect(uv_connect_t *connect, int status)
{
    end(connect->data, status == 0                 ? KNOCK_OPEN
                       : status == UV_ECONNREFUSED ? KNOCK_REFUSED
                                                   : KNOCK_SILENT);
}

static void on_timer(uv_timer_t *timer)
{
    end(timer->data, KNOCK_SILENT);
}

struct knock *knock_start(uv_loop_t *loop, const char *address, uint32_t ms, knock_done done,
                          void *data)
{
    struct sockaddr_storage socket_address;
    struct address parsed;
    struct errmsg err;
    struct knock *k;

    if (address_parse(address, &parsed, &err) != MORSEL_OK ||
        !conn_address_numeric(&parsed, &socket_address) || (k = calloc(1, sizeof(*k))) == NULL) {
        return NULL;
    }
    k->done = done;
    k->data = data;
    k->tcp.data = k->timer.data = k->connect.data = k;
    k->handles = 2;
    (void)uv_tcp_init(loop, &k->tcp);
    (void)uv_timer_init(loop, &k->timer);
    if (uv_tcp_connect(&k->connect, &k->tcp, (const struct sockaddr *)&socket_address,
                       on_connect) != 0) {
        ms = 0; /* There is no way: said when we have returned. */
    }
    (void)uv_timer_start(&k->timer, on_timer, ms, 0);
    return k;
}

void knock_cancel(struct knock *knock)
{
    knock->done = NULL;
    end(knock, KNOCK_SILENT);
}
