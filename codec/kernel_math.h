/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_math.h - the formulas of the nibble mixture, one lane at a time.
 */
#ifndef SEP_KERNEL_MATH_H
#define SEP_KERNEL_MATH_H

#include "state.h"
#include "tables.h"

/* Sixteen symbols get at least 1/65536 each; the rest is shared by the softmax. The scale is
 * divided by the sum of sep_exp, 65536 to 16 * 65536, so the product with one of them stays in 32
 * bits. */
#define SEP_PROBABILITY_SCALE ((65536u - SEP_SYMBOLS) << 15)

#define SEP_EXP_LIMIT 49151u /* 12 nats in 1/4096 nat */
#define SEP_EXP_LOG2E 23637u /* log2(e), 14 fraction bits */

/* 2^-f for f in [0, 1) with 15 fraction bits: 65536 + f (C1 + f (C2 + f C3)), error below 1e-4. */
#define SEP_EXP_C1 (-45390)
#define SEP_EXP_C2 15468
#define SEP_EXP_C3 (-2846)

/* exp(-d / 65536), 16 fraction bits. */
static inline uint32_t sep_exp(uint32_t d)
{
    uint32_t bits, whole;
    int32_t f;

    d >>= 4;
    if (d > SEP_EXP_LIMIT)
        d = SEP_EXP_LIMIT;
    bits = d * SEP_EXP_LOG2E >> 11; /* log2, 15 fraction bits */
    whole = bits >> 15;
    f = (int32_t)(bits & 32767);
    return (uint32_t)(65536 +
                      (f * (SEP_EXP_C1 + (f * (SEP_EXP_C2 + (f * SEP_EXP_C3 >> 15)) >> 15)) >>
                       15)) >>
           whole;
}

/* Hash of what slot expert E sees. */
static inline uint32_t sep_seed(uint32_t value, uint32_t e)
{
    const uint32_t h = (value * SEP_HASH_1 ^ e * SEP_HASH_3) * SEP_HASH_2;

    return h ^ h >> 15;
}

/* 20 fraction bits to 12, saturated to 16 bits. */
static inline int32_t sep_narrow(int32_t weight)
{
    const int32_t w = (weight + 128) >> 8;

    return w > 32767 ? 32767 : w < -32768 ? -32768 : w;
}

static inline int32_t sep_clamp(int32_t weight)
{
    return weight > SEP_WEIGHT_LIMIT    ? SEP_WEIGHT_LIMIT
           : weight < -SEP_WEIGHT_LIMIT ? -SEP_WEIGHT_LIMIT
                                        : weight;
}

/* GRADIENT is at most 2^20 and RATE at most 1023, so the product stays in 31 bits. */
static inline int32_t sep_step(int32_t gradient, int32_t rate)
{
    return (gradient * rate + 512) >> 10;
}

static inline int16_t sep_bias_step(int32_t bias, int32_t error, int32_t rate)
{
    const int32_t value = bias + ((error * rate + 16384) >> 15);

    return (int16_t)(value > 32767 ? 32767 : value < -32768 ? -32768 : value);
}

/* Match experts stand behind the slot experts; they, and what fills the last vector, have no rows.
 */
static inline void sep_place_matches(struct sep_model_state *m)
{
    for (uint32_t e = m->slot_experts; e < SEP_EXPERTS_MAX; e++) {
        const uint32_t k = e - m->slot_experts;

        m->source[e] = SEP_ROW_ZERO;
        m->weight_at[e] = e * SEP_CONFIDENCES + (k < SEP_MATCHES ? m->match_confidence[k] : 0);
        m->last[e] = k < SEP_MATCHES ? m->match_symbol[k] : SEP_SYMBOLS;
    }
}

#endif
