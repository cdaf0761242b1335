/* What the kernel knows of a connection. Apart from conn_uv.c, because <uv.h> and the kernel's own
 * <linux/tcp.h> do not go together. */
#ifndef MORSEL_COMMON_RPC_TCP_STATE_UV_H
#define MORSEL_COMMON_RPC_TCP_STATE_UV_H

#include <stdint.h>

/* Bytes that were written to the socket and that the other machine has not acknowledged. */
uint64_t tcp_kept_bytes(int fd);

/* The least round trip seen, in microseconds; 0: none yet. */
uint64_t tcp_round_trip_us(int fd);

#endif
