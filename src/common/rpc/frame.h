/* The fixed head of every message on the wire.
 *
 *    0  u32 magic "MRSL"
 *    4  u8  version
 *    5  u8  flags
 *    6  u16 type
 *    8  u64 request id
 *   16  u32 body length       packed protobuf
 *   20  u32 payload length    raw bytes behind the body
 *   24  u32 deadline in ms    requests: how long the sender waits; 0: for ever
 *           server's clock    replies; see below; 0: not told
 *   28  i32 status            replies
 *       u32 not after         requests; see below
 *   32  u32 CRC32C of the body
 *   36  u32 CRC32C of bytes 0 to 35
 *
 * Not after: a time on the server's clock (rpc_uv.h), in ms modulo 2^32, behind which the request
 * must not be carried out; 0: none. It stops what a client sent while it held a lease from landing
 * after that. The client knows the server's clock from its answers, and errs on the early side: it
 * was what it was when the answer left at the latest, and has since gone on by FRAME_DRIFT_PERCENT
 * less than ours at least. (A lease with a bound on clock drift, as in Gray and Cheriton, SOSP
 * 1989, carried to those who do not know of the lease.)
 *
 * Server's clock: what it was when the answer was made, in ms modulo 2^32. Servers that are older
 * do not tell; they are asked (CLOCK).
 *
 * All little-endian. Pure. The payload has no checksum here: data carries one per block (crc32c.h).
 */
#ifndef MORSEL_COMMON_RPC_FRAME_H
#define MORSEL_COMMON_RPC_FRAME_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    FRAME_VERSION = 1,
    FRAME_DRIFT_PERCENT = 10 /* Of two clocks against each other; as LEASE_MARGIN_MS. */
};

enum frame_flags {
    FRAME_REPLY = 1 << 0,  /* Answers the request of the same id. */
    FRAME_ONEWAY = 1 << 1, /* A request that wants no reply. */
    FRAME_FLAGS_KNOWN = FRAME_REPLY | FRAME_ONEWAY
};

struct frame_header
{
    uint8_t version;
    uint8_t flags; /* enum frame_flags */
    uint16_t type; /* enum message_type of messages.h */
    uint64_t request_id;
    uint32_t body_length;    /* At most FRAME_BODY_BYTES_MAX. */
    uint32_t payload_length; /* At most FRAME_PAYLOAD_BYTES_MAX. */
    uint32_t deadline_ms;    /* Of a request. */
    uint32_t clock_ms;       /* Of a reply. */
    int32_t status;          /* Of a reply: 0 or enum morsel_status. */
    uint32_t not_after;      /* Of a request. */
    uint32_t body_crc;
};

void frame_encode(const struct frame_header *header, uint8_t bytes[FRAME_HEADER_BYTES]);

/* MORSEL_MALFORMED: magic, lengths, flags or checksum are wrong, and the connection must close, for
 * nothing behind it can be trusted. MORSEL_VERSION: the head is sound, of a version that we do not
 * speak. */
int frame_decode(const uint8_t bytes[FRAME_HEADER_BYTES], struct frame_header *header);

/* The `not_after` for a server whose clock was at `server_ms` when ours was at `noted_ms`, if what
 * is sent must not be carried out after `until_ms` on ours. */
uint32_t frame_not_after(uint64_t until_ms, uint64_t server_ms, uint64_t noted_ms);

/* What a client knows of a server's clock: it was at `server_ms` or later when ours was at
 * `noted_ms`. All zero: nothing. */
struct frame_clock
{
    bool known;
    uint32_t server_ms; /* Modulo 2^32. */
    uint64_t noted_ms;
};

/* The server told its clock, and that came at `now_ms` of ours. An answer that was long on its way
 * says less than an older one that was not: the later of the two bounds is kept. */
void frame_clock_note(struct frame_clock *clock, uint32_t server_ms, uint64_t now_ms);

/* What a reply says that is made when the server's clock is at `server_ms`. */
uint32_t frame_clock_told(uint64_t server_ms);

/* Is it over on the server, whose clock is at `server_ms`? */
bool frame_is_late(uint32_t not_after, uint64_t server_ms);

#endif
