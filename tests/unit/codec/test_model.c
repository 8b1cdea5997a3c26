/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_model.c - model files: what is stored is what is loaded; blocks find the model they name, or
 * say which is missing; no byte string makes the loader or a decoder misbehave.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <xxhash.h>

#include "codec/block.h"
#include "codec/codec.h"
#include "codec/knowledge.h"
#include "codec/model_file.h"
#include "codec/sep.h"
#include "models.h"

#define HASH_AT     16u
#define HASHED_FROM 24u
#define SIZE        30000u

static uint8_t *file; /* a public model, for every test */
static size_t file_size;

static int set_up(void **state)
{
    file = model_make(SEP_MODEL_PUBLIC, 77, &file_size);
    return file != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    free(file);
    return 0;
}

static struct sep_model *load(const uint8_t *bytes, size_t size)
{
    struct sep_model *model = NULL;

    assert_int_equal(sep_model_load(bytes, size, &model), SEP_OK);
    return model;
}

static void seal(uint8_t *bytes, size_t size)
{
    const uint64_t hash = XXH3_64bits(bytes + HASHED_FROM, size - HASHED_FROM);

    for (unsigned k = 0; k < 8; k++)
        bytes[HASH_AT + k] = (uint8_t)(hash >> (8 * k));
}

static void test_store_and_load(void **state)
{
    struct sep_model *model = load(file, file_size);
    struct sep_model_info info;
    uint64_t hash = 0;
    uint8_t *again;
    size_t size;

    sep_model_describe(model, &info);
    assert_true(info.hash == XXH3_64bits(file + HASHED_FROM, file_size - HASHED_FROM));
    assert_true(info.hash == sep_model_hash(model));
    assert_int_equal(sep_model_peek(file, SEP_MODEL_HEAD, &hash), SEP_OK);
    assert_true(info.hash == hash);
    assert_int_equal(info.kind, SEP_MODEL_PUBLIC);
    assert_int_equal(info.states, 5);
    assert_int_equal(info.file_size, file_size);
    assert_true(info.base == 0);
    assert_string_equal(info.name, "test");
    assert_string_equal(info.text, "test data");
    assert_string_equal(info.backbone, "mlp");
    assert_string_equal(sep_model_state_name(model, 0), sample_names[SAMPLE_TEXT]);
    assert_null(sep_model_state_name(model, 5));
    for (unsigned s = 0; s < 5; s++)
        assert_true(model->state[s]->slot_count > 100);
    assert_int_equal(sep_model_store(model, &again, &size), SEP_OK);
    assert_int_equal(size, file_size);
    assert_memory_equal(again, file, size);
    sep_release(again);
    sep_model_free(model);
    sep_model_free(NULL);
}

static enum sep_status encode(struct sep_context *context, enum sample kind, size_t skip,
                              size_t size, uint8_t level, uint8_t *payload, size_t *payload_size)
{
    uint8_t *plain = malloc(skip + size);
    struct sep_method used;
    enum sep_status status;

    sample_fill(kind, plain, skip + size);
    status = sep_encode(context, (struct sep_method){SEP_CODEC_SEP, level}, plain + skip, size,
                        payload, sep_bound(size), payload_size, &used);
    if (status == SEP_OK)
        assert_int_equal(used.codec, SEP_CODEC_SEP);
    free(plain);
    return status;
}

static void assert_decodes(struct sep_context *context, enum sample kind, size_t skip, size_t size,
                           const uint8_t *payload, size_t payload_size)
{
    uint8_t *plain = malloc(skip + size), *decoded = malloc(size);

    sample_fill(kind, plain, skip + size);
    assert_int_equal(sep_decode(context, SEP_CODEC_SEP, payload, payload_size, decoded, size),
                     SEP_OK);
    assert_memory_equal(decoded, plain + skip, size);
    free(plain);
    free(decoded);
}

/* Blocks like those that the states were made from use them, get smaller and come back. */
static void test_blocks(void **state)
{
    static const size_t sizes[] = {300, 5000, SIZE};
    struct sep_context *with = sep_context_new(), *without = sep_context_new();
    struct sep_model *model = load(file, file_size);
    uint8_t *payload = malloc(sep_bound(SIZE));
    struct sep_block_info info;
    unsigned used = 0;

    assert_int_equal(sep_context_add_model(with, model, true), SEP_OK);
    assert_int_equal(sep_context_add_model(with, model, true), SEP_OK);
    assert_int_equal(with->model_count, 1);
    for (enum sample kind = SAMPLE_TEXT; kind < SAMPLE_COUNT; kind++)
        for (unsigned k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            for (uint8_t level = 1; level <= 5; level += 4) {
                size_t plain, primed;

                if (encode(without, kind, 24000, sizes[k], level, payload, &plain) != SEP_OK)
                    continue;
                assert_int_equal(encode(with, kind, 24000, sizes[k], level, payload, &primed),
                                 SEP_OK);
                assert_decodes(with, kind, 24000, sizes[k], payload, primed);
                assert_int_equal(sep_block_inspect(payload, primed, &info), SEP_OK);
                if (info.knowledge == 0)
                    continue;
                used++;
                assert_true(info.model_hash == sep_model_hash(model));
                if (kind == SAMPLE_TEXT)
                    assert_true(primed < plain);
                /* Without the model the block names it and does not decode. */
                assert_int_equal(sep_decode(without, SEP_CODEC_SEP, payload, primed,
                                            payload + primed, sizes[k] < 100 ? sizes[k] : 100),
                                 SEP_ERROR_MODEL_MISSING);
            }
    assert_true(used >= 4);
    sep_context_clear_models(with);
    assert_int_equal(with->model_count, 0);
    sep_context_free(with);
    sep_context_free(without);
    sep_model_free(model);
    free(payload);
}

/* A model that is only there to decode with is never named. */
static void test_decode_only(void **state)
{
    struct sep_context *context = sep_context_new();
    struct sep_model *model = load(file, file_size);
    uint8_t *payload = malloc(sep_bound(SIZE));
    struct sep_block_info info;
    size_t size;

    assert_int_equal(sep_context_add_model(context, model, false), SEP_OK);
    assert_int_equal(encode(context, SAMPLE_TEXT, 0, SIZE, 5, payload, &size), SEP_OK);
    assert_int_equal(sep_block_inspect(payload, size, &info), SEP_OK);
    assert_int_equal(info.knowledge, 0);
    assert_int_equal(sep_context_add_model(context, model, true), SEP_OK);
    assert_int_equal(encode(context, SAMPLE_TEXT, 0, SIZE, 5, payload, &size), SEP_OK);
    assert_int_equal(sep_block_inspect(payload, size, &info), SEP_OK);
    assert_int_not_equal(info.knowledge, 0);
    sep_context_free(context);
    sep_model_free(model);
    free(payload);
}

/* A private model with a state for the net of a public one. */
static void test_base(void **state)
{
    struct sep_context *context = sep_context_new();
    struct sep_model *base = load(file, file_size), *own = load(file, file_size), *model;
    uint8_t *payload = malloc(sep_bound(SIZE)), *plain = malloc(SIZE), *bytes;
    struct sep_block_info info;
    size_t size;

    sep_net_free(own->net);
    own->net = NULL;
    own->kind = SEP_MODEL_PRIVATE;
    own->base = sep_model_hash(base);
    assert_int_equal(sep_model_store(own, &bytes, &size), SEP_OK);
    model = load(bytes, size);
    assert_true(sep_model_hash(model) != sep_model_hash(base));
    assert_int_equal(sep_context_add_model(context, base, false), SEP_OK);
    assert_int_equal(sep_context_add_model(context, model, true), SEP_OK);
    assert_int_equal(encode(context, SAMPLE_TEXT, 24000, SIZE, 5, payload, &size), SEP_OK);
    assert_int_equal(sep_block_inspect(payload, size, &info), SEP_OK);
    assert_true(info.model_hash == sep_model_hash(model));
    assert_decodes(context, SAMPLE_TEXT, 24000, SIZE, payload, size);

    /* Headers are held to what the model has. */
    payload[SEP_BLOCK_HEADER_MAX - 1] = 9;
    assert_int_equal(sep_decode(context, SEP_CODEC_SEP, payload, size, plain, SIZE),
                     SEP_ERROR_HEADER);
    payload[SEP_BLOCK_HEADER_MAX - 1] = 2; /* of another profile */
    assert_int_equal(sep_decode(context, SEP_CODEC_SEP, payload, size, plain, SIZE),
                     SEP_ERROR_HEADER);
    payload[SEP_BLOCK_HEADER_MAX - 1] = 0;
    payload[2] = SEP_KNOWS_PRIVATE | SEP_KNOWS_PRIMED; /* the net is a public one */
    assert_int_equal(sep_decode(context, SEP_CODEC_SEP, payload, size, plain, SIZE),
                     SEP_ERROR_HEADER);
    payload[2] = SEP_KNOWS_PUBLIC | SEP_KNOWS_PRIMED;
    (void)sep_decode(context, SEP_CODEC_SEP, payload, size, plain, SIZE);

    /* With the model alone, its base is what is missing. */
    sep_context_clear_models(context);
    assert_int_equal(sep_context_add_model(context, model, true), SEP_OK);
    assert_int_equal(sep_decode(context, SEP_CODEC_SEP, payload, size, plain, SIZE),
                     SEP_ERROR_MODEL_MISSING);
    sep_context_free(context);
    sep_model_free(base);
    sep_model_free(own);
    sep_model_free(model);
    sep_release(bytes);
    free(payload);
    free(plain);
}

/* Loads from a buffer of exactly SIZE bytes; whatever is taken as a model must be safe to use. */
static enum sep_status try_mutant(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1), payload[400], plain[100];
    struct sep_context *context;
    struct sep_model *model = NULL;
    enum sep_status status;

    memcpy(exact, bytes, size);
    status = sep_model_load(exact, size, &model);
    free(exact);
    if (status != SEP_OK) {
        assert_null(model);
        return status;
    }
    context = sep_context_new();
    assert_int_equal(sep_context_add_model(context, model, true), SEP_OK);
    for (unsigned s = 0; s < model->state_count; s++) {
        const struct sep_block_info info = {
            .profile = model->state[s]->profile,
            .knowledge = (uint8_t)(SEP_KNOWS_PRIMED | (model->state[s]->with_net ? 1 : 0)),
            .state = (uint8_t)s,
            .model_hash = model->hash,
        };

        memset(payload, 0x5a, sizeof payload);
        sep_block_write(payload, &info);
        (void)sep_decode(context, SEP_CODEC_SEP, payload, sizeof payload, plain, sizeof plain);
    }
    sep_context_free(context);
    sep_model_free(model);
    return status;
}

/* Bytes changed behind a hash that fits, and sizes cut: an error, or a model that can be used. */
static void test_hostile(void **state)
{
    uint8_t *mutant = malloc(file_size + 100);
    uint64_t seed = 99;
    unsigned errors = 0, rounds = 0;

    for (unsigned round = 0; round < 150; round++) {
        size_t size = file_size;

        memcpy(mutant, file, file_size);
        for (unsigned k = 0; k <= round % 3; k++) {
            const uint64_t r = sample_random(&seed);
            /* Three in four land in the header and the table of sections. */
            const size_t limit = (r & 3) != 0 ? 112 + 7 * 24 : file_size;

            mutant[HASHED_FROM + (r >> 16) % (limit - HASHED_FROM)] ^= (uint8_t)(r >> 8 | 1);
        }
        if (round % 5 == 4) {
            size = HASHED_FROM + sample_random(&seed) % (file_size + 76);
            if (size > file_size)
                memset(mutant + file_size, 0x11, size - file_size);
            if (round % 2 == 0) /* the size in the file fits */
                for (unsigned k = 0; k < 8; k++)
                    mutant[HASHED_FROM + k] = (uint8_t)((uint64_t)size >> (8 * k));
        }
        seal(mutant, size);
        errors += try_mutant(mutant, size) != SEP_OK;
        rounds++;
    }
    assert_true(errors > rounds / 2);

    /* Without a hash that fits, nothing gets past it. */
    for (unsigned round = 0; round < 60; round++) {
        memcpy(mutant, file, file_size);
        mutant[16 + sample_random(&seed) % (file_size - 16)] ^= 0x20;
        assert_int_equal(try_mutant(mutant, file_size), SEP_ERROR_MODEL);
        assert_int_equal(try_mutant(file, sample_random(&seed) % file_size), SEP_ERROR_MODEL);
    }
    memcpy(mutant, file, file_size);
    mutant[8] = 2;
    assert_int_equal(try_mutant(mutant, file_size), SEP_ERROR_VERSION);
    free(mutant);
}

/* Every number that arithmetic or a table rests on. */
static void test_ranges(void **state)
{
    struct sep_model *model = load(file, file_size);
    const struct sep_net good = *model->net;
    struct sep_net *net = model->net;
    struct sep_primed_slot *slots = model->state[0]->slots, kept = slots[0];
    uint8_t *bytes;
    size_t size;

    while (model->state_count > 2) /* storing takes long */
        sep_primed_free(model->state[--model->state_count]);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        change;                                                                                    \
        assert_int_equal(sep_model_store(model, &bytes, &size), SEP_OK);                           \
        assert_int_equal(try_mutant(bytes, size), SEP_ERROR_MODEL);                                \
        sep_release(bytes);                                                                        \
        *net = good;                                                                               \
        slots[0] = kept;                                                                           \
    } while (0)
    REFUSED(net->backbone = 9);
    REFUSED(net->cut = SEP_NET_CUT_MAX + 1);
    REFUSED(net->shift = 0);
    REFUSED(net->shift = SEP_NET_SHIFT_MAX + 1);
    REFUSED(net->patch[3] = SEP_PATCH_COUNT);
    REFUSED(net->patch[3] = SEP_PATCH_MATCH);
    REFUSED(net->patch[15] = 1);
    REFUSED(net->bias[31] = SEP_NET_BIAS_MAX + 1);
    REFUSED(net->head_bias[16][15] = -SEP_NET_HEAD_MAX - 1);
    REFUSED(net->head[16][15][31] = -128);
    REFUSED(slots[0].state &= 0xff0);
    REFUSED(slots[0].state |= 15);
    REFUSED(slots[0].state |= 0x1000);
    REFUSED(slots[0].line = 65535);
    REFUSED(model->kind = 3);
    model->kind = SEP_MODEL_PUBLIC;
    REFUSED(model->state[1]->profile = SEP_PROFILE_COUNT);
    model->state[1]->profile = SEP_PROFILE_GENERIC_FAST;
#undef REFUSED
    assert_int_equal(sep_model_store(model, &bytes, &size), SEP_OK);
    assert_int_equal(try_mutant(bytes, size), SEP_OK);
    sep_release(bytes);
    sep_model_free(model);
}

static void test_no_memory(void **state)
{
    unsigned failures = 0;
    enum sep_status status;

    do {
        struct sep_model *model = NULL;

        sep_test_fail_allocation(++failures);
        status = sep_model_load(file, file_size, &model);
        sep_test_fail_allocation(0);
        assert_true(status == SEP_OK || status == SEP_ERROR_MEMORY);
        assert_true((status == SEP_OK) == (model != NULL));
        sep_model_free(model);
    } while (status != SEP_OK);
    assert_true(failures > 10);
}

static void test_arguments(void **state)
{
    struct sep_context *context = sep_context_new();
    struct sep_model *model = load(file, file_size);
    uint64_t hash;

    assert_int_equal(sep_model_load(NULL, 10, &model), SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_model_load(file, file_size, NULL), SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_model_peek(file, SEP_MODEL_HEAD - 1, &hash), SEP_ERROR_MODEL);
    assert_int_equal(sep_context_add_model(NULL, model, true), SEP_ERROR_ARGUMENT);
    assert_int_equal(sep_context_add_model(context, NULL, true), SEP_ERROR_ARGUMENT);
    sep_context_free(context);
    sep_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_and_load), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_decode_only),    cmocka_unit_test(test_base),
        cmocka_unit_test(test_hostile),        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_arguments),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
