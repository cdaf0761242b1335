/* Asks the kernel with TCP_INFO and SIOCOUTQ. */
#include "common/rpc/tcp_state_uv.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

uint64_t tcp_kept_bytes(int fd)
{
    int kept = 0;

    return ioctl(fd, SIOCOUTQ, &kept) == 0 && kept > 0 ? (uint64_t)kept : 0;
}

uint64_t tcp_round_trip_us(int fd)
{
    struct tcp_info info = { .tcpi_state = 0 };
    socklen_t size = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        info.tcpi_min_rtt == UINT32_MAX) { /* What the kernel says for none. */
        return 0;
    }
    return info.tcpi_min_rtt;
}
