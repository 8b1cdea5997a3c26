/* SPDX-License-Identifier: BSD-2-Clause
 *
 * net.h - static knowledge: a frozen integer network that a model file brings.
 *
 * Backbone mlp, the scheme of NNUE: each feature is a patch (profile.h), hashed to one row of its own
 * table (SEP 3.1: patch expansion, one symbol a patch). Rows and bias are summed, the sum is cut to
 * 7 bits, and one dense layer gives 16 logits for the high nibble; another 16, from a matrix chosen
 * by the high nibble, for the low one:
 *
 *   z[d]      = bias[d] + sum over f of rows[f][sep_net_row(value of f's patch, patch)][d]
 *   a[d]      = min(max(z[d] >> cut, 0), 127)
 *   logit[j]  = (head_bias[h][j] + sum over d of head[h][j][d] * a[d] + half) >> shift
 *   row[j]    = logit[j] - round(mean of logit), cut to -127 .. 127       in 1/16 nat
 *
 * with h = 0 for the high nibble, 1 + high nibble for the low one, half = 1 << (shift - 1), and
 * arithmetic shifts. The result enters the mixture as one more expert's row. Features whose gate the
 * training closed are not in the file and cost nothing. Papers: SEP (semantics enhancement, gates),
 * PAC (mlp over hashed contexts).
 */
#ifndef SEP_NET_H
#define SEP_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile.h"
#include "tables.h"

#define SEP_NET_FEATURES_MAX 16u
#define SEP_NET_ROWS_LOG_MIN 4u
#define SEP_NET_ROWS_LOG_MAX 16u
#define SEP_NET_WIDTH        32u
#define SEP_NET_HEADS        17u       /* the high nibble, and the low one after each high nibble */
#define SEP_NET_BIAS_MAX     16384     /* of bias[], so that 16-bit sums never overflow */
#define SEP_NET_HEAD_MAX     (1 << 24) /* of head_bias[] */
#define SEP_NET_CUT_MAX      8u
#define SEP_NET_SHIFT_MAX    16u

enum sep_net_backbone {
    SEP_NET_MLP = 1,
};

/* As it is in the file; immutable once loaded. */
struct sep_net {
    uint8_t backbone;                    /* enum sep_net_backbone */
    uint8_t features;                    /* 1 .. SEP_NET_FEATURES_MAX */
    uint8_t rows_log;                    /* rows of a feature's table, log2 */
    uint8_t cut;                         /* 0 .. SEP_NET_CUT_MAX */
    uint8_t shift;                       /* 1 .. SEP_NET_SHIFT_MAX */
    uint8_t patch[SEP_NET_FEATURES_MAX]; /* enum sep_patch, then 0 */
    int16_t bias[SEP_NET_WIDTH];         /* -SEP_NET_BIAS_MAX .. SEP_NET_BIAS_MAX */
    int32_t head_bias[SEP_NET_HEADS][SEP_SYMBOLS];
    int8_t head[SEP_NET_HEADS][SEP_SYMBOLS][SEP_NET_WIDTH]; /* no entry is -128 */

    /* The same as vector units read it, set by sep_net_prepare: of head[], four inputs of one symbol
     * side by side; of head_bias[], with half added; where each feature's rows begin, in bytes. */
    _Alignas(32) int8_t head4[SEP_NET_HEADS][SEP_NET_WIDTH / 4][SEP_SYMBOLS][4];
    _Alignas(32) int32_t head_start[SEP_NET_HEADS][SEP_SYMBOLS];
    _Alignas(32) int16_t start[SEP_NET_WIDTH];
    _Alignas(32) uint32_t patch_at[SEP_NET_FEATURES_MAX];
    _Alignas(32) uint32_t rows_at[SEP_NET_FEATURES_MAX];

    /* features << rows_log rows of SEP_NET_WIDTH, a feature's rows together; 64-byte aligned. */
    int8_t *rows;
};

/* Row of a feature's table for what its patch sees. By patch and not by feature, so that a patch that
 * the training leaves out moves no row of the others. */
static inline uint32_t sep_net_row(uint32_t value, uint32_t patch, uint32_t rows_log)
{
    const uint32_t h = (value * SEP_HASH_1 ^ (patch + 1) * SEP_HASH_3) * SEP_HASH_2;

    return (h ^ h >> 15) * SEP_HASH_1 >> (32 - rows_log);
}

/* Bytes of all rows. */
static inline size_t sep_net_rows_size(const struct sep_net *net)
{
    return ((size_t)net->features << net->rows_log) * SEP_NET_WIDTH;
}

/* Allocates a zeroed net with room for FEATURES tables; NULL when memory is short or a number is out
 * of range. Free with sep_net_free. */
struct sep_net *sep_net_new(unsigned features, unsigned rows_log);
void sep_net_free(struct sep_net *net);

/* Sets head4[] from head[]; false when a field is out of its range. To be called before use. */
bool sep_net_prepare(struct sep_net *net);

/* Reference arithmetic: a[] of one byte, then the row of one nibble. HEAD is 0 or 1 + high nibble. */
void sep_net_activate(const struct sep_net *net, const uint32_t patch_value[SEP_PATCH_COUNT],
                      uint8_t active[SEP_NET_WIDTH]);
void sep_net_logits(const struct sep_net *net, const uint8_t active[SEP_NET_WIDTH], unsigned head,
                    int8_t row[SEP_SYMBOLS]);

/* What a row claims to know, 1 to 31: how far its highest entry, HIGHEST, stands above the mean. */
static inline uint32_t sep_net_confidence(int32_t highest)
{
    return 1u + (highest < 0 ? 0u : highest > 120 ? 30u : (uint32_t)highest / 4u);
}

#endif
