/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep_pool.c - the ring of jobs. Slot i holds jobs i, i + slots, i + 2 * slots, ...; three counters
 * that only grow say which jobs are submitted, taken by a worker and consumed. lock guards them and
 * the slots' done flags; a job's contents belong to the worker between taken and done, and to the
 * caller of pool_run at all other times.
 */
#include "sep_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct slot {
    struct job job;
    bool done; /* worked on, not yet consumed */
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t submitted_more; /* or ending */
    pthread_cond_t done_more;
    pthread_t threads[POOL_THREADS_MAX];
    const struct model_files *models;
    unsigned threads_max, started, idle;
    unsigned slots_count;
    uint64_t submitted, taken, consumed; /* consumed <= taken <= submitted <= consumed + slots */
    void (*work)(struct job *job, struct sep_context *context);
    bool ending;
    struct slot slots[];
};

bool job_room(struct job *job, size_t plain_size, size_t stored_size)
{
    if (job->plain_room < plain_size) {
        free(job->plain);
        job->plain = malloc(plain_size);
        job->plain_room = job->plain != NULL ? plain_size : 0;
    }
    if (job->stored_room < stored_size) {
        free(job->stored);
        job->stored = malloc(stored_size);
        job->stored_room = job->stored != NULL ? stored_size : 0;
    }
    return job->plain_room >= plain_size && job->stored_room >= stored_size;
}

static struct slot *slot_of(struct pool *pool, uint64_t number)
{
    return &pool->slots[number % pool->slots_count];
}

static void fail(struct job *job, const char *fault)
{
    job->status = SEP_ERROR_MEMORY;
    job->fault = fault;
}

static void *worker(void *arg)
{
    struct pool *const pool = arg;
    struct sep_context *context = sep_context_new();
    if (context != NULL && model_files_give(pool->models, context) != SEP_OK) {
        sep_context_free(context);
        context = NULL;
    }
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->taken == pool->submitted && !pool->ending) {
            pool->idle++;
            pthread_cond_wait(&pool->submitted_more, &pool->lock);
            pool->idle--;
        }
        if (pool->taken == pool->submitted)
            break;
        struct slot *const slot = slot_of(pool, pool->taken++);
        pthread_mutex_unlock(&pool->lock);
        if (context != NULL) {
            pool->work(&slot->job, context);
        } else {
            fail(&slot->job, sep_status_text(SEP_ERROR_MEMORY));
        }
        pthread_mutex_lock(&pool->lock);
        slot->done = true;
        pthread_cond_signal(&pool->done_more);
    }
    pthread_mutex_unlock(&pool->lock);
    sep_context_free(context);
    return NULL;
}

struct pool *pool_new(unsigned threads, const struct model_files *models)
{
    const unsigned slots = threads * POOL_DEPTH;
    struct pool *const pool = calloc(1, sizeof *pool + slots * sizeof pool->slots[0]);
    if (pool == NULL)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->submitted_more, NULL);
    pthread_cond_init(&pool->done_more, NULL);
    pool->threads_max = threads;
    pool->models = models;
    pool->slots_count = slots;
    return pool;
}

void pool_free(struct pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->submitted_more);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    for (unsigned i = 0; i < pool->slots_count; i++) {
        free(pool->slots[i].job.plain);
        free(pool->slots[i].job.stored);
    }
    pthread_cond_destroy(&pool->done_more);
    pthread_cond_destroy(&pool->submitted_more);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Starts one more worker when all are busy. Signals stay with the thread that can act on them. */
static void start_worker(struct pool *pool)
{
    sigset_t blocked, before;
    if (pool->submitted - pool->taken <= pool->idle || pool->started == pool->threads_max)
        return;
    sigfillset(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    if (pthread_create(&pool->threads[pool->started], NULL, worker, pool) == 0)
        pool->started++; /* else those that run do it */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Hands the next slot to the workers. */
static void submit(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct slot *const slot = slot_of(pool, pool->submitted++);
    start_worker(pool);
    if (pool->started == 0) {
        fail(&slot->job, "no thread could be started");
        slot->done = true;
        pool->taken++;
    }
    pthread_cond_signal(&pool->submitted_more);
    pthread_mutex_unlock(&pool->lock);
}

/* The oldest job when it is done, or NULL; waits for it when asked to. */
static struct job *oldest(struct pool *pool, bool wait)
{
    struct slot *const slot = slot_of(pool, pool->consumed);
    pthread_mutex_lock(&pool->lock);
    while (!slot->done && wait && pool->consumed < pool->submitted)
        pthread_cond_wait(&pool->done_more, &pool->lock);
    const bool done = slot->done;
    pthread_mutex_unlock(&pool->lock);
    return done ? &slot->job : NULL;
}

static void release(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    slot_of(pool, pool->consumed++)->done = false;
    pthread_mutex_unlock(&pool->lock);
}

/* Takes back what no worker has begun and waits for the rest. */
static void drain(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->submitted = pool->taken;
    while (pool->consumed < pool->submitted) {
        struct slot *const slot = slot_of(pool, pool->consumed);
        while (!slot->done)
            pthread_cond_wait(&pool->done_more, &pool->lock);
        slot->done = false;
        pool->consumed++;
    }
    pthread_mutex_unlock(&pool->lock);
}

static int produce(struct pool *pool, const struct pool_task *task)
{
    struct job *const job = &slot_of(pool, pool->submitted)->job;
    job->fault = NULL;
    job->status = SEP_OK;
    job->lost_blocks = job->lost_bytes = 0;
    const int result = task->produce(task->arg, job);
    if (result == 1)
        submit(pool);
    return result;
}

int pool_run(struct pool *pool, const struct pool_task *task)
{
    int produced = 1, result = 0;
    pool->work = task->work; /* no job is in work: nobody reads it now */
    while (result == 0) {
        if (*task->stop != 0) {
            result = -ECANCELED;
            break;
        }
        const bool room = pool->submitted - pool->consumed < pool->slots_count;
        if (produced == 1 && room)
            produced = produce(pool, task);
        else if (pool->consumed == pool->submitted)
            break;
        struct job *const job = oldest(pool, produced != 1 || !room);
        if (job != NULL) {
            result = task->consume(task->arg, job);
            release(pool);
        }
    }
    drain(pool);
    return result != 0 ? result : produced == 1 ? 0 : produced;
}
