/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pack_record.c - headers of pack files and of the records in them, and the hash of plain bytes.
 * docs/format.md gives the layouts.
 *
 * A record's checksum is XXH3-64 over its first 72 bytes and then its payload, so it also notices a
 * payload under the wrong header. Limits are checked before anything is believed: a scan tries this
 * on arbitrary bytes.
 */
#include <errno.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "bytes.h"
#include "record.h"

#define PACK_MAGIC     0x6b636170736570ffu /* ff "pespack": no text file starts so */
#define PACK_VERSION   1u
#define RECORD_VERSION 1u
#define CHECKED        72u /* bytes of a record header before its checksum */

struct index_hash index_hash_of(const void *plain, size_t size)
{
    const XXH128_hash_t hash = XXH3_128bits(plain, size);
    return (struct index_hash){.low = hash.low64, .high = hash.high64};
}

void index_pack_header_put(uint8_t bytes[INDEX_PACK_HEADER], uint32_t id, enum index_class class,
                           const uint8_t uuid[16])
{
    memset(bytes, 0, INDEX_PACK_HEADER);
    struct index_writer w = {.at = bytes};
    index_write_u64(&w, PACK_MAGIC);
    index_write_u8(&w, PACK_VERSION);
    index_write_u8(&w, (uint8_t) class);
    index_write_u16(&w, 0);
    index_write_u32(&w, id);
    index_write_bytes(&w, uuid, 16);
    w.at = bytes + INDEX_PACK_HEADER - 8;
    index_write_u64(&w, XXH3_64bits(bytes, INDEX_PACK_HEADER - 8));
}

int index_pack_header_get(const uint8_t bytes[INDEX_PACK_HEADER], uint32_t *id,
                          enum index_class *class, uint8_t uuid[16])
{
    struct index_reader r = index_reader(bytes, INDEX_PACK_HEADER);
    if (index_read_u64(&r) != PACK_MAGIC ||
        index_load_u64(bytes + INDEX_PACK_HEADER - 8) != XXH3_64bits(bytes, INDEX_PACK_HEADER - 8))
        return -EUCLEAN;
    if (index_read_u8(&r) != PACK_VERSION)
        return -EPROTONOSUPPORT;
    const uint8_t kind = index_read_u8(&r);
    index_read_u16(&r);
    *id = index_read_u32(&r);
    index_read_bytes(&r, uuid, 16);
    if (kind > INDEX_COLD)
        return -EUCLEAN;
    *class = kind;
    return 0;
}

static uint64_t checksum(const uint8_t header[INDEX_RECORD_HEADER], const void *payload,
                         size_t size)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, header, CHECKED);
    XXH3_64bits_update(&state, payload, size);
    return XXH3_64bits_digest(&state);
}

void index_record_header_put(uint8_t bytes[INDEX_RECORD_HEADER], const struct index_block *block,
                             const void *payload)
{
    struct index_writer w = {.at = bytes};
    index_write_u32(&w, INDEX_RECORD_MAGIC);
    index_write_u8(&w, RECORD_VERSION);
    index_write_u8(&w, block->codec);
    index_write_u8(&w, block->level);
    index_write_u8(&w, 0);
    index_write_u16(&w, block->flags);
    index_write_u16(&w, 0);
    index_write_u32(&w, block->at.payload_size);
    index_write_u32(&w, block->plain_size);
    index_write_u32(&w, 0);
    index_write_u64(&w, block->id);
    index_write_u64(&w, block->owner_ino);
    index_write_u64(&w, block->owner_block);
    index_write_u64(&w, block->model);
    index_write_u64(&w, block->hash.low);
    index_write_u64(&w, block->hash.high);
    index_write_u64(&w, checksum(bytes, payload, block->at.payload_size));
}

int index_record_header_get(const uint8_t bytes[INDEX_RECORD_HEADER], struct index_block *block)
{
    struct index_reader r = index_reader(bytes, INDEX_RECORD_HEADER);
    if (index_read_u32(&r) != INDEX_RECORD_MAGIC || index_read_u8(&r) != RECORD_VERSION)
        return -EUCLEAN;
    block->codec = index_read_u8(&r);
    block->level = index_read_u8(&r);
    uint32_t reserved = index_read_u8(&r);
    block->flags = index_read_u16(&r);
    reserved |= index_read_u16(&r);
    block->at.payload_size = index_read_u32(&r);
    block->plain_size = index_read_u32(&r);
    reserved |= index_read_u32(&r);
    block->id = index_read_u64(&r);
    block->owner_ino = index_read_u64(&r);
    block->owner_block = index_read_u64(&r);
    block->model = index_read_u64(&r);
    block->hash.low = index_read_u64(&r);
    block->hash.high = index_read_u64(&r);
    if (reserved != 0 || block->id == 0 || block->plain_size == 0 ||
        block->plain_size > INDEX_PLAIN_MAX || block->at.payload_size == 0 ||
        block->at.payload_size > INDEX_PAYLOAD_MAX)
        return -EUCLEAN;
    return 0;
}

bool index_record_intact(const uint8_t bytes[INDEX_RECORD_HEADER], const void *payload,
                         size_t payload_size)
{
    return index_load_u64(bytes + CHECKED) == checksum(bytes, payload, payload_size);
}
