/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reaper.c - deletes what has no names left.
 *
 * An unlinked inode is marked as an orphan in the transaction that removed its last name; here its
 * extents go in transactions of at most EXTENTS each, so that nobody waits long behind a deletion of
 * terabytes. Killed at any point, the mark is still there and the next start finishes the work.
 */
#include "reaper.h"

#include <errno.h>
#include <stdlib.h>
#include <syslog.h>
#include <time.h>

#include "dirty.h"
#include "inode.h"

#define EXTENTS 128u /* removed in one transaction: well under a millisecond */
#define GATHER                                                                                     \
    20000000L /* ns from the first push to the work: bursts of deletions go on undisturbed */

struct fs_reaper {
    struct fs *fs;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t pushed, idle;
    uint64_t *queue; /* inode numbers, in no particular order */
    size_t count, capacity;
    unsigned waiters; /* in fs_reaper_wait: no time to gather */
    bool busy;
    _Atomic bool stop;
};

/* One transaction's worth; *more: call again. */
static int remove_some(struct fs *fs, uint64_t ino, bool *more)
{
    struct index_inode record;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_WRITE, &txn);

    *more = false;
    if (error != 0)
        return error;
    error = index_inode_get(txn, ino, &record);
    if (error == 0 && record.nlink == 0) {
        error = index_extent_remove(txn, ino, 0, UINT64_MAX, EXTENTS, NULL, more);
        if (error == 0 && !*more)
            error = index_inode_delete(txn, ino);
    }
    index_end(txn);
    return error == -ENOENT ? 0 : error;
}

static void reap(struct fs_reaper *reaper, uint64_t ino)
{
    struct fs *fs = reaper->fs;
    struct fs_inode *inode;
    bool more;
    int error = fs_inode_hold(fs, ino, &inode);

    if (error == -ENOENT)
        return;
    if (error != 0) {
        fs_log(LOG_WARNING, "inode %llu: can't be deleted now (error %d); left for the next start",
               (unsigned long long)ino, -error);
        return;
    }
    if (!fs_inode_claim(fs, inode))
        goto out;
    pthread_rwlock_wrlock(&inode->lock);
    fs_dirty_drop(fs, inode, 0, UINT64_MAX);
    pthread_rwlock_unlock(&inode->lock);
    do
        error = remove_some(fs, ino, &more);
    while (error == 0 && more && !reaper->stop);
    if (error != 0)
        fs_log(LOG_WARNING, "inode %llu: deletion interrupted (error %d); left for the next start",
               (unsigned long long)ino, -error);
out:
    fs_inode_drop(fs, inode);
}

/* Sleeps until there is work, and a little longer: a thread woken for each of many small files would
 * take the index from those who unlink them. Mutex held. */
static void wait_for_work(struct fs_reaper *reaper)
{
    struct timespec until;
    int late = 0;

    pthread_cond_broadcast(&reaper->idle);
    pthread_cond_wait(&reaper->pushed, &reaper->mutex);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += GATHER;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    while (!reaper->stop && reaper->waiters == 0 && late == 0)
        late = pthread_cond_timedwait(&reaper->pushed, &reaper->mutex, &until);
}

static void *run(void *arg)
{
    struct fs_reaper *reaper = arg;

    pthread_mutex_lock(&reaper->mutex);
    while (!reaper->stop || reaper->count > 0) {
        uint64_t ino;

        if (reaper->count == 0) {
            wait_for_work(reaper);
            continue;
        }
        ino = reaper->queue[--reaper->count];
        reaper->busy = true;
        pthread_mutex_unlock(&reaper->mutex);
        reap(reaper, ino);
        pthread_mutex_lock(&reaper->mutex);
        reaper->busy = false;
    }
    pthread_mutex_unlock(&reaper->mutex);
    return NULL;
}

int fs_reaper_start(struct fs *fs)
{
    struct fs_reaper *reaper = calloc(1, sizeof(*reaper));
    int error;

    if (reaper == NULL)
        return -ENOMEM;
    pthread_mutex_init(&reaper->mutex, NULL);
    pthread_cond_init(&reaper->pushed, NULL);
    pthread_cond_init(&reaper->idle, NULL);
    reaper->fs = fs;
    fs->reaper = reaper;
    error = pthread_create(&reaper->thread, NULL, run, reaper);
    if (error != 0) {
        fs->reaper = NULL;
        free(reaper);
    }
    return -error;
}

void fs_reaper_stop(struct fs *fs)
{
    struct fs_reaper *reaper = fs->reaper;

    if (reaper == NULL)
        return;
    pthread_mutex_lock(&reaper->mutex);
    reaper->stop = true;
    pthread_cond_signal(&reaper->pushed);
    pthread_mutex_unlock(&reaper->mutex);
    pthread_join(reaper->thread, NULL);
    fs->reaper = NULL;
    pthread_mutex_destroy(&reaper->mutex);
    pthread_cond_destroy(&reaper->pushed);
    pthread_cond_destroy(&reaper->idle);
    free(reaper->queue);
    free(reaper);
}

void fs_reaper_push(struct fs *fs, uint64_t ino)
{
    struct fs_reaper *reaper = fs->reaper;

    if (reaper == NULL)
        return; /* the mark in the index is enough for the next start */
    pthread_mutex_lock(&reaper->mutex);
    if (reaper->count == reaper->capacity) {
        size_t capacity = reaper->capacity > 0 ? 2 * reaper->capacity : 64;
        uint64_t *queue = realloc(reaper->queue, capacity * sizeof(*queue));

        if (queue == NULL)
            goto out;
        reaper->queue = queue;
        reaper->capacity = capacity;
    }
    reaper->queue[reaper->count++] = ino;
    if (reaper->count == 1)
        pthread_cond_signal(&reaper->pushed);
out:
    pthread_mutex_unlock(&reaper->mutex);
}

void fs_reaper_wait(struct fs *fs)
{
    struct fs_reaper *reaper = fs->reaper;

    pthread_mutex_lock(&reaper->mutex);
    reaper->waiters++;
    pthread_cond_signal(&reaper->pushed);
    while (reaper->count > 0 || reaper->busy)
        pthread_cond_wait(&reaper->idle, &reaper->mutex);
    reaper->waiters--;
    pthread_mutex_unlock(&reaper->mutex);
}

/* Finishes a truncation that a crash interrupted: extents from block FROM on go. */
static int finish_truncation(struct fs *fs, uint64_t ino, uint64_t from)
{
    bool more = true;
    int error = 0;

    while (error == 0 && more) {
        struct index_inode record;
        struct index_txn *txn;

        error = index_begin(fs->index, INDEX_WRITE, &txn);
        if (error != 0)
            return error;
        error = index_inode_get(txn, ino, &record);
        if (error == 0)
            error = index_extent_remove(txn, ino, from, UINT64_MAX, EXTENTS, &record, &more);
        if (error == 0)
            error = index_inode_put(txn, &record);
        if (error == 0 && !more)
            error = index_orphan_clear(txn, ino);
        index_end(txn);
    }
    return error;
}

int fs_inode_reap_all(struct fs *fs)
{
    uint64_t ino = 0, from;
    int error;

    for (;;) {
        struct index_inode record;
        struct index_txn *txn;

        error = index_begin(fs->index, INDEX_READ, &txn);
        if (error != 0)
            return error;
        error = index_orphan_next(txn, ino, &ino, &from);
        if (error != 0) {
            index_end(txn);
            return error == -ENOENT ? 0 : error;
        }
        error = index_inode_get(txn, ino, &record);
        index_end(txn);
        if (error == 0 && record.nlink > 0)
            error = finish_truncation(fs, ino, from);
        else if (error == 0)
            fs_reaper_push(fs, ino);
        if (error != 0 && error != -ENOENT) /* a mark without an inode is for sepfs-fsck */
            return error;
        ino++;
    }
}
