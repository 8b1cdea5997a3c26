/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_scalar.c - reference arithmetic of one nibble: look-up, gated mixture, softmax, learning.
 *
 * z = sum over experts of weight * row + (weight of the last symbol, at that symbol) + bias rows;
 * P = softmax(z); every weight and bias moves by rate * <truth - P, its input>. All sums are exact
 * in 32 bits whatever their order: |row| <= 128 and |weight| <= 32768 give |z| < 2^27 for 16
 * experts; weights are saturated only where they are used, and wrap around in 32 bits. Shifts of negative numbers are arithmetic, with half of the unit added first: rounding
 * down instead lets the weights drift (1 MB blocks became larger than eight of 128 KiB).
 */
#include "kernel.h"
#include "kernel_math.h"
#include "net.h"
#include "tables.h"

static int8_t *row_at(struct sep_model_state *m, uint32_t row)
{
    return (int8_t *)m->lines + row;
}

static uint32_t *what_at(struct sep_model_state *m, uint32_t what)
{
    return (uint32_t *)m->lines + what / sizeof(uint32_t);
}

static void scalar_locate(struct sep_model_state *m, uint32_t salt)
{
    for (uint32_t e = 0; e < m->slot_experts && salt == 0; e++)
        m->seed[e] = sep_seed(m->patch_value[m->patch[e]], e);
    for (uint32_t e = 0; e < m->slot_experts; e++) {
        const uint32_t hash = (m->seed[e] + salt * SEP_HASH_3) * SEP_HASH_1;

        m->line[e] = (hash >> m->half_shift) * SEP_LINE_BYTES + m->half_at[e & 7];
        m->check[SEP_LANE(e)] = (uint16_t)hash;
        if (m->net != NULL && e == m->net_expert)
            m->line[e] = 0;
        __builtin_prefetch(row_at(m, m->line[e]));
    }
}

static void scalar_net_ask(struct sep_model_state *m)
{
    const struct sep_net *net = m->net;

    for (uint32_t f = 0; f < net->features; f++) {
        const uint32_t patch = net->patch[f];

        m->net_at[f] = net->rows_at[f] +
                       sep_net_row(m->patch_value[patch], patch, net->rows_log) * SEP_NET_WIDTH;
        __builtin_prefetch(net->rows + m->net_at[f]);
    }
}

static void scalar_net_sum(struct sep_model_state *m)
{
    sep_net_activate(m->net, m->patch_value, m->net_active);
}

static void scalar_net_row(struct sep_model_state *m, uint32_t head)
{
    int8_t *row = row_at(m, SEP_ROW_NET);
    uint32_t symbol = 0;

    sep_net_logits(m->net, m->net_active, head, row);
    for (uint32_t j = 1; j < SEP_SYMBOLS; j++)
        if (row[j] > row[symbol])
            symbol = j;
    m->net_symbol = symbol;
    m->net_confidence = sep_net_confidence(row[symbol]);
}

/* Finds an expert's slot: the way with the right check, or the one least used, to be taken over. */
static uint32_t look_up(struct sep_model_state *m, uint32_t e)
{
    const uint32_t line = m->line[e], lane = SEP_LANE(e);
    const uint32_t *what = what_at(m, line);
    uint32_t way = 0, state = SEP_STATE_NEW;

    while (way < SEP_WAYS && (what[way] & 0xffff) != m->check[lane])
        way++;
    if (way < SEP_WAYS) {
        state = what[way] >> 16;
        m->source[e] = SEP_ROW_OF(line, way);
    } else {
        way = 0;
        for (uint32_t other = 1; other < SEP_WAYS; other++)
            if ((what[other] >> 16 & 15) < (what[way] >> 16 & 15))
                way = other;
        m->source[e] = SEP_ROW_ZERO;
    }
    m->slot[e] = SEP_ROW_OF(line, way);
    m->what_at[e] = SEP_WHAT_OF(line, way);
    m->slot_check[lane] = m->check[lane];
    m->state[lane] = (uint16_t)state;
    m->weight_at[lane] = (uint16_t)(e * SEP_CONFIDENCES + sep_confidence_count[state & 15] +
                                    sep_confidence_run[state >> 4 & 15]);
    m->last_at[lane] = (uint16_t)SEP_LAST_AT(state >> 8);
    return state != SEP_STATE_NEW;
}

static void softmax(struct sep_model_state *m, const int32_t z[SEP_SYMBOLS])
{
    int32_t highest = -32768;
    uint32_t power[SEP_SYMBOLS], total = 0, scale, sum = 0;

    for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
        if (sep_cut_z(z[j]) > highest)
            highest = sep_cut_z(z[j]);
    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        power[j] = sep_exp((uint32_t)(highest - sep_cut_z(z[j])));
        total += power[j];
    }
    scale = SEP_PROBABILITY_SCALE / total;
    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        m->probability[j] = (uint16_t)((power[j] * scale >> 15) + 1);
        m->cumulative[j] = (uint16_t)sum;
        sum += m->probability[j];
    }
}

static void scalar_predict(struct sep_model_state *m)
{
    int32_t z[SEP_SYMBOLS];
    uint32_t hits = 0;

    for (uint32_t e = 0; e < m->slot_experts; e++)
        hits += look_up(m, e);
    m->set[3] = m->set_by_hits + hits * SEP_EXPERTS_MAX;
    sep_place_net(m);
    sep_place_matches(m);
    for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
        z[j] = (m->bias[0][j] + m->bias[1][j]) * 16;
    for (uint32_t e = 0; e < m->experts; e++) {
        const struct sep_weight *weight = &m->weights[m->weight_at[SEP_LANE(e)]];
        const uint32_t last = m->last_at[SEP_LANE(e)] / SEP_LAST_AT(1);
        uint32_t sum = (uint32_t)weight->row;

        for (uint32_t k = 0; k < SEP_WEIGHT_SETS; k++)
            sum += (uint32_t)m->set[k][e];
        for (uint32_t j = 0; j < SEP_SYMBOLS && e < m->slot_experts; j++)
            z[j] += sep_narrow(sum) * row_at(m, m->source[e])[j];
        if (last < SEP_SYMBOLS)
            z[last] += sep_narrow((uint32_t)weight->last) * 16;
    }
    softmax(m, z);
}

static unsigned scalar_find(const struct sep_model_state *m, uint32_t target)
{
    unsigned symbol = 0;

    for (uint32_t j = 1; j < SEP_SYMBOLS; j++)
        symbol += m->cumulative[j] <= target;
    return symbol;
}

/* Moves the row, count, run and last symbol of expert E's slot, and stores them. */
static void update_slot(struct sep_model_state *m, uint32_t e, uint32_t symbol)
{
    const uint32_t state = m->state[SEP_LANE(e)];
    const uint32_t count = state & 15;
    const uint32_t run = state >> 8 == symbol ? (state >> 4 & 15) : 0;
    const struct sep_row_move *move = &sep_row_move[count];
    const int8_t *source = row_at(m, m->source[e]);
    int8_t *row = row_at(m, m->slot[e]);
    const int8_t rise = move->rise[source[symbol] + 128];

    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        const int32_t value = source[j] - move->fall[j];

        row[j] = (int8_t)(value < -128 ? -128 : value);
    }
    row[symbol] = rise;
    *what_at(m, m->what_at[e]) = m->slot_check[SEP_LANE(e)] |
                                 (count < SEP_COUNT_LIMIT ? count + 1 : count) << 16 |
                                 (run < SEP_RUN_LIMIT ? run + 1 : run) << 20 | symbol << 24;
}

static void add_step(int32_t *weight, uint32_t step)
{
    *weight = (int32_t)((uint32_t)*weight + step);
}

static void update_weights(struct sep_model_state *m, const int32_t error[SEP_SYMBOLS])
{
    for (uint32_t e = 0; e < m->experts; e++) {
        struct sep_weight *weight = &m->weights[m->weight_at[SEP_LANE(e)]];
        const uint32_t last = m->last_at[SEP_LANE(e)] / SEP_LAST_AT(1);
        int32_t gradient = 0;

        for (uint32_t j = 0; j < SEP_SYMBOLS && e < m->slot_experts; j++)
            gradient += error[j] * row_at(m, m->source[e])[j];
        add_step(&weight->row, sep_step(gradient, m->rate_row));
        for (uint32_t k = 0; k < SEP_WEIGHT_SETS; k++)
            add_step(&m->set[k][e], sep_step(gradient, m->rate_set));
        if (last < SEP_SYMBOLS)
            add_step(&weight->last, sep_step(error[last], m->rate_last * 16));
    }
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
            m->bias[k][j] = sep_bias_step(m->bias[k][j], error[j], m->rate_bias);
}

static void scalar_update(struct sep_model_state *m, uint32_t symbol)
{
    int32_t error[SEP_SYMBOLS];

    if (m->probability[symbol] < SEP_CERTAIN) {
        for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
            error[j] = (j == symbol ? 32767 : 0) - (int32_t)(m->probability[j] >> 1);
        update_weights(m, error);
    }
    for (uint32_t e = 0; e < m->slot_experts; e++)
        update_slot(m, e, symbol);
}

const struct sep_kernel sep_kernel_scalar = {
    .name = "scalar",
    .locate = scalar_locate,
    .net_ask = scalar_net_ask,
    .net_sum = scalar_net_sum,
    .net_row = scalar_net_row,
    .predict = scalar_predict,
    .find = scalar_find,
    .update = scalar_update,
};
