/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tables.h - numbers that are part of the format: row updates, starting weights, hash multipliers.
 */
#ifndef SEP_TABLES_H
#define SEP_TABLES_H

#include "state.h"

/* A slot that has seen n symbols moves its row by the rate r = 1 / (n + 1.6) towards the next one.
 * FALL, sixteen times the same, is -16 ln(1 - r), what every entry loses; rise[v + 128] is the new
 * entry of the symbol itself, 16 ln(p (1 - r) + 16 r) for p = exp(v / 16). */
struct sep_row_move {
    int8_t fall[SEP_SYMBOLS];
    int8_t rise[256];
};
extern const struct sep_row_move sep_row_move[SEP_COUNT_LIMIT + 1];

/* Confidence class of a slot: of its count plus of its run; 0 only for a slot never used. */
extern const uint8_t sep_confidence_count[16];
extern const uint8_t sep_confidence_run[16];

/* Weights at the start of a block, 20 fraction bits, the same for every expert. */
extern const struct sep_weight sep_start_weight[SEP_CONFIDENCES];
extern const int32_t sep_start_match[SEP_CONFIDENCES];

#define SEP_HASH_1 0x9e3779b1u
#define SEP_HASH_2 0x85ebca6bu
#define SEP_HASH_3 0xc2b2ae35u

#endif
