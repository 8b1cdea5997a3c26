/* SPDX-License-Identifier: BSD-2-Clause
 *
 * net.c - reference arithmetic of the static net; kernel_avx2.c has the same in vectors.
 */
#include <string.h>

#include "codec.h"
#include "net.h"

struct sep_net *sep_net_new(unsigned features, unsigned rows_log)
{
    struct sep_net *net;

    if (features == 0 || features > SEP_NET_FEATURES_MAX || rows_log < SEP_NET_ROWS_LOG_MIN ||
        rows_log > SEP_NET_ROWS_LOG_MAX)
        return NULL;
    net = sep_allocate(sizeof *net);
    if (net == NULL)
        return NULL;
    net->backbone = SEP_NET_MLP;
    net->features = (uint8_t)features;
    net->rows_log = (uint8_t)rows_log;
    net->shift = 1;
    net->rows = sep_allocate(sep_net_rows_size(net));
    if (net->rows == NULL) {
        sep_release(net);
        return NULL;
    }
    return net;
}

void sep_net_free(struct sep_net *net)
{
    if (net == NULL)
        return;
    sep_release(net->rows);
    sep_release(net);
}

static bool in_range(const struct sep_net *net)
{
    if (net->backbone != SEP_NET_MLP || net->cut > SEP_NET_CUT_MAX || net->shift == 0 ||
        net->shift > SEP_NET_SHIFT_MAX)
        return false;
    for (uint32_t f = 0; f < SEP_NET_FEATURES_MAX; f++)
        if (f < net->features ? net->patch[f] >= SEP_PATCH_COUNT || net->patch[f] == SEP_PATCH_MATCH
                              : net->patch[f] != 0)
            return false;
    for (uint32_t d = 0; d < SEP_NET_WIDTH; d++)
        if (net->bias[d] > SEP_NET_BIAS_MAX || net->bias[d] < -SEP_NET_BIAS_MAX)
            return false;
    for (uint32_t h = 0; h < SEP_NET_HEADS; h++)
        for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
            if (net->head_bias[h][j] > SEP_NET_HEAD_MAX || net->head_bias[h][j] < -SEP_NET_HEAD_MAX)
                return false;
            for (uint32_t d = 0; d < SEP_NET_WIDTH; d++)
                if (net->head[h][j][d] == -128)
                    return false;
        }
    return true;
}

bool sep_net_prepare(struct sep_net *net)
{
    if (!in_range(net))
        return false;
    for (uint32_t h = 0; h < SEP_NET_HEADS; h++)
        for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
            for (uint32_t d = 0; d < SEP_NET_WIDTH; d++)
                net->head4[h][d / 4][j][d % 4] = net->head[h][j][d];
    for (uint32_t h = 0; h < SEP_NET_HEADS; h++)
        for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
            net->head_start[h][j] = net->head_bias[h][j] + (1 << (net->shift - 1));
    memcpy(net->start, net->bias, sizeof net->start);
    for (uint32_t f = 0; f < SEP_NET_FEATURES_MAX; f++) {
        net->patch_at[f] = net->patch[f];
        net->rows_at[f] = f < net->features ? (f << net->rows_log) * SEP_NET_WIDTH : 0;
    }
    return true;
}

void sep_net_activate(const struct sep_net *net, const uint32_t patch_value[SEP_PATCH_COUNT],
                      uint8_t active[SEP_NET_WIDTH])
{
    int32_t sum[SEP_NET_WIDTH];

    for (uint32_t d = 0; d < SEP_NET_WIDTH; d++)
        sum[d] = net->bias[d];
    for (uint32_t f = 0; f < net->features; f++) {
        const size_t row = ((size_t)f << net->rows_log) +
                           sep_net_row(patch_value[net->patch[f]], net->patch[f], net->rows_log);

        for (uint32_t d = 0; d < SEP_NET_WIDTH; d++)
            sum[d] += net->rows[row * SEP_NET_WIDTH + d];
    }
    for (uint32_t d = 0; d < SEP_NET_WIDTH; d++) {
        const int32_t value = sum[d] >> net->cut;

        active[d] = (uint8_t)(value < 0 ? 0 : value > 127 ? 127 : value);
    }
}

void sep_net_logits(const struct sep_net *net, const uint8_t active[SEP_NET_WIDTH], unsigned head,
                    int8_t row[SEP_SYMBOLS])
{
    int32_t logit[SEP_SYMBOLS], total = 0;

    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        int32_t sum = net->head_bias[head][j] + (1 << (net->shift - 1));

        for (uint32_t d = 0; d < SEP_NET_WIDTH; d++)
            sum += net->head[head][j][d] * active[d];
        logit[j] = sum >> net->shift;
        total += logit[j];
    }
    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        const int32_t value = logit[j] - ((total + 8) >> 4);

        row[j] = (int8_t)(value < -127 ? -127 : value > 127 ? 127 : value);
    }
}
