/* SPDX-License-Identifier: BSD-2-Clause
 *
 * writeback.c - the flusher thread, and writing everything back.
 *
 * Once a second it queues blocks that have been dirty for the commit interval, or that nobody has
 * touched for IDLE_MS: those are probably complete, and the workers have nothing better to do. What
 * failed is tried again after a commit interval. Then the index is committed if its oldest change is
 * a commit interval old, so at most about two intervals of work are at risk without fsync.
 */
#include "writeback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "dirty.h"

#define TICK_MS 1000u
#define IDLE_MS 1000u

static uint64_t interval_ms(const struct fs *fs)
{
    return (fs->options.commit > 0 ? fs->options.commit : 1) * UINT64_C(1000);
}

/* Queues what is due. Called with the mutex. */
static void queue_due(struct fs *fs)
{
    struct fs_writeback *wb = fs->writeback;
    const uint64_t interval = interval_ms(fs);
    struct fs_dirty *dirty, *next;
    struct timespec time;
    uint64_t now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    now = (uint64_t)time.tv_sec * 1000u + (uint64_t)time.tv_nsec / 1000000u;
    for (dirty = TAILQ_FIRST(&wb->idle); dirty != NULL; dirty = next) {
        next = TAILQ_NEXT(dirty, idle);
        if (dirty->failed ? now - dirty->touched >= interval
                          : now - dirty->touched >= IDLE_MS || now - dirty->since >= interval)
            fs_dirty_want_locked(wb, dirty);
    }
}

static void *flusher(void *arg)
{
    struct fs_writeback *wb = arg;
    struct fs *fs = wb->fs;
    int failing = 0;

    pthread_mutex_lock(&wb->mutex);
    while (!wb->stop) {
        struct timespec until;
        int error = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += TICK_MS / 1000u;
        while (!wb->stop && pthread_cond_timedwait(&wb->wake, &wb->mutex, &until) != ETIMEDOUT) {
        }
        if (wb->stop)
            break;
        queue_due(fs);
        pthread_mutex_unlock(&wb->mutex);
        if (index_dirty(fs->index) &&
            index_dirty_age(fs->index) * 1000.0 >= (double)interval_ms(fs))
            error = index_commit(fs->index);
        if (error != 0 && error != failing)
            fs_log(LOG_ERR, "%s: commit failed: %s", index_path(fs->index), strerror(-error));
        failing = error;
        pthread_mutex_lock(&wb->mutex);
    }
    pthread_mutex_unlock(&wb->mutex);
    return NULL;
}

int fs_writeback_start(struct fs *fs)
{
    struct fs_writeback *wb = calloc(1, sizeof(*wb));
    pthread_condattr_t attr;
    int error;

    if (wb == NULL)
        return -ENOMEM;
    wb->fs = fs;
    wb->limit = fs->options.dirty;
    if (wb->limit < 8 * (uint64_t)fs->block_size) /* one write touches up to three */
        wb->limit = 8 * (uint64_t)fs->block_size;
    TAILQ_INIT(&wb->all);
    TAILQ_INIT(&wb->idle);
    pthread_mutex_init(&wb->mutex, NULL);
    pthread_cond_init(&wb->progress, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&wb->wake, &attr);
    pthread_condattr_destroy(&attr);
    fs->writeback = wb;
    error = pthread_create(&wb->flusher, NULL, flusher, wb);
    if (error != 0)
        fs_writeback_free(fs);
    return -error;
}

int fs_writeback_all(struct fs *fs)
{
    struct fs_writeback *wb = fs->writeback;
    struct fs_dirty *dirty;

    if (wb == NULL)
        return 0;
    pthread_mutex_lock(&wb->mutex);
    TAILQ_FOREACH(dirty, &wb->all, all)
    fs_dirty_want_locked(wb, dirty);
    pthread_mutex_unlock(&wb->mutex);
    return fs_dirty_wait(fs, NULL);
}

uint64_t fs_writeback_bytes(struct fs *fs)
{
    uint64_t bytes;

    if (fs->writeback == NULL)
        return 0;
    pthread_mutex_lock(&fs->writeback->mutex);
    bytes = fs->writeback->bytes;
    pthread_mutex_unlock(&fs->writeback->mutex);
    return bytes;
}

/* What is left after the last attempt can't be kept: says which files lose what, and drops it. */
static void report_lost(struct fs *fs)
{
    struct fs_writeback *wb = fs->writeback;
    struct fs_dirty *dirty;

    while ((dirty = TAILQ_FIRST(&wb->all)) != NULL) {
        struct fs_inode *inode = dirty->inode;
        struct index_txn *txn;
        char path[512] = "";

        if (index_begin(fs->index, INDEX_READ, &txn) == 0) {
            index_inode_path(txn, inode->ino, path, sizeof(path));
            index_end(txn);
        }
        fs_inode_hold_again(fs, inode);
        pthread_rwlock_wrlock(&inode->lock);
        fs_log(LOG_ERR, "%s (inode %llu): the last changes to %zu blocks could not be written: %s",
               path, (unsigned long long)inode->ino, inode->dirty_count, strerror(-dirty->error));
        fs_dirty_drop(fs, inode, 0, UINT64_MAX);
        pthread_rwlock_unlock(&inode->lock);
        fs_inode_drop(fs, inode);
    }
}

int fs_writeback_stop(struct fs *fs)
{
    struct fs_writeback *wb = fs->writeback;
    int error;

    if (wb == NULL)
        return 0;
    pthread_mutex_lock(&wb->mutex);
    wb->stop = true;
    pthread_cond_signal(&wb->wake);
    pthread_mutex_unlock(&wb->mutex);
    pthread_join(wb->flusher, NULL);
    error = fs_writeback_all(fs);
    report_lost(fs);
    return error;
}

void fs_writeback_free(struct fs *fs)
{
    struct fs_writeback *wb = fs->writeback;

    if (wb == NULL)
        return;
    pthread_mutex_destroy(&wb->mutex);
    pthread_cond_destroy(&wb->progress);
    pthread_cond_destroy(&wb->wake);
    free(wb);
    fs->writeback = NULL;
}
