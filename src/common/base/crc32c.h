/* CRC32C (Castagnoli), RFC 3720 appendix B.4; ISA-L does the work.
 *
 * Pure: ISA-L's function is arithmetic over memory, the one outside symbol that the core may use
 * (tests/tidy knows it). crc32c(0, "123456789", 9) is 0xe3069283.
 */
#ifndef MORSEL_COMMON_BASE_CRC32C_H
#define MORSEL_COMMON_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of bytes that follow others whose checksum is `crc`; start with 0. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count);

/* How many pieces [offset, offset + length) has when cut at block borders: one checksum each on the
 * wire. */
uint32_t crc32c_pieces(uint64_t offset, uint64_t length);

/* Checksums of those pieces of `bytes` into `crcs`, crc32c_pieces() of them. */
void crc32c_of_pieces(uint64_t offset, const void *bytes, size_t length, uint32_t *crcs);

#endif
