/* SPDX-License-Identifier: BSD-2-Clause
 *
 * context.c - scratch memory of one thread and the choice of instruction set.
 */
#include <lz4.h>
#include <lz4hc.h>
#include <zstd.h>

#include "codec.h"
#include "kernel.h"
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
