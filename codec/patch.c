/* SPDX-License-Identifier: BSD-2-Clause
 *
 * patch.c - patches of the bytes before the next one.
 *
 * Patches are computed for every byte, a kind of them at a time (two or three operations each), when
 * the profile's list has one of the kind. Bytes before the start of the block read as 0. The last
 * eight bytes come from m->history: a wide load of bytes stored just before would stall.
 */
#include <stdbool.h>
#include <string.h>

#include "model.h"
#include "net.h"
#include "tables.h"

static uint32_t mix(uint32_t a, uint32_t b)
{
    const uint32_t h = (a * SEP_HASH_1 ^ b) * SEP_HASH_2;

    return h ^ h >> 15;
}

/* The byte DISTANCE back; 0 for distance 0 and before the start. */
static uint32_t byte_back(const struct sep_model_state *m, uint32_t distance)
{
    return distance - 1 < m->position ? m->plain[m->position - distance] : 0;
}

/* 0-15: what kind of text a byte is; 8-15 are blank and punctuation. */
static const uint8_t byte_class[256] = {
    [0 ... 9] = 6,     [10] = 5,   [11 ... 31] = 6,   [32] = 8,   [33] = 9,
    [34] = 10,         [35] = 11,  [36] = 12,         [37] = 13,  [38] = 14,
    [39] = 15,         [40] = 8,   [41] = 9,          [42] = 10,  [43] = 11,
    [44] = 12,         [45] = 13,  [46] = 14,         [47] = 15,  ['0' ... '9'] = 1,
    [58] = 10,         [59] = 11,  [60] = 12,         [61] = 13,  [62] = 14,
    [63] = 15,         [64] = 8,   ['A' ... 'Z'] = 3, [91] = 11,  [92] = 12,
    [93] = 13,         [94] = 14,  [95] = 15,         [96] = 8,   ['a' ... 'z'] = 2,
    [123] = 11,        [124] = 12, [125] = 13,        [126] = 14, [127] = 15,
    [128 ... 255] = 4,
};

/* Words, without branches: letters end anywhere. */
static void follow_words(struct sep_model_state *m, uint32_t c1)
{
    const uint32_t class = byte_class[c1];
    const bool letter = class >= 2 && class <= 4;
    const uint32_t word = m->word, before = m->word_before, before2 = m->word_before2;
    const uint32_t longer = (word + (c1 | 32) + 1) * SEP_HASH_3;
    const bool ended = !letter && word != 0;

    m->word = letter ? longer ^ longer >> 16 : 0;
    m->word_before = ended ? word : before;
    m->word_before2 = ended ? before : before2;
    m->format = m->format << 4 | class;
}

static void follow_lines(struct sep_model_state *m, uint32_t c1)
{
    if (m->position - m->line_start <= 2)
        m->line_hash = m->line_hash << 8 | c1;
    if (c1 == '\n') {
        m->line_hash = 0;
        m->line_before = m->line_start;
        m->line_start = m->position;
    }
}

/* What followed each byte and pair of bytes. */
static void follow_indirect(struct sep_model_state *m, uint64_t history)
{
    uint16_t *const one = &m->indirect1[history >> 8 & 255];
    uint16_t *const two = &m->indirect2[history >> 8 & 65535];

    *one = (uint16_t)((uint32_t)*one << 8 | (history & 255));
    *two = (uint16_t)((uint32_t)*two << 8 | (history & 255));
}

static void see_orders(struct sep_model_state *m, uint64_t history)
{
    uint32_t *const value = m->patch_value;
    const uint32_t last4 = (uint32_t)history, before4 = (uint32_t)(history >> 32);

    value[SEP_PATCH_ORDER0] = 0;
    value[SEP_PATCH_ORDER1] = last4 & 255;
    value[SEP_PATCH_ORDER2] = last4 & 65535;
    value[SEP_PATCH_ORDER3] = last4 & 0xffffff;
    value[SEP_PATCH_ORDER4] = last4;
    value[SEP_PATCH_ORDER5] = mix(last4, before4 & 255);
    value[SEP_PATCH_ORDER6] = mix(last4, before4 & 65535);
    value[SEP_PATCH_ORDER8] = mix(last4, before4);
    value[SEP_PATCH_SPARSE23] = last4 >> 8 & 65535;
    value[SEP_PATCH_SPARSE13] = (last4 & 255) | (last4 >> 8 & 0xff00);
    value[SEP_PATCH_SPARSE2] = last4 >> 8 & 255;
    value[SEP_PATCH_SPARSE3] = last4 >> 16 & 255;
    value[SEP_PATCH_SPARSE24] = (last4 >> 8 & 255) | (last4 >> 16 & 0xff00);
    value[SEP_PATCH_SPARSE34] = last4 >> 16;
    value[SEP_PATCH_SPARSE4] = last4 >> 24;
}

static void see_text(struct sep_model_state *m, uint32_t c1)
{
    uint32_t *const value = m->patch_value;
    const uint32_t column = m->position - m->line_start;
    const uint32_t cut = column < 255 ? column : 255;
    const uint32_t above_at = m->line_before + column;
    uint32_t above = 0, next = 0;

    if (above_at < m->line_start) {
        above = m->plain[above_at];
        next = above_at + 1 < m->position ? m->plain[above_at + 1] : 0;
    }
    value[SEP_PATCH_WORD] = mix(m->word, c1);
    value[SEP_PATCH_WORD2] = mix(m->word + c1, m->word_before);
    value[SEP_PATCH_WORD_SKIP] = mix(m->word + c1, m->word_before2 + 1);
    value[SEP_PATCH_FORMAT] = mix(m->format, c1);
    value[SEP_PATCH_LINE_ABOVE] = above | c1 << 8;
    value[SEP_PATCH_LINE_COLUMN] = above | next << 8 | cut << 16;
    value[SEP_PATCH_LINE_START] = m->line_hash << 8 | cut;
}

static void see_records(struct sep_model_state *m, uint32_t c1)
{
    uint32_t *const value = m->patch_value;
    const uint32_t stride = m->stride, column = m->column;
    const uint32_t above = byte_back(m, stride), above2 = byte_back(m, 2 * stride);
    const uint32_t left = byte_back(m, stride + 1);

    value[SEP_PATCH_ABOVE_COLUMN] = above | column << 8;
    value[SEP_PATCH_ABOVE_LAST] = above | above2 << 8 | c1 << 16;
    value[SEP_PATCH_ABOVE_LEFT] = above | left << 8 | c1 << 16;
    value[SEP_PATCH_COLUMN_LAST] = column | c1 << 16;
    value[SEP_PATCH_ABOVE_NEXT] = above | byte_back(m, stride - 1) << 8 | c1 << 16;
    value[SEP_PATCH_ABOVE_TWO] = above | above2 << 8 | column << 16;
    value[SEP_PATCH_GRADIENT] = ((above + c1 - left) & 255) | (column & 15) << 8;
    value[SEP_PATCH_LINEAR] = ((2 * above - above2) & 255) | (column & 15) << 8;
}

/* Which kinds of patches an expert of the profile, or a feature of the net, looks at. */
static void choose_kinds(struct sep_model_state *m)
{
    static const uint64_t text =
        UINT64_C(1) << SEP_PATCH_WORD | UINT64_C(1) << SEP_PATCH_WORD2 |
        UINT64_C(1) << SEP_PATCH_WORD_SKIP | UINT64_C(1) << SEP_PATCH_FORMAT |
        UINT64_C(1) << SEP_PATCH_LINE_ABOVE | UINT64_C(1) << SEP_PATCH_LINE_COLUMN |
        UINT64_C(1) << SEP_PATCH_LINE_START;
    static const uint64_t records =
        UINT64_C(1) << SEP_PATCH_ABOVE_COLUMN | UINT64_C(1) << SEP_PATCH_ABOVE_LAST |
        UINT64_C(1) << SEP_PATCH_ABOVE_LEFT | UINT64_C(1) << SEP_PATCH_COLUMN_LAST |
        UINT64_C(1) << SEP_PATCH_ABOVE_NEXT | UINT64_C(1) << SEP_PATCH_ABOVE_TWO |
        UINT64_C(1) << SEP_PATCH_GRADIENT | UINT64_C(1) << SEP_PATCH_LINEAR;
    static const uint64_t indirect =
        UINT64_C(1) << SEP_PATCH_INDIRECT1 | UINT64_C(1) << SEP_PATCH_INDIRECT2;
    uint64_t used = 0;

    for (uint32_t e = 0; e < m->slot_experts; e++)
        used |= UINT64_C(1) << m->patch[e];
    for (uint32_t f = 0; m->net != NULL && f < m->net->features; f++)
        used |= UINT64_C(1) << m->net->patch[f];
    m->sees_text = (used & text) != 0;
    m->sees_records = (used & records) != 0;
    m->sees_indirect = (used & indirect) != 0;
}

void sep_patch_begin(struct sep_model_state *m)
{
    for (uint32_t e = 0; e < SEP_EXPERTS_MAX; e++)
        m->patch[e] = e < m->slot_experts ? m->profile->patch[e] : 0;
    choose_kinds(m);
    m->column = 0;
    m->word = m->word_before = m->word_before2 = 0;
    m->line_start = m->line_before = m->line_hash = m->format = 0;
    memset(m->indirect1, 0, sizeof m->indirect1);
    memset(m->indirect2, 0, sizeof m->indirect2);
    sep_patch_next(m);
}

void sep_patch_next(struct sep_model_state *m)
{
    const uint64_t history = m->history;
    const uint32_t c1 = history & 255;

    if (m->position != 0)
        m->column = m->column + 1 < m->stride ? m->column + 1 : 0;
    see_orders(m, history);
    if (m->sees_text) {
        if (m->position != 0) {
            follow_words(m, c1);
            follow_lines(m, c1);
        }
        see_text(m, c1);
    }
    if (m->sees_indirect) {
        if (m->position != 0)
            follow_indirect(m, history);
        m->patch_value[SEP_PATCH_INDIRECT1] = m->indirect1[c1] | c1 << 16;
        m->patch_value[SEP_PATCH_INDIRECT2] = m->indirect2[history & 65535] | c1 << 16;
    }
    if (m->sees_records)
        see_records(m, c1);
}
