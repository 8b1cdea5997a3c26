/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_container.c - the bytes of the .sep format: that they are the ones that docs/format-sep.md
 * describes, that every bit of a structure counts, and that values outside the limits are refused
 * even when all checksums are right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "tools/container.h"

static const struct container_header header = {.block_size = 0x20000, .id = 0x89abcdef};
static const struct container_record record = {.id = 0x89abcdef,
                                               .number = 0x01020304,
                                               .codec = SEP_CODEC_ZSTD,
                                               .level = 3,
                                               .plain_size = 0x20000,
                                               .payload_size = 5,
                                               .plain_hash = 0x1122334455667788};
static const struct container_entry entry = {
    .payload_size = 5, .codec = SEP_CODEC_ZSTD, .level = 3, .plain_hash = 0x1122334455667788};
static const struct container_footer footer = {.id = 0x89abcdef,
                                               .block_size = 0x20000,
                                               .blocks = 3,
                                               .plain_size = 0x40001,
                                               .stream_size = 80 + 3 * 60 + 1000,
                                               .entries_hash = 0xfedcba9876543210};
static const uint8_t payload[5] = "12345";

/* Every bit of an integer in little-endian order. */
static uint64_t number_at(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;
    while (size-- > 0)
        value = value << 8 | bytes[size];
    return value;
}

static void test_header_bytes(void **state)
{
    static const uint8_t expected[20] = {0xf3, 'S', 'E', 'P',  '\r', '\n', 0x1a, '\n', 1,    0,
                                         0,    0,   0,   0x00, 0x02, 0,    0xef, 0xcd, 0xab, 0x89};
    uint8_t bytes[CONTAINER_HEADER];
    container_put_header(bytes, &header);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_int_equal(number_at(bytes + 20, 4), (uint32_t)XXH3_64bits(bytes, 20));
}

static void test_record_bytes(void **state)
{
    static const uint8_t expected[32] = {0xf3, 'S',  'b',  0x1a, 0xef, 0xcd, 0xab, 0x89, 4, 3, 2, 1,
                                         2,    3,    0,    0,    0,    0,    2,    0,    5, 0, 0, 0,
                                         0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    struct container_record copy = record;
    uint8_t bytes[CONTAINER_RECORD], all[36 + sizeof payload];
    container_put_record(bytes, &copy, payload);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_int_equal(number_at(bytes + 32, 4), (uint32_t)XXH3_64bits(bytes, 32));
    memcpy(all, bytes, 36);
    memcpy(all + 36, payload, sizeof payload);
    assert_true(number_at(bytes + 36, 8) == XXH3_64bits(all, sizeof all));
    assert_true(copy.hash == XXH3_64bits(all, sizeof all));
    assert_true(container_record_hash(bytes, payload, sizeof payload) == copy.hash);
    assert_true(container_is_record(bytes));
    assert_false(container_is_index(bytes));
}

static void test_index_bytes(void **state)
{
    static const uint8_t expected[CONTAINER_INDEX] = {0xf3, 'S', 'i', 0x1a, 4, 3, 2, 1};
    static const uint8_t expected_entry[CONTAINER_ENTRY] = {
        5, 0, 0, 0, 2, 3, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    uint8_t bytes[CONTAINER_ENTRY];
    container_put_index(bytes, 0x01020304);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_true(container_is_index(bytes));
    assert_false(container_is_record(bytes));
    container_put_entry(bytes, &entry);
    assert_memory_equal(bytes, expected_entry, sizeof expected_entry);
    assert_true(container_entries_hash(7, bytes) == XXH3_64bits_withSeed(bytes, 16, 7));
    assert_int_equal(container_index_size(0), 8);
    assert_int_equal(container_index_size(UINT32_MAX), 8 + 16 * (uint64_t)UINT32_MAX);
}

static void test_footer_bytes(void **state)
{
    static const uint8_t expected[40] = {0xf3, 'S', 'f',  0x1a, 0xef, 0xcd, 0xab, 0x89, 0,    0,
                                         2,    0,   3,    0,    0,    0,    1,    0,    4,    0,
                                         0,    0,   0,    0,    0xec, 0x04, 0,    0,    0,    0,
                                         0,    0,   0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    uint8_t bytes[CONTAINER_FOOTER];
    container_put_footer(bytes, &footer);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_true(number_at(bytes + 40, 8) == XXH3_64bits(bytes, 40));
}

static void test_values_come_back(void **state)
{
    uint8_t bytes[CONTAINER_FOOTER];
    struct container_header got_header;
    struct container_record got_record, copy = record;
    struct container_entry got_entry;
    struct container_footer got_footer;
    uint32_t blocks = 0;
    container_put_header(bytes, &header);
    assert_int_equal(container_get_header(bytes, &got_header), CONTAINER_OK);
    assert_int_equal(got_header.block_size, header.block_size);
    assert_int_equal(got_header.id, header.id);
    container_put_record(bytes, &copy, payload);
    assert_int_equal(container_get_record(bytes, &got_record), CONTAINER_OK);
    assert_int_equal(got_record.id, record.id);
    assert_int_equal(got_record.number, record.number);
    assert_int_equal(got_record.codec, record.codec);
    assert_int_equal(got_record.level, record.level);
    assert_int_equal(got_record.plain_size, record.plain_size);
    assert_int_equal(got_record.payload_size, record.payload_size);
    assert_true(got_record.plain_hash == record.plain_hash);
    assert_true(got_record.hash == copy.hash);
    container_put_index(bytes, 77);
    assert_int_equal(container_get_index(bytes, &blocks), CONTAINER_OK);
    assert_int_equal(blocks, 77);
    container_put_entry(bytes, &entry);
    assert_int_equal(container_get_entry(bytes, 0x20000, &got_entry), CONTAINER_OK);
    assert_int_equal(got_entry.payload_size, entry.payload_size);
    assert_int_equal(got_entry.codec, entry.codec);
    assert_int_equal(got_entry.level, entry.level);
    assert_true(got_entry.plain_hash == entry.plain_hash);
    container_put_footer(bytes, &footer);
    assert_int_equal(container_get_footer(bytes, &got_footer), CONTAINER_OK);
    assert_int_equal(got_footer.id, footer.id);
    assert_int_equal(got_footer.block_size, footer.block_size);
    assert_int_equal(got_footer.blocks, footer.blocks);
    assert_true(got_footer.plain_size == footer.plain_size);
    assert_true(got_footer.stream_size == footer.stream_size);
    assert_true(got_footer.entries_hash == footer.entries_hash);
}

/* Each bit of each structure, flipped, is noticed: in the magic it is another structure, elsewhere
 * the checksum is wrong. */
static void test_every_bit_counts(void **state)
{
    uint8_t head[CONTAINER_HEADER], block[CONTAINER_RECORD], foot[CONTAINER_FOOTER];
    struct container_header h;
    struct container_record r, copy = record;
    struct container_footer f;
    container_put_header(head, &header);
    for (unsigned bit = 0; bit < 8 * sizeof head; bit++) {
        head[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(container_get_header(head, &h),
                         bit < 64 ? CONTAINER_OTHER : CONTAINER_CHECK);
        head[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    container_put_record(block, &copy, payload);
    for (unsigned bit = 0; bit < 8 * sizeof block; bit++) {
        block[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (bit < 8 * 36)
            assert_int_equal(container_get_record(block, &r),
                             bit < 32 ? CONTAINER_OTHER : CONTAINER_CHECK);
        else
            assert_int_equal(container_get_record(block, &r), CONTAINER_OK);
        assert_true(bit >= 8 * 36 ? r.hash != copy.hash
                                  : container_record_hash(block, payload, 5) != copy.hash);
        block[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    container_put_footer(foot, &footer);
    for (unsigned bit = 0; bit < 8 * sizeof foot; bit++) {
        foot[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(container_get_footer(foot, &f),
                         bit < 32 ? CONTAINER_OTHER : CONTAINER_CHECK);
        foot[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static enum container_fault try_header(uint32_t block_size, unsigned reserved, uint8_t version)
{
    uint8_t bytes[CONTAINER_HEADER];
    struct container_header got;
    container_put_header(bytes, &(struct container_header){.block_size = block_size});
    bytes[8] = version;
    if (reserved != 0)
        bytes[reserved] = 1;
    const uint32_t check = (uint32_t)XXH3_64bits(bytes, 20);
    for (unsigned i = 0; i < 4; i++)
        bytes[20 + i] = (uint8_t)(check >> (8 * i));
    return container_get_header(bytes, &got);
}

static void test_header_limits(void **state)
{
    assert_int_equal(try_header(SEP_BLOCK_SIZE_MIN, 0, 1), CONTAINER_OK);
    assert_int_equal(try_header(SEP_BLOCK_SIZE_MIN + 1, 0, 1), CONTAINER_OK);
    assert_int_equal(try_header(SEP_BLOCK_SIZE_MAX, 0, 1), CONTAINER_OK);
    assert_int_equal(try_header(SEP_BLOCK_SIZE_MIN - 1, 0, 1), CONTAINER_INVALID);
    assert_int_equal(try_header(SEP_BLOCK_SIZE_MAX + 1, 0, 1), CONTAINER_INVALID);
    assert_int_equal(try_header(0, 0, 1), CONTAINER_INVALID);
    assert_int_equal(try_header(UINT32_MAX, 0, 1), CONTAINER_INVALID);
    for (unsigned reserved = 9; reserved < 12; reserved++)
        assert_int_equal(try_header(SEP_BLOCK_SIZE_MIN, reserved, 1), CONTAINER_INVALID);
    assert_int_equal(try_header(SEP_BLOCK_SIZE_MIN, 0, 2), CONTAINER_NEWER);
    assert_int_equal(try_header(SEP_BLOCK_SIZE_MIN, 0, 0), CONTAINER_NEWER);
}

static enum container_fault try_record(uint8_t codec, uint32_t plain, uint32_t size,
                                       uint32_t number, uint32_t id)
{
    uint8_t bytes[CONTAINER_RECORD];
    struct container_record got, it = {.id = id,
                                       .number = number,
                                       .codec = codec,
                                       .plain_size = plain,
                                       .payload_size = 0,
                                       .plain_hash = 0x100000007};
    container_put_record(bytes, &it, payload);
    for (unsigned i = 0; i < 4; i++)
        bytes[20 + i] = (uint8_t)(size >> (8 * i));
    const uint32_t check = (uint32_t)XXH3_64bits(bytes, 32);
    for (unsigned i = 0; i < 4; i++)
        bytes[32 + i] = (uint8_t)(check >> (8 * i));
    return container_get_record(bytes, &got);
}

static void test_record_limits(void **state)
{
    const uint32_t most = SEP_BLOCK_SIZE_MAX;
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, 1, 5, 7), CONTAINER_OK);
    assert_int_equal(try_record(SEP_CODEC_SEP, most, most - 1, 5, 7), CONTAINER_OK);
    assert_int_equal(try_record(SEP_CODEC_RAW, most, most, 5, 7), CONTAINER_OK);
    assert_int_equal(try_record(SEP_CODEC_RAW, 1, 1, 5, 7), CONTAINER_OK);
    assert_int_equal(try_record(200, 2, 1, 5, 7), CONTAINER_OK); /* a codec of the future */
    assert_int_equal(try_record(SEP_CODEC_RAW, 0, 0, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_RAW, 2, 1, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_RAW, 1, 2, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_RAW, most + 1, most + 1, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_SEP, 0, 0, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, 0, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, 2, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, UINT32_MAX, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_SEP, most + 1, 5, 5, 7), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_SEP, UINT32_MAX, UINT32_MAX - 1, 5, 7),
                     CONTAINER_INVALID);
    /* the id comes from block 0 */
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, 1, 0, 7), CONTAINER_OK);
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, 1, 0, 8), CONTAINER_INVALID);
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, 1, UINT32_MAX - 1, 8), CONTAINER_OK);
    assert_int_equal(try_record(SEP_CODEC_SEP, 2, 1, UINT32_MAX, 8), CONTAINER_INVALID);
}

static enum container_fault try_footer(uint32_t block_size, uint32_t blocks, uint64_t plain_size,
                                       uint64_t stream_size)
{
    uint8_t bytes[CONTAINER_FOOTER];
    struct container_footer got;
    container_put_footer(bytes, &(struct container_footer){.block_size = block_size,
                                                           .blocks = blocks,
                                                           .plain_size = plain_size,
                                                           .stream_size = stream_size});
    return container_get_footer(bytes, &got);
}

static void test_footer_limits(void **state)
{
    const uint64_t all = (uint64_t)UINT32_MAX * SEP_BLOCK_SIZE_MAX;
    const uint64_t least = 80 + 61 * (uint64_t)UINT32_MAX;
    assert_int_equal(try_footer(16384, 0, 0, 80), CONTAINER_OK);
    assert_int_equal(try_footer(16384, 0, 0, 79), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 0, 0, 81), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 1, 0, 200), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 0, 1, 200), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 1, 1, 141), CONTAINER_OK);
    assert_int_equal(try_footer(16384, 1, 1, 140), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 1, 1, 142), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 1, 16384, 140 + 16384), CONTAINER_OK);
    assert_int_equal(try_footer(16384, 1, 16385, 141), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 2, 16384, 1000), CONTAINER_INVALID);
    assert_int_equal(try_footer(16384, 2, 16385, 1000), CONTAINER_OK);
    assert_int_equal(try_footer(16384, 2, 16385, UINT64_MAX), CONTAINER_INVALID);
    assert_int_equal(try_footer(16383, 1, 1, 141), CONTAINER_INVALID);
    assert_int_equal(try_footer(0, 1, 1, 141), CONTAINER_INVALID);
    assert_int_equal(try_footer(UINT32_MAX, 1, 1, 141), CONTAINER_INVALID);
    assert_int_equal(try_footer(SEP_BLOCK_SIZE_MAX, UINT32_MAX, all, least), CONTAINER_OK);
    assert_int_equal(try_footer(SEP_BLOCK_SIZE_MAX, UINT32_MAX, all, least - 1), CONTAINER_INVALID);
    assert_int_equal(try_footer(SEP_BLOCK_SIZE_MAX, UINT32_MAX, all + 1, least), CONTAINER_INVALID);
    assert_int_equal(try_footer(SEP_BLOCK_SIZE_MAX, 0, UINT64_MAX, least), CONTAINER_INVALID);
}

static void test_entry_limits(void **state)
{
    uint8_t bytes[CONTAINER_ENTRY];
    struct container_entry got;
    container_put_entry(bytes, &entry);
    assert_int_equal(container_get_entry(bytes, 6, &got), CONTAINER_OK);
    assert_int_equal(container_get_entry(bytes, 5, &got), CONTAINER_INVALID);
    assert_int_equal(container_get_entry(bytes, 0, &got), CONTAINER_INVALID);
    bytes[6] = 1;
    assert_int_equal(container_get_entry(bytes, 6, &got), CONTAINER_INVALID);
    bytes[6] = 0;
    bytes[4] = SEP_CODEC_RAW;
    assert_int_equal(container_get_entry(bytes, 5, &got), CONTAINER_OK);
    assert_int_equal(container_get_entry(bytes, 6, &got), CONTAINER_INVALID);
}

static void test_block_sizes(void **state)
{
    struct container_footer f = footer; /* 0x40001 bytes in blocks of 0x20000 */
    assert_int_equal(container_block_plain(&f, 0), 0x20000);
    assert_int_equal(container_block_plain(&f, 1), 0x20000);
    assert_int_equal(container_block_plain(&f, 2), 1);
    assert_int_equal(container_block_plain(&f, 3), 0);
    assert_int_equal(container_block_plain(&f, UINT32_MAX), 0);
    f.plain_size = 0x40000;
    f.blocks = 2;
    assert_int_equal(container_block_plain(&f, 1), 0x20000);
    assert_int_equal(container_blocks(0, 16384), 0);
    assert_int_equal(container_blocks(1, 16384), 1);
    assert_int_equal(container_blocks(16384, 16384), 1);
    assert_int_equal(container_blocks(16385, 16384), 2);
    assert_true(container_blocks(UINT64_MAX, 16384) == (UINT64_C(1) << 50));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_bytes),     cmocka_unit_test(test_record_bytes),
        cmocka_unit_test(test_index_bytes),      cmocka_unit_test(test_footer_bytes),
        cmocka_unit_test(test_values_come_back), cmocka_unit_test(test_every_bit_counts),
        cmocka_unit_test(test_header_limits),    cmocka_unit_test(test_record_limits),
        cmocka_unit_test(test_footer_limits),    cmocka_unit_test(test_entry_limits),
        cmocka_unit_test(test_block_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
