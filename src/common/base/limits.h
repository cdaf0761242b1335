/* Every limit, each with where it comes from, cross-checked at compile time. Pure. */
#ifndef MORSEL_COMMON_BASE_LIMITS_H
#define MORSEL_COMMON_BASE_LIMITS_H

#include <assert.h>
#include <stdint.h>

enum {
    BLOCK_BYTES = 4096, /* Unit of checksums: the page of the kernels that we run on */

    MORSEL_BYTES_MIN = 64 << 10,
    MORSEL_BYTES_DEFAULT = 1 << 20,
    MORSEL_BYTES_MAX = 16 << 20,
    STRIPE_MORSELS_MAX = 1024, /* Morsels in a stripe */
    STRIPE_WIDTH_DEFAULT = 4,
    STRIPE_WIDTH_MAX = 64, /* Servers of one file */
    REPLICAS_MAX = 3,
    UNSYNCED_VERIFIERS_MAX = 4, /* Under which a column of a file may have unsynced bytes, before it
                                   is said that there were too many: each is a loss of power */
    SERVERS_MAX = 1024,         /* Storage servers of one cluster */
    SESSIONS_MAX = 16384,       /* Mounts of one cluster */
    DONORS_MAX = 10240,         /* Benefactors of one cluster */
    DATA_SETS_MAX = 1 << 20,    /* Data sets of one cluster */
    SET_MORSELS_MAX = 1 << 24,  /* Of one data set: 16 TiB of morsels of 1 MiB */
    SET_PLACE_MAX = 256,        /* Morsels of one SET_PLACE, */
    SET_STORED_MAX = 256,       /* of one SET_STORED, */
    SET_MAP_MAX = 1024,         /* of one SET_MAP, */
    SET_CLAIM_MAX = 256,        /* of one SET_CLAIM, */
    SET_HELD_MAX = 16384,       /* and of one DONOR_HELD. */
    SET_DAMAGED_MAX = 64,       /* Copies of one SET_DAMAGED */
    SET_RUNS_MAX = 4096,        /* Stretches of morsels in one message */
    HOTTEST_MAX = 64,           /* Morsels that were read most, of one report of a benefactor */
    WATCH_REPLY_MAX = 256,      /* Stretches of an object in one WatchReply */
    SCRUB_TOLD_MAX = 4, /* Damaged objects that a server names to the manager; its log names all */

    FRAME_HEADER_BYTES = 40,
    FRAME_BODY_BYTES_MAX = 1 << 20, /* One packed message: a page of a directory fits many times */
    FRAME_PAYLOAD_BYTES_MAX = 4 << 20, /* One READ or WRITE */

    OBJECT_TEBIBYTES_MAX = 15, /* ext4 ends a local file at 16 TiB, and checksums need room too */

    NAME_BYTES_MAX = 255,     /* NAME_MAX of Linux, without the final zero */
    SYMLINK_BYTES_MAX = 4095, /* PATH_MAX of Linux, likewise */
    XATTR_NAME_BYTES_MAX = 255,
    XATTR_VALUE_BYTES_MAX = 65536, /* XATTR_SIZE_MAX of Linux */
    XATTR_LIST_BYTES_MAX = 65536,  /* XATTR_LIST_MAX of Linux */
    LINKS_MAX = 1 << 30,

    READDIR_PAGE_BYTES = 256 << 10, /* What a page of a directory aims at */

    CLIENT_OPS_PENDING_MAX = 256, /* Changing operations of one client without an answer */
    CLIENT_OPS_RESERVED = 64, /* Of them for changes under a lease, which wait for nobody else */

    DATA_OPS_PENDING_MAX = 1024,  /* Changes of data of one client at one server without an end */
    DATA_OPS_RESERVED = 64,       /* Of them for changes that bring no bytes */
    DATA_OPS_SLOTS_MIN = 16,      /* Which a server remembers of each client at least */
    DATA_OPS_SLOTS_MAX = 1 << 20, /* And of all: 24 bytes each */

    /* What a server takes from others (rpc_guests_uv.c). A lab: 16,384 mounts, 1,024 storage
     * servers, 10,240 benefactors, and room for commands and for those who connect again. */
    SERVER_CONNS_MAX = 32768,
    SERVER_CONNS_MIN = 16,           /* Are taken however few files a process may open */
    SERVER_CONNS_FEW = 4096,         /* Room for fewer is worth a warning at the start */
    STRANGERS_MAX = 1024,            /* Connections that have not said HELLO, of all */
    STRANGER_MS = 5000,              /* So long they have for it */
    STRANGER_FRAME_BYTES_MAX = 1024, /* A HELLO fits */

    RECOVERY_RATE_MIN = 256 << 10,  /* Bytes per second that may be set: 22 GB a day */
    RECOVERY_PIECE_BYTES = 1 << 20, /* Of an object, from one member of a group to another */
    RECOVERY_PIECES_MAX = 8, /* Under way: 160 MB/s over a round trip of 50 ms; who takes them holds
                                as many in memory */

    CONN_BUDGET_BYTES = 32 << 20, /* What one connection may hold: requests that have no answer, and
                                     answers that it has not taken */
    CONN_SHARE_BYTES_MIN = 64 << 10,    /* And may always, however many there are */
    SERVER_QUEUES_BYTES_MAX = 256 << 20 /* What all may hold; beyond it connections are closed */
};

static_assert(MORSEL_BYTES_MIN % BLOCK_BYTES == 0, "a morsel is made of whole blocks");
static_assert((MORSEL_BYTES_DEFAULT & (MORSEL_BYTES_DEFAULT - 1)) == 0, "a power of two");
static_assert(DATA_OPS_RESERVED < DATA_OPS_PENDING_MAX, "bytes need room too");
static_assert(DATA_OPS_SLOTS_MAX >= SESSIONS_MAX * DATA_OPS_SLOTS_MIN, "a whole lab is remembered");
static_assert(CLIENT_OPS_RESERVED < CLIENT_OPS_PENDING_MAX, "others need room too");
static_assert(CONN_BUDGET_BYTES >= FRAME_PAYLOAD_BYTES_MAX, "the largest request must get in");
static_assert(RECOVERY_PIECE_BYTES % BLOCK_BYTES == 0, "no block is given in two parts");
static_assert(RECOVERY_PIECE_BYTES <= FRAME_PAYLOAD_BYTES_MAX, "a piece is one message");
static_assert((RECOVERY_PIECES_MAX + 1) * RECOVERY_PIECE_BYTES <= CONN_BUDGET_BYTES,
              "what is under way fits a connection, beside changes");
static_assert(SERVER_QUEUES_BYTES_MAX >= 8 * CONN_BUDGET_BYTES, "some busy ones do not fill it");
static_assert(SERVER_CONNS_MAX >= SESSIONS_MAX + SERVERS_MAX + DONORS_MAX + STRANGERS_MAX,
              "a whole lab fits");
static_assert(READDIR_PAGE_BYTES <= FRAME_BODY_BYTES_MAX / 2,
              "a page and its attributes fit a frame");
static_assert(STRIPE_WIDTH_MAX <= 64, "columns are bits of a number (file_fail_behind())");
static_assert(STRIPE_WIDTH_MAX <= SERVERS_MAX, "each column needs its own server");

/* Last byte of an object that may hold data, plus one. */
#define OBJECT_BYTES_MAX ((uint64_t)OBJECT_TEBIBYTES_MAX << 40)

#endif
