/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_sep_hostile.c - the command sep on files in which every checksum is right and the values lie:
 * sizes and counts that contradict each other, indexes that lead elsewhere, payloads that are no
 * payloads. Each must end in bounded time with an error that says what is wrong, front to back, by
 * index and in recovery alike. Argument: the command sep.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "tests/unit/check/command.h"
#include "tools/container.h"

static const char *sep;
static char path[] = "/tmp/sep-hostile-XXXXXX";
static char output[8192];

enum { BLOCK = 16384, ROOM = 1 << 20, BLOCKS_MAX = 8 };

/* A file being forged: one stream, its values right unless a test changes them. */
struct forgery {
    uint8_t bytes[ROOM];
    size_t size, start;
    struct container_header header;
    struct container_entry entries[BLOCKS_MAX];
    uint32_t blocks;
    uint64_t plain_size;
};

static struct forgery forgery;
static uint8_t plain[BLOCK];

static void forge_begin(void)
{
    for (unsigned i = 0; i < BLOCK; i++)
        plain[i] = (uint8_t)(i % 251);
    forgery.size = forgery.start = 0;
    forgery.blocks = 0;
    forgery.plain_size = 0;
    forgery.header = (struct container_header){.block_size = BLOCK,
                                               .id = container_id(container_hash(plain, BLOCK))};
    container_put_header(forgery.bytes, &forgery.header);
    forgery.size = CONTAINER_HEADER;
}

static void forge_record(struct container_record record, const void *payload)
{
    container_put_record(forgery.bytes + forgery.size, &record, payload);
    memcpy(forgery.bytes + forgery.size + CONTAINER_RECORD, payload, record.payload_size);
    forgery.size += CONTAINER_RECORD + record.payload_size;
    forgery.entries[forgery.blocks++] =
        (struct container_entry){.payload_size = record.payload_size,
                                 .codec = record.codec,
                                 .level = record.level,
                                 .plain_hash = record.plain_hash};
    forgery.plain_size += record.plain_size;
}

static struct container_record raw_record(uint32_t number, uint32_t size)
{
    return (struct container_record){.id = forgery.header.id,
                                     .number = number,
                                     .plain_size = size,
                                     .payload_size = size,
                                     .plain_hash = container_hash(plain, size)};
}

static void forge_index(uint32_t blocks)
{
    container_put_index(forgery.bytes + forgery.size, blocks);
    forgery.size += CONTAINER_INDEX;
    for (uint32_t i = 0; i < forgery.blocks; i++) {
        container_put_entry(forgery.bytes + forgery.size, &forgery.entries[i]);
        forgery.size += CONTAINER_ENTRY;
    }
}

/* The footer that is right for what was forged. */
static struct container_footer right_footer(void)
{
    struct container_footer footer = {.id = forgery.header.id,
                                      .block_size = BLOCK,
                                      .blocks = forgery.blocks,
                                      .plain_size = forgery.plain_size,
                                      .stream_size =
                                          forgery.size - forgery.start + CONTAINER_FOOTER};
    for (uint32_t i = 0; i < forgery.blocks; i++) {
        uint8_t bytes[CONTAINER_ENTRY];
        container_put_entry(bytes, &forgery.entries[i]);
        footer.entries_hash = container_entries_hash(footer.entries_hash, bytes);
    }
    return footer;
}

static void forge_footer(struct container_footer footer)
{
    container_put_footer(forgery.bytes + forgery.size, &footer);
    forgery.size += CONTAINER_FOOTER;
}

static void forge_write(void)
{
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(forgery.bytes, 1, forgery.size, file), forgery.size);
    assert_int_equal(fclose(file), 0);
}

static void forge_end(void)
{
    forge_index(forgery.blocks);
    forge_footer(right_footer());
    forge_write();
}

/* Runs sep on the file; PIPED: from a pipe. */
static int run(bool piped, const char *options)
{
    return piped ? command(output, sizeof output, "{ cat %s | timeout 60 %s %s; }", path, sep,
                           options)
                 : command(output, sizeof output, "timeout 60 %s %s %s", sep, options, path);
}

static void expect_output(const char *part)
{
    if (strstr(output, part) == NULL)
        fail_msg("no \"%s\" in\n%s", part, output);
}

/* Every way to read the file ends, orderly: 0 to 2. Decoding it is an error that SAYS so. */
static void expect_refusal(const char *says)
{
    for (unsigned piped = 0; piped < 2; piped++) {
        assert_int_equal(run(piped, "-t"), 1);
        expect_output(says);
        assert_in_range(run(piped, "-t --recover"), 1, 2);
    }
    assert_in_range(run(false, "-l"), 0, 1);
    assert_in_range(run(false, "-lv --json"), 0, 1);
    assert_in_range(run(false, "-t --range=0:1"), 0, 2);
    assert_in_range(run(false, "-t --range=20000:20000"), 0, 2);
}

/* ---- values that contradict each other ------------------------------------------------------------
 */

static void test_sound(void **state)
{
    forge_begin();
    forge_record(raw_record(0, BLOCK), plain);
    forge_record(raw_record(1, 100), plain);
    forge_end();
    assert_int_equal(run(false, "-t"), 0);
    assert_int_equal(run(false, "-t --recover"), 0);
    assert_int_equal(run(false, "-l"), 0);
}

static void test_header(void **state)
{
    static const uint32_t sizes[] = {0, 1, BLOCK - 1, SEP_BLOCK_SIZE_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        forge_begin();
        forgery.header.block_size = sizes[i];
        container_put_header(forgery.bytes, &forgery.header);
        forge_record(raw_record(0, BLOCK), plain);
        forge_end();
        expect_refusal("the header at byte 0 holds values that contradict");
    }
    forge_begin();
    forgery.bytes[8] = 2;
    const uint32_t check = (uint32_t)XXH3_64bits(forgery.bytes, 20);
    for (unsigned i = 0; i < 4; i++)
        forgery.bytes[20 + i] = (uint8_t)(check >> (8 * i));
    forge_end();
    expect_refusal("the header at byte 0 is of a version");
}

static void test_short_block_in_the_middle(void **state)
{
    forge_begin();
    forge_record(raw_record(0, BLOCK), plain);
    forge_record(raw_record(1, 100), plain);
    forge_record(raw_record(2, BLOCK), plain);
    forge_end();
    expect_refusal("its size does not fit the stream");
}

static void test_block_larger_than_the_stream_says(void **state)
{
    forge_begin();
    forge_record(raw_record(0, BLOCK), plain);
    struct container_record record = raw_record(1, BLOCK);
    record.plain_size = BLOCK + 1;
    record.codec = SEP_CODEC_LZ4;
    record.payload_size = 100;
    forge_record(record, plain);
    forge_end();
    expect_refusal("its size does not fit the stream");
}

static void test_numbers(void **state)
{
    static const uint32_t numbers[] = {0, 2, 4000000000, UINT32_MAX - 1};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        forge_begin();
        forge_record(raw_record(0, BLOCK), plain);
        forge_record(raw_record(numbers[i], BLOCK), plain);
        forge_end();
        expect_refusal("of the stream");
    }
}

static void test_index_counts(void **state)
{
    static const uint32_t counts[] = {0, 1, 3, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        forge_begin();
        forge_record(raw_record(0, BLOCK), plain);
        forge_record(raw_record(1, 100), plain);
        forge_index(counts[i]);
        forge_footer(right_footer());
        forge_write();
        expect_refusal("entries, after 2 blocks");
    }
}

static void test_index_entries(void **state)
{
    static const struct container_entry lies[] = {
        {.payload_size = 0, .codec = SEP_CODEC_RAW},
        {.payload_size = UINT32_MAX, .codec = SEP_CODEC_RAW},
        {.payload_size = BLOCK, .codec = SEP_CODEC_SEP},
        {.payload_size = BLOCK - 1, .codec = SEP_CODEC_SEP},
        {.payload_size = BLOCK, .codec = SEP_CODEC_RAW, .plain_hash = 1},
        {.payload_size = 1, .codec = 255},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        forge_begin();
        forge_record(raw_record(0, BLOCK), plain);
        forge_record(raw_record(1, 100), plain);
        forgery.entries[0] = lies[i];
        forge_end(); /* with the hash of these entries */
        expect_refusal("does not agree with the blocks");
    }
}

/* The index exchanges two blocks: its sum is right, its places are wrong. */
static void test_index_leads_elsewhere(void **state)
{
    struct sep_context *const context = sep_context_new();
    static uint8_t payload[BLOCK + SEP_EXPANSION_MAX], other[BLOCK];
    const struct sep_method zstd = {SEP_CODEC_ZSTD, 1};
    struct sep_method used;
    size_t size;
    assert_non_null(context);
    forge_begin();
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *const bytes = i == 0 ? plain : other;
        struct container_record record = raw_record(i, BLOCK);
        assert_int_equal(
            sep_encode(context, zstd, bytes, BLOCK, payload, sizeof payload, &size, &used), SEP_OK);
        record.codec = used.codec;
        record.payload_size = (uint32_t)size;
        record.plain_hash = container_hash(bytes, BLOCK);
        forge_record(record, payload);
    }
    sep_context_free(context);
    assert_true(forgery.entries[0].payload_size != forgery.entries[1].payload_size);
    const struct container_entry first = forgery.entries[0];
    forgery.entries[0] = forgery.entries[1];
    forgery.entries[1] = first;
    forge_end();
    expect_refusal("does not agree with the blocks");
}

/* One value of the footer is wrong at a time. */
static void test_footers(void **state)
{
    enum { LIES = 8 };
    for (unsigned lie = 0; lie < LIES; lie++) {
        forge_begin();
        forge_record(raw_record(0, BLOCK), plain);
        forge_record(raw_record(1, 100), plain);
        forge_index(2);
        struct container_footer footer = right_footer();
        footer.stream_size -= lie == 0;
        footer.stream_size += lie == 1;
        footer.plain_size += lie == 2;
        footer.id ^= lie == 3;
        footer.entries_hash ^= lie == 4;
        footer.block_size += lie == 5 ? 50 : 0;
        if (lie == 6)
            footer.stream_size = CONTAINER_STREAM_MIN + 2 * 61;
        if (lie == 7) {
            footer.blocks = UINT32_MAX;
            footer.plain_size = (uint64_t)UINT32_MAX * BLOCK;
            footer.stream_size = CONTAINER_STREAM_MIN + UINT32_MAX * UINT64_C(61);
        }
        forge_footer(footer);
        forge_write();
        expect_refusal(lie == 4 ? "the index at byte 16596" : "the footer");
    }
}

/* A second footer whose stream is made of the first one's bytes: the way back must end. */
static void test_footers_that_overlap(void **state)
{
    forge_begin();
    forge_record(raw_record(0, BLOCK), plain);
    forge_end();
    for (unsigned i = 0; i < 5; i++) {
        struct container_footer footer = right_footer();
        footer.stream_size = forgery.size + CONTAINER_FOOTER;
        forge_footer(footer);
    }
    forge_write();
    expect_refusal("are no .sep stream");
}

/* ---- payloads -------------------------------------------------------------------------------------
 */

static void test_garbage_payloads(void **state)
{
    uint8_t garbage[500];
    uint64_t random = 88172645463325252;
    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof garbage; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            garbage[i] = round == 0 ? 0 : round == 1 ? 255 : (uint8_t)(random >> 24);
        }
        forge_begin();
        forge_record(raw_record(0, BLOCK), plain);
        struct container_record record = raw_record(1, BLOCK);
        record.codec = (uint8_t)(SEP_CODEC_LZ4 + round % 3);
        record.payload_size = round < 6 ? 1 + round : sizeof garbage;
        forge_record(record, garbage);
        forge_end();
        expect_refusal("block 1 (bytes 16452 to ");
    }
}

static void test_wrong_plain_hash(void **state)
{
    forge_begin();
    forge_record(raw_record(0, BLOCK), plain);
    struct container_record record = raw_record(1, 100);
    record.plain_hash ^= 1;
    forge_record(record, plain);
    forge_end();
    expect_refusal("its plain bytes do not match their checksum");
}

static void test_unknown_codec(void **state)
{
    forge_begin();
    forge_record(raw_record(0, BLOCK), plain);
    struct container_record record = raw_record(1, BLOCK);
    record.codec = 200;
    record.level = 255;
    record.payload_size = 99;
    forge_record(record, plain);
    forge_end();
    expect_refusal("codec unknown to this build");
    assert_int_equal(run(false, "-l"), 0);
    expect_output("unknown:255 1");
    assert_int_equal(run(false, "-t --range=0:16384"), 0);
    assert_int_equal(run(false, "-t --recover"), 1);
    expect_output("recovered 1 of 2 blocks");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_short_block_in_the_middle),
        cmocka_unit_test(test_block_larger_than_the_stream_says),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_index_counts),
        cmocka_unit_test(test_index_entries),
        cmocka_unit_test(test_index_leads_elsewhere),
        cmocka_unit_test(test_footers),
        cmocka_unit_test(test_footers_that_overlap),
        cmocka_unit_test(test_garbage_payloads),
        cmocka_unit_test(test_wrong_plain_hash),
        cmocka_unit_test(test_unknown_codec),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s SEP\n", argv[0]);
        return 2;
    }
    sep = argv[1];
    const int fd = mkstemp(path);
    if (fd < 0) {
        perror(path);
        return 2;
    }
    close(fd);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
