/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pipeline.c - the queue of batches, and starting and stopping the threads that serve it.
 *
 * A batch is in exactly one place: queued (jobs left to take), in work (all taken, none of the
 * lists), finished, or the caller's. The counters flight and unfinished follow those moves, which
 * is what makes "comes out exactly once" easy to see.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pipeline.h"

/* One CPU worker codes 1 to 5 MB/s: 1 MiB a batch keeps results, and so progress and commits,
 * coming every second without making the transactions tiny. */
#define CPU_BATCH_BYTES ((size_t)1 << 20)

const char *gpu_result_text(enum gpu_result result)
{
    switch (result) {
    case GPU_PENDING:
        return "not done";
    case GPU_GOOD:
        return "good";
    case GPU_SOURCE_BAD:
        return "stored form does not decode";
    case GPU_ENCODE_BAD:
        return "encoding failed";
    case GPU_VERIFY_BAD:
        return "verification failed";
    case GPU_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

uint64_t gpu_now(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct timespec after(uint64_t ns)
{
    const uint64_t end = gpu_now(CLOCK_MONOTONIC) + ns;

    return (struct timespec){.tv_sec = (time_t)(end / 1000000000u),
                             .tv_nsec = (long)(end % 1000000000u)};
}

static void list_append(struct gpu_list *list, struct gpu_batch *batch)
{
    batch->next = NULL;
    *list->last = batch;
    list->last = &batch->next;
}

static struct gpu_batch *list_shift(struct gpu_list *list)
{
    struct gpu_batch *batch = list->first;

    if (batch != NULL) {
        list->first = batch->next;
        if (list->first == NULL)
            list->last = &list->first;
    }
    return batch;
}

static void finish_if_complete(struct gpu_pipeline *pipeline, struct gpu_batch *batch)
{
    if (batch->finished < batch->count)
        return;
    list_append(&pipeline->finished, batch);
    pipeline->unfinished--;
    pthread_cond_broadcast(&pipeline->done);
}

int gpu_submit(struct gpu_pipeline *pipeline, struct gpu_batch *batch)
{
    int error = 0;

    if (batch->count == 0 || batch->jobs == NULL)
        return -EINVAL;
    pthread_mutex_lock(&pipeline->mutex);
    if (pipeline->flight >= pipeline->limit) {
        error = -EAGAIN;
    } else {
        for (unsigned i = 0; i < batch->count; i++) {
            batch->jobs[i].result = GPU_PENDING;
            batch->jobs[i].status = SEP_OK;
        }
        batch->taken = batch->finished = 0;
        list_append(&pipeline->queued, batch);
        pipeline->flight++;
        pipeline->unfinished++;
        pthread_cond_broadcast(&pipeline->work);
    }
    pthread_mutex_unlock(&pipeline->mutex);
    return error;
}

struct gpu_batch *gpu_collect(struct gpu_pipeline *pipeline, int timeout_ms)
{
    const struct timespec end = after(timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000u : 0);
    struct gpu_batch *batch;
    int waited = 0;

    pthread_mutex_lock(&pipeline->mutex);
    while ((batch = list_shift(&pipeline->finished)) == NULL && pipeline->flight > 0 &&
           timeout_ms != 0 && waited == 0) {
        if (timeout_ms < 0)
            pthread_cond_wait(&pipeline->done, &pipeline->mutex);
        else
            waited = pthread_cond_timedwait(&pipeline->done, &pipeline->mutex, &end);
    }
    if (batch != NULL && --pipeline->flight == 0)
        pthread_cond_broadcast(&pipeline->done);
    pthread_mutex_unlock(&pipeline->mutex);
    return batch;
}

void gpu_drain(struct gpu_pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->mutex);
    while (pipeline->unfinished > 0)
        pthread_cond_wait(&pipeline->done, &pipeline->mutex);
    pthread_mutex_unlock(&pipeline->mutex);
}

static void cancel_locked(struct gpu_pipeline *pipeline)
{
    struct gpu_batch *batch;

    while ((batch = list_shift(&pipeline->queued)) != NULL) {
        while (batch->taken < batch->count) {
            batch->jobs[batch->taken++].result = GPU_CANCELLED;
            batch->finished++;
            pipeline->status.jobs_cancelled++;
        }
        finish_if_complete(pipeline, batch);
    }
    /* Somebody waits for what is in work now, and on a busy machine idle priority is next to none. */
    for (unsigned i = 0; i < pipeline->workers && pipeline->busy > 0; i++)
        gpu_cpu_raise(&pipeline->worker[i]);
}

void gpu_cancel(struct gpu_pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->mutex);
    cancel_locked(pipeline);
    pthread_mutex_unlock(&pipeline->mutex);
}

struct gpu_job *gpu_take(struct gpu_pipeline *pipeline, struct gpu_batch **batch)
{
    struct gpu_job *job = NULL;

    pthread_mutex_lock(&pipeline->mutex);
    while (pipeline->queued.first == NULL && !pipeline->closing)
        pthread_cond_wait(&pipeline->work, &pipeline->mutex);
    if (!pipeline->closing) {
        *batch = pipeline->queued.first;
        job = &(*batch)->jobs[(*batch)->taken++];
        if ((*batch)->taken == (*batch)->count)
            list_shift(&pipeline->queued);
        if (pipeline->busy++ == 0)
            pipeline->busy_since = gpu_now(CLOCK_MONOTONIC);
    }
    pthread_mutex_unlock(&pipeline->mutex);
    return job;
}

void gpu_give(struct gpu_pipeline *pipeline, struct gpu_batch *batch, struct gpu_job *job)
{
    pthread_mutex_lock(&pipeline->mutex);
    if (job->result == GPU_GOOD) {
        pipeline->status.jobs_good++;
        pipeline->status.plain_bytes += job->plain_size;
    } else {
        pipeline->status.jobs_failed++;
    }
    if (--pipeline->busy == 0)
        pipeline->status.busy_ns += gpu_now(CLOCK_MONOTONIC) - pipeline->busy_since;
    batch->finished++;
    finish_if_complete(pipeline, batch);
    pthread_mutex_unlock(&pipeline->mutex);
}

void gpu_rest(struct gpu_pipeline *pipeline, uint64_t ns)
{
    const struct timespec end = after(ns);
    int waited = 0;

    pthread_mutex_lock(&pipeline->mutex);
    while (!pipeline->closing && waited == 0)
        waited = pthread_cond_timedwait(&pipeline->work, &pipeline->mutex, &end);
    pthread_mutex_unlock(&pipeline->mutex);
}

void gpu_status_get(struct gpu_pipeline *pipeline, struct gpu_status *status)
{
    pthread_mutex_lock(&pipeline->mutex);
    *status = pipeline->status;
    if (pipeline->busy > 0)
        status->busy_ns += gpu_now(CLOCK_MONOTONIC) - pipeline->busy_since;
    pthread_mutex_unlock(&pipeline->mutex);
    status->megabytes_per_second =
        status->busy_ns > 0 ? (double)status->plain_bytes * 1000.0 / (double)status->busy_ns : 0.0;
}

/* Shares the allowance of SHARE percent of all CPUs among as few workers as can use it. */
static void set_share(struct gpu_pipeline *pipeline, const struct gpu_options *options)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned cpus = online > 0 ? (unsigned)online : 1;
    const unsigned share = options->cpu_share > 0 ? options->cpu_share : 100;
    const unsigned useful = (share * cpus + 99) / 100;

    pipeline->workers = options->workers > 0 ? options->workers : cpus;
    if (pipeline->workers > useful && share < 100)
        pipeline->workers = useful;
    pipeline->duty = (double)share * cpus / 100.0 / pipeline->workers;
    if (pipeline->duty > 1.0 || share == 100)
        pipeline->duty = 1.0;
}

int gpu_open_with(const struct gpu_options *options, const struct gpu_codec *codec,
                  struct gpu_pipeline **out)
{
    struct gpu_pipeline *pipeline;
    pthread_condattr_t attr;
    unsigned started = 0;

    if (options->cpu_share > 100 || options->workers > 4096 ||
        options->model_count > SEP_CONTEXT_MODELS_MAX ||
        options->encode_count > options->model_count)
        return -EINVAL;
    pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL)
        return -ENOMEM;
    set_share(pipeline, options);
    pipeline->worker = calloc(pipeline->workers, sizeof *pipeline->worker);
    if (pipeline->worker == NULL) {
        free(pipeline);
        return -ENOMEM;
    }
    pthread_mutex_init(&pipeline->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pipeline->work, &attr);
    pthread_cond_init(&pipeline->done, &attr);
    pthread_condattr_destroy(&attr);
    pipeline->queued.last = &pipeline->queued.first;
    pipeline->finished.last = &pipeline->finished.first;
    pipeline->limit = options->batches > 0 ? options->batches : 4;
    pipeline->codec = codec;
    pipeline->model_count = options->model_count;
    pipeline->encode_count = options->encode_count;
    for (unsigned i = 0; i < options->model_count; i++)
        pipeline->models[i] = options->models[i];
    for (; started < pipeline->workers; started++) {
        pipeline->worker[started].pipeline = pipeline;
        if (pthread_create(&pipeline->worker[started].thread, NULL, gpu_cpu_worker,
                           &pipeline->worker[started]) != 0)
            break;
    }
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->workers = started;
    pipeline->status.workers = started;
    pipeline->status.batch_bytes = CPU_BATCH_BYTES * (started > 0 ? started : 1);
    snprintf(pipeline->status.name, sizeof pipeline->status.name, "cpu (%u worker%s)", started,
             started == 1 ? "" : "s");
    pthread_mutex_unlock(&pipeline->mutex);
    if (started == 0) {
        gpu_close(pipeline);
        return -EAGAIN;
    }
    *out = pipeline;
    return 0;
}

int gpu_open(const struct gpu_options *options, struct gpu_pipeline **pipeline)
{
    static const struct gpu_codec codec = {.encode = sep_encode, .decode = sep_decode};

    return gpu_open_with(options, &codec, pipeline);
}

void gpu_close(struct gpu_pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->closing = true;
    cancel_locked(pipeline);
    pthread_cond_broadcast(&pipeline->work);
    pthread_mutex_unlock(&pipeline->mutex);
    for (unsigned i = 0; i < pipeline->workers; i++)
        pthread_join(pipeline->worker[i].thread, NULL);
    pthread_cond_destroy(&pipeline->work);
    pthread_cond_destroy(&pipeline->done);
    pthread_mutex_destroy(&pipeline->mutex);
    free(pipeline->worker);
    free(pipeline);
}
