/* SPDX-License-Identifier: BSD-2-Clause
 *
 * match.c - match models: the byte that followed the last time the same few bytes stood here.
 *
 * Two pointers into the past of the block, found by a hash of the last 5 and the last 12 bytes and
 * verified backwards. The hash takes the last byte's low nibble only in its place within a cache line,
 * so that the line can be asked for when the high nibble is known. A pointer that mispredicts stays in use with length 0, because records and
 * code go on alike after a difference, until a verified candidate replaces it. What a prediction is
 * worth is learnt by the mixture for each class of length and recent misses.
 */
#include <endian.h>
#include <string.h>

#include "model.h"
#include "tables.h"

#define MATCH_VERIFY_MAX 48u
#define MATCH_LENGTH_MAX 65535u
#define NONE             0xffffffffu /* match_at: too few bytes for a hash */

static const uint8_t minimum[SEP_MATCHES] = {12, 5};

void sep_match_begin(struct sep_model_state *m, size_t plain_size)
{
    uint32_t log = 8;

    while (log < SEP_MATCH_LOG_MAX && (size_t)1 << log < plain_size)
        log++;
    for (uint32_t k = 0; k < SEP_MATCHES; k++) {
        m->match_shift[k] = 32 - log;
        memset(m->match_head[k], 0, sizeof m->match_head[k][0] << log);
        m->match[k] = (struct sep_match){.predicted = 256};
        m->match_at[k] = NONE;
    }
    m->patch_value[SEP_PATCH_MATCH] = 256;
}

static uint32_t load32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint64_t load64(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof value);
    return le64toh(value);
}

/* Hash of the last minimum[k] - 1 bytes before END, eight of them in HISTORY, and a high nibble. */
static uint32_t match_hash(const uint8_t *end, uint64_t history, uint32_t high, uint32_t k)
{
    const uint32_t last4 = (uint32_t)history, before4 = (uint32_t)(history >> 32);

    if (k == 1)
        return (last4 + (high + 1) * SEP_HASH_2) * SEP_HASH_1;
    return ((last4 * SEP_HASH_1 ^ before4) * SEP_HASH_2 ^ (load32(end - 12) >> 8) ^ high << 24) *
           SEP_HASH_3;
}

void sep_match_ahead(struct sep_model_state *m)
{
    for (uint32_t k = 0; k < SEP_MATCHES; k++) {
        m->match_at[k] = NONE;
        if (m->position >= minimum[k]) {
            m->match_at[k] =
                match_hash(m->plain + m->position, m->history, m->high, k) >> m->match_shift[k];
            __builtin_prefetch(&m->match_head[k][m->match_at[k]], 1);
        }
    }
}

/* How many bytes before A and before B are the same, MATCH_VERIFY_MAX at most; B < A. */
static uint32_t common_length(const uint8_t *plain, uint32_t a, uint32_t b)
{
    uint32_t length = 0;

    for (; length < MATCH_VERIFY_MAX && length + 8 <= b; length += 8) {
        const uint64_t other = load64(plain + a - length - 8) ^ load64(plain + b - length - 8);

        if (other != 0)
            return length + (uint32_t)__builtin_clzll(other) / 8;
    }
    while (length < MATCH_VERIFY_MAX && length < b &&
           plain[a - 1 - length] == plain[b - 1 - length])
        length++;
    return length;
}

/* 1 .. 31: four classes of misses, eight of length. */
static uint32_t confidence(const struct sep_match *match)
{
    static const uint8_t length_class[33] = {0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4,
                                             4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6};
    const uint32_t length = match->length;
    const uint32_t class = length >= 400 ? 7 : length_class[length < 32 ? length : 32];
    const uint32_t missed = match->misses == 0          ? 0
                            : (match->misses & 15) == 0 ? 1
                            : (match->misses & 3) == 0  ? 2
                                                        : 3;

    return class * 4 + missed + (class + missed == 0);
}

/* The byte at POSITION - 1 is the one that was to be predicted. */
static void judge(struct sep_match *match, uint32_t byte)
{
    const uint32_t miss = match->predicted != byte;

    match->misses = (match->misses << 1 | miss) & 255;
    match->length = miss ? 0 : match->length + (match->length < MATCH_LENGTH_MAX);
    match->position = match->misses == 255 ? 0 : match->position + 1;
}

void sep_match_next(struct sep_model_state *m)
{
    const uint8_t *plain = m->plain;
    const uint32_t position = m->position;
    const uint32_t newest = __builtin_bswap32((uint32_t)m->history);
    const struct sep_match *expected;

    for (uint32_t k = 0; k < SEP_MATCHES; k++) {
        struct sep_match *match = &m->match[k];
        if (match->position != 0)
            judge(match, m->history & 255);
        if (m->match_at[k] != NONE) {
            uint32_t *const slot = &m->match_head[k][m->match_at[k] ^ (m->history & 15)];

            if (match->length < minimum[k] && *slot != 0 && load32(plain + *slot - 4) == newest) {
                const uint32_t length = common_length(plain, position, *slot);

                if (length >= minimum[k] && length > match->length)
                    *match = (struct sep_match){.position = *slot, .length = length};
            }
            *slot = position;
        }
        match->predicted = match->position != 0 ? plain[match->position] : 256;
        match->confidence = confidence(match);
    }
    /* Two pointers at one place say nothing twice. */
    if (m->match[1].position == m->match[0].position)
        m->match[1].predicted = 256;
    expected = &m->match[m->match[0].predicted < 256 ? 0 : 1];
    m->patch_value[SEP_PATCH_MATCH] =
        expected->predicted | (expected->length < 31 ? expected->length : 31) << 16;
}

void sep_match_nibble(struct sep_model_state *m, unsigned nibble)
{
    for (uint32_t k = 0; k < SEP_MATCHES; k++) {
        const struct sep_match *match = &m->match[k];
        const uint32_t predicted = match->predicted;
        const uint32_t valid =
            predicted < 256 && (nibble == 0 || predicted >> 4 == m->high) ? 1 : 0;

        m->match_confidence[k] = valid ? match->confidence : 0;
        m->match_symbol[k] = !valid ? SEP_SYMBOLS : nibble == 0 ? predicted >> 4 : predicted & 15;
    }
}
