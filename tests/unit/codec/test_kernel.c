/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_kernel.c - every instruction set computes what the scalar reference computes, bit for bit:
 * after each nibble the whole model state is the same, whatever the profile, stride or data.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "codec/codec.h"
#include "codec/kernel.h"
#include "codec/model.h"
#include "codec/sep.h"
#include "models.h"
#include "samples.h"

static const struct sep_kernel *const kernels[] = {
    &sep_kernel_scalar,
#ifdef SEP_HAVE_AVX2
    &sep_kernel_avx2,
#endif
};
#define KERNEL_COUNT (sizeof kernels / sizeof kernels[0])

static const struct sep_knowledge nothing;

static bool runs_here(const struct sep_kernel *kernel)
{
#ifdef SEP_HAVE_AVX2
    if (kernel == &sep_kernel_avx2)
        return __builtin_cpu_supports("avx2");
#endif
    return true;
}

/* From the first byte up to the tables that are too large to compare each time. */
static void assert_same_small_state(const struct sep_model_state *a,
                                    const struct sep_model_state *b)
{
    assert_memory_equal(a->probability, b->probability, sizeof a->probability);
    assert_memory_equal(a->cumulative, b->cumulative, sizeof a->cumulative);
    if (a->net != NULL) {
        assert_memory_equal(a->net_active, b->net_active, sizeof a->net_active);
        assert_int_equal(a->net_confidence, b->net_confidence);
        assert_int_equal(a->net_symbol, b->net_symbol);
    }
    for (uint32_t e = 0; e < a->experts; e++) {
        assert_int_equal(a->weight_at[SEP_LANE(e)], b->weight_at[SEP_LANE(e)]);
        assert_int_equal(a->last_at[SEP_LANE(e)], b->last_at[SEP_LANE(e)]);
    }
    for (uint32_t e = 0; e < a->slot_experts; e++) {
        assert_int_equal(a->slot[e], b->slot[e]);
        assert_int_equal(a->source[e], b->source[e]);
        assert_int_equal(a->what_at[e], b->what_at[e]);
        assert_int_equal(a->slot_check[SEP_LANE(e)], b->slot_check[SEP_LANE(e)]);
        assert_int_equal(a->state[SEP_LANE(e)], b->state[SEP_LANE(e)]);
    }
}

static void assert_same_tables(const struct sep_model_state *a, const struct sep_model_state *b)
{
    assert_memory_equal(a->weight, b->weight, sizeof a->weight);
    assert_memory_equal(a->weight_set, b->weight_set, sizeof a->weight_set);
    assert_memory_equal(a->bias1, b->bias1, sizeof a->bias1);
    assert_memory_equal(a->bias2, b->bias2, sizeof a->bias2);
    assert_memory_equal(a->lines, b->lines, sizeof a->lines);
}

static void compare(const struct sep_kernel *kernel, const uint8_t *bytes, size_t size,
                    unsigned profile, unsigned stride, const struct sep_knowledge *knowledge)
{
    struct sep_model_state *a = sep_allocate(sizeof *a), *b = sep_allocate(sizeof *b);

    assert_non_null(a);
    assert_non_null(b);
    sep_model_begin(a, &sep_kernel_scalar, bytes, size, profile, stride, knowledge);
    sep_model_begin(b, kernel, bytes, size, profile, stride, knowledge);
    for (size_t i = 0; i < size; i++) {
        const uint32_t targets[] = {0, 1, 32768, 65519, 65535, 65536, 1u << 24, bytes[i] * 257u};

        assert_same_small_state(a, b);
        for (unsigned k = 0; k < sizeof targets / sizeof targets[0]; k++)
            assert_int_equal(sep_kernel_scalar.find(a, targets[k]), kernel->find(b, targets[k]));
        sep_model_after_high(a, &sep_kernel_scalar, bytes[i] >> 4);
        sep_model_after_high(b, kernel, bytes[i] >> 4);
        assert_same_small_state(a, b);
        if (i + 1 < size) {
            sep_model_after_low(a, &sep_kernel_scalar, bytes[i] & 15);
            sep_model_after_low(b, kernel, bytes[i] & 15);
        }
    }
    assert_same_tables(a, b);
    sep_release(a);
    sep_release(b);
}

static void test_state(void **state)
{
    static const unsigned strides[] = {0, 1, 3, 24, 65535};
    uint8_t bytes[2500];

    for (size_t k = 1; k < KERNEL_COUNT; k++) {
        if (!runs_here(kernels[k])) {
            print_message("[  SKIP  ] this processor has no %s\n", kernels[k]->name);
            continue;
        }
        for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++) {
            sample_fill(kind, bytes, sizeof bytes);
            for (unsigned profile = 0; profile < SEP_PROFILE_COUNT; profile++)
                compare(kernels[k], bytes, sizeof bytes, profile, strides[(kind + profile) % 5],
                        &nothing);
        }
    }
}

/* The same with nets of every shape, and from primed states made with and without one. */
static void test_knowledge(void **state)
{
    uint8_t bytes[2500];

    for (size_t k = 1; k < KERNEL_COUNT; k++) {
        if (!runs_here(kernels[k])) {
            print_message("[  SKIP  ] this processor has no %s\n", kernels[k]->name);
            continue;
        }
        for (unsigned features = 1; features <= SEP_NET_FEATURES_MAX; features++) {
            struct sep_net *net = model_net(features, 4 + features % 8, features * 7919);
            const enum sample kind = (enum sample)(features % SAMPLE_COUNT);
            const unsigned profile = features % SEP_PROFILE_COUNT;
            struct sep_knowledge knowledge = {.net = net};

            assert_non_null(net);
            sample_fill(kind, bytes, sizeof bytes);
            compare(kernels[k], bytes, sizeof bytes, profile, features % 5, &knowledge);
            if (features % 4 == 0) {
                struct sep_primed *primed =
                    model_primed(kind, profile, features % 8 == 0 ? net : NULL, 9000);

                assert_non_null(primed);
                knowledge = (struct sep_knowledge){primed, primed->with_net ? net : NULL};
                compare(kernels[k], bytes, sizeof bytes, profile, features % 5, &knowledge);
                sep_primed_free(primed);
            }
            sep_net_free(net);
        }
    }
}

/* The probabilities that coding rests on: each at least 1, together at most 65536. */
static void test_distribution(void **state)
{
    struct sep_model_state *m = sep_allocate(sizeof *m);
    uint8_t bytes[4000];

    assert_non_null(m);
    for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++) {
        sample_fill(kind, bytes, sizeof bytes);
        sep_model_begin(m, &sep_kernel_scalar, bytes, sizeof bytes, SEP_PROFILE_GENERIC, 0,
                        &nothing);
        for (size_t i = 0; i + 1 < sizeof bytes; i++) {
            uint32_t sum = 0;

            for (unsigned j = 0; j < SEP_SYMBOLS; j++) {
                assert_true(m->probability[j] >= 1);
                assert_int_equal(m->cumulative[j], sum);
                sum += m->probability[j];
            }
            assert_in_range(sum, 65000, 65536);
            sep_model_after_high(m, &sep_kernel_scalar, bytes[i] >> 4);
            sep_model_after_low(m, &sep_kernel_scalar, bytes[i] & 15);
        }
    }
    sep_release(m);
}

/* Whole payloads, at sizes where tables have other shapes. */
static void test_payload(void **state)
{
    static const size_t sizes[] = {1, 100, 16384, 60000, SEP_BLOCK_SIZE_DEFAULT};
    uint8_t *plain = malloc(SEP_BLOCK_SIZE_DEFAULT);
    uint8_t *expected = malloc(sep_bound(SEP_BLOCK_SIZE_DEFAULT));
    uint8_t *payload = malloc(sep_bound(SEP_BLOCK_SIZE_DEFAULT));
    struct sep_context *context = sep_context_new();

    assert_non_null(context);
    for (enum sample kind = 0; kind < SAMPLE_COUNT; kind++)
        for (unsigned k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            const struct sep_method method = {SEP_CODEC_SEP, (uint8_t)(1 + (k + kind) % 9)};
            struct sep_method used;
            size_t expected_size, payload_size;

            sample_fill(kind, plain, sizes[k]);
            context->kernel = &sep_kernel_scalar;
            assert_int_equal(sep_encode(context, method, plain, sizes[k], expected,
                                        sep_bound(sizes[k]), &expected_size, &used),
                             SEP_OK);
            for (unsigned n = 1; n < KERNEL_COUNT; n++) {
                if (!runs_here(kernels[n]))
                    continue;
                context->kernel = kernels[n];
                assert_int_equal(sep_encode(context, method, plain, sizes[k], payload,
                                            sep_bound(sizes[k]), &payload_size, &used),
                                 SEP_OK);
                assert_int_equal(payload_size, expected_size);
                assert_memory_equal(payload, expected, payload_size);
            }
        }
    sep_context_free(context);
    free(plain);
    free(expected);
    free(payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_knowledge),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_payload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
