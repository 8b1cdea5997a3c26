/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_round_trip.c - every codec, level and kind of data comes back exactly, at sizes from one byte
 * to the largest block; bounds hold; arguments out of range are refused.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "codec/codec.h"
#include "codec/sep.h"
#include "samples.h"

#define GUARD 64u /* bytes behind each buffer that must stay as they are */

struct buffers {
    struct sep_context *context;
    uint8_t *plain, *payload, *decoded;
};

static int set_up(void **state)
{
    struct buffers *b = calloc(1, sizeof *b);

    b->context = sep_context_new();
    b->plain = malloc(SEP_BLOCK_SIZE_MAX);
    b->payload = malloc(sep_bound(SEP_BLOCK_SIZE_MAX) + GUARD);
    b->decoded = malloc(SEP_BLOCK_SIZE_MAX + GUARD);
    *state = b;
    return b->context == NULL || b->plain == NULL || b->payload == NULL || b->decoded == NULL;
}

static int tear_down(void **state)
{
    struct buffers *b = *state;

    sep_context_free(b->context);
    free(b->plain);
    free(b->payload);
    free(b->decoded);
    free(b);
    return 0;
}

static void assert_guard(const uint8_t *end)
{
    for (unsigned k = 0; k < GUARD; k++)
        assert_int_equal(end[k], 0xa5);
}

/* Encodes and decodes plain[0, size); returns the payload's size. */
static size_t round_trip(struct buffers *b, struct sep_method method, size_t size)
{
    struct sep_method used;
    size_t payload_size;

    memset(b->payload + sep_bound(size), 0xa5, GUARD);
    memset(b->decoded + size, 0xa5, GUARD);
    assert_int_equal(sep_encode(b->context, method, b->plain, size, b->payload, sep_bound(size),
                                &payload_size, &used),
                     SEP_OK);
    assert_guard(b->payload + sep_bound(size));
    assert_in_range(payload_size, 1, size + SEP_EXPANSION_MAX);
    assert_true(used.codec == method.codec || used.codec == SEP_CODEC_RAW);
    if (used.codec == SEP_CODEC_RAW)
        assert_int_equal(payload_size, size);
    else
        assert_true(payload_size < size);
    memset(b->decoded, 0x5a, size);
    assert_int_equal(sep_decode(b->context, used.codec, b->payload, payload_size, b->decoded, size),
                     SEP_OK);
    assert_guard(b->decoded + size);
    assert_memory_equal(b->decoded, b->plain, size);
    return payload_size;
}

static void test_levels(void **state)
{
    static const uint8_t levels[SEP_CODEC_COUNT] = {0, 12, 19, 9};
    static const size_t sizes[] = {1, 2, 3, 5, 17, 255, 4096, 16385};

    for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++) {
        sample_fill(kind, ((struct buffers *)*state)->plain, 16385);
        for (uint8_t codec = 0; codec < SEP_CODEC_COUNT; codec++)
            for (uint8_t level = 0; level <= levels[codec]; level++)
                for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
                    round_trip(*state, (struct sep_method){codec, level}, sizes[k]);
    }
}

static void test_default_block(void **state)
{
    struct buffers *b = *state;

    for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++) {
        sample_fill(kind, b->plain, SEP_BLOCK_SIZE_DEFAULT);
        for (uint8_t codec = 0; codec < SEP_CODEC_COUNT; codec++)
            round_trip(b, (struct sep_method){codec, 0}, SEP_BLOCK_SIZE_DEFAULT);
    }
}

static void test_largest_block(void **state)
{
    struct buffers *b = *state;

    sample_fill(SAMPLE_MIXED, b->plain, SEP_BLOCK_SIZE_MAX);
    for (uint8_t codec = 0; codec < SEP_CODEC_COUNT; codec++)
        round_trip(b, (struct sep_method){codec, codec != SEP_CODEC_RAW}, SEP_BLOCK_SIZE_MAX);
}

/* SEP is there to be smaller: on each kind that has structure, than zstd at its highest level. */
static void test_sep_is_smaller(void **state)
{
    struct buffers *b = *state;

    for (enum sample kind = SAMPLE_TEXT; kind < SAMPLE_COUNT; kind++) {
        size_t zstd_size, sep_size;

        sample_fill(kind, b->plain, SEP_BLOCK_SIZE_DEFAULT);
        zstd_size = round_trip(b, (struct sep_method){SEP_CODEC_ZSTD, 19}, SEP_BLOCK_SIZE_DEFAULT);
        sep_size = round_trip(b, (struct sep_method){SEP_CODEC_SEP, 0}, SEP_BLOCK_SIZE_DEFAULT);
        assert_true(sep_size < zstd_size);
    }
}

/* What a context did before must not show: the same block, before and after others. */
static void test_context_keeps_nothing(void **state)
{
    struct buffers *b = *state;
    struct sep_context *fresh = sep_context_new();
    const struct sep_method method = {SEP_CODEC_SEP, 0};
    uint8_t *expected = malloc(sep_bound(20000));
    struct sep_method used;
    size_t expected_size, size;

    assert_non_null(fresh);
    assert_non_null(expected);
    sample_fill(SAMPLE_MIXED, b->plain, 20000);
    assert_int_equal(sep_encode(fresh, method, b->plain, 20000, expected, sep_bound(20000),
                                &expected_size, &used),
                     SEP_OK);
    sample_fill(SAMPLE_TEXT, b->plain, 70000);
    round_trip(b, method, 70000);
    sample_fill(SAMPLE_PCM, b->plain, 300);
    round_trip(b, method, 300);
    sample_fill(SAMPLE_MIXED, b->plain, 20000);
    assert_int_equal(
        sep_encode(b->context, method, b->plain, 20000, b->payload, sep_bound(20000), &size, &used),
        SEP_OK);
    assert_int_equal(size, expected_size);
    assert_memory_equal(b->payload, expected, size);
    sep_context_free(fresh);
    free(expected);
}

static void test_capacity(void **state)
{
    struct buffers *b = *state;
    struct sep_method used;
    size_t size, smaller;

    for (uint8_t codec = 0; codec < SEP_CODEC_COUNT; codec++) {
        const struct sep_method method = {codec, 0};

        sample_fill(SAMPLE_TEXT, b->plain, 20000);
        size = round_trip(b, method, 20000);
        /* Exactly enough is enough, or the codec wants some room more: then it says so. */
        for (size_t capacity = 1; capacity < size; capacity += 1 + capacity / 3) {
            memset(b->payload + capacity, 0xa5, GUARD);
            assert_int_equal(sep_encode(b->context, method, b->plain, 20000, b->payload, capacity,
                                        &smaller, &used),
                             SEP_ERROR_CAPACITY);
            assert_guard(b->payload + capacity);
        }
    }
    /* SEP and raw need not a byte more than they write. */
    for (uint8_t codec = 0; codec < SEP_CODEC_COUNT; codec += SEP_CODEC_SEP) {
        const struct sep_method method = {codec, 0};

        size = round_trip(b, method, 20000);
        assert_int_equal(
            sep_encode(b->context, method, b->plain, 20000, b->payload, size, &smaller, &used),
            SEP_OK);
        assert_int_equal(
            sep_encode(b->context, method, b->plain, 20000, b->payload, size - 1, &smaller, &used),
            SEP_ERROR_CAPACITY);
    }
}

static void test_arguments(void **state)
{
    struct buffers *b = *state;
    const struct sep_method sep = {SEP_CODEC_SEP, 0};
    struct sep_method used;
    size_t size;

    assert_int_equal(sep_encode(b->context, sep, b->plain, 0, b->payload, 100, &size, &used),
                     SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_encode(b->context, sep, b->plain, SEP_BLOCK_SIZE_MAX + 1, b->payload,
                                sep_bound(SEP_BLOCK_SIZE_MAX), &size, &used),
                     SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_encode(NULL, sep, b->plain, 10, b->payload, 100, &size, &used),
                     SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_encode(b->context, sep, NULL, 10, b->payload, 100, &size, &used),
                     SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_encode(b->context, sep, b->plain, 10, NULL, 100, &size, &used),
                     SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_encode(b->context, (struct sep_method){SEP_CODEC_COUNT, 0}, b->plain, 10,
                                b->payload, 100, &size, &used),
                     SEP_ERROR_CODEC);
    for (uint8_t codec = 0; codec < SEP_CODEC_COUNT; codec++)
        assert_int_equal(sep_encode(b->context, (struct sep_method){codec, 20}, b->plain, 10,
                                    b->payload, 100, &size, &used),
                         SEP_ERROR_ARGUMENT);
    for (unsigned codec = 0; codec < SEP_CODEC_COUNT; codec++) {
        assert_int_equal(sep_decode(b->context, codec, b->payload, 10, b->decoded, 0),
                         SEP_ERROR_ARGUMENT);
        assert_int_equal(
            sep_decode(b->context, codec, b->payload, 10, b->decoded, SEP_BLOCK_SIZE_MAX + 1),
            SEP_ERROR_ARGUMENT);
        assert_int_equal(sep_decode(NULL, codec, b->payload, 10, b->decoded, 10),
                         SEP_ERROR_ARGUMENT);
        assert_int_equal(sep_decode(b->context, codec, NULL, 10, b->decoded, 10),
                         SEP_ERROR_ARGUMENT);
    }
    assert_int_equal(sep_decode(b->context, SEP_CODEC_COUNT, b->payload, 10, b->decoded, 10),
                     SEP_ERROR_CODEC);
}

/* Every allocation in turn fails once: the call says so, and the next one works. */
static void test_no_memory(void **state)
{
    struct buffers *b = *state;

    sample_fill(SAMPLE_TEXT, b->plain, 20000);
    sep_test_fail_allocation(1);
    assert_null(sep_context_new());
    for (uint8_t codec = SEP_CODEC_LZ4; codec < SEP_CODEC_COUNT; codec++) {
        const struct sep_method method = {codec, 0};
        enum sep_status status = SEP_ERROR_MEMORY;
        struct sep_method used;
        size_t size = 0;
        unsigned n = 0;

        if (codec == SEP_CODEC_ZSTD)
            continue; /* libzstd allocates its states itself */
        while (status == SEP_ERROR_MEMORY) {
            struct sep_context *context = sep_context_new();

            assert_non_null(context);
            sep_test_fail_allocation(++n);
            status = sep_encode(context, method, b->plain, 20000, b->payload, sep_bound(20000),
                                &size, &used);
            sep_test_fail_allocation(0);
            if (status == SEP_ERROR_MEMORY)
                assert_int_equal(sep_encode(context, method, b->plain, 20000, b->payload,
                                            sep_bound(20000), &size, &used),
                                 SEP_OK);
            sep_context_free(context);
        }
        assert_int_equal(status, SEP_OK);
        assert_int_equal(n, codec == SEP_CODEC_SEP ? 3 : 2);
        if (codec == SEP_CODEC_SEP) {
            struct sep_context *context = sep_context_new();

            assert_non_null(context);
            sep_test_fail_allocation(1);
            assert_int_equal(sep_decode(context, codec, b->payload, size, b->decoded, 20000),
                             SEP_ERROR_MEMORY);
            assert_int_equal(sep_decode(context, codec, b->payload, size, b->decoded, 20000),
                             SEP_OK);
            assert_memory_equal(b->decoded, b->plain, 20000);
            assert_in_range(sep_context_memory(context), 1u << 20, (8u << 20) + 4096);
            sep_context_free(context);
        }
    }
    sep_context_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_default_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_largest_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sep_is_smaller, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_context_keeps_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_capacity, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
