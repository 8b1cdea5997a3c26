/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_decode.c - decodes one SEP block. Shares the model with the encoder, and no encoder code.
 *
 * The payload is hostile until proved otherwise: every loop here is bounded by plain_size, the
 * range decoder reads zeros behind the payload and decoding stops soon after.
 */
#include "block.h"
#include "knowledge.h"
#include "range.h"
#include "transform.h"

static uint32_t decode_nibble(struct sep_range_decoder *coder, const struct sep_model_state *m,
                              const struct sep_kernel *kernel)
{
    const unsigned symbol = kernel->find(m, sep_range_target(coder));

    sep_range_decode(coder, m->cumulative[symbol], m->probability[symbol]);
    return symbol;
}

enum sep_status sep_block_decode(struct sep_context *context, const uint8_t *payload,
                                 size_t payload_size, uint8_t *plain, size_t plain_size)
{
    const struct sep_kernel *kernel = context->kernel;
    struct sep_range_decoder coder;
    struct sep_block_info info;
    struct sep_model_state *m;
    struct sep_knowledge knowledge;
    size_t header;
    enum sep_status status = sep_block_inspect(payload, payload_size, &info);

    if (status == SEP_OK)
        status = sep_knowledge_find(context, &info, &knowledge);
    if (status != SEP_OK)
        return status;
    if (context->model == NULL)
        context->model = sep_allocate(sizeof *context->model);
    m = context->model;
    if (m == NULL)
        return SEP_ERROR_MEMORY;

    header = sep_block_header_size(&info);
    sep_range_decode_begin(&coder, payload + header, payload_size - header);
    sep_model_begin(m, kernel, plain, plain_size, info.profile, info.stride, &knowledge);
    for (size_t i = 0; i < plain_size; i++) {
        const uint32_t high = decode_nibble(&coder, m, kernel);
        uint32_t low;

        sep_model_after_high(m, kernel, high);
        low = decode_nibble(&coder, m, kernel);
        plain[i] = (uint8_t)(high << 4 | low);
        if (coder.read > coder.input_size + SEP_RANGE_TAIL)
            return SEP_ERROR_CORRUPT;
        if (i + 1 < plain_size)
            sep_model_after_low(m, kernel, low);
    }
    if (!sep_range_decode_fits(&coder))
        return SEP_ERROR_CORRUPT;
    sep_transform_undo(info.transform, plain, plain_size);
    return SEP_OK;
}
