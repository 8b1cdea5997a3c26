/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_math.h - the formulas of the nibble mixture, one lane at a time.
 */
#ifndef SEP_KERNEL_MATH_H
#define SEP_KERNEL_MATH_H

#include <stddef.h>

#include "state.h"
#include "tables.h"

/* z is cut to 10 fraction bits in 16, so it saturates at 32 nats: that happens to symbols that are
 * out of the question anyway. */
#define SEP_Z_CUT 6

/* Sixteen symbols get at least 1/65536 each; the rest is shared by the softmax. The scale is
 * divided by the sum of sep_exp, 32767 to 16 * 32767, and fits 16 bits. */
#define SEP_PROBABILITY_SCALE ((65536u - SEP_SYMBOLS) << 15)

#define SEP_EXP_LOG2E 47274u /* log2(e) / 2, 16 fraction bits */

/* 2^-f for f in [0, 1) with 16 fraction bits: 65535 - f (C1 - f (C2 - f C3)), error below 1e-4. */
#define SEP_EXP_C1 45390u
#define SEP_EXP_C2 15468u
#define SEP_EXP_C3 2846u

/* A nibble whose symbol had this probability or more teaches the weights nothing. */
#define SEP_CERTAIN 65300u

static inline int32_t sep_cut_z(int32_t z)
{
    z >>= SEP_Z_CUT;
    return z > 32767 ? 32767 : z < -32768 ? -32768 : z;
}

/* exp(-d / 1024), 15 fraction bits; D has 16 bits. */
static inline uint32_t sep_exp(uint32_t d)
{
    const uint32_t bits =
        (d < 16384 ? 4 * d : 65535) * SEP_EXP_LOG2E >> 16; /* log2, 11 fraction bits */
    const uint32_t whole = bits >> 11;
    const uint32_t f = bits << 5 & 0xffff;
    const uint32_t y =
        65535 - (f * (SEP_EXP_C1 - (f * (SEP_EXP_C2 - (f * SEP_EXP_C3 >> 16)) >> 16)) >> 16);

    return whole < 16 ? y >> (whole + 1) : 0;
}

/* Hash of what slot expert E sees. */
static inline uint32_t sep_seed(uint32_t value, uint32_t e)
{
    const uint32_t h = (value * SEP_HASH_1 ^ e * SEP_HASH_3) * SEP_HASH_2;

    return h ^ h >> 15;
}

/* 20 fraction bits to 12, saturated to 16 bits. */
static inline int32_t sep_narrow(uint32_t weight)
{
    const int32_t w = (int32_t)(weight + 128) >> 8;

    return w > 32767 ? 32767 : w < -32768 ? -32768 : w;
}

/* GRADIENT is at most 2^23 and RATE at most 255 (2^15 and 65535 for the last symbol), so the product
 * stays in 31 bits. */
static inline uint32_t sep_step(int32_t gradient, int32_t rate)
{
    return (uint32_t)((gradient * rate + 8192) >> 14);
}

static inline int16_t sep_bias_step(int32_t bias, int32_t error, int32_t rate)
{
    const int32_t value = bias + ((error * rate + 16384) >> 15);

    return (int16_t)(value > 32767 ? 32767 : value < -32768 ? -32768 : value);
}

/* Match experts stand behind the slot experts. */
static inline void sep_place_matches(struct sep_model_state *m)
{
    for (uint32_t k = 0; k < SEP_MATCHES; k++) {
        const uint32_t e = m->slot_experts + k;

        m->weight_at[SEP_LANE(e)] = (uint16_t)(e * SEP_CONFIDENCES + m->match_confidence[k]);
        m->last_at[SEP_LANE(e)] = (uint16_t)SEP_LAST_AT(m->match_symbol[k]);
    }
}

/* The net has no slot: its expert reads the net's row and writes where nobody reads. */
static inline void sep_place_net(struct sep_model_state *m)
{
    const uint32_t e = m->net_expert;

    if (m->net == NULL)
        return;
    m->weight_at[SEP_LANE(e)] = (uint16_t)(e * SEP_CONFIDENCES + m->net_confidence);
    m->last_at[SEP_LANE(e)] = (uint16_t)SEP_LAST_AT(m->net_symbol);
    m->source[e] = SEP_ROW_NET;
    m->slot[e] = SEP_ROW_SPARE;
    m->what_at[e] = SEP_WHAT_SPARE;
}

#endif
