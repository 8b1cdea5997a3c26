/* SPDX-License-Identifier: BSD-2-Clause
 *
 * profile.h - which patches are on for a kind of data: a table, not a branch in the hot loop.
 *
 * A profile's number is stored in the block header: rows are only added.
 */
#ifndef SEP_PROFILE_H
#define SEP_PROFILE_H

#include <stdint.h>

/* Patches: what an expert looks at to predict the next byte. c1 is the byte before it, c2 the one
 * before that; S is the stride of the block; "above" is the byte S back. */
enum sep_patch {
    SEP_PATCH_ORDER0,
    SEP_PATCH_ORDER1,
    SEP_PATCH_ORDER2,
    SEP_PATCH_ORDER3,
    SEP_PATCH_ORDER4,
    SEP_PATCH_ORDER5,
    SEP_PATCH_ORDER6,
    SEP_PATCH_ORDER8,
    SEP_PATCH_WORD,         /* letters since the last non-letter, c1 */
    SEP_PATCH_WORD2,        /* the same, and the word before */
    SEP_PATCH_SPARSE23,     /* c2, c3 */
    SEP_PATCH_SPARSE13,     /* c1, c3 */
    SEP_PATCH_ABOVE_COLUMN, /* above, position in the record */
    SEP_PATCH_ABOVE_LAST,   /* above, two above, c1 */
    SEP_PATCH_ABOVE_LEFT,   /* above, the byte before above, c1 */
    SEP_PATCH_LINE_ABOVE,   /* byte at this column of the line before, c1 */
    SEP_PATCH_LINE_COLUMN,  /* the same and the one after it, column */
    SEP_PATCH_INDIRECT1,    /* what followed the last two times after c1 */
    SEP_PATCH_INDIRECT2,    /* what followed the last two times after c2 c1, c1 */
    SEP_PATCH_MATCH,        /* byte that the match model expects, length class */
    SEP_PATCH_SPARSE2,      /* c2 */
    SEP_PATCH_SPARSE3,      /* c3 */
    SEP_PATCH_SPARSE24,     /* c2, c4 */
    SEP_PATCH_SPARSE34,     /* c3, c4 */
    SEP_PATCH_COLUMN_LAST,  /* position in the record, c1 */
    SEP_PATCH_ABOVE_NEXT,   /* above and the byte after it, c1 */
    SEP_PATCH_ABOVE_TWO,    /* above, two above, column */
    SEP_PATCH_GRADIENT,     /* above + c1 - the byte before above, column modulo 16 */
    SEP_PATCH_LINEAR,       /* 2 above - two above, column modulo 16 */
    SEP_PATCH_WORD_SKIP,    /* letters since the last non-letter, the word before the one before */
    SEP_PATCH_FORMAT,       /* classes of the last eight bytes, c1 */
    SEP_PATCH_LINE_START,   /* first two bytes of the line, column */
    SEP_PATCH_SPARSE4,      /* c4 */
    SEP_PATCH_COUNT
};

#define SEP_PROFILE_EXPERTS 14u /* most slot experts of a profile */

struct sep_profile {
    const char *name;
    uint8_t experts;                    /* slot experts: 6 or 14, with two matches whole vectors */
    uint8_t spare;                      /* the one whose place the net takes */
    uint8_t patch[SEP_PROFILE_EXPERTS]; /* enum sep_patch */
};

enum sep_profile_number {
    SEP_PROFILE_GENERIC,      /* text, markup, source, logs, genomes */
    SEP_PROFILE_RECORDS,      /* fixed-size records, arrays, samples: has a stride */
    SEP_PROFILE_BINARY,       /* machine code and other binary data */
    SEP_PROFILE_GENERIC_FAST, /* the same three with six slot experts */
    SEP_PROFILE_RECORDS_FAST,
    SEP_PROFILE_BINARY_FAST,
    SEP_PROFILE_COUNT
};

/* From a profile to its fast form. */
#define SEP_PROFILE_TO_FAST 3u

extern const struct sep_profile sep_profiles[SEP_PROFILE_COUNT];

#endif
