/* SPDX-License-Identifier: BSD-2-Clause
 *
 * codec.h - what the files of codec/ share: the table of codecs and the context.
 *
 * A codec is one row of functions in one file. The functions trust their caller (api.c) for the
 * ranges of sizes and levels that sep.h promises, and nothing else: payload bytes are hostile.
 */
#ifndef SEP_CODEC_H
#define SEP_CODEC_H

#include "codec/sep.h"

struct sep_model_state;
struct sep_kernel;

struct sep_codec_ops {
    const char *name;
    uint8_t level_max;     /* 0: the codec has no levels */
    uint8_t level_default; /* 1 .. level_max */

    /* Writes at most CAPACITY bytes. SEP_ERROR_CAPACITY says "did not fit", which api.c tells apart
     * from failures: with CAPACITY below plain_size it means that raw bytes are better. */
    enum sep_status (*encode)(struct sep_context *context, uint8_t level, const uint8_t *plain,
                              size_t plain_size, uint8_t *payload, size_t capacity,
                              size_t *payload_size);
    enum sep_status (*decode)(struct sep_context *context, const uint8_t *payload,
                              size_t payload_size, uint8_t *plain, size_t plain_size);
};

extern const struct sep_codec_ops sep_raw_ops;
extern const struct sep_codec_ops sep_lz4_ops;
extern const struct sep_codec_ops sep_zstd_ops;
extern const struct sep_codec_ops sep_sep_ops;

/* Every pointer is NULL until the codec that needs it is first used. */
struct sep_context {
    void *lz4_fast_state;          /* LZ4_sizeofState() bytes, level 1 */
    void *lz4_high_state;          /* LZ4_sizeofStateHC() bytes, levels 2 to 12 */
    void *zstd_encoder;            /* ZSTD_CCtx */
    void *zstd_decoder;            /* ZSTD_DCtx */
    struct sep_model_state *model; /* SEP: everything the decoder needs besides its buffers */
    uint8_t *scratch; /* SEP encoder: the transformed block, SEP_BLOCK_SIZE_MAX bytes */
    const struct sep_kernel *kernel; /* SEP: arithmetic for this processor, never NULL */

    /* SEP: the models that blocks may name, borrowed. */
    struct {
        const struct sep_model *model;
        bool encode;
    } models[SEP_CONTEXT_MODELS_MAX];
    unsigned model_count;
};

/* malloc and free behind two functions, so that tests can fail the n-th allocation. Memory is
 * aligned to 64 bytes and zeroed. SIZE is rounded up to a multiple of 64. */
void *sep_allocate(size_t size);
void sep_release(void *memory);

/* For tests only: the N-th allocation of this thread from now on fails, once; 0 = none fails. */
void sep_test_fail_allocation(unsigned n);

#endif
