/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_pipeline.c - the batch queue and the CPU back end: every batch comes back once with verified
 * payloads, from many threads, through cancelling and closing; a codec that goes wrong is caught.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "gpu/pipeline.h"

#define JOBS  8u
#define PLAIN 20000u

struct sample {
    struct gpu_batch batch;
    struct gpu_job jobs[JOBS];
    uint8_t *plain[JOBS], *payload[JOBS];
};

/* Text-like bytes that every codec shrinks and that differ from job to job. */
static void fill(uint8_t *plain, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size;) {
        const int n = snprintf((char *)plain + i, size - i, "line %zu of sample %u\n", i / 7, seed);

        i += (size_t)n;
    }
}

static struct sample *sample_new(struct sep_method method, unsigned seed)
{
    struct sample *sample = calloc(1, sizeof *sample);

    assert_non_null(sample);
    for (unsigned i = 0; i < JOBS; i++) {
        sample->plain[i] = malloc(PLAIN + 1);
        sample->payload[i] = malloc(sep_bound(PLAIN));
        assert_non_null(sample->plain[i]);
        assert_non_null(sample->payload[i]);
        fill(sample->plain[i], PLAIN + 1, seed * JOBS + i);
        sample->jobs[i] = (struct gpu_job){.method = method,
                                           .plain = sample->plain[i],
                                           .plain_size = PLAIN,
                                           .payload = sample->payload[i]};
    }
    sample->batch = (struct gpu_batch){.jobs = sample->jobs, .count = JOBS, .arg = sample};
    return sample;
}

static void sample_free(struct sample *sample)
{
    for (unsigned i = 0; i < JOBS; i++) {
        free(sample->plain[i]);
        free(sample->payload[i]);
    }
    free(sample);
}

static void sample_check(const struct sample *sample)
{
    struct sep_context *context = sep_context_new();
    uint8_t *plain = malloc(PLAIN);

    for (unsigned i = 0; i < JOBS; i++) {
        const struct gpu_job *job = &sample->jobs[i];

        assert_int_equal(job->result, GPU_GOOD);
        assert_int_equal(job->used.codec, job->method.codec);
        assert_true(job->payload_size < PLAIN / 2);
        assert_int_equal(
            sep_decode(context, job->used.codec, job->payload, job->payload_size, plain, PLAIN),
            SEP_OK);
        assert_memory_equal(plain, sample->plain[i], PLAIN);
    }
    free(plain);
    sep_context_free(context);
}

static const struct sep_method zstd = {.codec = SEP_CODEC_ZSTD, .level = 3};

static void each_codec(void **state)
{
    static const struct sep_method methods[] = {
        {SEP_CODEC_LZ4, 1}, {SEP_CODEC_ZSTD, 3}, {SEP_CODEC_ZSTD, 19}, {SEP_CODEC_SEP, 5}};
    struct gpu_pipeline *pipeline;
    struct gpu_status status;

    assert_int_equal(gpu_open(&(struct gpu_options){.workers = 2}, &pipeline), 0);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct sample *sample = sample_new(methods[i], (unsigned)i);

        assert_int_equal(gpu_submit(pipeline, &sample->batch), 0);
        assert_ptr_equal(gpu_collect(pipeline, -1), &sample->batch);
        sample_check(sample);
        sample_free(sample);
    }
    assert_null(gpu_collect(pipeline, -1)); /* nothing in flight: does not wait */
    gpu_status_get(pipeline, &status);
    assert_string_equal(status.name, "cpu (2 workers)");
    assert_int_equal(status.jobs_good, 4 * JOBS);
    assert_int_equal(status.jobs_failed, 0);
    assert_int_equal(status.plain_bytes, 4 * JOBS * PLAIN);
    assert_true(status.megabytes_per_second > 0);
    gpu_close(pipeline);
}

/* A source payload is decoded into plain first; a bad one is reported and spoils nothing else. */
static void transcodes(void **state)
{
    struct sample *sample = sample_new(zstd, 3);
    struct sep_context *context = sep_context_new();
    uint8_t *source[JOBS];
    uint8_t *expected[JOBS];
    struct gpu_pipeline *pipeline;

    for (unsigned i = 0; i < JOBS; i++) {
        size_t size;
        struct sep_method used;

        source[i] = malloc(sep_bound(PLAIN));
        expected[i] = malloc(PLAIN);
        memcpy(expected[i], sample->plain[i], PLAIN);
        assert_int_equal(sep_encode(context, (struct sep_method){SEP_CODEC_LZ4, 1}, expected[i],
                                    PLAIN, source[i], sep_bound(PLAIN), &size, &used),
                         SEP_OK);
        memset(sample->plain[i], 0, PLAIN);
        sample->jobs[i].source = source[i];
        sample->jobs[i].source_codec = used.codec;
        sample->jobs[i].source_size = (uint32_t)size;
    }
    sample->jobs[5].source_size /= 2;
    assert_int_equal(gpu_open(&(struct gpu_options){.workers = 2}, &pipeline), 0);
    assert_int_equal(gpu_submit(pipeline, &sample->batch), 0);
    assert_ptr_equal(gpu_collect(pipeline, -1), &sample->batch);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(sample->jobs[i].result, i == 5 ? GPU_SOURCE_BAD : GPU_GOOD);
        if (i != 5)
            assert_memory_equal(sample->plain[i], expected[i], PLAIN);
        free(source[i]);
        free(expected[i]);
    }
    assert_int_equal(sample->jobs[5].status, SEP_ERROR_CORRUPT);
    gpu_close(pipeline);
    sep_context_free(context);
    sample_free(sample);
}

static void limits(void **state)
{
    struct sample *first = sample_new(zstd, 1);
    struct sample *second = sample_new(zstd, 2);
    struct gpu_batch empty = {.jobs = first->jobs, .count = 0};
    struct gpu_pipeline *pipeline;

    assert_int_equal(gpu_open(&(struct gpu_options){.cpu_share = 101}, &pipeline), -EINVAL);
    assert_int_equal(gpu_open(&(struct gpu_options){.workers = 1, .batches = 1}, &pipeline), 0);
    assert_int_equal(gpu_submit(pipeline, &empty), -EINVAL);
    assert_int_equal(gpu_submit(pipeline, &first->batch), 0);
    assert_int_equal(gpu_submit(pipeline, &second->batch), -EAGAIN);
    gpu_drain(pipeline);
    assert_int_equal(gpu_submit(pipeline, &second->batch), -EAGAIN); /* finished, not collected */
    assert_ptr_equal(gpu_collect(pipeline, 0), &first->batch);
    assert_int_equal(gpu_submit(pipeline, &second->batch), 0);
    assert_ptr_equal(gpu_collect(pipeline, -1), &second->batch);
    gpu_close(pipeline);
    gpu_close(NULL);
    sample_free(first);
    sample_free(second);
}

/* ---- many threads -------------------------------------------------------------------------- */

#define THREADS 4u
#define ROUNDS  12u

struct crowd {
    struct gpu_pipeline *pipeline;
    _Atomic unsigned collected;
};

static void *submit_and_collect(void *arg)
{
    struct crowd *crowd = arg;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct sample *sample = sample_new(zstd, round);
        struct gpu_batch *batch;

        while (gpu_submit(crowd->pipeline, &sample->batch) == -EAGAIN) {
            /* Whatever comes out may be another thread's: all are alike. */
            batch = gpu_collect(crowd->pipeline, 1000);
            if (batch != NULL) {
                sample_check(batch->arg);
                sample_free(batch->arg);
                atomic_fetch_add(&crowd->collected, 1);
            }
        }
    }
    return NULL;
}

static void many_threads(void **state)
{
    struct crowd crowd = {0};
    pthread_t threads[THREADS];
    struct gpu_batch *batch;

    assert_int_equal(gpu_open(&(struct gpu_options){.workers = 3, .batches = 5}, &crowd.pipeline),
                     0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_and_collect, &crowd), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while ((batch = gpu_collect(crowd.pipeline, -1)) != NULL) {
        sample_check(batch->arg);
        sample_free(batch->arg);
        crowd.collected++;
    }
    assert_int_equal(crowd.collected, THREADS * ROUNDS);
    gpu_close(crowd.pipeline);
}

/* ---- a gate that holds workers inside encode ------------------------------------------------- */

static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_cond = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static unsigned gate_waiting;

static enum sep_status gated_encode(struct sep_context *context, struct sep_method method,
                                    const void *plain, size_t plain_size, void *payload,
                                    size_t capacity, size_t *payload_size, struct sep_method *used)
{
    pthread_mutex_lock(&gate_mutex);
    gate_waiting++;
    pthread_cond_broadcast(&gate_cond);
    while (!gate_open)
        pthread_cond_wait(&gate_cond, &gate_mutex);
    pthread_mutex_unlock(&gate_mutex);
    return sep_encode(context, method, plain, plain_size, payload, capacity, payload_size, used);
}

static const struct gpu_codec gated = {.encode = gated_encode, .decode = sep_decode};

static void gate_set(bool open)
{
    pthread_mutex_lock(&gate_mutex);
    gate_open = open;
    gate_waiting = 0;
    pthread_cond_broadcast(&gate_cond);
    pthread_mutex_unlock(&gate_mutex);
}

static void gate_await(unsigned waiting)
{
    pthread_mutex_lock(&gate_mutex);
    while (gate_waiting < waiting)
        pthread_cond_wait(&gate_cond, &gate_mutex);
    pthread_mutex_unlock(&gate_mutex);
}

static void cancels(void **state)
{
    struct sample *samples[3];
    bool seen[3] = {false};
    struct gpu_pipeline *pipeline;
    struct gpu_status status;

    gate_set(false);
    assert_int_equal(gpu_open_with(&(struct gpu_options){.workers = 1}, &gated, &pipeline), 0);
    for (unsigned i = 0; i < 3; i++) {
        samples[i] = sample_new(zstd, i);
        assert_int_equal(gpu_submit(pipeline, &samples[i]->batch), 0);
    }
    gate_await(1); /* job 0 of batch 0 is in work */
    assert_null(gpu_collect(pipeline, 0));
    gpu_cancel(pipeline);
    gate_set(true);
    for (unsigned n = 0; n < 3; n++) {
        const struct gpu_batch *batch = gpu_collect(pipeline, -1);
        const struct sample *sample;
        unsigned which = 0;

        assert_non_null(batch);
        sample = batch->arg;
        while (samples[which] != sample)
            which++;
        assert_false(seen[which]);
        seen[which] = true;
        for (unsigned i = 0; i < JOBS; i++)
            assert_int_equal(sample->jobs[i].result,
                             which == 0 && i == 0 ? GPU_GOOD : GPU_CANCELLED);
    }
    assert_null(gpu_collect(pipeline, -1));
    gpu_status_get(pipeline, &status);
    assert_int_equal(status.jobs_good, 1);
    assert_int_equal(status.jobs_cancelled, 3 * JOBS - 1);
    gpu_close(pipeline);
    for (unsigned i = 0; i < 3; i++)
        sample_free(samples[i]);
}

struct closer {
    struct gpu_pipeline *pipeline;
};

static void *close_it(void *arg)
{
    gpu_close(((struct closer *)arg)->pipeline);
    return NULL;
}

/* Closing waits for the job in work only; the others are cancelled. */
static void closes_with_work_queued(void **state)
{
    struct sample *sample = sample_new(zstd, 1);
    struct closer closer;
    pthread_t thread;
    unsigned good = 0;

    gate_set(false);
    assert_int_equal(gpu_open_with(&(struct gpu_options){.workers = 2}, &gated, &closer.pipeline),
                     0);
    assert_int_equal(gpu_submit(closer.pipeline, &sample->batch), 0);
    gate_await(2);
    /* Cancelled here rather than by the close, so that no job can begin between the two. */
    gpu_cancel(closer.pipeline);
    assert_int_equal(pthread_create(&thread, NULL, close_it, &closer), 0);
    gate_set(true);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_true(sample->jobs[i].result == GPU_GOOD || sample->jobs[i].result == GPU_CANCELLED);
        good += sample->jobs[i].result == GPU_GOOD;
    }
    assert_int_equal(good, 2);
    sample_free(sample);
}

/* ---- codecs that go wrong ------------------------------------------------------------------ */

static _Atomic unsigned calls;

/* Every third call encodes something else than it was given: what a bit flip in memory or a fault
 * of the encoder does. */
static enum sep_status lying_encode(struct sep_context *context, struct sep_method method,
                                    const void *plain, size_t plain_size, void *payload,
                                    size_t capacity, size_t *payload_size, struct sep_method *used)
{
    enum sep_status status;
    uint8_t *copy;

    if (atomic_fetch_add(&calls, 1) % 3 != 2)
        return sep_encode(context, method, plain, plain_size, payload, capacity, payload_size,
                          used);
    copy = malloc(plain_size);
    memcpy(copy, plain, plain_size);
    copy[plain_size - 1] ^= 1;
    status = sep_encode(context, method, copy, plain_size, payload, capacity, payload_size, used);
    free(copy);
    return status;
}

/* Claims a size beyond the buffer. */
static enum sep_status overlong_encode(struct sep_context *context, struct sep_method method,
                                       const void *plain, size_t plain_size, void *payload,
                                       size_t capacity, size_t *payload_size,
                                       struct sep_method *used)
{
    *payload_size = capacity + 1;
    *used = method;
    return SEP_OK;
}

static enum sep_status failing_encode(struct sep_context *context, struct sep_method method,
                                      const void *plain, size_t plain_size, void *payload,
                                      size_t capacity, size_t *payload_size,
                                      struct sep_method *used)
{
    return SEP_ERROR_MEMORY;
}

/* Says "fine" and writes nothing: leftovers of an earlier job must not pass. */
static enum sep_status idle_decode(struct sep_context *context, unsigned codec, const void *payload,
                                   size_t payload_size, void *plain, size_t plain_size)
{
    return SEP_OK;
}

static void run_with(const struct gpu_codec *codec, struct sample *sample)
{
    struct gpu_pipeline *pipeline;

    assert_int_equal(gpu_open_with(&(struct gpu_options){.workers = 1}, codec, &pipeline), 0);
    assert_int_equal(gpu_submit(pipeline, &sample->batch), 0);
    assert_ptr_equal(gpu_collect(pipeline, -1), &sample->batch);
    gpu_close(pipeline);
}

static void verification_catches_a_wrong_codec(void **state)
{
    struct sample *sample = sample_new(zstd, 9);

    calls = 0;
    run_with(&(struct gpu_codec){lying_encode, sep_decode}, sample);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(sample->jobs[i].result, i % 3 == 2 ? GPU_VERIFY_BAD : GPU_GOOD);

    run_with(&(struct gpu_codec){overlong_encode, sep_decode}, sample);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(sample->jobs[i].result, GPU_VERIFY_BAD);

    run_with(&(struct gpu_codec){sep_encode, idle_decode}, sample);
    for (unsigned i = 0; i < JOBS; i++)
        assert_int_equal(sample->jobs[i].result, GPU_VERIFY_BAD);

    run_with(&(struct gpu_codec){failing_encode, sep_decode}, sample);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(sample->jobs[i].result, GPU_ENCODE_BAD);
        assert_int_equal(sample->jobs[i].status, SEP_ERROR_MEMORY);
    }
    sample_free(sample);
}

/* ---- CPU share ----------------------------------------------------------------------------- */

/* Computes for 20 ms of the thread's CPU time. */
static enum sep_status burning_encode(struct sep_context *context, struct sep_method method,
                                      const void *plain, size_t plain_size, void *payload,
                                      size_t capacity, size_t *payload_size,
                                      struct sep_method *used)
{
    const uint64_t end = gpu_now(CLOCK_THREAD_CPUTIME_ID) + 20000000u;

    while (gpu_now(CLOCK_THREAD_CPUTIME_ID) < end)
        continue;
    return sep_encode(context, method, plain, plain_size, payload, capacity, payload_size, used);
}

/* The limit is an upper one: a busy machine may give less, never more. */
static void cpu_share_holds(void **state)
{
    const struct gpu_codec codec = {burning_encode, sep_decode};
    const double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    struct sample *sample = sample_new(zstd, 4);
    struct gpu_pipeline *pipeline;
    uint64_t begin;
    double wall;
    double computed;

    assert_int_equal(gpu_open_with(&(struct gpu_options){.cpu_share = 10}, &codec, &pipeline), 0);
    begin = gpu_now(CLOCK_MONOTONIC);
    assert_int_equal(gpu_submit(pipeline, &sample->batch), 0);
    assert_ptr_equal(gpu_collect(pipeline, -1), &sample->batch);
    wall = (double)(gpu_now(CLOCK_MONOTONIC) - begin) / 1e9;
    /* Each worker owes no rest yet for its last job. */
    computed = 0.020 * ((double)JOBS - pipeline->workers);
    assert_true(computed / wall <= 0.10 * cpus * 1.05);
    gpu_close(pipeline);
    sample_free(sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_codec),
        cmocka_unit_test(transcodes),
        cmocka_unit_test(limits),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(cancels),
        cmocka_unit_test(closes_with_work_queued),
        cmocka_unit_test(verification_catches_a_wrong_codec),
        cmocka_unit_test(cpu_share_holds),
    };

    return cmocka_run_group_tests_name("gpu pipeline", tests, NULL, NULL);
}
