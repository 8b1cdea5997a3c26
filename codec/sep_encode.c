/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_encode.c - encodes one SEP block: choice of profile, stride and transform, then the model.
 */
#include <string.h>

#include "block.h"
#include "model.h"
#include "range.h"
#include "transform.h"

/* Codes BYTES with the model; returns the size that CAPACITY would have had to hold, or any value
 * above CAPACITY when it is clear that it does not suffice. */
static size_t code_bytes(struct sep_context *context, const struct sep_block_info *info,
                         const uint8_t *bytes, size_t size, uint8_t *output, size_t capacity)
{
    const struct sep_kernel *kernel = context->kernel;
    struct sep_model_state *m = context->model;
    struct sep_range_encoder coder;

    sep_range_encode_begin(&coder, output, capacity);
    sep_model_begin(m, kernel, bytes, size, info->profile, info->stride);
    for (size_t i = 0; i < size; i++) {
        const uint32_t high = bytes[i] >> 4, low = bytes[i] & 15;

        sep_range_encode(&coder, m->cumulative[high], m->probability[high]);
        sep_model_after_high(m, kernel, high);
        sep_range_encode(&coder, m->cumulative[low], m->probability[low]);
        if (coder.written > capacity)
            return coder.written;
        if (i + 1 < size)
            sep_model_after_low(m, kernel, low);
    }
    return sep_range_encode_end(&coder);
}

enum sep_status sep_block_encode(struct sep_context *context, uint8_t level, const uint8_t *plain,
                                 size_t plain_size, uint8_t *payload, size_t capacity,
                                 size_t *payload_size)
{
    struct sep_block_info info = {0};
    size_t written;

    if (capacity <= SEP_BLOCK_HEADER_SIZE)
        return SEP_ERROR_CAPACITY;
    if (context->model == NULL)
        context->model = sep_allocate(sizeof *context->model);
    if (context->model == NULL)
        return SEP_ERROR_MEMORY;
    written = code_bytes(context, &info, plain, plain_size, payload + SEP_BLOCK_HEADER_SIZE,
                         capacity - SEP_BLOCK_HEADER_SIZE);
    if (written > capacity - SEP_BLOCK_HEADER_SIZE)
        return SEP_ERROR_CAPACITY;
    sep_block_write(payload, &info);
    *payload_size = SEP_BLOCK_HEADER_SIZE + written;
    return SEP_OK;
}
