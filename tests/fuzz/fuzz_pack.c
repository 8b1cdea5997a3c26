/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_pack.c - headers of pack files and of the records in them (index/pack_record.c),
 * and the names of pack files (index/pack.c).
 *
 * Input: byte 0 which and whether its checksum is made right first, then its bytes. Properties: what
 * is accepted is within the limits and is written back as the same bytes; a record is
 * intact only with its own header and payload; a name that is accepted is the one of its number, and
 * so leads to no other directory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "fuzz.h"
#include "index/internal.h"

static void put_hash(uint8_t *at, uint64_t hash)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (uint8_t)(hash >> (8 * i));
}

static void pack_header(uint8_t bytes[INDEX_PACK_HEADER], bool mended)
{
    uint8_t again[INDEX_PACK_HEADER], uuid[16];
    enum index_class class;
    uint32_t id;

    if (mended)
        put_hash(bytes + INDEX_PACK_HEADER - 8, XXH3_64bits(bytes, INDEX_PACK_HEADER - 8));
    if (index_pack_header_get(bytes, &id, &class, uuid) != 0)
        return;
    FUZZ_CHECK(class <= INDEX_COLD);
    index_pack_header_put(again, id, class, uuid);
    FUZZ_CHECK(memcmp(again + 12, bytes + 12, 20) == 0 && again[9] == bytes[9]);
}

static void record(struct fuzz_input *input, bool mended)
{
    static uint8_t again[INDEX_RECORD_HEADER];
    struct index_block block = {0};
    size_t size;
    uint8_t *const bytes = fuzz_take(input, INDEX_RECORD_HEADER + 65536, &size);

    if (size >= INDEX_RECORD_HEADER && index_record_header_get(bytes, &block) == 0) {
        uint8_t *const payload = bytes + INDEX_RECORD_HEADER;

        FUZZ_CHECK(block.id != 0 && block.plain_size > 0 && block.plain_size <= INDEX_PLAIN_MAX);
        FUZZ_CHECK(block.at.payload_size > 0 && block.at.payload_size <= INDEX_PAYLOAD_MAX);
        if (block.at.payload_size <= size - INDEX_RECORD_HEADER) {
            index_record_header_put(again, &block, payload);
            FUZZ_CHECK(memcmp(again, bytes, INDEX_RECORD_HEADER - 8) == 0);
            if (mended)
                memcpy(bytes, again, sizeof again);
            const bool good = index_record_intact(bytes, payload, block.at.payload_size);
            FUZZ_CHECK(good == (memcmp(again, bytes, sizeof again) == 0));
            payload[block.at.payload_size - 1] ^= 1; /* no payload goes under another's header */
            FUZZ_CHECK(!good || !index_record_intact(bytes, payload, block.at.payload_size));
        }
    }
    free(bytes);
}

static void name(struct fuzz_input *input)
{
    char *const text = fuzz_text(input), again[16];
    uint32_t id;

    if (index_pack_parse_name(text, &id)) {
        index_pack_name(id, again);
        FUZZ_CHECK(id != 0 && strcmp(text, again) == 0 && strchr(text, '/') == NULL);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const uint8_t head = fuzz_u8(&input);
    uint8_t bytes[INDEX_PACK_HEADER] = {0};

    switch (head % 3) {
    case 0:
        memcpy(bytes, input.at, input.left < sizeof bytes ? input.left : sizeof bytes);
        pack_header(bytes, head & 0x80);
        break;
    case 1:
        record(&input, head & 0x80);
        break;
    default:
        name(&input);
    }
    return 0;
}
