/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_avx2.c - the nibble arithmetic of kernel_scalar.c in 256-bit vectors.
 *
 * Symbols are the lanes for rows, sums, softmax and errors; experts are the lanes for hashes,
 * weight sets and steps. Every formula is the one of kernel_math.h, bit for bit.
 */
#include <immintrin.h>
#include <string.h>

#include "kernel.h"
#include "kernel_math.h"
#include "tables.h"

_Static_assert(SEP_EXPERTS_MAX % 8 == 0, "experts fill whole vectors");
_Static_assert(SEP_WAYS == 3, "look_up compares six bytes");

/* Value of the last symbol's entry in a row that only says "the last symbol": 1 nat, in 1/16. */
#define LAST_UNIT 16

static void avx2_locate(struct sep_model_state *m, uint32_t salt)
{
    const __m256i salted = _mm256_set1_epi32((int)(salt * SEP_HASH_3));
    const __m256i multiplier = _mm256_set1_epi32((int)SEP_HASH_1);
    const __m128i shift = _mm_cvtsi32_si128((int)m->half_shift);
    const __m256i half = _mm256_setr_epi32(0, -1, 0, -1, 0, -1, 0, -1);
    const __m256i offset = _mm256_and_si256(half, _mm256_set1_epi32((int)m->half_lines));
    const __m256i low16 = _mm256_set1_epi32(0xffff);

    for (uint32_t e = 0; e < m->slot_experts; e += 8) {
        const __m256i seed = _mm256_loadu_si256((const __m256i *)&m->seed[e]);
        const __m256i hash = _mm256_mullo_epi32(_mm256_add_epi32(seed, salted), multiplier);
        const __m256i line = _mm256_add_epi32(_mm256_srl_epi32(hash, shift), offset);
        const __m256i check = _mm256_and_si256(hash, low16);
        const __m256i packed = _mm256_packus_epi32(check, check);

        _mm256_storeu_si256((__m256i *)&m->line[e], line);
        _mm_storel_epi64((__m128i *)&m->check[e], _mm256_castsi256_si128(packed));
        _mm_storel_epi64((__m128i *)&m->check[e + 4], _mm256_extracti128_si256(packed, 1));
    }
    for (uint32_t e = 0; e < m->slot_experts; e++)
        _mm_prefetch((const char *)&m->lines[m->line[e]], _MM_HINT_T0);
}

static inline void look_up(struct sep_model_state *m)
{
    const uint32_t slots = m->slot_experts;
    uint32_t e;

    for (e = 0; e < slots; e++) {
        const uint32_t index = m->line[e];
        const struct sep_line *line = &m->lines[index];
        const uint16_t check = m->check[e];
        const __m128i meta = _mm_load_si128((const __m128i *)line);
        const uint32_t equal =
            (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi16(meta, _mm_set1_epi16((short)check))) & 63;
        const uint32_t c0 = line->state[0] & 15u, c1 = line->state[1] & 15u,
                       c2 = line->state[2] & 15u;
        const uint32_t least01 = c1 < c0 ? 1 : 0;
        const uint32_t count01 = c1 < c0 ? c1 : c0;
        const uint32_t least = c2 < count01 ? 2 : least01;
        const uint32_t found = (uint32_t)__builtin_ctz(equal | 64) >> 1;
        const uint32_t way = equal != 0 ? found : least;
        const int hit = equal != 0 ? -1 : 0;
        const uint32_t state = line->state[way] & (uint32_t)hit;
        const uint32_t confidence = sep_confidence[state & 255];
        const __m128i row =
            _mm_and_si128(_mm_load_si128((const __m128i *)line->row[way]), _mm_set1_epi32(hit));

        _mm_store_si128((__m128i *)m->row[e], row);
        m->slot_state[e] = (uint16_t)state;
        m->way[e] = way;
        m->slot_line[e] = index;
        m->slot_check[e] = check;
        m->confidence[e] = confidence;
        m->last[e] = confidence != 0 ? state >> 8 : SEP_SYMBOLS;
    }
    for (uint32_t k = 0; k < SEP_MATCHES; k++, e++) {
        m->confidence[e] = m->match_confidence[k];
        m->last[e] = m->match_symbol[k];
    }
}

/* Row 16 is for "no last symbol". */
static const int16_t last_row[SEP_SYMBOLS + 1][SEP_SYMBOLS] __attribute__((aligned(32))) = {
    {LAST_UNIT},
    {0, LAST_UNIT},
    {0, 0, LAST_UNIT},
    {0, 0, 0, LAST_UNIT},
    {[4] = LAST_UNIT},
    {[5] = LAST_UNIT},
    {[6] = LAST_UNIT},
    {[7] = LAST_UNIT},
    {[8] = LAST_UNIT},
    {[9] = LAST_UNIT},
    {[10] = LAST_UNIT},
    {[11] = LAST_UNIT},
    {[12] = LAST_UNIT},
    {[13] = LAST_UNIT},
    {[14] = LAST_UNIT},
    {[15] = LAST_UNIT},
    {0},
};

/* 20 fraction bits to 12, saturated: sep_narrow in eight lanes, as 32-bit numbers. */
static inline __m256i narrow8(__m256i weight)
{
    const __m256i w = _mm256_srai_epi32(_mm256_add_epi32(weight, _mm256_set1_epi32(128)), 8);

    return _mm256_max_epi32(_mm256_min_epi32(w, _mm256_set1_epi32(32767)),
                            _mm256_set1_epi32(-32768));
}

/* Pairs (weight of the row, weight of the last symbol) of all experts, 12 fraction bits each. */
static inline void gate(struct sep_model_state *m, uint32_t pair[SEP_EXPERTS_MAX])
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    for (uint32_t e = 0; e < m->experts; e += 8) {
        const __m256i index = _mm256_add_epi32(
            _mm256_load_si256((const __m256i *)&m->confidence[e]),
            _mm256_slli_epi32(_mm256_add_epi32(lane, _mm256_set1_epi32((int)e)), 5));
        __m256i row = _mm256_i32gather_epi32((const int *)m->weights, index, 8);
        __m256i last = _mm256_i32gather_epi32((const int *)m->weights + 1, index, 8);

        for (uint32_t k = 0; k < SEP_WEIGHT_SETS; k++)
            row = _mm256_add_epi32(row, _mm256_load_si256((const __m256i *)&m->set[k][e]));
        row = _mm256_and_si256(narrow8(row), _mm256_set1_epi32(0xffff));
        last = _mm256_slli_epi32(narrow8(last), 16);
        _mm256_store_si256((__m256i *)&pair[e], _mm256_or_si256(row, last));
    }
}

static inline __m256i exp8(__m256i d)
{
    const __m256i cut =
        _mm256_min_epu32(_mm256_srli_epi32(d, 4), _mm256_set1_epi32((int)SEP_EXP_LIMIT));
    const __m256i bits =
        _mm256_srli_epi32(_mm256_mullo_epi32(cut, _mm256_set1_epi32((int)SEP_EXP_LOG2E)), 11);
    const __m256i whole = _mm256_srli_epi32(bits, 15);
    const __m256i f = _mm256_and_si256(bits, _mm256_set1_epi32(32767));
    __m256i y = _mm256_srai_epi32(_mm256_mullo_epi32(f, _mm256_set1_epi32(SEP_EXP_C3)), 15);

    y = _mm256_add_epi32(y, _mm256_set1_epi32(SEP_EXP_C2));
    y = _mm256_srai_epi32(_mm256_mullo_epi32(f, y), 15);
    y = _mm256_add_epi32(y, _mm256_set1_epi32(SEP_EXP_C1));
    y = _mm256_srai_epi32(_mm256_mullo_epi32(f, y), 15);
    y = _mm256_add_epi32(y, _mm256_set1_epi32(65536));
    return _mm256_srlv_epi32(y, whole);
}

/* Inclusive prefix sum of eight lanes. */
static inline __m256i prefix8(__m256i x)
{
    __m256i carry;

    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    carry = _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(3));
    return _mm256_add_epi32(x, _mm256_blend_epi32(_mm256_setzero_si256(), carry, 0xf0));
}

static inline uint32_t sum8(__m256i x)
{
    __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(y);
}

static inline __m256i highest8(__m256i x)
{
    x = _mm256_max_epi32(x, _mm256_permute2x128_si256(x, x, 1));
    x = _mm256_max_epi32(x, _mm256_shuffle_epi32(x, 0x4e));
    return _mm256_max_epi32(x, _mm256_shuffle_epi32(x, 0xb1));
}

/* z0 holds symbols 0-3 and 8-11, z1 symbols 4-7 and 12-15: the order that unpacking 16-bit lanes
 * gives. Stored in natural order. */
static inline void softmax(struct sep_model_state *m, __m256i z0, __m256i z1)
{
    const __m256i a = _mm256_permute2x128_si256(z0, z1, 0x20);
    const __m256i b = _mm256_permute2x128_si256(z0, z1, 0x31);
    const __m256i highest = highest8(_mm256_max_epi32(a, b));
    __m256i p0 = exp8(_mm256_sub_epi32(highest, a));
    __m256i p1 = exp8(_mm256_sub_epi32(highest, b));
    const uint32_t total = sum8(_mm256_add_epi32(p0, p1));
    const __m256i scale = _mm256_set1_epi32((int)(SEP_PROBABILITY_SCALE / total));
    const __m256i one = _mm256_set1_epi32(1);
    __m256i c0, c1;

    p0 = _mm256_add_epi32(_mm256_srli_epi32(_mm256_mullo_epi32(p0, scale), 15), one);
    p1 = _mm256_add_epi32(_mm256_srli_epi32(_mm256_mullo_epi32(p1, scale), 15), one);
    _mm256_store_si256((__m256i *)&m->probability[0], p0);
    _mm256_store_si256((__m256i *)&m->probability[8], p1);
    c0 = prefix8(p0);
    c1 = _mm256_add_epi32(prefix8(p1), _mm256_permutevar8x32_epi32(c0, _mm256_set1_epi32(7)));
    m->cumulative[0] = 0;
    _mm256_storeu_si256((__m256i *)&m->cumulative[1], c0);
    _mm256_storeu_si256((__m256i *)&m->cumulative[9], c1);
}

static void avx2_predict(struct sep_model_state *m)
{
    uint32_t pair[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    const __m256i bias0 = _mm256_load_si256((const __m256i *)m->bias[0]);
    const __m256i bias1 = _mm256_load_si256((const __m256i *)m->bias[1]);
    const __m256i sixteen = _mm256_set1_epi16(16);
    __m256i z0, z1;

    look_up(m);
    gate(m, pair);
    z0 = _mm256_madd_epi16(_mm256_unpacklo_epi16(bias0, bias1), sixteen);
    z1 = _mm256_madd_epi16(_mm256_unpackhi_epi16(bias0, bias1), sixteen);
    for (uint32_t e = 0; e < m->experts; e++) {
        const __m256i row = _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)m->row[e]));
        const __m256i last = _mm256_load_si256((const __m256i *)last_row[m->last[e]]);
        const __m256i weight = _mm256_set1_epi32((int)pair[e]);

        z0 = _mm256_add_epi32(z0, _mm256_madd_epi16(_mm256_unpacklo_epi16(row, last), weight));
        z1 = _mm256_add_epi32(z1, _mm256_madd_epi16(_mm256_unpackhi_epi16(row, last), weight));
    }
    softmax(m, z0, z1);
}

static unsigned avx2_find(const struct sep_model_state *m, uint32_t target)
{
    /* Cumulative sums are at most 65536 and a corrupt target may be anything up to 2^24. */
    const __m256i t = _mm256_set1_epi32((int)target);
    const __m256i above0 =
        _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)&m->cumulative[1]), t);
    const __m256i above1 =
        _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)&m->cumulative[9]), t);
    const uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(above0)) |
                          (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(above1)) << 8;

    return (unsigned)__builtin_ctz(mask | 1u << 15);
}

static inline __m256i step8(__m256i gradient, int32_t rate)
{
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_mullo_epi32(gradient, _mm256_set1_epi32(rate)),
                                              _mm256_set1_epi32(512)),
                             10);
}

static inline __m256i clamp8(__m256i weight)
{
    return _mm256_max_epi32(_mm256_min_epi32(weight, _mm256_set1_epi32(SEP_WEIGHT_LIMIT)),
                            _mm256_set1_epi32(-SEP_WEIGHT_LIMIT));
}

/* Sums of each of eight vectors, in order. */
static inline __m256i sum_each(const __m256i x[8])
{
    const __m256i a =
        _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
    const __m256i b =
        _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));

    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

static inline void update_slots(struct sep_model_state *m, uint32_t symbol)
{
    const __m128i is_symbol =
        _mm_cmpeq_epi8(_mm_set1_epi8((char)symbol),
                       _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m128i lowest = _mm_set1_epi8(-127);

    for (uint32_t e = 0; e < m->slot_experts; e++) {
        struct sep_line *line = &m->lines[m->slot_line[e]];
        const uint32_t way = m->way[e];
        const uint32_t state = m->slot_state[e];
        const uint32_t count = state & 15;
        const uint32_t run = m->last[e] == symbol ? (state >> 4 & 15) : 0;
        const __m128i rise = _mm_set1_epi8(sep_row_rise[count][m->row[e][symbol] + 128]);
        __m128i row = _mm_load_si128((const __m128i *)m->row[e]);

        row = _mm_max_epi8(_mm_subs_epi8(row, _mm_set1_epi8((char)sep_row_fall[count])), lowest);
        row = _mm_blendv_epi8(row, rise, is_symbol);
        _mm_store_si128((__m128i *)line->row[way], row);
        line->check[way] = m->slot_check[e];
        line->state[way] = (uint16_t)((count < SEP_COUNT_LIMIT ? count + 1 : count) |
                                      (run < SEP_RUN_LIMIT ? run + 1 : run) << 4 | symbol << 8);
    }
}

static void avx2_update(struct sep_model_state *m, uint32_t symbol)
{
    int32_t error32[SEP_SYMBOLS + 8] __attribute__((aligned(32)));
    int32_t step_row[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    int32_t step_last[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    const __m256i p0 = _mm256_load_si256((const __m256i *)&m->probability[0]);
    const __m256i p1 = _mm256_load_si256((const __m256i *)&m->probability[8]);
    __m256i e0 = _mm256_srli_epi32(p0, 1), e1 = _mm256_srli_epi32(p1, 1), error;

    {
        const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        const __m256i s = _mm256_set1_epi32((int)symbol);
        const __m256i truth = _mm256_set1_epi32(32767);

        e0 = _mm256_sub_epi32(_mm256_and_si256(_mm256_cmpeq_epi32(lane, s), truth), e0);
        e1 = _mm256_sub_epi32(
            _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_add_epi32(lane, _mm256_set1_epi32(8)), s),
                             truth),
            e1);
        _mm256_store_si256((__m256i *)&error32[0], e0);
        _mm256_store_si256((__m256i *)&error32[8], e1);
        _mm256_store_si256((__m256i *)&error32[16], _mm256_setzero_si256());
        error = _mm256_permute4x64_epi64(_mm256_packs_epi32(e0, e1), 0xd8);
    }
    for (uint32_t e = 0; e < m->experts; e += 8) {
        __m256i products[8], gradient, step, last_error;

        for (uint32_t k = 0; k < 8; k++)
            products[k] = _mm256_madd_epi16(
                _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)m->row[e + k])), error);
        gradient = _mm256_srai_epi32(_mm256_add_epi32(sum_each(products), _mm256_set1_epi32(8)), 4);
        _mm256_store_si256((__m256i *)&step_row[e], step8(gradient, m->rate_row));
        step = step8(gradient, m->rate_set);
        for (uint32_t k = 0; k < SEP_WEIGHT_SETS; k++) {
            __m256i *set = (__m256i *)&m->set[k][e];

            _mm256_store_si256(set, clamp8(_mm256_add_epi32(_mm256_load_si256(set), step)));
        }
        last_error =
            _mm256_i32gather_epi32(error32, _mm256_load_si256((const __m256i *)&m->last[e]), 4);
        _mm256_store_si256((__m256i *)&step_last[e], step8(last_error, m->rate_last));
    }
    for (uint32_t e = 0; e < m->experts; e++) {
        struct sep_weight *weight = &m->weights[e * SEP_CONFIDENCES + m->confidence[e]];

        weight->row = sep_clamp(weight->row + step_row[e]);
        weight->last = sep_clamp(weight->last + step_last[e]);
    }
    update_slots(m, symbol);
    for (uint32_t k = 0; k < 2; k++) {
        __m256i *bias = (__m256i *)m->bias[k];

        _mm256_store_si256(
            bias,
            _mm256_adds_epi16(_mm256_load_si256(bias),
                              _mm256_mulhrs_epi16(error, _mm256_set1_epi16((short)m->rate_bias))));
    }
}

const struct sep_kernel sep_kernel_avx2 = {
    .name = "avx2",
    .locate = avx2_locate,
    .predict = avx2_predict,
    .find = avx2_find,
    .update = avx2_update,
};
