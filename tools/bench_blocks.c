/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_blocks.c - a codec on the blocks of a file: every thread takes the next block until none is
 * left, in one pass to encode and one to decode and compare. Speed is plain bytes a second of wall
 * time; reading the file is not counted. xz: one .xz stream a block, as `xz -9e` would write it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SEPFS_HAVE_LZMA
#include <lzma.h>
#endif

#include "bench_codec.h"

/* One pass over a file: every thread takes the next block until none is left. */
struct pass {
    const struct bench *bench;
    const struct bench_coder *coder;
    const struct bench_file *file;
    bool decode;
    size_t blocks;
    atomic_size_t next;
    atomic_int failure; /* 0 or an enum sep_status */
    uint8_t *payloads;  /* blocks times sep_bound(block_size) */
    size_t *sizes;      /* of the payloads */
    uint8_t *codecs;    /* that the payloads are in */
};

static enum sep_status xz_encode(const uint8_t *plain, size_t plain_size, uint8_t *payload,
                                 size_t capacity, size_t *payload_size)
{
#ifdef SEPFS_HAVE_LZMA
    *payload_size = 0;
    return lzma_easy_buffer_encode(9 | LZMA_PRESET_EXTREME, LZMA_CHECK_CRC64, NULL, plain,
                                   plain_size, payload, payload_size, capacity) == LZMA_OK
               ? SEP_OK
               : SEP_ERROR_CAPACITY;
#else
    return SEP_ERROR_CODEC;
#endif
}

static enum sep_status xz_decode(const uint8_t *payload, size_t payload_size, uint8_t *plain,
                                 size_t plain_size)
{
#ifdef SEPFS_HAVE_LZMA
    uint64_t memory = UINT64_MAX;
    size_t read = 0, written = 0;

    return lzma_stream_buffer_decode(&memory, 0, NULL, payload, &read, payload_size, plain,
                                     &written, plain_size) == LZMA_OK &&
                   written == plain_size
               ? SEP_OK
               : SEP_ERROR_CORRUPT;
#else
    return SEP_ERROR_CODEC;
#endif
}

/* Room for a block in any coder: .xz adds up to 1 KiB to data that does not compress. */
static size_t payload_room(size_t block_size)
{
    return sep_bound(block_size) + 1024;
}

static enum sep_status run_block(struct pass *pass, struct sep_context *context, size_t block,
                                 uint8_t *plain)
{
    const size_t start = block * pass->bench->block_size;
    const size_t left = pass->file->size - start;
    const size_t size = left < pass->bench->block_size ? left : pass->bench->block_size;
    const uint8_t *source = pass->file->plain + start;
    uint8_t *payload = pass->payloads + block * payload_room(pass->bench->block_size);
    struct sep_method used;
    enum sep_status status;

    if (!pass->decode) {
        if (pass->coder->kind == BENCH_XZ_BLOCK)
            return xz_encode(source, size, payload, payload_room(pass->bench->block_size),
                             &pass->sizes[block]);
        status = sep_encode(context, pass->coder->method, source, size, payload, sep_bound(size),
                            &pass->sizes[block], &used);
        pass->codecs[block] = used.codec;
        return status;
    }
    status =
        pass->coder->kind == BENCH_XZ_BLOCK
            ? xz_decode(payload, pass->sizes[block], plain, size)
            : sep_decode(context, pass->codecs[block], payload, pass->sizes[block], plain, size);
    return status == SEP_OK && memcmp(plain, source, size) != 0 ? SEP_ERROR_CORRUPT : status;
}

static void *run_thread(void *argument)
{
    struct pass *pass = argument;
    struct sep_context *context = sep_context_new();
    uint8_t *plain = malloc(pass->bench->block_size);
    enum sep_status status = context == NULL || plain == NULL ? SEP_ERROR_MEMORY : SEP_OK;

    if (status == SEP_OK && pass->coder->models)
        status = model_files_give(&pass->bench->models, context);
    while (status == SEP_OK) {
        const size_t block = atomic_fetch_add(&pass->next, 1);

        if (block >= pass->blocks)
            break;
        status = run_block(pass, context, block, plain);
    }
    if (status != SEP_OK)
        atomic_store(&pass->failure, (int)status);
    free(plain);
    sep_context_free(context);
    return NULL;
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Returns the status of the pass and how long it took. */
static enum sep_status run_pass(struct pass *pass, double *seconds)
{
    pthread_t threads[BENCH_THREADS_MAX];
    unsigned started = 0;
    const double begin = seconds_now();

    atomic_store(&pass->next, 0);
    while (started + 1 < pass->bench->threads &&
           pthread_create(&threads[started], NULL, run_thread, pass) == 0)
        started++;
    run_thread(pass);
    for (unsigned k = 0; k < started; k++)
        pthread_join(threads[k], NULL);
    *seconds = seconds_now() - begin;
    return (enum sep_status)atomic_load(&pass->failure);
}

enum sep_status bench_blocks(const struct bench *bench, const struct bench_coder *coder,
                             const struct bench_file *file, struct bench_result *result)
{
    struct pass pass = {.bench = bench, .coder = coder, .file = file};
    enum sep_status status = SEP_ERROR_MEMORY;

    pass.blocks = (file->size + bench->block_size - 1) / bench->block_size;
    pass.payloads = calloc(pass.blocks, payload_room(bench->block_size));
    pass.sizes = calloc(pass.blocks, sizeof *pass.sizes);
    pass.codecs = calloc(pass.blocks, 1);
    if (pass.payloads != NULL && pass.sizes != NULL && pass.codecs != NULL)
        status = run_pass(&pass, &result->encode_seconds);
    if (status == SEP_OK) {
        pass.decode = true;
        status = run_pass(&pass, &result->decode_seconds);
    }
    result->payload_size = 0;
    for (size_t k = 0; k < pass.blocks && status == SEP_OK; k++)
        result->payload_size += pass.sizes[k];
    free(pass.payloads);
    free(pass.sizes);
    free(pass.codecs);
    return status;
}
