/* SPDX-License-Identifier: BSD-2-Clause
 *
 * raw.c - the codec that stores plain bytes.
 */
#include <string.h>

#include "codec.h"

static enum sep_status raw_encode(struct sep_context *context, uint8_t level, const uint8_t *plain,
                                  size_t plain_size, uint8_t *payload, size_t capacity,
                                  size_t *payload_size)
{
    if (capacity < plain_size)
        return SEP_ERROR_CAPACITY;
    memcpy(payload, plain, plain_size);
    *payload_size = plain_size;
    return SEP_OK;
}

static enum sep_status raw_decode(struct sep_context *context, const uint8_t *payload,
                                  size_t payload_size, uint8_t *plain, size_t plain_size)
{
    if (payload_size != plain_size)
        return SEP_ERROR_CORRUPT;
    memcpy(plain, payload, plain_size);
    return SEP_OK;
}

const struct sep_codec_ops sep_raw_ops = {
    .name = "raw",
    .encode = raw_encode,
    .decode = raw_decode,
};
