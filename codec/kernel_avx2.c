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

static inline __m256i load8(const uint32_t *from)
{
    return _mm256_load_si256((const __m256i *)from);
}

static inline void store8(uint32_t *to, __m256i value)
{
    _mm256_store_si256((__m256i *)to, value);
}

static inline __m256i all(uint32_t value)
{
    return _mm256_set1_epi32((int)value);
}

/* sep_seed in eight lanes. */
static inline void seed8(struct sep_model_state *m, uint32_t e)
{
    const __m256i expert = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), all(e));
    const __m256i value =
        _mm256_i32gather_epi32((const int *)m->patch_value, load8(&m->patch[e]), 4);
    const __m256i mixed = _mm256_xor_si256(_mm256_mullo_epi32(value, all(SEP_HASH_1)),
                                           _mm256_mullo_epi32(expert, all(SEP_HASH_3)));
    const __m256i hash = _mm256_mullo_epi32(mixed, all(SEP_HASH_2));

    store8(&m->seed[e], _mm256_xor_si256(hash, _mm256_srli_epi32(hash, 15)));
}

static void avx2_locate(struct sep_model_state *m, uint32_t salt)
{
    const __m256i salted = all(salt * SEP_HASH_3);
    const __m128i shift = _mm_cvtsi32_si128((int)m->half_shift);
    const __m256i odd = _mm256_setr_epi32(0, -1, 0, -1, 0, -1, 0, -1);
    const __m256i offset = _mm256_and_si256(odd, all(m->half_lines));
    const uint32_t slots = m->slot_experts;

    for (uint32_t e = 0; e < slots && salt == 0; e += 8)
        seed8(m, e);
    for (uint32_t e = 0; e < slots; e += 8) {
        const __m256i hash =
            _mm256_mullo_epi32(_mm256_add_epi32(load8(&m->seed[e]), salted), all(SEP_HASH_1));

        store8(&m->line[e], _mm256_add_epi32(_mm256_srl_epi32(hash, shift), offset));
        store8(&m->check[e], _mm256_and_si256(hash, all(0xffff)));
    }
    for (uint32_t e = 0; e < slots; e++)
        _mm_prefetch((const char *)&m->lines[m->line[e]], _MM_HINT_T0);
}

static inline __m256i what_pair(const struct sep_model_state *m, uint32_t e)
{
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_load_si128((const __m128i *)&m->lines[m->line[e]])),
        _mm_load_si128((const __m128i *)&m->lines[m->line[e + 4]]), 1);
}

/* Eight experts' slots side by side: the first way with the right check, else the first of those
 * least used. Lines of experts beyond slot_experts exist too, so no lane needs a branch. */
static inline uint32_t look_up8(struct sep_model_state *m, uint32_t e)
{
    const __m256i a = what_pair(m, e), b = what_pair(m, e + 1);
    const __m256i c = what_pair(m, e + 2), d = what_pair(m, e + 3);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    const __m256i w0 = _mm256_unpacklo_epi64(ab, cd);
    const __m256i w1 = _mm256_unpackhi_epi64(ab, cd);
    const __m256i w2 =
        _mm256_unpacklo_epi64(_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    const __m256i low16 = all(0xffff), low4 = all(15);
    const __m256i check = load8(&m->check[e]);
    const __m256i hit0 = _mm256_cmpeq_epi32(_mm256_and_si256(w0, low16), check);
    const __m256i hit1 = _mm256_cmpeq_epi32(_mm256_and_si256(w1, low16), check);
    const __m256i hit2 = _mm256_cmpeq_epi32(_mm256_and_si256(w2, low16), check);
    const __m256i hit = _mm256_or_si256(_mm256_or_si256(hit0, hit1), hit2);
    const __m256i s0 = _mm256_srli_epi32(w0, 16), s1 = _mm256_srli_epi32(w1, 16);
    const __m256i s2 = _mm256_srli_epi32(w2, 16);
    const __m256i n0 = _mm256_and_si256(s0, low4), n1 = _mm256_and_si256(s1, low4);
    const __m256i n2 = _mm256_and_si256(s2, low4);
    const __m256i less1 = _mm256_cmpgt_epi32(n0, n1);
    const __m256i less2 = _mm256_cmpgt_epi32(_mm256_min_epi32(n0, n1), n2);
    /* -1 in a mask counts as way 1. */
    __m256i way = _mm256_blendv_epi8(_mm256_srli_epi32(less1, 31), all(2), less2);
    __m256i state = _mm256_blendv_epi8(all(SEP_STATE_NEW), s2, hit2);
    __m256i slot, confidence;

    way = _mm256_blendv_epi8(way, all(2), hit2);
    way = _mm256_blendv_epi8(way, all(1), hit1);
    way = _mm256_andnot_si256(hit0, way);
    state = _mm256_blendv_epi8(state, s1, hit1);
    state = _mm256_blendv_epi8(state, s0, hit0);
    slot =
        _mm256_add_epi32(_mm256_slli_epi32(load8(&m->line[e]), 2), _mm256_add_epi32(way, all(1)));
    /* The upper bytes of a lane are 0, and so are entries 0 of both tables. */
    confidence = _mm256_add_epi32(
        _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)sep_confidence_count)),
            _mm256_and_si256(state, low4)),
        _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)sep_confidence_run)),
            _mm256_and_si256(_mm256_srli_epi32(state, 4), low4)));
    store8(&m->slot[e], slot);
    store8(&m->source[e], _mm256_blendv_epi8(all(SEP_ROW_ZERO), slot, hit));
    store8(&m->slot_check[e], check);
    store8(&m->state[e], state);
    store8(&m->weight_at[e],
           _mm256_add_epi32(confidence,
                            _mm256_add_epi32(_mm256_setr_epi32(0, 32, 64, 96, 128, 160, 192, 224),
                                             all(e * SEP_CONFIDENCES))));
    store8(&m->last[e], _mm256_srli_epi32(state, 8));
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(hit));
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

/* Four experts' weights (row, last) side by side; scalar loads beat a gather on most processors. */
static inline __m256i weights4(const struct sep_model_state *m, uint32_t e)
{
    const struct sep_weight *w = m->weights;
    const __m128i a = _mm_loadl_epi64((const __m128i *)&w[m->weight_at[e]]);
    const __m128i b = _mm_loadl_epi64((const __m128i *)&w[m->weight_at[e + 1]]);
    const __m128i c = _mm_loadl_epi64((const __m128i *)&w[m->weight_at[e + 2]]);
    const __m128i d = _mm_loadl_epi64((const __m128i *)&w[m->weight_at[e + 3]]);

    return _mm256_set_m128i(_mm_unpacklo_epi64(c, d), _mm_unpacklo_epi64(a, b));
}

/* Pairs (weight of the row, weight of the last symbol) of all experts, 12 fraction bits each. */
static inline void gate(struct sep_model_state *m, uint32_t pair[SEP_EXPERTS_MAX])
{
    for (uint32_t e = 0; e < m->experts; e += 8) {
        const __m256i a = weights4(m, e), b = weights4(m, e + 4);
        /* Experts 0 1 4 5 and 2 3 6 7 of the eight, in the two halves. */
        const __m256i x = _mm256_permute2x128_si256(a, b, 0x20);
        const __m256i y = _mm256_permute2x128_si256(a, b, 0x31);
        __m256i row = _mm256_castps_si256(
            _mm256_shuffle_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y), 0x88));
        __m256i last = _mm256_castps_si256(
            _mm256_shuffle_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y), 0xdd));

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

static inline __m256i row16(const struct sep_model_state *m, uint32_t row)
{
    return _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)m->lines + row));
}

static void avx2_predict(struct sep_model_state *m)
{
    uint32_t pair[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    const __m256i bias0 = _mm256_load_si256((const __m256i *)m->bias[0]);
    const __m256i bias1 = _mm256_load_si256((const __m256i *)m->bias[1]);
    const __m256i sixteen = _mm256_set1_epi16(16);
    __m256i z0, z1;
    uint32_t hits = 0;

    for (uint32_t e = 0; e < m->slot_experts; e += 8)
        hits |= look_up8(m, e) << e;
    hits &= (1u << m->slot_experts) - 1;
    m->set[3] = m->set_by_hits + (uint32_t)__builtin_popcount(hits) * SEP_EXPERTS_MAX;
    sep_place_matches(m);
    gate(m, pair);
    z0 = _mm256_madd_epi16(_mm256_unpacklo_epi16(bias0, bias1), sixteen);
    z1 = _mm256_madd_epi16(_mm256_unpackhi_epi16(bias0, bias1), sixteen);
    for (uint32_t e = 0; e < m->experts; e++) {
        const __m256i row = row16(m, m->source[e]);
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

/* Check and new state of eight slots, and where their counts' moves stand in sep_row_move. */
static inline void next_states(const struct sep_model_state *m, uint32_t e, uint32_t symbol,
                               uint32_t *what, uint32_t *move)
{
    const __m256i state = load8(&m->state[e]);
    const __m256i low4 = all(15);
    const __m256i count = _mm256_and_si256(state, low4);
    const __m256i same = _mm256_cmpeq_epi32(_mm256_srli_epi32(state, 8), all(symbol));
    const __m256i run = _mm256_and_si256(_mm256_and_si256(_mm256_srli_epi32(state, 4), low4), same);
    const __m256i next_count =
        _mm256_min_epu32(_mm256_add_epi32(count, all(1)), all(SEP_COUNT_LIMIT));
    const __m256i next_run = _mm256_min_epu32(_mm256_add_epi32(run, all(1)), all(SEP_RUN_LIMIT));
    const __m256i next =
        _mm256_or_si256(all(symbol << 24), _mm256_or_si256(_mm256_slli_epi32(next_count, 16),
                                                           _mm256_slli_epi32(next_run, 20)));

    store8(&what[e], _mm256_or_si256(load8(&m->slot_check[e]), next));
    store8(&move[e], _mm256_mullo_epi32(count, all(sizeof(struct sep_row_move))));
}

static inline void update_slots(struct sep_model_state *m, uint32_t symbol)
{
    uint32_t what[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    uint32_t at[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    const __m128i lowest = _mm_set1_epi8(-127);
    const uint32_t slots = m->slot_experts;
    int8_t *const base = (int8_t *)m->lines;

    for (uint32_t e = 0; e < slots; e += 8)
        next_states(m, e, symbol, what, at);
    for (uint32_t e = 0; e < slots; e++) {
        const struct sep_row_move *move =
            (const struct sep_row_move *)((const int8_t *)sep_row_move + at[e]);
        const uint32_t slot = m->slot[e];
        const int8_t *source = base + (size_t)m->source[e] * SEP_SYMBOLS;
        int8_t *row = base + (size_t)slot * SEP_SYMBOLS;
        const int8_t rise = move->rise[source[symbol] + 128];
        const __m128i moved = _mm_subs_epi8(_mm_load_si128((const __m128i *)source),
                                            _mm_loadu_si128((const __m128i *)move->fall));

        _mm_store_si128((__m128i *)row, _mm_max_epi8(moved, lowest));
        row[symbol] = rise;
        m->lines[slot >> 2].what[(slot & 3) - 1] = what[e];
    }
}

/* Errors at eight experts' last symbols; 0 where there is none. */
static inline __m256i error_at(__m256i e0, __m256i e1, __m256i last)
{
    const __m256i low = _mm256_permutevar8x32_epi32(e0, last);
    const __m256i high = _mm256_permutevar8x32_epi32(e1, last);
    const __m256i both =
        _mm256_blendv_epi8(low, high, _mm256_cmpgt_epi32(last, _mm256_set1_epi32(7)));

    return _mm256_andnot_si256(_mm256_cmpeq_epi32(last, _mm256_set1_epi32(SEP_SYMBOLS)), both);
}

static inline void add_steps(struct sep_weight *weight, const int32_t *step)
{
    const __m128i limit = _mm_set1_epi32(SEP_WEIGHT_LIMIT);
    const __m128i sum = _mm_add_epi32(_mm_loadl_epi64((const __m128i *)weight),
                                      _mm_loadl_epi64((const __m128i *)step));

    _mm_storel_epi64((__m128i *)weight, _mm_max_epi32(_mm_min_epi32(sum, limit),
                                                      _mm_sub_epi32(_mm_setzero_si128(), limit)));
}

/* Steps of the weights of eight experts, and of their weight sets. */
static inline void update_weights(struct sep_model_state *m, uint32_t e, __m256i error, __m256i e0,
                                  __m256i e1)
{
    int32_t steps[16] __attribute__((aligned(32)));
    __m256i products[8], gradient, row, last, set_step;

    for (uint32_t k = 0; k < 8; k++)
        products[k] = _mm256_madd_epi16(row16(m, m->source[e + k]), error);
    gradient = _mm256_srai_epi32(_mm256_add_epi32(sum_each(products), _mm256_set1_epi32(8)), 4);
    row = step8(gradient, m->rate_row);
    last = step8(error_at(e0, e1, _mm256_load_si256((const __m256i *)&m->last[e])), m->rate_last);
    set_step = step8(gradient, m->rate_set);
    for (uint32_t k = 0; k < SEP_WEIGHT_SETS; k++) {
        __m256i *set = (__m256i *)&m->set[k][e];

        _mm256_store_si256(set, clamp8(_mm256_add_epi32(_mm256_load_si256(set), set_step)));
    }
    /* Unpacking gives experts 0 1 4 5 and 2 3 6 7. */
    _mm256_store_si256((__m256i *)&steps[0], _mm256_unpacklo_epi32(row, last));
    _mm256_store_si256((__m256i *)&steps[8], _mm256_unpackhi_epi32(row, last));
    for (uint32_t k = 0; k < 8; k++)
        add_steps(&m->weights[m->weight_at[e + k]],
                  &steps[(k & 1) * 2 + (k >> 1 & 1) * 8 + (k >> 2) * 4]);
}

static void avx2_update(struct sep_model_state *m, uint32_t symbol)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i at0 = _mm256_cmpeq_epi32(lane, _mm256_set1_epi32((int)symbol));
    const __m256i at1 = _mm256_cmpeq_epi32(lane, _mm256_set1_epi32((int)symbol - 8));
    const __m256i truth = _mm256_set1_epi32(32767);
    const __m256i p0 = _mm256_load_si256((const __m256i *)&m->probability[0]);
    const __m256i p1 = _mm256_load_si256((const __m256i *)&m->probability[8]);
    const __m256i e0 = _mm256_sub_epi32(_mm256_and_si256(at0, truth), _mm256_srli_epi32(p0, 1));
    const __m256i e1 = _mm256_sub_epi32(_mm256_and_si256(at1, truth), _mm256_srli_epi32(p1, 1));
    const __m256i error = _mm256_permute4x64_epi64(_mm256_packs_epi32(e0, e1), 0xd8);
    const __m256i rate = _mm256_set1_epi16((short)m->rate_bias);

    for (uint32_t e = 0; e < m->experts; e += 8)
        update_weights(m, e, error, e0, e1);
    update_slots(m, symbol);
    for (uint32_t k = 0; k < 2; k++) {
        __m256i *bias = (__m256i *)m->bias[k];

        _mm256_store_si256(
            bias, _mm256_adds_epi16(_mm256_load_si256(bias), _mm256_mulhrs_epi16(error, rate)));
    }
}

const struct sep_kernel sep_kernel_avx2 = {
    .name = "avx2",
    .locate = avx2_locate,
    .predict = avx2_predict,
    .find = avx2_find,
    .update = avx2_update,
};
