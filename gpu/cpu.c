/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cpu.c - the CPU back end: what a worker thread does with a job.
 *
 * Workers run under SCHED_IDLE and in the idle I/O class: they get the cycles that nobody else
 * wants. They never hold a lock of the index or of a file, so being starved by foreground work
 * blocks nobody. Memory of a worker: its codec context and one block for verification.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline.h"

/* linux/ioprio.h is missing from older kernel headers. */
#define IO_WHO_PROCESS 1
#define IO_CLASS_IDLE  (3 << 13)

/* Longest nap between jobs at a low CPU share: keeps the share even over a second or so. */
#define REST_MAX_NS 500000000u

/* Best effort: at normal priority the work is merely less polite. */
static void lower_priority(void)
{
    const struct sched_param param = {.sched_priority = 0};

    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &param);
    (void)syscall(SYS_ioprio_set, IO_WHO_PROCESS, 0, IO_CLASS_IDLE);
}

void gpu_cpu_raise(struct gpu_worker *worker)
{
    const struct sched_param param = {.sched_priority = 0};

    /* Without privileges Linux wants RLIMIT_NICE to allow it. */
    if (pthread_setschedparam(worker->thread, SCHED_OTHER, &param) == 0)
        atomic_store(&worker->raised, true);
}

/* Grows *buffer to SIZE bytes. */
static bool ensure(uint8_t **buffer, size_t *capacity, size_t size)
{
    uint8_t *grown;

    if (*capacity >= size)
        return true;
    grown = malloc(size);
    if (grown == NULL)
        return false;
    free(*buffer);
    *buffer = grown;
    *capacity = size;
    return true;
}

struct scratch {
    struct sep_context *context;
    uint8_t *check; /* a decoded payload */
    size_t capacity;
};

/* A codec context that knows the pipeline's models; NULL when memory is short. */
static struct sep_context *make_context(const struct gpu_pipeline *pipeline)
{
    struct sep_context *context = sep_context_new();
    enum sep_status status = SEP_OK;

    for (unsigned i = 0; context != NULL && i < pipeline->model_count && status == SEP_OK; i++)
        status = sep_context_add_model(context, pipeline->models[i], i < pipeline->encode_count);
    if (status != SEP_OK) {
        sep_context_free(context);
        return NULL;
    }
    return context;
}

static enum gpu_result work(const struct gpu_pipeline *pipeline, struct scratch *scratch,
                            struct gpu_job *job)
{
    const struct gpu_codec *codec = pipeline->codec;
    size_t size = 0;

    if (scratch->context == NULL)
        scratch->context = make_context(pipeline);
    if (scratch->context == NULL || !ensure(&scratch->check, &scratch->capacity, job->plain_size)) {
        job->status = SEP_ERROR_MEMORY;
        return GPU_ENCODE_BAD;
    }
    if (job->source != NULL) {
        job->status = codec->decode(scratch->context, job->source_codec, job->source,
                                    job->source_size, job->plain, job->plain_size);
        if (job->status != SEP_OK)
            return GPU_SOURCE_BAD;
    }
    job->status = codec->encode(scratch->context, job->method, job->plain, job->plain_size,
                                job->payload, sep_bound(job->plain_size), &size, &job->used);
    if (job->status != SEP_OK)
        return GPU_ENCODE_BAD;
    if (size == 0 || size > sep_bound(job->plain_size))
        return GPU_VERIFY_BAD;
    job->payload_size = (uint32_t)size;
    /* What is left in the buffer from the last job must not pass for this one. */
    memset(scratch->check, 0, job->plain_size);
    job->status = codec->decode(scratch->context, job->used.codec, job->payload, size,
                                scratch->check, job->plain_size);
    if (job->status != SEP_OK || memcmp(scratch->check, job->plain, job->plain_size) != 0)
        return GPU_VERIFY_BAD;
    return GPU_GOOD;
}

/* Sleeps until the worker's computing since STARTED fits its duty cycle. debt: ns of sleep owed. */
static void pay(struct gpu_pipeline *pipeline, uint64_t used, uint64_t *debt)
{
    uint64_t nap;
    uint64_t slept;

    if (pipeline->duty >= 1.0)
        return;
    *debt += (uint64_t)((double)used * (1.0 - pipeline->duty) / pipeline->duty);
    while (*debt > 0) {
        nap = *debt < REST_MAX_NS ? *debt : REST_MAX_NS;
        slept = gpu_now(CLOCK_MONOTONIC);
        gpu_rest(pipeline, nap);
        slept = gpu_now(CLOCK_MONOTONIC) - slept;
        if (slept < nap)
            return; /* closing */
        *debt = slept < *debt ? *debt - slept : 0;
    }
}

void *gpu_cpu_worker(void *arg)
{
    struct gpu_worker *worker = arg;
    struct gpu_pipeline *pipeline = worker->pipeline;
    struct scratch scratch = {0};
    struct gpu_batch *batch;
    struct gpu_job *job;
    uint64_t debt = 0;

    lower_priority();
    while ((job = gpu_take(pipeline, &batch)) != NULL) {
        uint64_t used = gpu_now(CLOCK_THREAD_CPUTIME_ID);

        if (atomic_exchange(&worker->raised, false))
            lower_priority();
        job->result = work(pipeline, &scratch, job);
        used = gpu_now(CLOCK_THREAD_CPUTIME_ID) - used;
        gpu_give(pipeline, batch, job);
        pay(pipeline, used, &debt);
    }
    sep_context_free(scratch.context);
    free(scratch.check);
    return NULL;
}
