/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_scalar.c - reference arithmetic of one nibble: look-up, gated mixture, softmax, learning.
 *
 * z = sum over experts of weight * row + (weight of the last symbol, at that symbol) + bias rows;
 * P = softmax(z); every weight and bias moves by rate * <truth - P, its input>. All sums are exact
 * in 32 bits whatever their order: |row| <= 127 and |weight| <= 32767 give |z| < 2^27 for 24
 * experts. Shifts of negative numbers are arithmetic, with half of the unit added first: rounding
 * down instead lets the weights drift (1 MB blocks became larger than eight of 128 KiB).
 */
#include <string.h>

#include "kernel.h"
#include "kernel_math.h"
#include "tables.h"

static const int8_t *row_at(const struct sep_model_state *m, uint32_t row)
{
    return (const int8_t *)m->lines + row * SEP_SYMBOLS;
}

static void scalar_locate(struct sep_model_state *m, uint32_t salt)
{
    for (uint32_t e = 0; e < m->slot_experts && salt == 0; e++)
        m->seed[e] = sep_seed(m->patch_value[m->patch[e]], e);
    for (uint32_t e = 0; e < m->slot_experts; e++) {
        const uint32_t hash = (m->seed[e] + salt * SEP_HASH_3) * SEP_HASH_1;

        m->line[e] = (hash >> m->half_shift) + (e & 1) * m->half_lines;
        m->check[e] = hash & 0xffff;
        __builtin_prefetch(&m->lines[m->line[e]]);
    }
}

/* Finds an expert's slot: the way with the right check, or the one least used, to be taken over. */
static uint32_t look_up(struct sep_model_state *m, uint32_t e)
{
    const struct sep_line *line = &m->lines[m->line[e]];
    uint32_t way = 0;

    while (way < SEP_WAYS && (line->what[way] & 0xffff) != m->check[e])
        way++;
    if (way < SEP_WAYS) {
        m->state[e] = line->what[way] >> 16;
        m->slot[e] = m->source[e] = SEP_ROW_OF(m->line[e], way);
    } else {
        way = 0;
        for (uint32_t other = 1; other < SEP_WAYS; other++)
            if ((line->what[other] >> 16 & 15) < (line->what[way] >> 16 & 15))
                way = other;
        m->state[e] = SEP_STATE_NEW;
        m->slot[e] = SEP_ROW_OF(m->line[e], way);
        m->source[e] = SEP_ROW_ZERO;
    }
    m->slot_check[e] = m->check[e];
    m->weight_at[e] = e * SEP_CONFIDENCES + sep_confidence_count[m->state[e] & 15] +
                      sep_confidence_run[m->state[e] >> 4 & 15];
    m->last[e] = m->state[e] >> 8;
    return m->state[e] != SEP_STATE_NEW;
}

static void scalar_predict(struct sep_model_state *m)
{
    int32_t z[SEP_SYMBOLS], highest;
    uint32_t total = 0, scale, sum = 0, hits = 0;

    for (uint32_t e = 0; e < m->slot_experts; e++)
        hits += look_up(m, e);
    m->set[3] = m->set_by_hits + hits * SEP_EXPERTS_MAX;
    sep_place_matches(m);
    for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
        z[j] = (m->bias[0][j] + m->bias[1][j]) * 16;
    for (uint32_t e = 0; e < m->experts; e++) {
        const struct sep_weight *weight = &m->weights[m->weight_at[e]];
        const int32_t w =
            sep_narrow(weight->row + m->set[0][e] + m->set[1][e] + m->set[2][e] + m->set[3][e]);
        const int8_t *row = row_at(m, m->source[e]);

        for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
            z[j] += w * row[j];
        if (m->last[e] < SEP_SYMBOLS)
            z[m->last[e]] += sep_narrow(weight->last) * 16;
    }
    highest = z[0];
    for (uint32_t j = 1; j < SEP_SYMBOLS; j++)
        if (z[j] > highest)
            highest = z[j];
    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        m->probability[j] = sep_exp((uint32_t)(highest - z[j]));
        total += m->probability[j];
    }
    scale = SEP_PROBABILITY_SCALE / total;
    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        m->probability[j] = (m->probability[j] * scale >> 15) + 1;
        m->cumulative[j] = sum;
        sum += m->probability[j];
    }
    m->cumulative[SEP_SYMBOLS] = sum;
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
    struct sep_line *line = &m->lines[m->slot[e] >> 2];
    const uint32_t way = (m->slot[e] & 3) - 1;
    const uint32_t state = m->state[e];
    const uint32_t count = state & 15;
    const uint32_t run = m->last[e] == symbol ? (state >> 4 & 15) : 0;
    const struct sep_row_move *move = &sep_row_move[count];
    const int8_t *row = row_at(m, m->source[e]);
    const int8_t rise = move->rise[row[symbol] + 128];

    for (uint32_t j = 0; j < SEP_SYMBOLS; j++) {
        const int32_t value = row[j] - move->fall[j];

        line->row[way][j] = (int8_t)(value < -127 ? -127 : value);
    }
    line->row[way][symbol] = rise;
    line->what[way] = m->slot_check[e] | (count < SEP_COUNT_LIMIT ? count + 1 : count) << 16 |
                      (run < SEP_RUN_LIMIT ? run + 1 : run) << 20 | symbol << 24;
}

static void scalar_update(struct sep_model_state *m, uint32_t symbol)
{
    int32_t error[SEP_SYMBOLS];

    for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
        error[j] = (j == symbol ? 32767 : 0) - (int32_t)(m->probability[j] >> 1);
    for (uint32_t e = 0; e < m->experts; e++) {
        struct sep_weight *weight = &m->weights[m->weight_at[e]];
        const int8_t *row = row_at(m, m->source[e]);
        int32_t gradient = 0;

        for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
            gradient += error[j] * row[j];
        gradient = (gradient + 8) >> 4;
        weight->row = sep_clamp(weight->row + sep_step(gradient, m->rate_row));
        for (uint32_t k = 0; k < SEP_WEIGHT_SETS; k++)
            m->set[k][e] = sep_clamp(m->set[k][e] + sep_step(gradient, m->rate_set));
        if (m->last[e] < SEP_SYMBOLS)
            weight->last = sep_clamp(weight->last + sep_step(error[m->last[e]], m->rate_last));
    }
    for (uint32_t e = 0; e < m->slot_experts; e++)
        update_slot(m, e, symbol);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t j = 0; j < SEP_SYMBOLS; j++)
            m->bias[k][j] = sep_bias_step(m->bias[k][j], error[j], m->rate_bias);
}

const struct sep_kernel sep_kernel_scalar = {
    .name = "scalar",
    .locate = scalar_locate,
    .predict = scalar_predict,
    .find = scalar_find,
    .update = scalar_update,
};
