/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_avx2.c - the nibble arithmetic of kernel_scalar.c in 256-bit vectors.
 *
 * Symbols are the lanes for rows, sums, softmax and errors; experts are the lanes for hashes, slots,
 * weight sets and steps. Every formula is the one of kernel_math.h, bit for bit. What is known about
 * slots, and all after the mixture's sum, is done in 16-bit lanes, sixteen at once.
 *
 * Everything is written for a number of vectors of experts, 1 or 2, that is a constant after
 * inlining: loops over experts are unrolled and have no branches.
 */
#include <immintrin.h>
#include <string.h>

#include "kernel.h"
#include "kernel_math.h"
#include "net.h"
#include "tables.h"

_Static_assert(SEP_EXPERTS_MAX == 16, "experts fill one or two vectors");
_Static_assert(SEP_WAYS == 3 && SEP_MATCHES == 2, "look_up and mixture are written for these");

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* Keeps the compiler from taking lanes out of a vector one by one instead of loading them. */
#define IN_MEMORY(array) __asm__("" : "+m"(array))

/* Keeps a sum in its order: balanced trees of sums do not fit the registers. */
#define IN_ORDER(vector) __asm__("" : "+x"(vector))

/* Value of the last symbol's entry in a row that only says "the last symbol": 1 nat, in 1/16. */
#define LAST_UNIT 16

INLINE __m256i load(const void *from)
{
    return _mm256_load_si256(from);
}

INLINE void store(void *to, __m256i value)
{
    _mm256_store_si256(to, value);
}

INLINE __m256i all32(uint32_t value)
{
    return _mm256_set1_epi32((int)value);
}

INLINE __m256i all16(uint32_t value)
{
    return _mm256_set1_epi16((short)value);
}

/* Constants as operands in memory: built in a general register, which compilers prefer when they know
 * the values, they cost three instructions each. */
static const struct known {
    uint16_t w15[16], w16[16], w32[16], w1[16], state_new[16], last_mask[16], log2e[16], c1[16],
        c2[16], c3[16], w65535[16], w32767[16], both_bytes[16], next_byte[16], upper_byte[16],
        last_lane[16], count_limit[16], move_size[16], last_7[16], last_none[16];
    uint32_t d16[8], d128[8], d8192[8], d65535[8], row_zero[8], hash_1[8], hash_2[8], hash_3[8];
} known_values __attribute__((aligned(32))) = {
#define LANES8(v)                                                                                  \
    {                                                                                              \
        v, v, v, v, v, v, v, v                                                                     \
    }
#define LANES16(v)                                                                                 \
    {                                                                                              \
        v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v                                             \
    }
    .w15 = LANES16(15),
    .w16 = LANES16(16),
    .w32 = LANES16(32),
    .w1 = LANES16(1),
    .state_new = LANES16(SEP_STATE_NEW),
    .last_mask = LANES16(SEP_LAST_AT(31u)),
    .log2e = LANES16(SEP_EXP_LOG2E),
    .c1 = LANES16(SEP_EXP_C1),
    .c2 = LANES16(SEP_EXP_C2),
    .c3 = LANES16(SEP_EXP_C3),
    .w65535 = LANES16(65535),
    .w32767 = LANES16(32767),
    .both_bytes = LANES16(0x0101),
    .next_byte = LANES16(0x0100),
    .upper_byte = LANES16(0x7800),
    .last_lane = LANES16(0x0f0e),
    .count_limit = LANES16(SEP_COUNT_LIMIT),
    .move_size = LANES16(sizeof(struct sep_row_move)),
    .last_7 = LANES16(SEP_LAST_AT(7u)),
    .last_none = LANES16(SEP_LAST_AT(SEP_SYMBOLS)),
    .d16 = LANES8(16),
    .d128 = LANES8(128),
    .d8192 = LANES8(8192),
    .d65535 = LANES8(0xffff),
    .row_zero = LANES8(SEP_ROW_ZERO),
    .hash_1 = LANES8(SEP_HASH_1),
    .hash_2 = LANES8(SEP_HASH_2),
    .hash_3 = LANES8(SEP_HASH_3),
#undef LANES8
#undef LANES16
};

_Static_assert(SEP_RUN_LIMIT == 15, "known()->w15 is the limit of runs, too");

INLINE const struct known *known(void)
{
    const struct known *values = &known_values;

    __asm__("" : "+r"(values));
    return values;
}

/* 16-bit lanes from two vectors with numbers below 65536 in 32-bit lanes: experts 0 8 1 9 ... */
INLINE __m256i join(__m256i a, __m256i b)
{
    return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
}

/* sep_seed in eight lanes. */
INLINE void seed8(struct sep_model_state *m, uint32_t e)
{
    const __m256i expert = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), all32(e));
    const __m256i value =
        _mm256_i32gather_epi32((const int *)m->patch_value, load(&m->patch[e]), 4);
    const __m256i mixed = _mm256_xor_si256(_mm256_mullo_epi32(value, load(known()->hash_1)),
                                           _mm256_mullo_epi32(expert, load(known()->hash_3)));
    const __m256i hash = _mm256_mullo_epi32(mixed, load(known()->hash_2));

    store(&m->seed[e], _mm256_xor_si256(hash, _mm256_srli_epi32(hash, 15)));
}

INLINE __m256i locate8(struct sep_model_state *m, uint32_t e, __m256i salted)
{
    const __m128i shift = _mm_cvtsi32_si128((int)m->half_shift);
    const __m256i offset = load(m->half_at);
    const __m256i hash =
        _mm256_mullo_epi32(_mm256_add_epi32(load(&m->seed[e]), salted), load(known()->hash_1));

    store(&m->line[e],
          _mm256_add_epi32(_mm256_slli_epi32(_mm256_srl_epi32(hash, shift), 6), offset));
    return hash;
}

INLINE void locate(struct sep_model_state *m, uint32_t salt, uint32_t vectors)
{
    const char *const base = (const char *)m->lines;
    const __m256i salted = all32(salt * SEP_HASH_3);
    __m256i a, b = _mm256_setzero_si256();

    if (salt == 0)
        for (uint32_t v = 0; v < vectors; v++)
            seed8(m, v * 8);
    a = locate8(m, 0, salted);
    if (vectors == 2)
        b = locate8(m, 8, salted);
    store(m->check, join(a, b));
    if (m->net != NULL)
        m->line[m->net_expert] = 0;
    IN_MEMORY(m->line);
    UNROLL
    for (uint32_t e = 0; e < vectors * 8 - SEP_MATCHES; e++)
        _mm_prefetch(base + m->line[e], _MM_HINT_T0);
}

static void avx2_locate(struct sep_model_state *m, uint32_t salt)
{
    if (m->experts > 8)
        locate(m, salt, 2);
    else
        locate(m, salt, 1);
}

INLINE uint32_t sum8(__m256i x)
{
    __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(y);
}

/* sep_net_row of eight features. */
INLINE void ask8(struct sep_model_state *m, const struct sep_net *net, uint32_t f)
{
    const __m256i patch = load(&net->patch_at[f]);
    const __m256i value = _mm256_i32gather_epi32((const int *)m->patch_value, patch, 4);
    const __m256i salt =
        _mm256_mullo_epi32(_mm256_sub_epi32(patch, _mm256_set1_epi32(-1)), load(known()->hash_3));
    const __m256i mixed = _mm256_xor_si256(_mm256_mullo_epi32(value, load(known()->hash_1)), salt);
    const __m256i h = _mm256_mullo_epi32(mixed, load(known()->hash_2));
    const __m256i hash =
        _mm256_mullo_epi32(_mm256_xor_si256(h, _mm256_srli_epi32(h, 15)), load(known()->hash_1));
    const __m256i row = _mm256_srl_epi32(hash, _mm_cvtsi32_si128(32 - net->rows_log));

    store(&m->net_at[f], _mm256_add_epi32(_mm256_slli_epi32(row, 5), load(&net->rows_at[f])));
}

static void avx2_net_ask(struct sep_model_state *m)
{
    const struct sep_net *const net = m->net;

    ask8(m, net, 0);
    if (net->features > 8)
        ask8(m, net, 8);
    IN_MEMORY(m->net_at);
    for (uint32_t f = 0; f < net->features; f++)
        _mm_prefetch((const char *)net->rows + m->net_at[f], _MM_HINT_T0);
}

static void avx2_net_sum(struct sep_model_state *m)
{
    const struct sep_net *const net = m->net;
    const __m128i cut = _mm_cvtsi32_si128(net->cut);
    __m256i low = load(&net->start[0]), high = load(&net->start[16]), active;

    for (uint32_t f = 0; f < net->features; f++) {
        const __m128i *row = (const __m128i *)(net->rows + m->net_at[f]);

        low = _mm256_add_epi16(low, _mm256_cvtepi8_epi16(_mm_load_si128(row)));
        high = _mm256_add_epi16(high, _mm256_cvtepi8_epi16(_mm_load_si128(row + 1)));
    }
    /* To 0 .. 255 first, then no more than 127; packing leaves quarters in the order 0 2 1 3. */
    active = _mm256_packus_epi16(_mm256_sra_epi16(low, cut), _mm256_sra_epi16(high, cut));
    active = _mm256_min_epu8(active, _mm256_set1_epi8(127));
    store(m->net_active, _mm256_permute4x64_epi64(active, 0xd8));
}

static void avx2_net_row(struct sep_model_state *m, uint32_t head)
{
    const struct sep_net *const net = m->net;
    const __m256i ones = load(known()->w1);
    const __m128i shift = _mm_cvtsi32_si128(net->shift);
    __m256i z0 = load(&net->head_start[head][0]), z1 = load(&net->head_start[head][8]), mean;
    uint32_t active[8];
    __m128i row, most;

    memcpy(active, m->net_active, sizeof active);
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        const __m256i a = all32(active[g]);
        const int8_t *weights = net->head4[head][g][0];

        /* 127 * 127 * 2 fits 16 bits, and no weight is -128. */
        z0 = _mm256_add_epi32(z0, _mm256_madd_epi16(_mm256_maddubs_epi16(a, load(weights)), ones));
        z1 = _mm256_add_epi32(z1,
                              _mm256_madd_epi16(_mm256_maddubs_epi16(a, load(weights + 32)), ones));
    }
    z0 = _mm256_sra_epi32(z0, shift);
    z1 = _mm256_sra_epi32(z1, shift);
    mean = all32((uint32_t)((int32_t)(sum8(_mm256_add_epi32(z0, z1)) + 8) >> 4));
    z0 = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_sub_epi32(z0, mean), _mm256_sub_epi32(z1, mean)), 0xd8);
    row = _mm_packs_epi16(_mm256_castsi256_si128(z0), _mm256_extracti128_si256(z0, 1));
    row = _mm_max_epi8(row, _mm_set1_epi8(-127));
    most = _mm_max_epi8(row, _mm_alignr_epi8(row, row, 8));
    most = _mm_max_epi8(most, _mm_alignr_epi8(most, most, 4));
    most = _mm_max_epi8(most, _mm_alignr_epi8(most, most, 2));
    most = _mm_max_epi8(most, _mm_alignr_epi8(most, most, 1));
    _mm_store_si128((__m128i *)((char *)m->lines + SEP_ROW_NET), row);
    m->net_confidence = sep_net_confidence((int8_t)_mm_cvtsi128_si32(most));
    m->net_symbol = (uint32_t)__builtin_ctz((uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(row, most)));
}

INLINE __m256i what_pair(const struct sep_model_state *m, uint32_t e)
{
    const char *const base = (const char *)m->lines;
    const __m128i low = _mm_load_si128((const __m128i *)(base + m->line[e]));
    const __m128i high = _mm_load_si128((const __m128i *)(base + m->line[e + 4]));

    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* What stands in the three ways of eight experts' lines, by way. Lines of the match experts exist
 * too, so no lane needs a branch. */
INLINE void what8(const struct sep_model_state *m, uint32_t e, __m256i what[SEP_WAYS])
{
    const __m256i a = what_pair(m, e), b = what_pair(m, e + 1);
    const __m256i c = what_pair(m, e + 2), d = what_pair(m, e + 3);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);

    what[0] = _mm256_unpacklo_epi64(ab, cd);
    what[1] = _mm256_unpackhi_epi64(ab, cd);
    what[2] = _mm256_unpacklo_epi64(_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
}

/* Where eight experts read and write: OFFSET is 16 times the way, HIT tells known contexts. */
INLINE void place8(struct sep_model_state *m, uint32_t e, __m256i offset, __m256i hit)
{
    const __m256i line = load(&m->line[e]);
    const __m256i slot = _mm256_add_epi32(_mm256_add_epi32(line, load(known()->d16)), offset);

    store(&m->slot[e], slot);
    store(&m->what_at[e], _mm256_add_epi32(line, _mm256_srli_epi32(offset, 2)));
    store(&m->source[e], _mm256_blendv_epi8(load(known()->row_zero), slot, hit));
}

/* All experts' slots side by side: the first way with the right check, else the first of those
 * least used. Returns how many were found. */
INLINE uint32_t look_up(struct sep_model_state *m, uint32_t vectors)
{
    const __m256i low4 = load(known()->w15), check = load(m->check);
    const __m256i first = _mm256_setr_epi16(0, 256, 32, 288, 64, 320, 96, 352, 128, 384, 160, 416,
                                            192, 448, 224, 480);
    __m256i w[2][SEP_WAYS] = {{_mm256_setzero_si256()}}, hit[SEP_WAYS], s[SEP_WAYS], n[SEP_WAYS];
    __m256i less1, less2, found, way, state, confidence;

    for (uint32_t v = 0; v < vectors; v++)
        what8(m, v * 8, w[v]);
    UNROLL
    for (uint32_t k = 0; k < SEP_WAYS; k++) {
        hit[k] = _mm256_cmpeq_epi16(join(w[0][k], w[1][k]), check);
        s[k] = _mm256_blend_epi16(_mm256_srli_epi32(w[0][k], 16), w[1][k], 0xaa);
        n[k] = _mm256_and_si256(s[k], low4);
    }
    less1 = _mm256_cmpgt_epi16(n[0], n[1]);
    less2 = _mm256_cmpgt_epi16(_mm256_min_epi16(n[0], n[1]), n[2]);
    found = _mm256_or_si256(_mm256_or_si256(hit[0], hit[1]), hit[2]);
    way = _mm256_and_si256(less1, load(known()->w16));
    way = _mm256_blendv_epi8(way, load(known()->w32),
                             _mm256_or_si256(hit[2], _mm256_andnot_si256(found, less2)));
    way = _mm256_blendv_epi8(way, load(known()->w16), hit[1]);
    way = _mm256_andnot_si256(hit[0], way);
    state = _mm256_blendv_epi8(load(known()->state_new), s[2], hit[2]);
    state = _mm256_blendv_epi8(state, s[1], hit[1]);
    state = _mm256_blendv_epi8(state, s[0], hit[0]);
    /* The upper byte of a lane is 0, and so are entries 0 of both tables. */
    confidence = _mm256_add_epi16(
        _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)sep_confidence_count)),
            _mm256_and_si256(state, low4)),
        _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)sep_confidence_run)),
            _mm256_and_si256(_mm256_srli_epi16(state, 4), low4)));
    store(m->weight_at, _mm256_add_epi16(confidence, first));
    store(m->last_at, _mm256_and_si256(_mm256_srli_epi16(state, 3), load(known()->last_mask)));
    store(m->state, state);
    store(m->slot_check, check);
    place8(m, 0, _mm256_and_si256(way, load(known()->d65535)),
           _mm256_srai_epi32(_mm256_slli_epi32(found, 16), 16));
    if (vectors == 2)
        place8(m, 8, _mm256_srli_epi32(way, 16), _mm256_srai_epi32(found, 16));
    /* Two bits a lane, without the lanes of the match experts. */
    return (uint32_t)__builtin_popcount((uint32_t)_mm256_movemask_epi8(found) &
                                        (vectors == 2 ? 0x33ffffffu : 0x00333333u)) /
           2;
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

INLINE __m256i last16(const struct sep_model_state *m, uint32_t e)
{
    return load((const char *)last_row + m->last_at[SEP_LANE(e)]);
}

INLINE __m256i row16(const struct sep_model_state *m, uint32_t e)
{
    return _mm256_cvtepi8_epi16(
        _mm_load_si128((const __m128i *)((const char *)m->lines + m->source[e])));
}

/* Weights (row, last) of experts E, E + 1 in the lower and E + 4, E + 5 in the upper half. Scalar
 * loads beat a gather on most processors. */
INLINE __m256i weights4(const struct sep_model_state *m, uint32_t e)
{
    const struct sep_weight *w = m->weights;
    __m128i a = _mm_loadl_epi64((const __m128i *)&w[m->weight_at[SEP_LANE(e)]]);
    __m128i b = _mm_loadl_epi64((const __m128i *)&w[m->weight_at[SEP_LANE(e + 4)]]);

    a = _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(a), (const __m64 *)&w[m->weight_at[SEP_LANE(e + 1)]]));
    b = _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(b), (const __m64 *)&w[m->weight_at[SEP_LANE(e + 5)]]));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

/* Pairs (weight of the row, weight of the last symbol) of eight experts, 12 fraction bits each. */
INLINE __m256i gate8(struct sep_model_state *m, uint32_t e)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i half = load(known()->d128);
    const __m256i x = weights4(m, e), y = weights4(m, e + 2);
    __m256i sum = load(&m->set[0][e]), x1, y1;

    store(&m->held[e], x);
    store(&m->held[e + 4], y);
    UNROLL
    for (uint32_t k = 1; k < SEP_WEIGHT_SETS; k++)
        sum = _mm256_add_epi32(sum, load(&m->set[k][e]));
    x1 = _mm256_add_epi32(_mm256_add_epi32(x, half), _mm256_unpacklo_epi32(sum, zero));
    y1 = _mm256_add_epi32(_mm256_add_epi32(y, half), _mm256_unpackhi_epi32(sum, zero));
    return _mm256_packs_epi32(_mm256_srai_epi32(x1, 8), _mm256_srai_epi32(y1, 8));
}

/* sep_exp in sixteen lanes. */
INLINE __m256i exp16(__m256i d)
{
    /* 2^(15 - n) at n; the upper byte of a lane looks n + 8 up, and bit 7 gives 0. */
    const __m256i powers = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, -128, 64, 32, 16, 8, 4, 2, 1, 0,
                                            0, 0, 0, 0, 0, 0, 0, -128, 64, 32, 16, 8, 4, 2, 1);
    const __m256i d2 = _mm256_adds_epu16(d, d);
    const __m256i bits = _mm256_mulhi_epu16(_mm256_adds_epu16(d2, d2), load(known()->log2e));
    const __m256i whole =
        _mm256_mullo_epi16(_mm256_srli_epi16(bits, 11), load(known()->both_bytes));
    const __m256i power =
        _mm256_shuffle_epi8(powers, _mm256_add_epi16(whole, load(known()->upper_byte)));
    const __m256i f = _mm256_slli_epi16(bits, 5);
    __m256i y = _mm256_sub_epi16(load(known()->c2), _mm256_mulhi_epu16(f, load(known()->c3)));

    y = _mm256_sub_epi16(load(known()->c1), _mm256_mulhi_epu16(f, y));
    y = _mm256_sub_epi16(load(known()->w65535), _mm256_mulhi_epu16(f, y));
    return _mm256_mulhi_epu16(y, power);
}

/* Inclusive prefix sum of sixteen lanes. */
INLINE __m256i prefix16(__m256i x)
{
    __m256i carry;

    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 2));
    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi16(x, _mm256_slli_si256(x, 8));
    /* The last sum of the lower half, to all of the upper half. */
    carry = _mm256_permute2x128_si256(x, x, 0x08);
    carry = _mm256_shuffle_epi8(carry, load(known()->last_lane));
    return _mm256_add_epi16(x, carry);
}

/* z0 holds symbols 0-3 and 8-11, z1 symbols 4-7 and 12-15: the order that unpacking 16-bit lanes
 * gives and packing takes. */
INLINE void softmax(struct sep_model_state *m, __m256i z0, __m256i z1)
{
    const __m256i z =
        _mm256_packs_epi32(_mm256_srai_epi32(z0, SEP_Z_CUT), _mm256_srai_epi32(z1, SEP_Z_CUT));
    const __m256i down = _mm256_sub_epi16(load(known()->w32767), z);
    const __m128i least = _mm_minpos_epu16(
        _mm_min_epu16(_mm256_castsi256_si128(down), _mm256_extracti128_si256(down, 1)));
    const __m256i power = exp16(_mm256_sub_epi16(down, _mm256_broadcastw_epi16(least)));
    const uint32_t total = sum8(_mm256_madd_epi16(power, load(known()->w1)));
    const __m256i scale = all16(SEP_PROBABILITY_SCALE / total);
    const __m256i p = _mm256_add_epi16(_mm256_mulhi_epu16(_mm256_add_epi16(power, power), scale),
                                       load(known()->w1));

    store(m->probability, p);
    store(m->cumulative, _mm256_sub_epi16(prefix16(p), p));
}

INLINE void predict(struct sep_model_state *m, uint32_t vectors)
{
    uint32_t pair[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    const uint32_t slots = vectors * 8 - SEP_MATCHES;
    const __m256i bias0 = load(m->bias[0]), bias1 = load(m->bias[1]);
    __m256i a, b, weight;
    __m256i z0 = _mm256_madd_epi16(_mm256_unpacklo_epi16(bias0, bias1), load(known()->w16));
    __m256i z1 = _mm256_madd_epi16(_mm256_unpackhi_epi16(bias0, bias1), load(known()->w16));

    m->set[3] = m->set_by_hits + look_up(m, vectors) * SEP_EXPERTS_MAX;
    sep_place_net(m);
    sep_place_matches(m);
    for (uint32_t v = 0; v < vectors; v++)
        store(&pair[v * 8], gate8(m, v * 8));
    IN_MEMORY(pair);
    UNROLL
    for (uint32_t e = 0; e < slots; e++) {
        a = row16(m, e);
        b = last16(m, e);
        weight = all32(pair[e]);
        z0 = _mm256_add_epi32(z0, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weight));
        z1 = _mm256_add_epi32(z1, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weight));
        IN_ORDER(z0);
        IN_ORDER(z1);
    }
    /* The match experts have no rows. */
    a = last16(m, slots);
    b = last16(m, slots + 1);
    weight = all32(pair[slots] >> 16 | (pair[slots + 1] & 0xffff0000u));
    z0 = _mm256_add_epi32(z0, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weight));
    z1 = _mm256_add_epi32(z1, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weight));
    softmax(m, z0, z1);
}

static void avx2_predict(struct sep_model_state *m)
{
    if (m->experts > 8)
        predict(m, 2);
    else
        predict(m, 1);
}

static unsigned avx2_find(const struct sep_model_state *m, uint32_t target)
{
    /* A corrupt target may be anything up to 2^24. */
    const __m256i t = all16(target < 65535 ? target : 65535);
    const __m256i begun = _mm256_cmpeq_epi16(_mm256_max_epu16(load(m->cumulative), t), t);

    return (unsigned)__builtin_popcount((uint32_t)_mm256_movemask_epi8(begun)) / 2 - 1;
}

INLINE __m256i step8(__m256i gradient, __m256i rate)
{
    return _mm256_srai_epi32(
        _mm256_add_epi32(_mm256_mullo_epi32(gradient, rate), load(known()->d8192)), 14);
}

/* Sums of each of eight vectors, in order. */
INLINE __m256i sum_each(const __m256i x[8])
{
    const __m256i a =
        _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
    const __m256i b =
        _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));

    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

/* Errors at the experts' last symbols, in 16-bit lanes; 0 where there is none. */
INLINE __m256i error_at(__m256i error, __m256i last_at)
{
    const __m256i byte = _mm256_add_epi16(
        _mm256_mullo_epi16(_mm256_srli_epi16(last_at, 4), load(known()->both_bytes)),
        load(known()->next_byte));
    const __m256i low = _mm256_shuffle_epi8(_mm256_permute2x128_si256(error, error, 0x00), byte);
    const __m256i high = _mm256_shuffle_epi8(_mm256_permute2x128_si256(error, error, 0x11), byte);
    const __m256i both =
        _mm256_blendv_epi8(low, high, _mm256_cmpgt_epi16(last_at, load(known()->last_7)));

    return _mm256_andnot_si256(_mm256_cmpeq_epi16(last_at, load(known()->last_none)), both);
}

/* The opposite of weights4. */
INLINE void store_weights4(const struct sep_model_state *m, uint32_t e, __m256i weights)
{
    struct sep_weight *w = m->weights;
    const __m128i a = _mm256_castsi256_si128(weights), b = _mm256_extracti128_si256(weights, 1);

    _mm_storel_epi64((__m128i *)&w[m->weight_at[SEP_LANE(e)]], a);
    _mm_storeh_pi((__m64 *)&w[m->weight_at[SEP_LANE(e + 1)]], _mm_castsi128_ps(a));
    _mm_storel_epi64((__m128i *)&w[m->weight_at[SEP_LANE(e + 4)]], b);
    _mm_storeh_pi((__m64 *)&w[m->weight_at[SEP_LANE(e + 5)]], _mm_castsi128_ps(b));
}

/* Moves the weights of eight experts, SLOTS of which have rows, and their weight sets. */
INLINE void update_weights8(struct sep_model_state *m, uint32_t e, uint32_t slots, __m256i error,
                            __m256i last_error)
{
    const __m256i rates = _mm256_set1_epi64x((int64_t)m->rate_last << 36 | m->rate_row);
    const __m256i none = _mm256_setzero_si256();
    __m256i products[8] = {none, none, none, none, none, none, none, none}, gradient, set_step;

    UNROLL
    for (uint32_t k = 0; k < slots; k++)
        products[k] = _mm256_madd_epi16(row16(m, e + k), error);
    gradient = sum_each(products);
    set_step = step8(gradient, all32((uint32_t)m->rate_set));
    UNROLL
    for (uint32_t k = 0; k < SEP_WEIGHT_SETS; k++)
        store(&m->set[k][e], _mm256_add_epi32(load(&m->set[k][e]), set_step));
    store_weights4(m, e,
                   _mm256_add_epi32(load(&m->held[e]),
                                    step8(_mm256_unpacklo_epi32(gradient, last_error), rates)));
    store_weights4(m, e + 2,
                   _mm256_add_epi32(load(&m->held[e + 4]),
                                    step8(_mm256_unpackhi_epi32(gradient, last_error), rates)));
}

INLINE void update_weights(struct sep_model_state *m, uint32_t symbol, uint32_t vectors)
{
    const __m256i lane = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m256i truth =
        _mm256_and_si256(_mm256_cmpeq_epi16(lane, all16(symbol)), load(known()->w32767));
    const __m256i error = _mm256_sub_epi16(truth, _mm256_srli_epi16(load(m->probability), 1));
    const __m256i last_error = error_at(error, load(m->last_at));
    const __m256i move = _mm256_mulhrs_epi16(error, all16((uint32_t)m->rate_bias));

    update_weights8(m, 0, vectors == 2 ? 8 : 8 - SEP_MATCHES, error,
                    _mm256_srai_epi32(_mm256_slli_epi32(last_error, 16), 16));
    if (vectors == 2)
        update_weights8(m, 8, 8 - SEP_MATCHES, error, _mm256_srai_epi32(last_error, 16));
    for (uint32_t k = 0; k < 2; k++)
        store(m->bias[k], _mm256_adds_epi16(load(m->bias[k]), move));
}

/* Moves rows, counts, runs and last symbols of all slots. */
INLINE void update_slots(struct sep_model_state *m, uint32_t symbol, uint32_t vectors)
{
    uint32_t what[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    uint16_t at[SEP_EXPERTS_MAX] __attribute__((aligned(32)));
    int8_t *const base = (int8_t *)m->lines;
    const __m256i state = load(m->state), check = load(m->slot_check), low4 = load(known()->w15);
    const __m256i count = _mm256_and_si256(state, low4);
    const __m256i same = _mm256_cmpeq_epi16(_mm256_srli_epi16(state, 8), all16(symbol));
    const __m256i run = _mm256_and_si256(_mm256_and_si256(_mm256_srli_epi16(state, 4), low4), same);
    const __m256i next_count =
        _mm256_min_epi16(_mm256_add_epi16(count, load(known()->w1)), load(known()->count_limit));
    const __m256i next_run =
        _mm256_min_epi16(_mm256_add_epi16(run, load(known()->w1)), load(known()->w15));
    const __m256i next = _mm256_or_si256(
        all16(symbol << 8), _mm256_or_si256(next_count, _mm256_slli_epi16(next_run, 4)));

    store(at, _mm256_mullo_epi16(count, load(known()->move_size)));
    store(&what[0], join(check, next));
    store(&what[8], _mm256_blend_epi16(_mm256_srli_epi32(check, 16), next, 0xaa));
    IN_MEMORY(at);
    IN_MEMORY(what);
    UNROLL
    for (uint32_t e = 0; e < vectors * 8 - SEP_MATCHES; e++) {
        const struct sep_row_move *move =
            (const struct sep_row_move *)((const int8_t *)sep_row_move + at[SEP_LANE(e)]);
        const int8_t *source = base + m->source[e];
        int8_t *row = base + m->slot[e];
        const int8_t rise = move->rise[source[symbol] + 128];

        _mm_store_si128((__m128i *)row,
                        _mm_subs_epi8(_mm_load_si128((const __m128i *)source),
                                      _mm_loadu_si128((const __m128i *)move->fall)));
        row[symbol] = rise;
        *(uint32_t *)(base + m->what_at[e]) = what[e];
    }
}

static void avx2_update(struct sep_model_state *m, uint32_t symbol)
{
    if (m->experts > 8) {
        if (m->probability[symbol] < SEP_CERTAIN)
            update_weights(m, symbol, 2);
        update_slots(m, symbol, 2);
    } else {
        if (m->probability[symbol] < SEP_CERTAIN)
            update_weights(m, symbol, 1);
        update_slots(m, symbol, 1);
    }
}

const struct sep_kernel sep_kernel_avx2 = {
    .name = "avx2",
    .locate = avx2_locate,
    .net_ask = avx2_net_ask,
    .net_sum = avx2_net_sum,
    .net_row = avx2_net_row,
    .predict = avx2_predict,
    .find = avx2_find,
    .update = avx2_update,
};
