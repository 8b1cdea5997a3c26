/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_scrub.c - pass 8: reads every record that a block lies in, in the order of the packs, holds
 * it to its checksum and to the index, and passes it on to the caller's decode. Several threads take
 * stretches of RUN places; each looks its blocks up anew, so a block that a daemon moved since is
 * read where it is.
 *
 * Memory: a record buffer a thread.
 */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "verify.h"

enum { RUN = 16, THREADS_MAX = 256 };

struct scrub {
    struct checker *checker;
    atomic_size_t next; /* place not yet taken */
    atomic_size_t done;
    atomic_bool stop;
    pthread_mutex_t mutex; /* guards error, checker->damage and changed */
    pthread_cond_t changed;
    int error;
    unsigned running;
};

struct worker {
    struct scrub *scrub;
    pthread_t thread;
    unsigned number;
    uint8_t *buffer;
    size_t room;
};

/* 0 (also for a block that is gone), -EIO with *kind and REASON, or what ends the scrub. */
static int scrub_block(struct worker *worker, uint64_t id, struct index_block *block,
                       const char **kind, char *reason, size_t size)
{
    struct checker *const c = worker->scrub->checker;
    const int error = index_block_verify(c->index, id, block, NULL, &worker->buffer, &worker->room,
                                         kind, reason, size);
    if (error != 0)
        return error > 0 ? 0 : error;
    *kind = "block-decode";
    return c->options->decode == NULL
               ? 0
               : c->options->decode(c->options->decode_arg, worker->number, block,
                                    worker->buffer + INDEX_RECORD_HEADER, reason, size);
}

static void fail(struct scrub *scrub, int error)
{
    pthread_mutex_lock(&scrub->mutex);
    if (scrub->error == 0)
        scrub->error = error;
    pthread_mutex_unlock(&scrub->mutex);
    atomic_store(&scrub->stop, true);
}

static int scrub_place(struct worker *worker, const struct check_place *place)
{
    struct scrub *const scrub = worker->scrub;
    struct index_block block = {0};
    const char *kind = "";
    char reason[128] = "";
    int error = scrub_block(worker, place->block, &block, &kind, reason, sizeof reason);
    if (error == -EIO) {
        pthread_mutex_lock(&scrub->mutex);
        error = check_damage_add(scrub->checker, place->block, block.at.pack, kind,
                                 "%s (pack %u, offset %ju)", reason, block.at.pack,
                                 (uintmax_t)block.at.offset);
        pthread_mutex_unlock(&scrub->mutex);
    }
    return error;
}

static void *work(void *arg)
{
    struct worker *const worker = arg;
    struct scrub *const scrub = worker->scrub;
    const struct checker *const c = scrub->checker;
    while (!atomic_load(&scrub->stop)) {
        const size_t from = atomic_fetch_add(&scrub->next, RUN);
        if (from >= c->place_count)
            break;
        const size_t end = c->place_count - from < RUN ? c->place_count : from + RUN;
        for (size_t i = from; i < end && !atomic_load(&scrub->stop); i++) {
            const int error = scrub_place(worker, &c->places[i]);
            if (error != 0)
                fail(scrub, error);
            atomic_fetch_add(&scrub->done, 1);
        }
    }
    pthread_mutex_lock(&scrub->mutex);
    scrub->running--;
    pthread_cond_signal(&scrub->changed);
    pthread_mutex_unlock(&scrub->mutex);
    return NULL;
}

/* Tells the caller how far it is, from this thread alone, until the workers are done. */
static void watch(struct scrub *scrub)
{
    const struct index_check *const options = scrub->checker->options;
    pthread_mutex_lock(&scrub->mutex);
    while (scrub->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100 * 1000 * 1000;
        until.tv_sec += until.tv_nsec / (1000 * 1000 * 1000);
        until.tv_nsec %= 1000 * 1000 * 1000;
        pthread_cond_timedwait(&scrub->changed, &scrub->mutex, &until);
        if (options->progress != NULL)
            options->progress(options->arg, "scrub", atomic_load(&scrub->done),
                              scrub->checker->place_count);
        if (options->stop != NULL && *options->stop)
            atomic_store(&scrub->stop, true);
    }
    pthread_mutex_unlock(&scrub->mutex);
    if (scrub->error == 0 && options->stop != NULL && *options->stop)
        scrub->error = -ECANCELED;
}

int check_scrub(struct checker *c)
{
    struct scrub scrub = {
        .checker = c, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    unsigned threads = c->options->threads == 0 ? 1 : c->options->threads;
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    struct worker *const workers = calloc(threads, sizeof *workers);
    unsigned started = 0;
    if (workers == NULL)
        return -ENOMEM;
    for (; started < threads; started++) {
        workers[started] = (struct worker){.scrub = &scrub, .number = started};
        pthread_mutex_lock(&scrub.mutex);
        scrub.running++;
        pthread_mutex_unlock(&scrub.mutex);
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) {
            pthread_mutex_lock(&scrub.mutex);
            scrub.running--;
            pthread_mutex_unlock(&scrub.mutex);
            break;
        }
    }
    if (started == 0)
        scrub.error = -EAGAIN;
    watch(&scrub);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        free(workers[i].buffer);
    }
    free(workers);
    return scrub.error;
}
