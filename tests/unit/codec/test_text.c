/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_text.c - names, levels and messages; the guess whether data compresses; block transforms.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "codec/sep.h"
#include "codec/transform.h"
#include "samples.h"

static void test_parse(void **state)
{
    static const struct {
        const char *text;
        enum sep_status status;
        uint8_t codec, level;
    } cases[] = {
        {"raw", SEP_OK, SEP_CODEC_RAW, 0},
        {"lz4", SEP_OK, SEP_CODEC_LZ4, 1},
        {"lz4:1", SEP_OK, SEP_CODEC_LZ4, 1},
        {"lz4:12", SEP_OK, SEP_CODEC_LZ4, 12},
        {"lz4:13", SEP_ERROR_ARGUMENT, 0, 0},
        {"zstd", SEP_OK, SEP_CODEC_ZSTD, 3},
        {"zstd:19", SEP_OK, SEP_CODEC_ZSTD, 19},
        {"zstd:20", SEP_ERROR_ARGUMENT, 0, 0},
        {"zstd:190", SEP_ERROR_ARGUMENT, 0, 0},
        {"zstd:99999999999", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep", SEP_OK, SEP_CODEC_SEP, 5},
        {"sep:1", SEP_OK, SEP_CODEC_SEP, 1},
        {"sep:9", SEP_OK, SEP_CODEC_SEP, 9},
        {"sep:10", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep:0", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep:", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep:-1", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep:+1", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep: 1", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep:1x", SEP_ERROR_ARGUMENT, 0, 0},
        {"sep:05", SEP_ERROR_ARGUMENT, 0, 0},
        {"raw:1", SEP_ERROR_ARGUMENT, 0, 0},
        {"", SEP_ERROR_CODEC, 0, 0},
        {":1", SEP_ERROR_CODEC, 0, 0},
        {"SEP", SEP_ERROR_CODEC, 0, 0},
        {"se", SEP_ERROR_CODEC, 0, 0},
        {"seps", SEP_ERROR_CODEC, 0, 0},
        {"gzip", SEP_ERROR_CODEC, 0, 0},
    };

    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct sep_method method = {77, 77};

        assert_int_equal(sep_method_parse(cases[k].text, &method), cases[k].status);
        if (cases[k].status != SEP_OK) {
            assert_int_equal(method.codec, 77);
            assert_int_equal(method.level, 77);
            continue;
        }
        assert_int_equal(method.codec, cases[k].codec);
        assert_int_equal(method.level, cases[k].level);
    }
    assert_int_equal(sep_method_parse(NULL, NULL), SEP_ERROR_ARGUMENT);
}

static void test_format(void **state)
{
    static const struct {
        struct sep_method method;
        const char *text;
    } cases[] = {
        {{SEP_CODEC_RAW, 0}, "raw"},
        {{SEP_CODEC_LZ4, 0}, "lz4:1"},
        {{SEP_CODEC_LZ4, 9}, "lz4:9"},
        {{SEP_CODEC_ZSTD, 0}, "zstd:3"},
        {{SEP_CODEC_ZSTD, 19}, "zstd:19"},
        {{SEP_CODEC_SEP, 0}, "sep:5"},
        {{99, 0}, "unknown"},
    };
    char text[16];

    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct sep_method back;

        assert_int_equal(sep_method_format(cases[k].method, text, sizeof text),
                         strlen(cases[k].text));
        assert_string_equal(text, cases[k].text);
        if (cases[k].method.codec < SEP_CODEC_COUNT)
            assert_int_equal(sep_method_parse(text, &back), SEP_OK);
    }
    assert_int_equal(sep_method_format((struct sep_method){SEP_CODEC_ZSTD, 19}, text, 5), 7);
    assert_string_equal(text, "zstd");
    assert_string_equal(sep_codec_name(SEP_CODEC_SEP), "sep");
    assert_string_equal(sep_codec_name(SEP_CODEC_COUNT), "unknown");
}

static void test_messages(void **state)
{
    for (unsigned status = 0; status < SEP_STATUS_COUNT; status++) {
        const char *text = sep_status_text((enum sep_status)status);

        assert_non_null(text);
        assert_true(text[0] >= 'a' && text[0] <= 'z');
        for (unsigned other = 0; other < status; other++)
            assert_string_not_equal(text, sep_status_text((enum sep_status)other));
    }
    assert_string_equal(sep_status_text((enum sep_status)1000), "unknown status");
    assert_true(strcmp(sep_simd_name(), "scalar") == 0 || strcmp(sep_simd_name(), "avx2") == 0);
}

static void test_incompressible(void **state)
{
    const size_t size = SEP_BLOCK_SIZE_DEFAULT;
    uint8_t *bytes = malloc(size), *packed = malloc(sep_bound(size));
    struct sep_context *context = sep_context_new();
    struct sep_method used;
    size_t packed_size;

    assert_non_null(bytes);
    assert_non_null(packed);
    assert_non_null(context);
    for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++) {
        sample_fill(kind, bytes, size);
        assert_int_equal(sep_incompressible(bytes, size), kind == SAMPLE_RANDOM);
    }
    /* What zstd has packed does not pack again. */
    sample_fill(SAMPLE_TEXT, bytes, size);
    assert_int_equal(sep_encode(context, (struct sep_method){SEP_CODEC_ZSTD, 19}, bytes, size,
                                packed, sep_bound(size), &packed_size, &used),
                     SEP_OK);
    assert_true(packed_size > 4096);
    assert_true(sep_incompressible(packed, packed_size));
    /* Random bytes that come twice do. */
    sample_fill(SAMPLE_RANDOM, bytes, size / 2);
    memcpy(bytes + size / 2, bytes, size / 2);
    assert_false(sep_incompressible(bytes, size));
    /* So do bytes that count, and random bytes with one bit missing. */
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 3);
    assert_false(sep_incompressible(bytes, size));
    sample_fill(SAMPLE_RANDOM, bytes, size);
    for (size_t i = 0; i < size; i++)
        bytes[i] &= 0x7f;
    assert_false(sep_incompressible(bytes, size));
    /* Too little to tell. */
    for (size_t small = 0; small < 512; small += 37)
        assert_false(sep_incompressible(bytes, small));
    assert_false(sep_incompressible(NULL, size));
    sep_context_free(context);
    free(bytes);
    free(packed);
}

/* The x86 transform is exact on every kind of data, random bytes dense with opcodes included. */
static void test_transform(void **state)
{
    static const uint8_t alphabet[] = {0xe8, 0xe9, 0x0f, 0x80, 0x8f, 0x00, 0xff, 0x48,
                                       0x8d, 0x05, 0x8b, 0x3d, 0x01, 0xfe, 0x89, 0x4c};
    uint8_t plain[3000], bytes[3000];
    uint64_t seed = 99;
    unsigned changed = 0;

    for (unsigned round = 0; round < 2000; round++) {
        const size_t size = sample_random(&seed) % sizeof plain;

        for (size_t i = 0; i < size; i++)
            plain[i] = alphabet[sample_random(&seed) >> 60];
        memcpy(bytes, plain, size);
        sep_transform_apply(SEP_TRANSFORM_X86, bytes, size);
        changed += size > 0 && memcmp(bytes, plain, size) != 0;
        sep_transform_undo(SEP_TRANSFORM_X86, bytes, size);
        assert_memory_equal(bytes, plain, size);
    }
    assert_true(changed > 1900);
    for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++) {
        sample_fill(kind, plain, sizeof plain);
        memcpy(bytes, plain, sizeof plain);
        sep_transform_apply(SEP_TRANSFORM_X86, bytes, sizeof bytes);
        sep_transform_undo(SEP_TRANSFORM_X86, bytes, sizeof bytes);
        assert_memory_equal(bytes, plain, sizeof plain);
        sep_transform_apply(SEP_TRANSFORM_NONE, bytes, sizeof bytes);
        assert_memory_equal(bytes, plain, sizeof plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),     cmocka_unit_test(test_format),
        cmocka_unit_test(test_messages),  cmocka_unit_test(test_incompressible),
        cmocka_unit_test(test_transform),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
