/* SPDX-License-Identifier: BSD-2-Clause
 *
 * profile.c - the profile table. docs/notes/codec.md has what each patch was measured to be worth.
 *
 * Fourteen slot experts and two match experts fill two vectors of eight; the fast profiles fill one.
 */
#include "profile.h"

/* clang-format off */
const struct sep_profile sep_profiles[SEP_PROFILE_COUNT] = {
    [SEP_PROFILE_GENERIC] = {
        .name = "generic",
        .experts = 14,
        .spare = 8,
        .patch = {
            SEP_PATCH_ORDER0, SEP_PATCH_FORMAT, SEP_PATCH_ORDER2, SEP_PATCH_ORDER3,
            SEP_PATCH_ORDER4, SEP_PATCH_ORDER8, SEP_PATCH_WORD, SEP_PATCH_WORD2,
            SEP_PATCH_SPARSE23, SEP_PATCH_LINE_ABOVE, SEP_PATCH_LINE_COLUMN, SEP_PATCH_INDIRECT1,
            SEP_PATCH_INDIRECT2, SEP_PATCH_MATCH,
        },
    },
    [SEP_PROFILE_RECORDS] = {
        .name = "records",
        .experts = 14,
        .spare = 2,
        .patch = {
            SEP_PATCH_ORDER2, SEP_PATCH_ORDER3, SEP_PATCH_ORDER4, SEP_PATCH_ORDER6,
            SEP_PATCH_SPARSE3, SEP_PATCH_SPARSE23, SEP_PATCH_SPARSE13, SEP_PATCH_SPARSE34,
            SEP_PATCH_ABOVE_COLUMN, SEP_PATCH_ABOVE_LEFT, SEP_PATCH_ABOVE_TWO,
            SEP_PATCH_COLUMN_LAST, SEP_PATCH_GRADIENT, SEP_PATCH_LINEAR,
        },
    },
    [SEP_PROFILE_BINARY] = {
        .name = "binary",
        .experts = 14,
        .spare = 2,
        .patch = {
            SEP_PATCH_ORDER0, SEP_PATCH_ORDER1, SEP_PATCH_ORDER2, SEP_PATCH_ORDER4,
            SEP_PATCH_SPARSE2, SEP_PATCH_SPARSE3, SEP_PATCH_SPARSE23, SEP_PATCH_SPARSE13,
            SEP_PATCH_SPARSE24, SEP_PATCH_SPARSE34, SEP_PATCH_ABOVE_COLUMN, SEP_PATCH_ABOVE_LAST,
            SEP_PATCH_INDIRECT1, SEP_PATCH_MATCH,
        },
    },
    [SEP_PROFILE_GENERIC_FAST] = {
        .name = "generic fast",
        .experts = 6,
        .spare = 2,
        .patch = {
            SEP_PATCH_ORDER1, SEP_PATCH_ORDER2, SEP_PATCH_ORDER3, SEP_PATCH_ORDER4, SEP_PATCH_WORD,
            SEP_PATCH_LINE_COLUMN,
        },
    },
    [SEP_PROFILE_RECORDS_FAST] = {
        .name = "records fast",
        .experts = 6,
        .spare = 1,
        .patch = {
            SEP_PATCH_ORDER2, SEP_PATCH_SPARSE3, SEP_PATCH_ABOVE_COLUMN, SEP_PATCH_COLUMN_LAST,
            SEP_PATCH_GRADIENT, SEP_PATCH_LINEAR,
        },
    },
    [SEP_PROFILE_BINARY_FAST] = {
        .name = "binary fast",
        .experts = 6,
        .spare = 2,
        .patch = {
            SEP_PATCH_ORDER1, SEP_PATCH_ORDER2, SEP_PATCH_ORDER4, SEP_PATCH_SPARSE2,
            SEP_PATCH_SPARSE24, SEP_PATCH_ABOVE_COLUMN,
        },
    },
};
/* clang-format on */
