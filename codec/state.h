/* SPDX-License-Identifier: BSD-2-Clause
 *
 * state.h - everything the SEP model knows while it codes one block, laid out for vector units.
 *
 * The same bytes are used by the scalar, AVX2 and (later) CUDA arithmetic, so shapes matter:
 *   - one row of a slot is 16 int8, one symbol a lane;
 *   - three slots and what is known about them are one cache line, fetched by one access;
 *   - the two halves of the slot table belong to the experts of even and odd number, so that two
 *     half-warps can work on their experts side by side and still give the scalar result;
 *   - weights of one set lie side by side, EXPERTS_MAX of them, a multiple of every vector width.
 *
 * Units. Row: log-probability in 1/16 nat, uniform = 0. Weight: 20 fraction bits. Bias row: 12
 * fraction bits, in nats. Sum z: 16 fraction bits, in nats. Probability: 16 fraction bits. Error
 * (truth - probability): 15 fraction bits.
 *
 * Nothing here survives a block: sep_model_begin resets all that the block will read.
 */
#ifndef SEP_STATE_H
#define SEP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "profile.h"

#define SEP_EXPERTS_MAX 16u /* slot experts and match experts together */
#define SEP_MATCHES     2u  /* match experts; the last ones of a profile's experts */
#define SEP_SYMBOLS     16u
#define SEP_WAYS        3u
#define SEP_CONFIDENCES 32u /* classes of (count, run) of a slot, or of match length */
#define SEP_WEIGHT_SETS 4u
#define SEP_COUNT_LIMIT 10u /* count of a slot saturates here */
#define SEP_RUN_LIMIT   15u

#define SEP_LINES_LOG_MIN 9u  /* 32 KiB of slots for the smallest block */
#define SEP_LINES_LOG_MAX 16u /* 4 MiB of slots */
#define SEP_MATCH_LOG_MAX 17u
#define SEP_BIAS2_LOG_MAX 14u
#define SEP_SET_CONTEXTS  256u

/* State of a slot: bits 0-3 count (0: never used), 4-7 run of the last symbol, 8-11 last symbol. A
 * slot that is taken over has SEP_STATE_NEW while its nibble is coded: count 0, no last symbol. */
#define SEP_STATE_NEW 0x1000u

/* Way w: check in the low and state in the high half of what[w], log-probabilities in row[w]. */
struct sep_line {
    uint32_t what[SEP_WAYS];
    uint32_t unused;
    int8_t row[SEP_WAYS][SEP_SYMBOLS];
};

/* Lines, rows and what is known about them are named by their distance from lines[0] in bytes. Line 0
 * belongs to no context: its first row, which a new slot reads, is never written and stays 0; the
 * second is the row of the net; the third and the word that is not used take what the net's expert
 * would write to a slot. The table follows. */
#define SEP_LINE_BYTES         64u
#define SEP_ROW_OF(line, way)  ((line) + 16u * (1u + (way)))
#define SEP_WHAT_OF(line, way) ((line) + 4u * (way))
#define SEP_ROW_ZERO           SEP_ROW_OF(0u, 0u)
#define SEP_ROW_NET            SEP_ROW_OF(0u, 1u)
#define SEP_ROW_SPARE          SEP_ROW_OF(0u, 2u)
#define SEP_WHAT_SPARE         SEP_WHAT_OF(0u, 3u)

/* Where expert E stands in arrays of 16-bit numbers: E and E + 8 share a 32-bit lane, so that no
 * vector unit has to move anything across lanes to get from one width to the other. */
#define SEP_LANE(e) (((e)&7u) * 2u + ((e) >> 3))

/* last_at of a symbol: what a table of rows of 16-bit numbers has it at. SEP_SYMBOLS: none. */
#define SEP_LAST_AT(symbol) ((symbol)*32u)

/* What one expert's row, and its last symbol, are worth at one confidence. */
struct sep_weight {
    int32_t row;
    int32_t last;
};

/* One pointer into the past that predicts the byte at POSITION. */
struct sep_match {
    uint32_t position;   /* 0: none */
    uint32_t length;     /* bytes verified or predicted right since, at most 65535 */
    uint32_t misses;     /* one bit for each of the last 8 predictions, 1 = wrong */
    uint32_t predicted;  /* the byte, or 256 when there is none */
    uint32_t confidence; /* class of length and misses, 1 to 31 */
};

struct sep_net;

struct sep_model_state {
    /* Inputs of the next nibble, set by the patches and the match model. */
    _Alignas(32) uint32_t patch[SEP_EXPERTS_MAX]; /* enum sep_patch of the slot experts, then 0 */
    uint32_t patch_value[SEP_PATCH_COUNT];        /* what each patch sees, for the whole byte */
    _Alignas(32) uint32_t seed[SEP_EXPERTS_MAX];  /* its hash for each slot expert */
    _Alignas(32) uint32_t line[SEP_EXPERTS_MAX];  /* cache line to look in, in bytes */
    _Alignas(32) uint16_t check[SEP_EXPERTS_MAX]; /* what the slot must hold; by SEP_LANE */
    uint32_t match_confidence[SEP_MATCHES];
    uint32_t match_symbol[SEP_MATCHES]; /* SEP_SYMBOLS: no prediction */
    int32_t *set[SEP_WEIGHT_SETS];      /* weight sets of this nibble */
    int32_t *set_by_hits;
    int16_t *bias[2];           /* bias rows of this nibble */
    struct sep_weight *weights; /* weight[nibble][0][0] */
    int32_t rate_row, rate_set, rate_last, rate_bias;

    /* Between predict and update; the arrays of 16-bit numbers are by SEP_LANE. */
    _Alignas(32) uint32_t slot[SEP_EXPERTS_MAX];    /* row that the expert's slot owns */
    _Alignas(32) uint32_t source[SEP_EXPERTS_MAX];  /* row it reads: the same, or SEP_ROW_ZERO */
    _Alignas(32) uint32_t what_at[SEP_EXPERTS_MAX]; /* where check and state of its slot stand */
    _Alignas(32) uint16_t slot_check[SEP_EXPERTS_MAX];
    _Alignas(32) uint16_t state[SEP_EXPERTS_MAX];
    _Alignas(32) uint16_t weight_at[SEP_EXPERTS_MAX]; /* expert * SEP_CONFIDENCES + confidence */
    _Alignas(32) uint16_t last_at[SEP_EXPERTS_MAX];
    _Alignas(32) struct sep_weight held[SEP_EXPERTS_MAX]; /* scratch of a kernel */
    _Alignas(64) uint16_t probability[SEP_SYMBOLS];
    _Alignas(32) uint16_t
        cumulative[SEP_SYMBOLS]; /* of the symbols before; their end is at most 65536 */

    /* The block. */
    const uint8_t *plain;
    uint32_t position;
    uint32_t experts; /* slot experts and match experts: 8 or 16 */
    uint32_t slot_experts;
    uint32_t half_shift;              /* 32 - log2(lines of one half) */
    _Alignas(32) uint32_t half_at[8]; /* where the half of expert E & 7 begins, in bytes */
    uint32_t match_shift[SEP_MATCHES];
    uint32_t match_at[SEP_MATCHES]; /* in match_head, but for the low nibble */
    uint32_t bias2_mask;
    const struct sep_profile *profile;
    const struct sep_net *net;           /* NULL: the block uses none */
    uint32_t net_expert;                 /* which expert it is: the last slot expert */
    uint32_t net_confidence;             /* class of its row, 1 to 31 */
    uint32_t net_symbol;                 /* the likeliest in its row */
    _Alignas(32) uint32_t net_at[16];    /* rows of its features, in bytes */
    _Alignas(32) uint8_t net_active[32]; /* a[] of net.h for the byte under way */
    uint32_t seen_before;                /* bytes that the weights learnt from before the block */
    uint32_t stride;                     /* never 0 */
    uint32_t column;                     /* position modulo stride */
    uint32_t has_stride;                 /* the block names one */
    uint32_t high;                       /* high nibble of the byte under way, once it is known */
    uint64_t history;                    /* the last eight bytes, the newest lowest */
    bool sees_text, sees_records, sees_indirect; /* kinds of patches that the profile uses */
    struct sep_match match[SEP_MATCHES];

    /* Text and line state of the patches. */
    uint32_t word, word_before, word_before2;
    uint32_t line_start, line_before;
    uint32_t line_hash, format;
    uint32_t indirect_before[2];
    uint16_t indirect1[256];
    uint16_t indirect2[65536];

    _Alignas(64) struct sep_weight weight[2][SEP_EXPERTS_MAX][SEP_CONFIDENCES];
    _Alignas(64) int32_t weight_set[2][SEP_WEIGHT_SETS][SEP_SET_CONTEXTS][SEP_EXPERTS_MAX];
    _Alignas(64) int16_t bias1[256][17][SEP_SYMBOLS];
    _Alignas(64) int16_t bias2[1u << SEP_BIAS2_LOG_MAX][SEP_SYMBOLS];
    _Alignas(64) uint32_t match_head[SEP_MATCHES][1u << SEP_MATCH_LOG_MAX];
    _Alignas(64) struct sep_line lines[1u + (1u << SEP_LINES_LOG_MAX)]; /* line 0, then the table */
};

_Static_assert(sizeof(struct sep_line) == 64, "three slots fill a cache line");
_Static_assert(sizeof(struct sep_model_state) <= 8u << 20, "decoding needs at most 8 MiB");

#endif
