/* SPDX-License-Identifier: BSD-2-Clause
 *
 * context.c - scratch memory of one thread and the choice of instruction set.
 */
#include <lz4.h>
#include <lz4hc.h>
#include <zstd.h>

#include "codec.h"
#include "kernel.h"
#include "model_file.h"
#include "state.h"

struct sep_context *sep_context_new(void)
{
    struct sep_context *context = sep_allocate(sizeof *context);

    if (context != NULL)
        context->kernel = sep_kernel_best();
    return context;
}

void sep_context_free(struct sep_context *context)
{
    if (context == NULL)
        return;
    sep_release(context->lz4_fast_state);
    sep_release(context->lz4_high_state);
    ZSTD_freeCCtx(context->zstd_encoder);
    ZSTD_freeDCtx(context->zstd_decoder);
    sep_release(context->model);
    sep_release(context->scratch);
    sep_release(context);
}

enum sep_status sep_context_add_model(struct sep_context *context, const struct sep_model *model,
                                      bool encode)
{
    unsigned k = 0;

    if (context == NULL || model == NULL)
        return SEP_ERROR_ARGUMENT;
    while (k < context->model_count && context->models[k].model->hash != model->hash)
        k++;
    if (k == SEP_CONTEXT_MODELS_MAX)
        return SEP_ERROR_CAPACITY;
    if (k == context->model_count) {
        context->models[k].model = model;
        context->model_count++;
    }
    context->models[k].encode = encode;
    return SEP_OK;
}

void sep_context_clear_models(struct sep_context *context)
{
    context->model_count = 0;
}

size_t sep_context_memory(const struct sep_context *context)
{
    size_t size = sizeof *context;

    if (context->lz4_fast_state != NULL)
        size += (size_t)LZ4_sizeofState();
    if (context->lz4_high_state != NULL)
        size += (size_t)LZ4_sizeofStateHC();
    size += ZSTD_sizeof_CCtx(context->zstd_encoder);
    size += ZSTD_sizeof_DCtx(context->zstd_decoder);
    if (context->model != NULL)
        size += sizeof *context->model;
    if (context->scratch != NULL)
        size += SEP_BLOCK_SIZE_MAX;
    return size;
}
