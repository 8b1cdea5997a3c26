/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tables.h - numbers that are part of the format: row updates, starting weights, hash multipliers.
 */
#ifndef SEP_TABLES_H
#define SEP_TABLES_H

#include "state.h"

/* A slot that has seen n symbols moves its row by the rate r = 1 / (n + 1.6) towards the next one.
 * sep_row_fall[n] is -16 ln(1 - r), what every entry loses; sep_row_rise[n][v + 128] is the new
 * entry of the symbol itself, 16 ln(p (1 - r) + 16 r) for p = exp(v / 16). */
extern const uint8_t sep_row_fall[SEP_COUNT_LIMIT + 1];
extern const int8_t sep_row_rise[SEP_COUNT_LIMIT + 1][256];

/* Confidence class of the low eight bits of a slot's state; 0 only for a slot never used. */
extern const uint8_t sep_confidence[256];

/* Weights at the start of a block, 20 fraction bits, the same for every expert. */
extern const struct sep_weight sep_start_weight[SEP_CONFIDENCES];
extern const int32_t sep_start_match[SEP_CONFIDENCES];

#define SEP_HASH_1 0x9e3779b1u
#define SEP_HASH_2 0x85ebca6bu
#define SEP_HASH_3 0xc2b2ae35u

#endif
