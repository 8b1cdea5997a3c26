/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sample.c - is a block worth compressing at all?
 *
 * A block is called incompressible when, in eight pieces of 1 KiB, its bytes and the differences of
 * neighbours are as even as random ones (chi-squared statistic) and hardly any group of 4 bytes
 * occurs twice, and when in the whole block hardly any 8-byte group at an anchor occurs twice.
 * Anchors are chosen by content, one position in 256, so that a copy is found at any distance.
 */
#include <string.h>

#include "codec.h"

#define PIECES      8u
#define PIECE_SIZE  1024u
#define SLOTS       4096u
#define SMALL_BLOCK 512u /* too little to tell: let the codec try */

/* Chi-squared of COUNTS (sum N) against even counts is 255 on average and 22.6 in deviation for
 * random bytes. A skew that saves x bits a byte raises it by 2 ln 2 x N; 1/16 N stands for 0.045
 * bits, 0.6 %. */
static bool even(const uint32_t counts[256], uint32_t n)
{
    uint64_t squares = 0;

    for (unsigned k = 0; k < 256; k++)
        squares += (uint64_t)counts[k] * counts[k];
    return squares * 256 / n < (uint64_t)n + 255 + 68 + n / 16;
}

static uint32_t load32(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return value;
}

static bool pieces_are_random(const uint8_t *bytes, size_t size)
{
    const size_t piece = size / PIECES < PIECE_SIZE ? size / PIECES : PIECE_SIZE;
    uint32_t counts[256] = {0}, differences[256] = {0}, seen[SLOTS] = {0};
    uint32_t repeats = 0, n = 0;

    for (unsigned k = 0; k < PIECES; k++) {
        const uint8_t *start = bytes + (size - piece) / (PIECES - 1) * k;

        for (size_t i = 1; i + 3 < piece; i++, n++) {
            const uint32_t group = load32(start + i);
            const uint32_t slot = group * 0x9e3779b1u >> 20;

            counts[start[i]]++;
            differences[(uint8_t)(start[i] - start[i - 1])]++;
            repeats += seen[slot] == group;
            seen[slot] = group;
        }
    }
    return even(counts, n) && even(differences, n) && repeats <= n / 100;
}

static bool anchors_are_new(const uint8_t *bytes, size_t size)
{
    uint32_t seen[SLOTS] = {0};
    uint32_t anchors = 0, repeats = 0;

    for (size_t i = 0; i + 8 <= size; i++) {
        const uint32_t hash = load32(bytes + i) * 0x9e3779b1u;

        if (hash >> 24 == 0) {
            const uint32_t key = (load32(bytes + i + 4) ^ hash) * 0x85ebca6bu | 1;
            uint32_t *slot = &seen[key >> 20];

            anchors++;
            repeats += *slot == key;
            *slot = key;
        }
    }
    return repeats <= 1 + anchors / 100;
}

bool sep_incompressible(const void *plain, size_t plain_size)
{
    if (plain == NULL || plain_size < SMALL_BLOCK)
        return false;
    return pieces_are_random(plain, plain_size) && anchors_are_new(plain, plain_size);
}
