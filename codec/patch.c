/* SPDX-License-Identifier: BSD-2-Clause
 *
 * patch.c - patches of the bytes before the next one.
 *
 * All patches are computed for every byte (two or three operations each); the profile's list picks
 * those that have an expert. Bytes before the start of the block read as 0.
 */
#include <string.h>

#include "model.h"
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

/* 0-15: what kind of text a byte is. */
static uint32_t byte_class(uint32_t byte)
{
    if (byte >= '0' && byte <= '9')
        return 1;
    if (byte >= 'a' && byte <= 'z')
        return 2;
    if (byte >= 'A' && byte <= 'Z')
        return 3;
    if (byte >= 128)
        return 4;
    if (byte < 32)
        return byte == '\n' ? 5 : 6;
    return 8 | (byte & 7); /* blank and punctuation */
}

/* Words, lines and what followed each byte and pair of bytes. */
static void follow(struct sep_model_state *m)
{
    const uint32_t c1 = byte_back(m, 1), c2 = byte_back(m, 2), c3 = byte_back(m, 3);
    const uint32_t letter = c1 | 32;

    if ((letter >= 'a' && letter <= 'z') || c1 >= 128) {
        m->word = (m->word + letter + 1) * SEP_HASH_3;
        m->word ^= m->word >> 16;
    } else if (m->word != 0) {
        m->word_before2 = m->word_before;
        m->word_before = m->word;
        m->word = 0;
    }
    m->format = m->format << 4 | byte_class(c1);
    if (m->position - m->line_start <= 2)
        m->line_hash = m->line_hash << 8 | c1;
    if (c1 == '\n') {
        m->line_hash = 0;
        m->line_before = m->line_start;
        m->line_start = m->position;
    }
    m->indirect1[c2] = (uint16_t)((uint32_t)m->indirect1[c2] << 8 | c1);
    m->indirect2[c3 << 8 | c2] = (uint16_t)((uint32_t)m->indirect2[c3 << 8 | c2] << 8 | c1);
}

static void see_patches(struct sep_model_state *m)
{
    uint32_t *value = m->patch_value;
    uint32_t c[9], last4, last2, above, above2, above_left, column, line_column, line_above,
        line_next, expected;
    const uint32_t stride = m->stride;

    for (uint32_t k = 1; k < 9; k++)
        c[k] = byte_back(m, k);
    last2 = c[1] | c[2] << 8;
    last4 = last2 | c[3] << 16 | c[4] << 24;
    above = byte_back(m, stride);
    above2 = byte_back(m, 2 * stride);
    above_left = byte_back(m, stride + 1);
    column = m->column;
    line_column = m->position - m->line_start;
    line_above = line_next = 0;
    if (m->line_before + line_column < m->line_start) {
        line_above = m->plain[m->line_before + line_column];
        line_next = byte_back(m, m->position - (m->line_before + line_column + 1));
    }
    if (line_column > 255)
        line_column = 255;
    expected = m->match[0].predicted < 256 ? 0 : 1;

    value[SEP_PATCH_ORDER0] = 0;
    value[SEP_PATCH_ORDER1] = c[1];
    value[SEP_PATCH_ORDER2] = last2;
    value[SEP_PATCH_ORDER3] = last4 & 0xffffff;
    value[SEP_PATCH_ORDER4] = last4;
    value[SEP_PATCH_ORDER5] = mix(last4, c[5]);
    value[SEP_PATCH_ORDER6] = mix(last4, c[5] | c[6] << 8);
    value[SEP_PATCH_ORDER8] = mix(last4, c[5] | c[6] << 8 | c[7] << 16 | c[8] << 24);
    value[SEP_PATCH_WORD] = mix(m->word, c[1]);
    value[SEP_PATCH_WORD2] = mix(m->word + c[1], m->word_before);
    value[SEP_PATCH_SPARSE23] = c[2] | c[3] << 8;
    value[SEP_PATCH_SPARSE13] = c[1] | c[3] << 8;
    value[SEP_PATCH_ABOVE_COLUMN] = above | column << 8;
    value[SEP_PATCH_ABOVE_LAST] = above | above2 << 8 | c[1] << 16;
    value[SEP_PATCH_ABOVE_LEFT] = above | above_left << 8 | c[1] << 16;
    value[SEP_PATCH_LINE_ABOVE] = line_above | c[1] << 8;
    value[SEP_PATCH_LINE_COLUMN] = line_above | line_next << 8 | line_column << 16;
    value[SEP_PATCH_INDIRECT1] = m->indirect1[c[1]] | c[1] << 16;
    value[SEP_PATCH_INDIRECT2] = m->indirect2[last2] | c[1] << 16;
    value[SEP_PATCH_SPARSE2] = c[2];
    value[SEP_PATCH_SPARSE3] = c[3];
    value[SEP_PATCH_SPARSE24] = c[2] | c[4] << 8;
    value[SEP_PATCH_SPARSE34] = c[3] | c[4] << 8;
    value[SEP_PATCH_COLUMN_LAST] = column | c[1] << 16;
    value[SEP_PATCH_ABOVE_NEXT] = above | byte_back(m, stride - 1) << 8 | c[1] << 16;
    value[SEP_PATCH_ABOVE_TWO] = above | above2 << 8 | column << 16;
    value[SEP_PATCH_GRADIENT] = ((above + c[1] - above_left) & 255) | (column & 15) << 8;
    value[SEP_PATCH_LINEAR] = ((2 * above - above2) & 255) | (column & 15) << 8;
    value[SEP_PATCH_WORD_SKIP] = mix(m->word + c[1], m->word_before2 + 1);
    value[SEP_PATCH_FORMAT] = mix(m->format, c[1]);
    value[SEP_PATCH_LINE_START] = m->line_hash << 8 | line_column;
    value[SEP_PATCH_MATCH] = m->match[expected].predicted |
                             (m->match[expected].length < 31 ? m->match[expected].length : 31)
                                 << 16;
}

void sep_patch_begin(struct sep_model_state *m)
{
    for (uint32_t e = 0; e < SEP_EXPERTS_MAX; e++)
        m->patch[e] = e < m->slot_experts ? m->profile->patch[e] : 0;
    m->column = 0;
    m->word = m->word_before = m->word_before2 = 0;
    m->line_start = m->line_before = m->line_hash = m->format = 0;
    memset(m->indirect1, 0, sizeof m->indirect1);
    memset(m->indirect2, 0, sizeof m->indirect2);
    sep_patch_next(m);
}

void sep_patch_next(struct sep_model_state *m)
{
    if (m->position != 0) {
        follow(m);
        m->column = m->column + 1 < m->stride ? m->column + 1 : 0;
    }
    see_patches(m);
}
