/* SPDX-License-Identifier: BSD-2-Clause
 *
 * block.h - the SEP payload: a header of 5 or 14 bytes, then the range coder's bytes.
 *
 *   byte 0      version, 1: blocks of version 1 decode for ever
 *   byte 1      profile
 *   byte 2      bits 0-2 knowledge mask, bits 4-7 transform, bit 3 zero
 *   bytes 3-4   stride, little-endian
 *   bytes 5-12  model hash, little-endian; present when the knowledge mask is not 0, and so is
 *   byte 13     which primed state of the model; 0 unless bit 2 of the mask is set
 */
#ifndef SEP_BLOCK_H
#define SEP_BLOCK_H

#include "codec.h"

#define SEP_BLOCK_VERSION     1u
#define SEP_BLOCK_HEADER_SIZE 5u  /* of a block that names no model */
#define SEP_BLOCK_HEADER_MAX  14u /* of one that does */

static inline size_t sep_block_header_size(const struct sep_block_info *info)
{
    return info->knowledge != 0 ? SEP_BLOCK_HEADER_MAX : SEP_BLOCK_HEADER_SIZE;
}

/* Writes sep_block_header_size(info) bytes. */
void sep_block_write(uint8_t *output, const struct sep_block_info *info);

/* sep_decode.c and sep_encode.c; the arguments are those of struct sep_codec_ops. */
enum sep_status sep_block_decode(struct sep_context *context, const uint8_t *payload,
                                 size_t payload_size, uint8_t *plain, size_t plain_size);
enum sep_status sep_block_encode(struct sep_context *context, uint8_t level, const uint8_t *plain,
                                 size_t plain_size, uint8_t *payload, size_t capacity,
                                 size_t *payload_size);

/* analyse.c: what a block looks like from its bytes alone; the encoder tries what is proposed. */
struct sep_analysis {
    bool text;       /* nearly all bytes are printable or UTF-8 */
    bool x86;        /* calls with small displacements are frequent */
    uint16_t stride; /* most likely record, sample or pixel size; 0 = none */
};
void sep_analyse(const uint8_t *plain, size_t plain_size, struct sep_analysis *analysis);

#endif
