/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_container.c - the structures of the .sep format, each alone (tools/container.c).
 *
 * Input: byte 0 which and whether its checksum is made right first, then its bytes. Property: what is
 * accepted is within its documented ranges and is written back as the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "fuzz.h"
#include "tools/container.h"

/* The checksum of the bytes before AT, 4 or 8 bytes of it, little-endian. */
static void mend(uint8_t *bytes, size_t at, size_t size)
{
    const uint64_t hash = XXH3_64bits(bytes, at);

    for (size_t i = 0; i < size; i++)
        bytes[at + i] = (uint8_t)(hash >> (8 * i));
}

static void header(uint8_t bytes[CONTAINER_HEADER], bool mended)
{
    struct container_header header;
    uint8_t again[CONTAINER_HEADER];

    if (mended)
        mend(bytes, 20, 4);
    if (container_get_header(bytes, &header) != CONTAINER_OK)
        return;
    FUZZ_CHECK(header.block_size >= SEP_BLOCK_SIZE_MIN && header.block_size <= SEP_BLOCK_SIZE_MAX);
    container_put_header(again, &header);
    FUZZ_CHECK(memcmp(bytes, again, sizeof again) == 0);
}

static void record(uint8_t bytes[CONTAINER_RECORD], bool mended)
{
    struct container_record record;
    uint8_t again[CONTAINER_RECORD], *payload;

    if (mended)
        mend(bytes, 32, 4);
    if (container_get_record(bytes, &record) != CONTAINER_OK)
        return;
    FUZZ_CHECK(record.plain_size > 0 && record.plain_size <= SEP_BLOCK_SIZE_MAX);
    FUZZ_CHECK(record.payload_size > 0 && record.payload_size <= record.plain_size);
    FUZZ_CHECK(record.number < CONTAINER_BLOCKS_MAX);
    payload = calloc(1, record.payload_size);
    FUZZ_CHECK(payload != NULL);
    container_put_record(again, &record, payload);
    FUZZ_CHECK(memcmp(bytes, again, CONTAINER_RECORD - 8) == 0); /* but the hash of the payload */
    FUZZ_CHECK(record.hash == container_record_hash(again, payload, record.payload_size));
    free(payload);
}

static void entry(const uint8_t bytes[CONTAINER_ENTRY], uint32_t plain_size)
{
    struct container_entry entry;
    uint8_t again[CONTAINER_ENTRY];

    if (container_get_entry(bytes, plain_size, &entry) != CONTAINER_OK)
        return;
    FUZZ_CHECK(entry.payload_size > 0 && entry.payload_size <= plain_size);
    container_put_entry(again, &entry);
    FUZZ_CHECK(memcmp(bytes, again, sizeof again) == 0);
}

static void footer(uint8_t bytes[CONTAINER_FOOTER], bool mended)
{
    struct container_footer footer;
    uint8_t again[CONTAINER_FOOTER];

    if (mended)
        mend(bytes, 40, 8);
    if (container_get_footer(bytes, &footer) != CONTAINER_OK)
        return;
    FUZZ_CHECK(footer.plain_size <= (uint64_t)footer.blocks * footer.block_size);
    FUZZ_CHECK(footer.stream_size >=
               CONTAINER_STREAM_MIN +
                   (uint64_t)footer.blocks * (CONTAINER_RECORD + CONTAINER_ENTRY));
    if (footer.blocks > 0) {
        const uint32_t last = container_block_plain(&footer, footer.blocks - 1);

        FUZZ_CHECK(last > 0 && last <= footer.block_size);
        FUZZ_CHECK((uint64_t)(footer.blocks - 1) * footer.block_size + last == footer.plain_size);
    }
    FUZZ_CHECK(container_block_plain(&footer, footer.blocks) == 0);
    container_put_footer(again, &footer);
    FUZZ_CHECK(memcmp(bytes, again, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[CONTAINER_FOOTER] = {0}, again[CONTAINER_INDEX];
    uint32_t blocks;

    if (size == 0)
        return 0;
    memcpy(bytes, data + 1, size - 1 < sizeof bytes ? size - 1 : sizeof bytes);
    switch (data[0] % 5) {
    case 0:
        header(bytes, data[0] & 0x80);
        break;
    case 1:
        record(bytes, data[0] & 0x80);
        break;
    case 2:
        entry(bytes, (uint32_t)bytes[16] | (uint32_t)bytes[17] << 8 | (uint32_t)bytes[18] << 16);
        break;
    case 3:
        footer(bytes, data[0] & 0x80);
        break;
    default:
        if (container_get_index(bytes, &blocks) == CONTAINER_OK) {
            container_put_index(again, blocks);
            FUZZ_CHECK(memcmp(bytes, again, sizeof again) == 0);
        }
    }
    return 0;
}
