/* SPDX-License-Identifier: BSD-2-Clause
 *
 * net.c - a new network. Rows start at 0, so that a context never seen says nothing; what breaks
 * the symmetry are the bias and the output weights.
 */
#include <stdlib.h>

#include "net.h"
#include "random.h"

#define BIAS_START 0.5F  /* bias in [0, 1): every unit is open at first */
#define OUT_START  0.25F /* output weights in [-0.25, 0.25) */

const struct train_math *train_math_best(void)
{
#ifdef TRAIN_HAVE_AVX2
    if (__builtin_cpu_supports("avx2"))
        return &train_math_avx2;
#endif
    return &train_math_plain;
}

void train_net_transpose(struct train_net *net)
{
    for (unsigned head = 0; head < TRAIN_HEADS; head++)
        for (unsigned s = 0; s < TRAIN_SYMBOLS; s++)
            for (unsigned k = 0; k < TRAIN_WIDTH; k++)
                net->across[head][k][s] = net->dense.out[head][s][k];
}

struct train_net *train_net_new(uint64_t seed, uint32_t rows_log)
{
    const size_t rows = (size_t)TRAIN_FEATURES << rows_log;
    struct train_net *const net = aligned_alloc(64, sizeof *net);
    uint64_t random = seed;

    if (net == NULL)
        return NULL;
    memset(net, 0, sizeof *net);
    net->rows_log = rows_log;
    net->row = calloc(rows * TRAIN_WIDTH, sizeof *net->row);
    net->row_squares = calloc(rows, sizeof *net->row_squares);
    if (net->row == NULL || net->row_squares == NULL) {
        train_net_free(net);
        return NULL;
    }
    for (unsigned head = 0; head < TRAIN_HEADS; head++)
        for (unsigned s = 0; s < TRAIN_SYMBOLS; s++)
            for (unsigned k = 0; k < TRAIN_WIDTH; k++)
                net->dense.out[head][s][k] = OUT_START * train_random_float(&random);
    for (unsigned k = 0; k < TRAIN_WIDTH; k++)
        net->dense.bias[k] = BIAS_START * (1.0F + train_random_float(&random));
    for (unsigned f = 0; f < TRAIN_FEATURES; f++)
        net->gate[f] = 1;
    train_net_transpose(net);
    return net;
}

void train_net_free(struct train_net *net)
{
    if (net == NULL)
        return;
    free(net->row);
    free(net->row_squares);
    free(net);
}
