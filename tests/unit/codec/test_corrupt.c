/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_corrupt.c - hostile payloads: every decoder ends, stays inside its buffers (exactly sized, so
 * that AddressSanitizer sees one byte too far) and says what is wrong where it can know.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "codec/block.h"
#include "codec/profile.h"
#include "codec/sep.h"
#include "codec/transform.h"
#include "samples.h"

#define SIZE 3000u

/* Decodes from and to buffers of exactly these sizes. */
static enum sep_status decode_exact(struct sep_context *context, unsigned codec,
                                    const uint8_t *payload, size_t payload_size, uint8_t *result,
                                    size_t plain_size)
{
    uint8_t *in = malloc(payload_size > 0 ? payload_size : 1);
    uint8_t *out = malloc(plain_size);
    enum sep_status status;

    assert_non_null(in);
    assert_non_null(out);
    memcpy(in, payload, payload_size);
    status = sep_decode(context, codec, in, payload_size, out, plain_size);
    if (result != NULL)
        memcpy(result, out, plain_size);
    free(in);
    free(out);
    return status;
}

static size_t encode(struct sep_context *context, unsigned codec, enum sample kind,
                     uint8_t *payload)
{
    uint8_t plain[SIZE];
    struct sep_method used;
    size_t size;

    sample_fill(kind, plain, SIZE);
    assert_int_equal(sep_encode(context, (struct sep_method){(uint8_t)codec, 0}, plain, SIZE,
                                payload, sep_bound(SIZE), &size, &used),
                     SEP_OK);
    assert_int_equal(used.codec, codec);
    return size;
}

/* Flips, overwrites, cuts, grows: each mutation gives an error or some plain bytes, never more. */
static void test_mutations(void **state)
{
    struct sep_context *context = sep_context_new();
    uint8_t payload[SIZE * 2], mutant[SIZE * 2];
    uint64_t seed = 4711;
    unsigned errors = 0, rounds = 0;

    for (unsigned codec = SEP_CODEC_LZ4; codec < SEP_CODEC_COUNT; codec++)
        for (enum sample kind = SAMPLE_TEXT; kind <= SAMPLE_CODE; kind += 3) {
            const size_t size = encode(context, codec, kind, payload);

            for (unsigned round = 0; round < 1500; round++) {
                size_t mutant_size = size;
                enum sep_status status;

                memcpy(mutant, payload, size);
                for (unsigned k = 0; k <= round % 4; k++) {
                    const uint64_t r = sample_random(&seed);

                    switch (r & 3) {
                    case 0:
                        mutant[(r >> 8) % size] ^= (uint8_t)(1u << (r >> 4 & 7));
                        break;
                    case 1:
                        mutant[(r >> 8) % size] = (uint8_t)(r >> 4);
                        break;
                    case 2:
                        mutant_size = (r >> 8) % (size + 1);
                        break;
                    default:
                        mutant_size = size + (r >> 8) % 40;
                        memset(mutant + size, (int)(r >> 4 & 255), 40);
                        break;
                    }
                }
                status = decode_exact(context, codec, mutant, mutant_size, NULL,
                                      1 + sample_random(&seed) % (2 * SIZE));
                assert_true((unsigned)status < SEP_STATUS_COUNT);
                errors += status != SEP_OK;
                rounds++;
            }
        }
    assert_true(errors > rounds / 2);
    sep_context_free(context);
}

/* Bytes that no encoder wrote. */
static void test_noise(void **state)
{
    struct sep_context *context = sep_context_new();
    uint8_t payload[512];
    uint64_t seed = 123;

    for (unsigned round = 0; round < 3000; round++) {
        const size_t size = sample_random(&seed) % sizeof payload;

        for (size_t i = 0; i < size; i++)
            payload[i] = (uint8_t)(sample_random(&seed) >> 50);
        if (round % 2 == 0 && size >= SEP_BLOCK_HEADER_SIZE) { /* get past the header */
            payload[0] = SEP_BLOCK_VERSION;
            payload[1] %= SEP_PROFILE_COUNT;
            payload[2] = (uint8_t)(payload[2] % SEP_TRANSFORM_COUNT << 4);
        }
        for (unsigned codec = 0; codec < SEP_CODEC_COUNT; codec++)
            decode_exact(context, codec, payload, size, NULL, 1 + sample_random(&seed) % 600);
    }
    sep_context_free(context);
}

static void test_headers(void **state)
{
    struct sep_context *context = sep_context_new();
    uint8_t payload[SIZE * 2], mutant[SIZE * 2], plain[SIZE], decoded[SIZE];
    const size_t size = encode(context, SEP_CODEC_SEP, SAMPLE_RECORDS, payload);
    struct sep_block_info info;

    sample_fill(SAMPLE_RECORDS, plain, SIZE);
    assert_int_equal(sep_block_inspect(payload, size, &info), SEP_OK);
    assert_int_equal(info.version, SEP_BLOCK_VERSION);
    assert_in_range(info.profile, 0, SEP_PROFILE_COUNT - 1);
    assert_int_equal(info.knowledge, 0);
    assert_int_equal(info.model_hash, 0);
    assert_int_equal(decode_exact(context, SEP_CODEC_SEP, payload, size, decoded, SIZE), SEP_OK);
    assert_memory_equal(decoded, plain, SIZE);

    for (size_t cut = 0; cut < SEP_BLOCK_HEADER_SIZE; cut++) {
        assert_int_equal(sep_block_inspect(payload, cut, &info), SEP_ERROR_HEADER);
        assert_int_equal(decode_exact(context, SEP_CODEC_SEP, payload, cut, NULL, SIZE),
                         SEP_ERROR_HEADER);
    }
    for (unsigned version = 0; version < 256; version++) {
        if (version == SEP_BLOCK_VERSION)
            continue;
        memcpy(mutant, payload, size);
        mutant[0] = (uint8_t)version;
        assert_int_equal(decode_exact(context, SEP_CODEC_SEP, mutant, size, NULL, SIZE),
                         version == 0 ? SEP_ERROR_HEADER : SEP_ERROR_VERSION);
    }
    for (unsigned profile = SEP_PROFILE_COUNT; profile < 256; profile++) {
        memcpy(mutant, payload, size);
        mutant[1] = (uint8_t)profile;
        assert_int_equal(decode_exact(context, SEP_CODEC_SEP, mutant, size, NULL, SIZE),
                         SEP_ERROR_HEADER);
    }
    for (unsigned bits = 0; bits < 256; bits++) {
        const bool known = bits >> 4 < SEP_TRANSFORM_COUNT && (bits & 8) == 0 && (bits & 3) != 3;

        memcpy(mutant, payload, size);
        mutant[2] = (uint8_t)bits;
        memset(mutant + SEP_BLOCK_HEADER_SIZE, 0x77, 8);
        mutant[SEP_BLOCK_HEADER_MAX - 1] = 0;
        if ((bits & 7) != 0 || !known)
            assert_int_equal(decode_exact(context, SEP_CODEC_SEP, mutant, size, NULL, SIZE),
                             known ? SEP_ERROR_MODEL_MISSING : SEP_ERROR_HEADER);
    }
    memcpy(mutant, payload, size);
    mutant[2] = 1; /* public knowledge, but hash 0 or cut short */
    memset(mutant + SEP_BLOCK_HEADER_SIZE, 0, 8);
    assert_int_equal(sep_block_inspect(mutant, size, &info), SEP_ERROR_HEADER);
    assert_int_equal(sep_block_inspect(mutant, SEP_BLOCK_HEADER_MAX - 1, &info), SEP_ERROR_HEADER);
    mutant[SEP_BLOCK_HEADER_MAX - 1] = 0;
    mutant[SEP_BLOCK_HEADER_SIZE] = 0x11;
    mutant[SEP_BLOCK_HEADER_SIZE + 7] = 0x22;
    assert_int_equal(sep_block_inspect(mutant, size, &info), SEP_OK);
    assert_true(info.model_hash == 0x2200000000000011u);
    assert_int_equal(info.knowledge, 1);
    mutant[SEP_BLOCK_HEADER_MAX - 1] = 5; /* a primed state without the bit for one */
    assert_int_equal(sep_block_inspect(mutant, size, &info), SEP_ERROR_HEADER);
    mutant[2] = 4;
    assert_int_equal(sep_block_inspect(mutant, size, &info), SEP_OK);
    assert_int_equal(info.state, 5);
    assert_int_equal(sep_block_inspect(NULL, size, &info), SEP_ERROR_ARGUMENT);
    sep_context_free(context);
}

/* A payload decodes to the size it was made for and to no other, and cannot be cut or extended. */
static void test_sizes(void **state)
{
    struct sep_context *context = sep_context_new();
    uint8_t payload[SIZE * 2];

    for (unsigned codec = SEP_CODEC_RAW; codec < SEP_CODEC_COUNT; codec++) {
        const size_t size = encode(context, codec, SAMPLE_TEXT, payload);

        memset(payload + size, 0x35, 100);
        assert_int_equal(decode_exact(context, codec, payload, size, NULL, SIZE), SEP_OK);
        assert_int_equal(decode_exact(context, codec, payload, size, NULL, SIZE - 500),
                         SEP_ERROR_CORRUPT);
        assert_int_equal(decode_exact(context, codec, payload, size, NULL, SIZE + 500),
                         SEP_ERROR_CORRUPT);
        assert_int_equal(decode_exact(context, codec, payload, size + 100, NULL, SIZE),
                         SEP_ERROR_CORRUPT);
        assert_int_equal(decode_exact(context, codec, payload, size - 30, NULL, SIZE),
                         SEP_ERROR_CORRUPT);
        if (codec != SEP_CODEC_SEP)
            assert_int_equal(decode_exact(context, codec, payload, 0, NULL, SIZE),
                             SEP_ERROR_CORRUPT);
    }
    sep_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
