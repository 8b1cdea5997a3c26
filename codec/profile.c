/* SPDX-License-Identifier: BSD-2-Clause
 *
 * profile.c - the profile table. docs/notes/codec.md has what each patch was measured to be worth.
 */
#include "profile.h"

const struct sep_profile sep_profiles[SEP_PROFILE_COUNT] = {
    [SEP_PROFILE_GENERIC] =
        {
            .name = "generic",
            .experts = 20,
            .patch = {SEP_PATCH_ORDER0,       SEP_PATCH_ORDER1,      SEP_PATCH_ORDER2,
                      SEP_PATCH_ORDER3,       SEP_PATCH_ORDER4,      SEP_PATCH_ORDER5,
                      SEP_PATCH_ORDER6,       SEP_PATCH_ORDER8,      SEP_PATCH_WORD,
                      SEP_PATCH_WORD2,        SEP_PATCH_SPARSE23,    SEP_PATCH_SPARSE13,
                      SEP_PATCH_ABOVE_COLUMN, SEP_PATCH_ABOVE_LAST,  SEP_PATCH_ABOVE_LEFT,
                      SEP_PATCH_LINE_ABOVE,   SEP_PATCH_LINE_COLUMN, SEP_PATCH_INDIRECT1,
                      SEP_PATCH_INDIRECT2,    SEP_PATCH_MATCH},
        },
};
