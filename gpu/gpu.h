/* SPDX-License-Identifier: BSD-2-Clause
 *
 * gpu.h - bulk encoding of blocks in batches; the only public header of gpu/.
 *
 * The compactor hands over batches of jobs and collects them again; it does not know what does the
 * work. The back end there is now runs on CPU cores: worker threads at idle priority, each with a
 * codec context of its own. Batches lie in one queue and jobs go to whichever worker is free, so a
 * slow worker never holds up a fast one; device streams will take from the same queue.
 *
 * A job is reported good only after its payload was decoded again and compared with the plain
 * bytes, byte for byte. A job that fails reports what failed and leaves its neighbours alone.
 *
 * Ownership: from gpu_submit until gpu_collect returns it, a batch with its jobs and all buffers
 * they point to belongs to the pipeline. Every batch that was accepted comes out of gpu_collect
 * exactly once, whatever happens: done, failed or cancelled.
 *
 * All functions may be called from any thread at any time, except that gpu_close must be the last.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "codec/sep.h"

struct gpu_pipeline;

enum gpu_result {
    GPU_PENDING = 0, /* not worked on yet */
    GPU_GOOD,        /* payload holds the block and was verified */
    GPU_SOURCE_BAD,  /* the source payload does not decode; see job->status */
    GPU_ENCODE_BAD,  /* encoding failed; see job->status */
    GPU_VERIFY_BAD, /* the payload does not decode to the plain bytes: a fault of codec or memory */
    GPU_CANCELLED,  /* gpu_cancel came before a worker began with it */
};

/* A lower-case text for RESULT, never NULL. */
const char *gpu_result_text(enum gpu_result result);

struct gpu_job {
    /* in */
    struct sep_method method;
    uint8_t source_codec; /* enum sep_codec of source */
    const void *source;   /* NULL, or a payload that is decoded into plain first */
    uint32_t source_size; /* bytes */
    uint32_t plain_size;  /* bytes, 1 .. SEP_BLOCK_SIZE_MAX */
    void *plain;          /* the block; written only when source is given */
    void *payload;        /* output, at least sep_bound(plain_size) bytes */
    void *arg;            /* the caller's own */
    /* out; payload_size and used are set when GPU_GOOD */
    uint32_t payload_size;
    struct sep_method used; /* codec RAW when the method would not have saved a byte */
    enum gpu_result result;
    enum sep_status status;
};

struct gpu_batch {
    struct gpu_job *jobs;
    unsigned count; /* at least 1 */
    void *arg;      /* the caller's own */
    /* private to the pipeline, guarded by its mutex */
    struct gpu_batch *next;
    unsigned taken, finished; /* jobs handed to workers; jobs with a result */
};

struct gpu_options {
    unsigned workers;   /* CPU workers; 0 = one for each online CPU */
    unsigned cpu_share; /* percent of all online CPUs that the workers together may use, 1..100;
                           0 = 100 */
    unsigned batches;   /* most batches accepted and not yet collected; 0 = 4 */
    /* Models that blocks may need, at most SEP_CONTEXT_MODELS_MAX; the first encode_count of them are
     * also used to encode. The list is copied, the models must live until gpu_close. */
    const struct sep_model *const *models;
    unsigned model_count, encode_count;
};

/* Starts the workers. -EINVAL, -ENOMEM, -EAGAIN (no thread could be started). */
int gpu_open(const struct gpu_options *options, struct gpu_pipeline **pipeline);

/* Cancels what has not begun, waits for the jobs in work (a fraction of a second each) and frees.
 * Batches that were not collected are the caller's again. NULL is allowed. */
void gpu_close(struct gpu_pipeline *pipeline);

/* Queues a batch. -EAGAIN: as many are in flight as options.batches says; collect one first.
 * -EINVAL: an empty batch. Results of all jobs are reset to GPU_PENDING. */
int gpu_submit(struct gpu_pipeline *pipeline, struct gpu_batch *batch);

/* Returns a batch whose jobs all have a result, in the order in which they finished. Waits at most
 * TIMEOUT_MS (-1: for ever). NULL: none finished in time, or none is in flight. */
struct gpu_batch *gpu_collect(struct gpu_pipeline *pipeline, int timeout_ms);

/* Waits until every batch submitted so far can be collected. */
void gpu_drain(struct gpu_pipeline *pipeline);

/* Gives every job that no worker has begun the result GPU_CANCELLED. Does not wait; jobs in work go on
 * at normal priority where the system allows it, since somebody is about to wait for them. */
void gpu_cancel(struct gpu_pipeline *pipeline);

struct gpu_status {
    char name[32];    /* "cpu (2 workers)" */
    unsigned workers; /* threads that encode */
    uint64_t jobs_good, jobs_failed, jobs_cancelled;
    uint64_t plain_bytes;        /* of the good jobs */
    uint64_t busy_ns;            /* time during which at least one worker was encoding */
    double megabytes_per_second; /* plain_bytes / busy_ns, in 10^6 bytes; 0 before the first job */
    size_t batch_bytes;          /* plain bytes a batch should hold to keep this back end busy */
};
void gpu_status_get(struct gpu_pipeline *pipeline, struct gpu_status *status);

#endif
