/* SPDX-License-Identifier: BSD-2-Clause
 *
 * net.h - the network in floats while it learns, and its arithmetic once for each instruction set.
 *
 *     z = bias + sum over features f of gate[f] * row[f][index f]        WIDTH values
 *     h = min(max(z, 0), TRAIN_CLIP)
 *     high nibble: softmax of out_bias[0] + out[0] h; low nibble: the same with out[1 + high]
 *
 * Loss: cross-entropy in nats. Rows follow Adagrad (Duchi, Hazan, Singer 2011) with one sum of
 * squares a row, everything else with one a weight. A gate falls by a penalty as long as a feature
 * does not lower the loss by more, and rises to at most 1; at 0 it stays.
 *
 * A batch is worked on in two steps. Examples: lane by lane; the network does not change, gradients
 * of the dense part are summed a lane at a time. Rows: feature by feature, example after example.
 * Each lane and each feature belongs to one thread, so the number of threads changes nothing.
 * Sums are written out in order and never contracted to fused operations, so that all instruction
 * sets give the same bits.
 */
#ifndef TRAIN_NET_H
#define TRAIN_NET_H

#include <stddef.h>
#include <stdint.h>

#include "train.h"

#define TRAIN_WIDTH    32u
#define TRAIN_SYMBOLS  16u
#define TRAIN_HEADS    17u /* high nibble; low nibble after each high one */
#define TRAIN_FEATURES 14u
#define TRAIN_LANES    16u /* blocks read side by side */
#define TRAIN_STEPS    32u /* most examples of a lane in a batch */
#define TRAIN_CLIP     4.0F

struct train_dense {
    _Alignas(64) float out[TRAIN_HEADS][TRAIN_SYMBOLS][TRAIN_WIDTH];
    float out_bias[TRAIN_HEADS][TRAIN_SYMBOLS];
    float bias[TRAIN_WIDTH];
};

#define TRAIN_DENSE_FLOATS (sizeof(struct train_dense) / sizeof(float))

struct train_net {
    struct train_dense dense;
    _Alignas(64) float across[TRAIN_HEADS][TRAIN_WIDTH][TRAIN_SYMBOLS]; /* dense.out, transposed */
    float gate[TRAIN_FEATURES];
    uint8_t patch[TRAIN_FEATURES]; /* enum sep_patch */
    uint32_t rows_log;
    float *row;         /* [TRAIN_FEATURES][1 << rows_log][TRAIN_WIDTH] */
    float *row_squares; /* [TRAIN_FEATURES][1 << rows_log] */
    struct train_dense squares;
};

/* What a lane leaves for the second step. */
struct train_lane {
    _Alignas(64) float dz[TRAIN_STEPS][TRAIN_WIDTH];
    struct train_dense gradient;
    float dz_square[TRAIN_STEPS]; /* mean of the squares of dz */
    uint32_t index[TRAIN_STEPS][TRAIN_FEATURES];
    uint8_t byte[TRAIN_STEPS];
    uint32_t steps;
    double loss; /* nats */
};

struct train_math {
    /* index, byte, steps -> the rest of LANE. */
    void (*examples)(const struct train_net *net, struct train_lane *lane);
    /* Rows and gate of one feature. RATE falls on both; PENALTY in nats an example. */
    void (*rows)(struct train_net *net, const struct train_lane *lanes, unsigned feature,
                 float rate, float penalty);
    /* Dense weights FIRST .. END - 1 of struct train_dense, as floats. */
    void (*dense)(struct train_net *net, const struct train_lane *lanes, unsigned first,
                  unsigned end, float rate);
};

extern const struct train_math train_math_plain;
#ifdef TRAIN_HAVE_AVX2
extern const struct train_math train_math_avx2;
#endif
const struct train_math *train_math_best(void);

/* Starting weights from SEED; NULL when memory is short. */
struct train_net *train_net_new(uint64_t seed, uint32_t rows_log);
void train_net_transpose(struct train_net *net); /* across from dense.out */

#endif
