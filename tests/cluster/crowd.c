/* A crowd at the door of a server: connections that never say a word, that say HELLO and no more,
 * that send the dearest requests and take no answer, that begin large frames and do not end them.
 *
 *   crowd PORT CONNECTIONS
 *
 * When all have come, "here N" on standard output, N of them having been taken; then each that the
 * server closes is opened anew, until standard input ends. */
#include "common/base/check.h"
#include "common/rpc/messages.h"
#include "data.pb-c.h"
#include "lib/wire.h"
#include "meta.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUND_MS = 100, ANEW_MAX = 50, REQUESTS = 300, PART_BYTES = 100 << 10 };

enum kind { SILENT, GREETER, GREEDY, UNFINISHED, KINDS };

/* Requests that cost nothing to send and much to answer: reads of whole payloads, lists of objects,
 * members, directories. */
static void ask_dearly(int fd)
{
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    Morsel__ReadRequest read_request = MORSEL__READ_REQUEST__INIT;
    Morsel__ReaddirRequest list = MORSEL__READDIR_REQUEST__INIT;
    struct frame_header header = { .request_id = 1 };

    object.inode = 1;
    read_request.object = &object;
    read_request.length = FRAME_PAYLOAD_BYTES_MAX;
    list.inode = 1;
    list.plus = true;
    for (unsigned i = 0; i < REQUESTS; i++) {
        header.request_id++;
        header.type = i % 3 == 0 ? MSG_READ : i % 3 == 1 ? MSG_STATISTICS : MSG_READDIR;
        if (!wire_send_message(fd, &header, i % 3 == 0 ? &read_request.base : &list.base)) {
            return;
        }
    }
}

/* The head of a WRITE of 4 MiB, and the first of its bytes. */
static void begin_a_large_one(int fd)
{
    static const uint8_t bytes[PART_BYTES];
    uint8_t head[FRAME_HEADER_BYTES];
    struct frame_header header = { .version = FRAME_VERSION,
                                   .type = MSG_WRITE,
                                   .request_id = 2,
                                   .payload_length = FRAME_PAYLOAD_BYTES_MAX };

    frame_encode(&header, head);
    (void)!send(fd, head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* -1: it was not taken. */
static int come(uint16_t port, enum kind kind, uint64_t id)
{
    int fd = wire_connect(port), small = 4096;

    if (fd < 0 || kind == SILENT) {
        return fd;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    if (!wire_greet(fd, kind == GREEDY ? WIRE_ADMIN : WIRE_CLIENT, id)) {
        (void)close(fd);
        return -1;
    }
    if (kind == GREEDY) {
        ask_dearly(fd);
    } else if (kind == UNFINISHED) {
        begin_a_large_one(fd);
    }
    return fd;
}

static bool is_closed(int fd)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLRDHUP };

    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static enum kind kind_of(unsigned i)
{
    return i % 8 == 0 ? GREEDY : i % 8 == 1 ? UNFINISHED : i % 2 == 0 ? GREETER : SILENT;
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    uint64_t id = (uint64_t)getpid() << 32;
    unsigned count, taken = 0, anew = 0;
    uint16_t port;
    int *fds;

    if (argc != 3) {
        fprintf(stderr, "usage: crowd PORT CONNECTIONS\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    port = (uint16_t)strtoul(argv[1], NULL, 10);
    count = (unsigned)strtoul(argv[2], NULL, 10);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    fds = calloc(count, sizeof(*fds));
    CHECK(fds != NULL);
    for (unsigned i = 0; i < count; i++) {
        fds[i] = come(port, kind_of(i), ++id);
        taken += fds[i] >= 0;
    }
    printf("here %u\n", taken);
    while (poll(&input, 1, ROUND_MS) == 0) {
        unsigned left = ANEW_MAX;

        for (unsigned i = 0; i < count && left > 0; i++) {
            if (fds[i] >= 0 && !is_closed(fds[i])) {
                continue;
            }
            if (fds[i] >= 0) {
                (void)close(fds[i]);
            }
            fds[i] = come(port, kind_of(i), ++id);
            anew++;
            left--;
        }
    }
    printf("anew %u\n", anew);
    free(fds);
    return 0;
}
