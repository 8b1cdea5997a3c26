/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model.c - the order of things around one byte: patches, match, look-up, mixture, learning.
 *
 * What a nibble needs from memory is asked for (locate) before the nibble before it is learnt
 * (update), so that cache misses and arithmetic overlap. Tables are cleared or primed at the start of a block
 * and scale with its size: 32 bytes of slots a byte of block, 4 MiB at most, so that short blocks do
 * not pay for clearing what they cannot fill.
 */
#include <string.h>

#include "model.h"
#include "tables.h"

/* Learning rates: start + end at the first byte, falling as 1 / position towards the end. Weights
 * of rows and sets: 32768 is rate 1 for inputs in nats; bias rows: 4096. */
#define RATE_ROW_START  150u
#define RATE_ROW_END    24u
#define RATE_SET_START  120u
#define RATE_SET_END    22u
#define RATE_LAST_START 500u
#define RATE_LAST_END   200u
#define RATE_BIAS_START 100u
#define RATE_BIAS_END   60u

/* Weight of the net's row at the start of a block, 20 fraction bits. */
#define START_NET (240 << 10)

/* Record patches of a block without a stride look at 32-bit words. */
#define DEFAULT_STRIDE 4u

static void reset_weights(struct sep_model_state *m)
{
    for (uint32_t nibble = 0; nibble < 2; nibble++)
        for (uint32_t e = 0; e < SEP_EXPERTS_MAX; e++)
            for (uint32_t c = 0; c < SEP_CONFIDENCES; c++) {
                m->weight[nibble][e][c] = sep_start_weight[c];
                if (e >= m->slot_experts)
                    m->weight[nibble][e][c] = (struct sep_weight){.last = sep_start_match[c]};
                if (m->net != NULL && e == m->net_expert)
                    m->weight[nibble][e][c] = (struct sep_weight){.row = START_NET};
            }
    memset(m->weight_set, 0, sizeof m->weight_set);
}

static void reset_tables(struct sep_model_state *m, uint32_t lines_log, uint32_t bias_log)
{
    m->half_shift = 32 - (lines_log - 1);
    for (uint32_t e = 0; e < 8; e++)
        m->half_at[e] = SEP_LINE_BYTES + (e & 1) * (SEP_LINE_BYTES << (lines_log - 1));
    m->bias2_mask = (1u << bias_log) - 1;
    memset(m->lines, 0, sizeof m->lines[0] + (sizeof m->lines[0] << lines_log));
    memset(m->bias1, 0, sizeof m->bias1);
    memset(m->bias2, 0, sizeof m->bias2[0] << bias_log);
    memset(m->seed, 0, sizeof m->seed);
    memset(m->line, 0, sizeof m->line);
}

/* Learning rates fall over the first kilobytes of a block. */
static void set_rates(struct sep_model_state *m)
{
    const uint32_t seen = m->seen_before + m->position;

    m->rate_row = (int32_t)(RATE_ROW_END + (RATE_ROW_START * 1024u) / (seen + 1024));
    m->rate_set = (int32_t)(RATE_SET_END + (RATE_SET_START * 1024u) / (seen + 1024));
    m->rate_last = (int32_t)(RATE_LAST_END + (RATE_LAST_START * 1024u) / (seen + 1024));
    m->rate_bias = (int32_t)(RATE_BIAS_END + (RATE_BIAS_START * 1024u) / (seen + 1024));
}

/* Where the next nibble's inputs stand that do not depend on the match models. Known before the last
 * nibble is learnt, which still uses those of the last. */
struct inputs {
    int32_t *column, *last, *before;
    int16_t *bias[2];
};

static struct inputs ask_for_inputs(struct sep_model_state *m, unsigned nibble, uint32_t symbol_key)
{
    const uint32_t c1 = m->history & 255, c2 = m->history >> 8 & 255;
    const uint32_t hash = (((uint32_t)m->history & 65535) + (symbol_key << 16) + 1) * SEP_HASH_1;
    const struct inputs in = {
        .column = m->weight_set[nibble][0][m->column & 255],
        .last = m->weight_set[nibble][1][nibble == 0 ? c1 : m->high << 4 | c1 >> 4],
        .before = m->weight_set[nibble][2][c2],
        .bias = {m->bias1[c1][symbol_key], m->bias2[(hash >> 16 ^ hash >> 2) & m->bias2_mask]},
    };

    __builtin_prefetch(in.bias[1], 1);
    __builtin_prefetch(in.bias[0], 1);
    __builtin_prefetch(in.last, 1);
    __builtin_prefetch(in.before, 1);
    return in;
}

/* Weight sets, bias rows and match predictions of the next nibble. */
static void select_inputs(struct sep_model_state *m, unsigned nibble, const struct inputs *in)
{
    sep_match_nibble(m, nibble);
    m->weights = m->weight[nibble][0];
    m->set[0] = m->has_stride ? in->column
                              : m->weight_set[nibble][0][m->match_confidence[0] +
                                                         (m->match_confidence[1] != 0 ? 32u : 0)];
    m->set[1] = in->last;
    m->set[2] = in->before;
    m->set_by_hits = m->weight_set[nibble][3][0];
    m->bias[0] = in->bias[0];
    m->bias[1] = in->bias[1];
}

/* The net's row for the next nibble; HEAD is 0 or 1 + high nibble. The last nibble has been learnt. */
static void ask_net(struct sep_model_state *m, const struct sep_kernel *kernel, uint32_t head)
{
    if (m->net == NULL)
        return;
    if (head == 0)
        kernel->net_sum(m);
    kernel->net_row(m, head);
}

void sep_model_prepare(struct sep_model_state *m, unsigned profile, uint32_t lines_log,
                       uint32_t bias_log, const struct sep_net *net)
{
    m->profile = &sep_profiles[profile];
    m->slot_experts = m->profile->experts;
    m->experts = m->slot_experts + SEP_MATCHES;
    m->net = net;
    m->net_expert = m->profile->spare;
    m->seen_before = 0;
    reset_weights(m);
    reset_tables(m, lines_log, bias_log);
}

void sep_model_resume(struct sep_model_state *m, const struct sep_kernel *kernel,
                      const uint8_t *plain, size_t plain_size, unsigned stride)
{
    struct inputs in;

    m->plain = plain;
    m->position = 0;
    m->high = 0;
    m->history = 0;
    m->has_stride = stride != 0;
    m->stride = stride != 0 ? stride : DEFAULT_STRIDE;
    sep_match_begin(m, plain_size);
    sep_patch_begin(m);
    set_rates(m);
    if (m->net != NULL) {
        memset(&m->lines[0], 0, sizeof m->lines[0]);
        kernel->net_ask(m);
    }
    kernel->locate(m, 0);
    in = ask_for_inputs(m, 0, SEP_SYMBOLS);
    ask_net(m, kernel, 0);
    select_inputs(m, 0, &in);
    kernel->predict(m);
}

/* Without a primed state, tables have a size that fits the block. A primed state needs the largest:
 * where its slots lie depends on it. */
void sep_model_begin(struct sep_model_state *m, const struct sep_kernel *kernel,
                     const uint8_t *plain, size_t plain_size, unsigned profile, unsigned stride,
                     const struct sep_knowledge *knowledge)
{
    const bool primed = knowledge->primed != NULL;
    uint32_t lines_log = SEP_LINES_LOG_MIN, bias_log = 8;

    while (lines_log < SEP_LINES_LOG_MAX && (primed || (size_t)2 << lines_log < plain_size))
        lines_log++;
    while (bias_log < SEP_BIAS2_LOG_MAX && (primed || (size_t)8 << bias_log < plain_size))
        bias_log++;
    sep_model_prepare(m, profile, lines_log, bias_log, knowledge->net);
    if (primed)
        sep_primed_apply(knowledge->primed, m);
    sep_model_resume(m, kernel, plain, plain_size, stride);
}

void sep_model_after_high(struct sep_model_state *m, const struct sep_kernel *kernel, uint32_t high)
{
    struct inputs in;

    kernel->locate(m, 1 + high);
    m->high = high;
    in = ask_for_inputs(m, 1, high);
    sep_match_ahead(m);
    kernel->update(m, high);
    ask_net(m, kernel, 1 + high);
    select_inputs(m, 1, &in);
    kernel->predict(m);
}

void sep_model_after_low(struct sep_model_state *m, const struct sep_kernel *kernel, uint32_t low)
{
    struct inputs in;

    m->position++;
    m->history = m->history << 8 | m->high << 4 | low;
    sep_patch_next(m);
    if (m->net != NULL)
        kernel->net_ask(m);
    in = ask_for_inputs(m, 0, SEP_SYMBOLS);
    sep_match_next(m);
    kernel->locate(m, 0);
    kernel->update(m, low);
    if ((m->position & 63) == 0)
        set_rates(m);
    ask_net(m, kernel, 0);
    select_inputs(m, 0, &in);
    kernel->predict(m);
}
