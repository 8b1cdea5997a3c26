/* SPDX-License-Identifier: BSD-2-Clause
 *
 * zstd.c - one zstd frame a block, without content size and checksum: the extent that
 * points to a block knows its size, and its record carries a hash.
 */
#include <zstd.h>
#include <zstd_errors.h>

#include "codec.h"

static enum sep_status zstd_encode(struct sep_context *context, uint8_t level, const uint8_t *plain,
                                   size_t plain_size, uint8_t *payload, size_t capacity,
                                   size_t *payload_size)
{
    ZSTD_CCtx *encoder = context->zstd_encoder;
    size_t written;

    if (encoder == NULL)
        encoder = context->zstd_encoder = ZSTD_createCCtx();
    if (encoder == NULL)
        return SEP_ERROR_MEMORY;
    ZSTD_CCtx_reset(encoder, ZSTD_reset_session_and_parameters);
    if (ZSTD_isError(ZSTD_CCtx_setParameter(encoder, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(encoder, ZSTD_c_contentSizeFlag, 0)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(encoder, ZSTD_c_checksumFlag, 0)))
        return SEP_ERROR_ARGUMENT;
    written = ZSTD_compress2(encoder, payload, capacity, plain, plain_size);
    if (ZSTD_isError(written))
        return ZSTD_getErrorCode(written) == ZSTD_error_memory_allocation ? SEP_ERROR_MEMORY
                                                                          : SEP_ERROR_CAPACITY;
    *payload_size = written;
    return SEP_OK;
}

static enum sep_status zstd_decode(struct sep_context *context, const uint8_t *payload,
                                   size_t payload_size, uint8_t *plain, size_t plain_size)
{
    ZSTD_DCtx *decoder = context->zstd_decoder;
    size_t written;

    if (decoder == NULL)
        decoder = context->zstd_decoder = ZSTD_createDCtx();
    if (decoder == NULL)
        return SEP_ERROR_MEMORY;
    written = ZSTD_decompressDCtx(decoder, plain, plain_size, payload, payload_size);
    if (ZSTD_isError(written) && ZSTD_getErrorCode(written) == ZSTD_error_memory_allocation)
        return SEP_ERROR_MEMORY;
    return written == plain_size ? SEP_OK : SEP_ERROR_CORRUPT;
}

const struct sep_codec_ops sep_zstd_ops = {
    .name = "zstd",
    .level_max = 19,
    .level_default = 3,
    .encode = zstd_encode,
    .decode = zstd_decode,
};
