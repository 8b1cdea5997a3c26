/* SPDX-License-Identifier: BSD-2-Clause
 *
 * workers.c - the codec threads and the pool of codec contexts for everybody else.
 *
 * Tasks of one priority run in the order they were submitted; urgent ones first. A thread that is
 * not a worker decodes with a context from the pool: as many as there are workers, at least two, made
 * when first needed, so that codec memory is bounded by the number of threads configured and not by
 * the number of FUSE threads.
 */
#include "workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct fs_workers {
    struct fs *fs;
    pthread_mutex_t mutex; /* the queues and stop */
    pthread_cond_t work;
    struct fs_task *first[FS_PRIORITIES], *last[FS_PRIORITIES];
    bool stop;
    unsigned threads;
    pthread_t *thread;
    struct sep_context **context; /* one a worker, made before its thread starts */

    pthread_mutex_t pool_mutex; /* what follows */
    pthread_cond_t returned;
    struct sep_context **pool; /* contexts nobody uses */
    unsigned pool_free, pool_made, pool_limit;
};

struct start {
    struct fs_workers *workers;
    struct sep_context *context;
};

static struct fs_task *next_task(struct fs_workers *workers)
{
    for (unsigned i = 0; i < FS_PRIORITIES; i++) {
        struct fs_task *task = workers->first[i];

        if (task == NULL)
            continue;
        workers->first[i] = task->next;
        if (task->next == NULL)
            workers->last[i] = NULL;
        return task;
    }
    return NULL;
}

static void *work(void *arg)
{
    struct start start = *(struct start *)arg;
    struct fs_workers *workers = start.workers;

    free(arg);
    pthread_mutex_lock(&workers->mutex);
    for (;;) {
        struct fs_task *task = next_task(workers);

        if (task == NULL) {
            if (workers->stop)
                break;
            pthread_cond_wait(&workers->work, &workers->mutex);
            continue;
        }
        pthread_mutex_unlock(&workers->mutex);
        task->run(task, workers->fs, start.context);
        pthread_mutex_lock(&workers->mutex);
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

static void free_workers(struct fs_workers *workers)
{
    for (unsigned i = 0; workers->context != NULL && i < workers->threads; i++)
        sep_context_free(workers->context[i]);
    for (unsigned i = 0; i < workers->pool_free; i++)
        sep_context_free(workers->pool[i]);
    free(workers->pool);
    free(workers->context);
    free(workers->thread);
    pthread_mutex_destroy(&workers->mutex);
    pthread_mutex_destroy(&workers->pool_mutex);
    pthread_cond_destroy(&workers->work);
    pthread_cond_destroy(&workers->returned);
    free(workers);
}

static void join_threads(struct fs_workers *workers, unsigned count)
{
    pthread_mutex_lock(&workers->mutex);
    workers->stop = true;
    pthread_cond_broadcast(&workers->work);
    pthread_mutex_unlock(&workers->mutex);
    for (unsigned i = 0; i < count; i++)
        pthread_join(workers->thread[i], NULL);
}

static int start_thread(struct fs_workers *workers, unsigned i)
{
    struct start *start = malloc(sizeof(*start));
    int error;

    workers->context[i] = sep_context_new();
    if (start == NULL || workers->context[i] == NULL) {
        free(start);
        return -ENOMEM;
    }
    *start = (struct start){workers, workers->context[i]};
    error = pthread_create(&workers->thread[i], NULL, work, start);
    if (error != 0)
        free(start);
    return -error;
}

int fs_workers_start(struct fs *fs, unsigned threads)
{
    struct fs_workers *workers = calloc(1, sizeof(*workers));
    int error = -ENOMEM;

    if (workers == NULL)
        return -ENOMEM;
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_mutex_init(&workers->pool_mutex, NULL);
    pthread_cond_init(&workers->work, NULL);
    pthread_cond_init(&workers->returned, NULL);
    workers->fs = fs;
    workers->threads = threads > 0 ? threads : 1;
    workers->pool_limit = workers->threads > 2 ? workers->threads : 2;
    workers->thread = calloc(workers->threads, sizeof(*workers->thread));
    workers->context = calloc(workers->threads, sizeof(*workers->context));
    workers->pool = calloc(workers->pool_limit, sizeof(struct sep_context *));
    if (workers->thread == NULL || workers->context == NULL || workers->pool == NULL)
        goto out;
    fs->workers = workers;
    for (unsigned i = 0; i < workers->threads; i++) {
        error = start_thread(workers, i);
        if (error != 0) {
            join_threads(workers, i);
            goto out;
        }
    }
    return 0;
out:
    fs->workers = NULL;
    free_workers(workers);
    return error;
}

void fs_workers_stop(struct fs *fs)
{
    if (fs->workers == NULL)
        return;
    join_threads(fs->workers, fs->workers->threads);
    free_workers(fs->workers);
    fs->workers = NULL;
}

void fs_workers_submit(struct fs *fs, struct fs_task *task, enum fs_priority priority)
{
    struct fs_workers *workers = fs->workers;

    task->next = NULL;
    pthread_mutex_lock(&workers->mutex);
    if (workers->last[priority] != NULL)
        workers->last[priority]->next = task;
    else
        workers->first[priority] = task;
    workers->last[priority] = task;
    pthread_cond_signal(&workers->work);
    pthread_mutex_unlock(&workers->mutex);
}

unsigned fs_workers_count(const struct fs *fs)
{
    return fs->workers->threads;
}

struct sep_context *fs_context_take(struct fs *fs)
{
    struct fs_workers *workers = fs->workers;
    struct sep_context *context = NULL;
    bool make = false;

    pthread_mutex_lock(&workers->pool_mutex);
    while (workers->pool_free == 0 && workers->pool_made == workers->pool_limit)
        pthread_cond_wait(&workers->returned, &workers->pool_mutex);
    if (workers->pool_free > 0) {
        context = workers->pool[--workers->pool_free];
    } else {
        workers->pool_made++;
        make = true;
    }
    pthread_mutex_unlock(&workers->pool_mutex);
    if (!make)
        return context;
    context = sep_context_new();
    if (context == NULL) {
        pthread_mutex_lock(&workers->pool_mutex);
        workers->pool_made--;
        pthread_cond_signal(&workers->returned);
        pthread_mutex_unlock(&workers->pool_mutex);
    }
    return context;
}

void fs_context_return(struct fs *fs, struct sep_context *context)
{
    struct fs_workers *workers = fs->workers;

    pthread_mutex_lock(&workers->pool_mutex);
    workers->pool[workers->pool_free++] = context;
    pthread_cond_signal(&workers->returned);
    pthread_mutex_unlock(&workers->pool_mutex);
}
