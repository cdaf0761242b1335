#include "wire.h"

#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SEND_MS = 60000, HELLO_MS = 20000, IN_A_ROW_MS = 20000 };

uint64_t wire_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int wire_connect(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), saved, on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        saved = errno;
        (void)close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static bool wait_ready(int fd, short events, uint64_t until_ms)
{
    uint64_t now_ms = wire_now_ms();
    struct pollfd poll_fd = { .fd = fd, .events = events };

    return poll(&poll_fd, 1, now_ms < until_ms ? (int)(until_ms - now_ms) : 0) == 1;
}

static bool send_all(int fd, const uint8_t *data, size_t count)
{
    uint64_t until_ms = wire_now_ms() + SEND_MS;

    while (count > 0) {
        ssize_t sent = send(fd, data, count, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno == EAGAIN && wait_ready(fd, POLLOUT, until_ms)) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        data += sent;
        count -= (size_t)sent;
    }
    return true;
}

bool wire_send(int fd, struct frame_header *header, const void *body, size_t body_count,
               const void *payload, size_t payload_count)
{
    uint8_t head[FRAME_HEADER_BYTES];

    header->version = FRAME_VERSION;
    header->body_length = (uint32_t)body_count;
    header->payload_length = (uint32_t)payload_count;
    header->body_crc = crc32c(0, body, body_count);
    frame_encode(header, head);
    return send_all(fd, head, sizeof(head)) && send_all(fd, body, body_count) &&
           send_all(fd, payload, payload_count);
}

bool wire_send_message(int fd, struct frame_header *header, const ProtobufCMessage *message)
{
    size_t count = protobuf_c_message_get_packed_size(message);
    uint8_t *body = malloc(count + 1);
    bool sent;

    CHECK(body != NULL);
    (void)protobuf_c_message_pack(message, body);
    sent = wire_send(fd, header, body, count, NULL, 0);
    free(body);
    return sent;
}

/* 0, or -1 with errno. */
static int receive_all(int fd, uint8_t *data, size_t count, uint64_t until_ms)
{
    while (count > 0) {
        ssize_t got = recv(fd, data, count, MSG_DONTWAIT);

        if (got < 0 && errno == EAGAIN) {
            if (!wait_ready(fd, POLLIN, until_ms)) {
                errno = ETIMEDOUT;
                return -1;
            }
            continue;
        }
        if (got <= 0) {
            errno = ECONNRESET;
            return -1;
        }
        data += got;
        count -= (size_t)got;
    }
    return 0;
}

int wire_receive(int fd, int timeout_ms, struct wire_frame *frame)
{
    uint8_t head[FRAME_HEADER_BYTES];
    uint64_t until_ms = wire_now_ms() + IN_A_ROW_MS;
    size_t count;

    frame->body = NULL;
    if (receive_all(fd, head, 1, wire_now_ms() + (uint64_t)timeout_ms) != 0 ||
        receive_all(fd, head + 1, sizeof(head) - 1, until_ms) != 0) {
        return -1;
    }
    CHECK(frame_decode(head, &frame->header) == 0);
    count = frame->header.body_length + (size_t)frame->header.payload_length;
    frame->body = malloc(count + 1);
    CHECK(frame->body != NULL);
    if (receive_all(fd, frame->body, count, until_ms) != 0) {
        free(frame->body);
        frame->body = NULL;
        return -1;
    }
    return 0;
}

bool wire_greet(int fd, enum wire_role role, uint64_t node_id)
{
    Morsel__Hello hello = MORSEL__HELLO__INIT;
    struct frame_header header = { .type = MSG_HELLO, .request_id = 1 };
    struct wire_frame reply;
    char program[] = "test";

    hello.role = role;
    hello.node_id = node_id;
    hello.program = program;
    if (!wire_send_message(fd, &header, &hello.base) || wire_receive(fd, HELLO_MS, &reply) != 0) {
        return false;
    }
    free(reply.body);
    return (reply.header.flags & FRAME_REPLY) != 0 && reply.header.status == MORSEL_OK;
}
