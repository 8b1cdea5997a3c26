/* SPDX-License-Identifier: BSD-2-Clause
 *
 * container.c - the bytes of the .sep format. All numbers are little-endian; every structure is
 * written and read field by field, so neither alignment nor byte order of the machine matters.
 */
#include "container.h"

#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include <xxhash.h>

/* A byte above 127, line ends of both kinds and a text file's end mark: transfers that take the file
 * for text are noticed in its first bytes. */
static const uint8_t header_magic[8] = {0xf3, 'S', 'E', 'P', '\r', '\n', 0x1a, '\n'};
static const uint8_t record_magic[4] = {0xf3, 'S', 'b', 0x1a};
static const uint8_t index_magic[4] = {0xf3, 'S', 'i', 0x1a};
static const uint8_t footer_magic[4] = {0xf3, 'S', 'f', 0x1a};

/* Offsets of what guards a structure: everything before it. */
enum { HEADER_CHECK = 20, RECORD_CHECK = 32, RECORD_HASH = 36, FOOTER_CHECK = 40 };

static void put32(uint8_t *bytes, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static void put64(uint8_t *bytes, uint64_t value)
{
    put32(bytes, (uint32_t)value);
    put32(bytes + 4, (uint32_t)(value >> 32));
}

static uint32_t get32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static uint64_t get64(const uint8_t *bytes)
{
    return get32(bytes) | (uint64_t)get32(bytes + 4) << 32;
}

const char *container_fault_text(enum container_fault fault)
{
    switch (fault) {
    case CONTAINER_OK:
        return "is intact";
    case CONTAINER_OTHER:
        return "is not there";
    case CONTAINER_CHECK:
        return "does not match its checksum";
    case CONTAINER_NEWER:
        return "is of a version that this program does not know";
    case CONTAINER_INVALID:
        return "holds values that contradict each other";
    }
    return "is unknown";
}

/* ---- hashes -------------------------------------------------------------------------------------
 */

uint64_t container_hash(const void *plain, size_t size)
{
    return XXH3_64bits(plain, size);
}

static uint32_t check32(const uint8_t *bytes, size_t size)
{
    return (uint32_t)XXH3_64bits(bytes, size);
}

uint64_t container_record_hash(const uint8_t bytes[CONTAINER_RECORD], const void *payload,
                               size_t payload_size)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, bytes, RECORD_HASH);
    XXH3_64bits_update(&state, payload, payload_size);
    return XXH3_64bits_digest(&state);
}

uint64_t container_entries_hash(uint64_t before, const uint8_t entry[CONTAINER_ENTRY])
{
    return XXH3_64bits_withSeed(entry, CONTAINER_ENTRY, before);
}

uint32_t container_id(uint64_t plain_hash)
{
    return (uint32_t)plain_hash;
}

/* ---- sizes --------------------------------------------------------------------------------------
 */

uint64_t container_blocks(uint64_t plain_size, uint32_t block_size)
{
    return plain_size / block_size + (plain_size % block_size != 0);
}

uint64_t container_index_size(uint32_t blocks)
{
    return CONTAINER_INDEX + (uint64_t)blocks * CONTAINER_ENTRY;
}

uint32_t container_block_plain(const struct container_footer *footer, uint32_t number)
{
    if (number >= footer->blocks)
        return 0;
    const uint64_t left = footer->plain_size - (uint64_t)number * footer->block_size;
    return left < footer->block_size ? (uint32_t)left : footer->block_size;
}

bool container_sizes_valid(unsigned codec, uint32_t plain_size, uint32_t payload_size)
{
    if (plain_size == 0 || plain_size > SEP_BLOCK_SIZE_MAX || payload_size == 0)
        return false;
    return codec == SEP_CODEC_RAW ? payload_size == plain_size : payload_size < plain_size;
}

static bool block_size_valid(uint32_t block_size)
{
    return block_size >= SEP_BLOCK_SIZE_MIN && block_size <= SEP_BLOCK_SIZE_MAX;
}

/* ---- header -------------------------------------------------------------------------------------
 */

void container_put_header(uint8_t bytes[CONTAINER_HEADER], const struct container_header *header)
{
    memset(bytes, 0, CONTAINER_HEADER);
    memcpy(bytes, header_magic, sizeof header_magic);
    bytes[8] = CONTAINER_VERSION;
    put32(bytes + 12, header->block_size);
    put32(bytes + 16, header->id);
    put32(bytes + HEADER_CHECK, check32(bytes, HEADER_CHECK));
}

enum container_fault container_get_header(const uint8_t bytes[CONTAINER_HEADER],
                                          struct container_header *header)
{
    if (memcmp(bytes, header_magic, sizeof header_magic) != 0)
        return CONTAINER_OTHER;
    if (get32(bytes + HEADER_CHECK) != check32(bytes, HEADER_CHECK))
        return CONTAINER_CHECK;
    if (bytes[8] != CONTAINER_VERSION)
        return CONTAINER_NEWER;
    header->block_size = get32(bytes + 12);
    header->id = get32(bytes + 16);
    if (bytes[9] != 0 || bytes[10] != 0 || bytes[11] != 0 || !block_size_valid(header->block_size))
        return CONTAINER_INVALID;
    return CONTAINER_OK;
}

/* ---- record -------------------------------------------------------------------------------------
 */

void container_put_record(uint8_t bytes[CONTAINER_RECORD], struct container_record *record,
                          const void *payload)
{
    memcpy(bytes, record_magic, sizeof record_magic);
    put32(bytes + 4, record->id);
    put32(bytes + 8, record->number);
    bytes[12] = record->codec;
    bytes[13] = record->level;
    bytes[14] = bytes[15] = 0;
    put32(bytes + 16, record->plain_size);
    put32(bytes + 20, record->payload_size);
    put64(bytes + 24, record->plain_hash);
    put32(bytes + RECORD_CHECK, check32(bytes, RECORD_CHECK));
    record->hash = container_record_hash(bytes, payload, record->payload_size);
    put64(bytes + RECORD_HASH, record->hash);
}

enum container_fault container_get_record(const uint8_t bytes[CONTAINER_RECORD],
                                          struct container_record *record)
{
    if (!container_is_record(bytes))
        return CONTAINER_OTHER;
    if (get32(bytes + RECORD_CHECK) != check32(bytes, RECORD_CHECK))
        return CONTAINER_CHECK;
    record->id = get32(bytes + 4);
    record->number = get32(bytes + 8);
    record->codec = bytes[12];
    record->level = bytes[13];
    record->plain_size = get32(bytes + 16);
    record->payload_size = get32(bytes + 20);
    record->plain_hash = get64(bytes + 24);
    record->hash = get64(bytes + RECORD_HASH);
    if (bytes[14] != 0 || bytes[15] != 0 || record->number >= CONTAINER_BLOCKS_MAX ||
        (record->number == 0 && record->id != container_id(record->plain_hash)) ||
        !container_sizes_valid(record->codec, record->plain_size, record->payload_size))
        return CONTAINER_INVALID;
    return CONTAINER_OK;
}

bool container_is_record(const uint8_t bytes[4])
{
    return memcmp(bytes, record_magic, sizeof record_magic) == 0;
}

/* ---- index --------------------------------------------------------------------------------------
 */

void container_put_index(uint8_t bytes[CONTAINER_INDEX], uint32_t blocks)
{
    memcpy(bytes, index_magic, sizeof index_magic);
    put32(bytes + 4, blocks);
}

enum container_fault container_get_index(const uint8_t bytes[CONTAINER_INDEX], uint32_t *blocks)
{
    if (!container_is_index(bytes))
        return CONTAINER_OTHER;
    *blocks = get32(bytes + 4);
    return CONTAINER_OK;
}

bool container_is_index(const uint8_t bytes[4])
{
    return memcmp(bytes, index_magic, sizeof index_magic) == 0;
}

struct container_entry container_entry_of(const struct container_record *record)
{
    return (struct container_entry){.payload_size = record->payload_size,
                                    .codec = record->codec,
                                    .level = record->level,
                                    .plain_hash = record->plain_hash};
}

void container_put_entry(uint8_t bytes[CONTAINER_ENTRY], const struct container_entry *entry)
{
    put32(bytes, entry->payload_size);
    bytes[4] = entry->codec;
    bytes[5] = entry->level;
    bytes[6] = bytes[7] = 0;
    put64(bytes + 8, entry->plain_hash);
}

enum container_fault container_get_entry(const uint8_t bytes[CONTAINER_ENTRY], uint32_t plain_size,
                                         struct container_entry *entry)
{
    entry->payload_size = get32(bytes);
    entry->codec = bytes[4];
    entry->level = bytes[5];
    entry->plain_hash = get64(bytes + 8);
    if (bytes[6] != 0 || bytes[7] != 0 ||
        !container_sizes_valid(entry->codec, plain_size, entry->payload_size))
        return CONTAINER_INVALID;
    return CONTAINER_OK;
}

/* ---- footer -------------------------------------------------------------------------------------
 */

void container_put_footer(uint8_t bytes[CONTAINER_FOOTER], const struct container_footer *footer)
{
    memcpy(bytes, footer_magic, sizeof footer_magic);
    put32(bytes + 4, footer->id);
    put32(bytes + 8, footer->block_size);
    put32(bytes + 12, footer->blocks);
    put64(bytes + 16, footer->plain_size);
    put64(bytes + 24, footer->stream_size);
    put64(bytes + 32, footer->entries_hash);
    put64(bytes + FOOTER_CHECK, XXH3_64bits(bytes, FOOTER_CHECK));
}

enum container_fault container_get_footer(const uint8_t bytes[CONTAINER_FOOTER],
                                          struct container_footer *footer)
{
    if (memcmp(bytes, footer_magic, sizeof footer_magic) != 0)
        return CONTAINER_OTHER;
    if (get64(bytes + FOOTER_CHECK) != XXH3_64bits(bytes, FOOTER_CHECK))
        return CONTAINER_CHECK;
    footer->id = get32(bytes + 4);
    footer->block_size = get32(bytes + 8);
    footer->blocks = get32(bytes + 12);
    footer->plain_size = get64(bytes + 16);
    footer->stream_size = get64(bytes + 24);
    footer->entries_hash = get64(bytes + 32);
    if (!block_size_valid(footer->block_size) ||
        container_blocks(footer->plain_size, footer->block_size) != footer->blocks)
        return CONTAINER_INVALID;
    /* At most 2^32 blocks of 2^22 bytes: no sum of these overflows. A payload has a byte at least,
     * and no more than its plain bytes. */
    const uint64_t overhead =
        CONTAINER_STREAM_MIN + (uint64_t)footer->blocks * (CONTAINER_RECORD + CONTAINER_ENTRY);
    if (footer->stream_size < overhead + footer->blocks ||
        footer->stream_size > overhead + footer->plain_size)
        return CONTAINER_INVALID;
    return CONTAINER_OK;
}
