/* Names of machines, as the resolver of the system knows them: by the pool, at times in vain. */
#include "tests/sim/world/world.h"

#include <netinet/in.h>
#include <stdlib.h>

struct name_query
{
    uv_work_t work;
    uv_getaddrinfo_t *req;
    uv_getaddrinfo_cb cb;
    struct world_host *host;
    int port;
};

/* With the address behind it. */
static struct addrinfo *answer_of(const struct world_host *host, int port)
{
    struct addrinfo *found = calloc(1, sizeof(*found) + sizeof(struct sockaddr_in));
    struct sockaddr_in *address = (struct sockaddr_in *)(void *)(found + 1);
    char number[32];

    CHECK(found != NULL);
    world_host_address(host, number, sizeof(number));
    CHECK(uv_ip4_addr(number, port, address) == 0);
    found->ai_family = AF_INET;
    found->ai_socktype = SOCK_STREAM;
    found->ai_addr = (struct sockaddr *)address;
    found->ai_addrlen = sizeof(*address);
    return found;
}

static void look_up(uv_work_t *work)
{
    (void)work; /* It takes its time. */
}

static void on_looked_up(uv_work_t *work, int status)
{
    struct name_query *q = CONTAINER_OF(work, struct name_query, work);
    uv_getaddrinfo_t *req = q->req;
    uv_getaddrinfo_cb cb = q->cb;
    struct addrinfo *found = NULL;

    if (q->host == NULL) {
        status = UV_EAI_NONAME;
    } else if (world_chance(10)) {
        status = UV_EAI_AGAIN;
    } else {
        found = answer_of(q->host, q->port);
    }
    free(q);
    cb(req, status, found);
}

int uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *req, uv_getaddrinfo_cb cb, const char *node,
                   const char *service, const struct addrinfo *hints)
{
    struct name_query *q = calloc(1, sizeof(*q));

    (void)hints;
    CHECK(q != NULL && cb != NULL);
    *q = (struct name_query){
        .req = req, .cb = cb, .host = world_host_named(node), .port = (int)strtol(service, NULL, 10)
    };
    the_world->counts.names_asked++;
    return uv_queue_work(loop, &q->work, look_up, on_looked_up);
}

void uv_freeaddrinfo(struct addrinfo *list)
{
    free(list);
}
