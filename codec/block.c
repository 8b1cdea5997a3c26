/* SPDX-License-Identifier: BSD-2-Clause
 *
 * block.c - header of a SEP payload, and SEP's row of the codec table.
 */
#include "block.h"
#include "profile.h"
#include "transform.h"

void sep_block_write(uint8_t *output, const struct sep_block_info *info)
{
    output[0] = SEP_BLOCK_VERSION;
    output[1] = info->profile;
    output[2] = (uint8_t)(info->transform << 4 | info->knowledge);
    output[3] = (uint8_t)info->stride;
    output[4] = (uint8_t)(info->stride >> 8);
    if (info->knowledge == 0)
        return;
    for (unsigned k = 0; k < 8; k++)
        output[SEP_BLOCK_HEADER_SIZE + k] = (uint8_t)(info->model_hash >> (8 * k));
    output[SEP_BLOCK_HEADER_MAX - 1] = info->state;
}

enum sep_status sep_block_inspect(const void *payload, size_t payload_size,
                                  struct sep_block_info *info)
{
    const uint8_t *bytes = payload;

    if (payload == NULL || info == NULL)
        return SEP_ERROR_ARGUMENT;
    if (payload_size < SEP_BLOCK_HEADER_SIZE)
        return SEP_ERROR_HEADER;
    if (bytes[0] > SEP_BLOCK_VERSION)
        return SEP_ERROR_VERSION;
    if (bytes[0] == 0)
        return SEP_ERROR_HEADER;
    *info = (struct sep_block_info){
        .version = bytes[0],
        .profile = bytes[1],
        .knowledge = bytes[2] & 7,
        .transform = bytes[2] >> 4,
        .stride = (uint16_t)(bytes[3] | bytes[4] << 8),
    };
    if (info->profile >= SEP_PROFILE_COUNT || info->transform >= SEP_TRANSFORM_COUNT ||
        (bytes[2] & 8) != 0)
        return SEP_ERROR_HEADER;
    if (info->knowledge != 0) {
        if (payload_size < SEP_BLOCK_HEADER_MAX)
            return SEP_ERROR_HEADER;
        for (unsigned k = 0; k < 8; k++)
            info->model_hash |= (uint64_t)bytes[SEP_BLOCK_HEADER_SIZE + k] << (8 * k);
        info->state = bytes[SEP_BLOCK_HEADER_MAX - 1];
        if (info->model_hash == 0 || (info->knowledge & 3) == 3 ||
            (info->state != 0 && (info->knowledge & 4) == 0))
            return SEP_ERROR_HEADER;
    }
    return SEP_OK;
}

const struct sep_codec_ops sep_sep_ops = {
    .name = "sep",
    .level_max = 9,
    .level_default = 5,
    .encode = sep_block_encode,
    .decode = sep_block_decode,
};
