/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_golden.c - hashes (XXH3) of SEP payloads: any change of any bit of the format fails here.
 *
 * The format has version 1 and is frozen: a change here is either a choice of the encoder (then the
 * payloads of the table before it must still decode) or a mistake.
 * `test_codec_golden golden.sepm print` prints a new golden.inc, `test_codec_golden golden.sepm make`
 * writes the model that the second half of it rests on.
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
#include "models.h"
#include "samples.h"

struct golden {
    enum sample kind;
    uint8_t level;
    uint8_t model; /* 1: with the model */
    uint32_t plain_size, payload_size;
    uint64_t hash;
};

/* clang-format off */
static const struct golden table[] = {
#include "golden.inc"
};
/* clang-format on */

static struct sep_model *model;

static struct sep_context *context_new(bool with_model)
{
    struct sep_context *context = sep_context_new();

    assert_non_null(context);
    if (with_model)
        assert_int_equal(sep_context_add_model(context, model, true), SEP_OK);
    return context;
}

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
    uint8_t *decoded = malloc(SEP_BLOCK_SIZE_DEFAULT);
    uint8_t *payload = malloc(sep_bound(SEP_BLOCK_SIZE_DEFAULT));
    struct sep_context *contexts[2] = {context_new(false), context_new(true)};
    unsigned with_model = 0;

    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        const struct golden *g = &table[k];
        struct sep_block_info info;
        struct golden now;

        encode(g, contexts[g->model], plain, payload, &now);
        if (now.hash != g->hash)
            print_message("%s, level %u, %u bytes: payload changed\n", sample_names[g->kind],
                          g->level, g->plain_size);
        assert_int_equal(now.payload_size, g->payload_size);
        assert_true(now.hash == g->hash);
        if (g->model != 0 && now.payload_size < g->plain_size) {
            assert_int_equal(sep_block_inspect(payload, now.payload_size, &info), SEP_OK);
            with_model += info.knowledge != 0;
            assert_int_equal(sep_decode(contexts[1], SEP_CODEC_SEP, payload, now.payload_size,
                                        decoded, g->plain_size),
                             SEP_OK);
            assert_memory_equal(decoded, plain, g->plain_size);
        }
    }
    assert_true(with_model >= 5);
    sep_context_free(contexts[0]);
    sep_context_free(contexts[1]);
    free(plain);
    free(decoded);
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
    struct sep_context *contexts[2] = {context_new(false), context_new(true)};

    puts("/* SPDX-License-Identifier: BSD-2-Clause */");
    for (unsigned with = 0; with < 2; with++)
        for (unsigned n = 0; n < SAMPLE_COUNT * sizeof sizes / sizeof sizes[0] * 3; n++) {
            const enum sample kind = (enum sample)(n / 3 % SAMPLE_COUNT);
            const struct golden wanted = {
                kind, (uint8_t)(1 + n % 3 * 4), (uint8_t)with, sizes[n / 3 / SAMPLE_COUNT], 0, 0};
            struct golden now;

            if (with == 1 && (kind == SAMPLE_ZEROS || kind == SAMPLE_RANDOM || n % 3 == 2))
                continue;
            encode(&wanted, contexts[with], plain, payload, &now);
            printf("{%s, %u, %u, %u, %u, 0x%016llxu},\n", kinds[kind], wanted.level, with,
                   wanted.plain_size, now.payload_size, (unsigned long long)now.hash);
        }
    sep_context_free(contexts[0]);
    sep_context_free(contexts[1]);
    free(plain);
    free(payload);
}

static int make_model(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = model_make(SEP_MODEL_PUBLIC, 2, &size);
    FILE *stream = fopen(path, "wb");
    bool written = bytes != NULL && stream != NULL && fwrite(bytes, 1, size, stream) == size;

    if (stream != NULL)
        written = fclose(stream) == 0 && written;
    free(bytes);
    return written ? 0 : 1;
}

static bool load_model(const char *path)
{
    const size_t room = 4u << 20;
    uint8_t *bytes = malloc(room);
    FILE *stream = fopen(path, "rb");
    size_t size = 0;
    bool loaded;

    if (bytes != NULL && stream != NULL)
        size = fread(bytes, 1, room, stream);
    loaded = sep_model_load(bytes, size, &model) == SEP_OK;
    if (stream != NULL)
        fclose(stream);
    free(bytes);
    return loaded;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hashes)};
    int result = 0;

    if (argc == 3 && strcmp(argv[2], "make") == 0)
        return make_model(argv[1]);
    if (argc < 2 || !load_model(argv[1])) {
        fprintf(stderr, "usage: test_codec_golden MODEL [print | make]\n");
        return 1;
    }
    if (argc == 3)
        print_table();
    else
        result = cmocka_run_group_tests(tests, NULL, NULL);
    sep_model_free(model);
    return result;
}
