/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pipeline.h - the queue between the callers of gpu.h and a back end; private to gpu/.
 *
 * A back end is a set of threads that call gpu_take, work, gpu_give. It adds nothing to the rules
 * of the queue: order, limits, cancelling and counting live here once, for every back end.
 */
#ifndef GPU_PIPELINE_H
#define GPU_PIPELINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "gpu.h"

/* The codec calls a worker makes: codec/sep.h, or a test's replacement that goes wrong. */
struct gpu_codec {
    enum sep_status (*encode)(struct sep_context *context, struct sep_method method,
                              const void *plain, size_t plain_size, void *payload, size_t capacity,
                              size_t *payload_size, struct sep_method *used);
    enum sep_status (*decode)(struct sep_context *context, unsigned codec, const void *payload,
                              size_t payload_size, void *plain, size_t plain_size);
};

struct gpu_list {
    struct gpu_batch *first, **last;
};

struct gpu_worker {
    struct gpu_pipeline *pipeline;
    pthread_t thread;
    _Atomic bool raised; /* at normal priority until the next job */
};

struct gpu_pipeline {
    pthread_mutex_t mutex;    /* guards everything below down to status */
    pthread_cond_t work;      /* a batch was queued, or closing */
    pthread_cond_t done;      /* a batch finished, or the last in flight was collected */
    struct gpu_list queued;   /* batches with jobs that nobody took */
    struct gpu_list finished; /* batches with all results */
    unsigned flight;          /* batches accepted and not collected */
    unsigned unfinished;      /* of them without all results */
    unsigned busy;            /* workers inside a job */
    uint64_t busy_since;      /* monotonic ns; valid while busy > 0 */
    bool closing;
    struct gpu_status status; /* counters */

    /* constant after gpu_open */
    unsigned limit; /* batches in flight */
    double duty;    /* share of wall time that one worker may compute, (0, 1] */
    const struct gpu_codec *codec;
    const struct sep_model *models[SEP_CONTEXT_MODELS_MAX];
    unsigned model_count, encode_count; /* the first encode_count encode, too */
    unsigned workers;
    struct gpu_worker *worker;
};

/* gpu_open with other codec calls. CODEC must outlive the pipeline. */
int gpu_open_with(const struct gpu_options *options, const struct gpu_codec *codec,
                  struct gpu_pipeline **pipeline);

/* Waits for a job and takes it; *batch is what it belongs to. NULL: the pipeline is closing. */
struct gpu_job *gpu_take(struct gpu_pipeline *pipeline, struct gpu_batch **batch);
/* Returns a job with its result set. */
void gpu_give(struct gpu_pipeline *pipeline, struct gpu_batch *batch, struct gpu_job *job);
/* Sleeps NS nanoseconds, less when the pipeline closes. */
void gpu_rest(struct gpu_pipeline *pipeline, uint64_t ns);

/* The CPU back end: thread function of a worker (struct gpu_worker). */
void *gpu_cpu_worker(void *arg);
/* Lets the worker finish its job at normal priority, where the system allows it. */
void gpu_cpu_raise(struct gpu_worker *worker);

uint64_t gpu_now(clockid_t clock); /* ns */

#endif
