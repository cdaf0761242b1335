/* Encodes and decodes the header of an object file, and says where its parts lie. */
#include "common/store/store_format.h"

#include "common/base/buf.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <stdio.h>
#include <string.h>

static const uint32_t HEADER_MAGIC = 0x4a424f4d; /* "MOBJ" */

enum { HEADER_FLAGS_AT = 20, HEADER_LACKS = 1, HEADER_CRC_AT = STORE_HEADER_BYTES - 4 };

void store_header_encode(const struct store_header *header, uint8_t bytes[STORE_HEADER_BYTES])
{
    memset(bytes, 0, STORE_HEADER_BYTES);
    put_le32(bytes, HEADER_MAGIC);
    put_le32(bytes + 4, STORE_VERSION);
    put_le64(bytes + 8, header->id.inode);
    put_le32(bytes + 16, header->id.column);
    bytes[HEADER_FLAGS_AT] = header->lacks ? HEADER_LACKS : 0;
    put_le64(bytes + 24, header->checkpoint);
    put_le32(bytes + HEADER_CRC_AT, crc32c(0, bytes, HEADER_CRC_AT));
}

int store_header_decode(const uint8_t bytes[STORE_HEADER_BYTES], struct store_header *header)
{
    static const uint8_t zeros[STORE_HEADER_BYTES];

    memset(header, 0, sizeof(*header));
    if (memcmp(bytes, zeros, STORE_HEADER_BYTES) == 0) {
        return MORSEL_NODATA;
    }
    if (get_le32(bytes) != HEADER_MAGIC ||
        get_le32(bytes + HEADER_CRC_AT) != crc32c(0, bytes, HEADER_CRC_AT)) {
        return MORSEL_CORRUPT;
    }
    if (get_le32(bytes + 4) != STORE_VERSION) {
        return MORSEL_VERSION;
    }
    header->id.inode = get_le64(bytes + 8);
    header->id.column = get_le32(bytes + 16);
    header->lacks = (bytes[HEADER_FLAGS_AT] & HEADER_LACKS) != 0;
    header->checkpoint = get_le64(bytes + 24);
    return 0;
}

/* The finaliser of splitmix64: a bijection that spreads neighbours. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t store_hash(struct object_id id)
{
    uint64_t hash = mix(mix(id.inode + UINT64_C(0x9e3779b97f4a7c15)) + id.column);

    if (hash == 0) {
        return 1;
    }
    return hash == UINT64_MAX ? UINT64_MAX - 1 : hash;
}

void store_name(struct object_id id, char name[STORE_NAME_BYTES])
{
    snprintf(name, STORE_NAME_BYTES, "%03x/%016llx.%u", (unsigned)(store_hash(id) >> 52),
             (unsigned long long)id.inode, id.column);
}

bool store_name_parse(const char *file_name, struct object_id *id)
{
    char again[STORE_NAME_BYTES];
    unsigned long long inode;
    unsigned column;

    if (sscanf(file_name, "%16llx.%10u", &inode, &column) != 2) {
        return false;
    }
    *id = (struct object_id){ .inode = inode, .column = column };
    store_name(*id, again);
    return strcmp(again + 4, file_name) == 0;
}
