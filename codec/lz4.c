/* SPDX-License-Identifier: BSD-2-Clause
 *
 * lz4.c - the LZ4 block format, for stores that want speed above all.
 *
 * Level 1 is LZ4's fast compressor, levels 2 to 12 are LZ4 HC. The decoder is the bounds-checked
 * one.
 */
#include <lz4.h>
#include <lz4hc.h>

#include "codec.h"

#define LZ4_LEVEL_HIGH 2 /* first level of LZ4 HC */

static enum sep_status lz4_encode(struct sep_context *context, uint8_t level, const uint8_t *plain,
                                  size_t plain_size, uint8_t *payload, size_t capacity,
                                  size_t *payload_size)
{
    const bool high = level >= LZ4_LEVEL_HIGH;
    const int room =
        capacity > SEP_BLOCK_SIZE_MAX * 2u ? (int)(SEP_BLOCK_SIZE_MAX * 2u) : (int)capacity;
    void **state = high ? &context->lz4_high_state : &context->lz4_fast_state;
    int written;

    if (*state == NULL)
        *state = sep_allocate((size_t)(high ? LZ4_sizeofStateHC() : LZ4_sizeofState()));
    if (*state == NULL)
        return SEP_ERROR_MEMORY;
    if (high)
        written = LZ4_compress_HC_extStateHC(*state, (const char *)plain, (char *)payload,
                                             (int)plain_size, room, level);
    else
        written = LZ4_compress_fast_extState(*state, (const char *)plain, (char *)payload,
                                             (int)plain_size, room, 1);
    if (written <= 0)
        return SEP_ERROR_CAPACITY;
    *payload_size = (size_t)written;
    return SEP_OK;
}

static enum sep_status lz4_decode(struct sep_context *context, const uint8_t *payload,
                                  size_t payload_size, uint8_t *plain, size_t plain_size)
{
    int written;

    if (payload_size > (size_t)LZ4_COMPRESSBOUND(SEP_BLOCK_SIZE_MAX))
        return SEP_ERROR_CORRUPT;
    written = LZ4_decompress_safe((const char *)payload, (char *)plain, (int)payload_size,
                                  (int)plain_size);
    return written >= 0 && (size_t)written == plain_size ? SEP_OK : SEP_ERROR_CORRUPT;
}

const struct sep_codec_ops sep_lz4_ops = {
    .name = "lz4",
    .level_max = 12,
    .level_default = 1,
    .encode = lz4_encode,
    .decode = lz4_decode,
};
