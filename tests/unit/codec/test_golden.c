/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_golden.c - hashes (XXH3) of SEP payloads: any change of any bit of the format fails here.
 *
 * While the format has version 0 it may change, and then the table below changes in the same commit.
 * `test_codec_golden print` prints a new golden.inc.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <xxhash.h>

#include "codec/sep.h"
#include "samples.h"

struct golden {
    enum sample kind;
    uint8_t level;
    uint32_t plain_size, payload_size;
    uint64_t hash;
};

/* clang-format off */
static const struct golden table[] = {
#include "golden.inc"
};
/* clang-format on */

static void encode(const struct golden *g, struct sep_context *context, uint8_t *plain,
                   uint8_t *payload, struct golden *result)
{
    struct sep_method used;
    size_t size;

    sample_fill(g->kind, plain, g->plain_size);
    assert_int_equal(sep_encode(context, (struct sep_method){SEP_CODEC_SEP, g->level}, plain,
                                g->plain_size, payload, sep_bound(g->plain_size), &size, &used),
                     SEP_OK);
    *result = *g;
    result->payload_size = (uint32_t)size;
    result->hash = XXH3_64bits(payload, size);
}

static void test_hashes(void **state)
{
    uint8_t *plain = malloc(SEP_BLOCK_SIZE_DEFAULT);
    uint8_t *payload = malloc(sep_bound(SEP_BLOCK_SIZE_DEFAULT));
    struct sep_context *context = sep_context_new();

    assert_non_null(context);
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        struct golden now;

        encode(&table[k], context, plain, payload, &now);
        if (now.hash != table[k].hash)
            print_message("%s, level %u, %u bytes: payload changed\n", sample_names[table[k].kind],
                          table[k].level, table[k].plain_size);
        assert_int_equal(now.payload_size, table[k].payload_size);
        assert_true(now.hash == table[k].hash);
    }
    sep_context_free(context);
    free(plain);
    free(payload);
}

static void print_table(void)
{
    static const char *const kinds[SAMPLE_COUNT] = {
        "SAMPLE_ZEROS", "SAMPLE_RANDOM", "SAMPLE_TEXT", "SAMPLE_RECORDS",
        "SAMPLE_PCM",   "SAMPLE_CODE",   "SAMPLE_MIXED"};
    static const uint32_t sizes[] = {1, 77, 4096, 50001, SEP_BLOCK_SIZE_DEFAULT};
    uint8_t *plain = malloc(SEP_BLOCK_SIZE_DEFAULT);
    uint8_t *payload = malloc(sep_bound(SEP_BLOCK_SIZE_DEFAULT));
    struct sep_context *context = sep_context_new();

    puts("/* SPDX-License-Identifier: BSD-2-Clause */");
    for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++)
        for (unsigned k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            for (uint8_t level = 1; level <= 9; level += 4) {
                const struct golden wanted = {kind, level, sizes[k], 0, 0};
                struct golden now;

                encode(&wanted, context, plain, payload, &now);
                printf("{%s, %u, %u, %u, 0x%016llxu},\n", kinds[kind], level, sizes[k],
                       now.payload_size, (unsigned long long)now.hash);
            }
    sep_context_free(context);
    free(plain);
    free(payload);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hashes)};

    if (argc == 2 && strcmp(argv[1], "print") == 0) {
        print_table();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
