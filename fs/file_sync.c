/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_sync.c - close and fsync: from dirty blocks to the store, and the errors of that.
 */
#include "file_block.h"

#include "writeback.h"

static bool has_dirty(struct fs *fs, struct fs_inode *inode)
{
    bool dirty;

    pthread_mutex_lock(&fs->writeback->mutex);
    dirty = !TAILQ_EMPTY(&inode->versions);
    pthread_mutex_unlock(&fs->writeback->mutex);
    return dirty;
}

/* One block in a small buffer. Waking a worker for each such file at its close costs more than
 * storing it, and many are deleted or renamed over within a second: the flusher gets it. */
static bool is_small(struct fs *fs, struct fs_inode *inode)
{
    bool small;

    pthread_rwlock_rdlock(&inode->lock);
    small = inode->dirty_count == 1 && inode->dirty[0]->number == 0 &&
            inode->dirty[0]->capacity <= fs->block_size / 4;
    pthread_rwlock_unlock(&inode->lock);
    return small;
}

/* A very small file is stored at once: that is cheaper than telling a worker to do it. */
static bool stored_inline(struct fs *fs, struct fs_inode *inode)
{
    bool stored;

    pthread_rwlock_wrlock(&inode->lock);
    stored = fs_store_inline(fs, inode) != 0 && inode->dirty_count == 0;
    pthread_rwlock_unlock(&inode->lock);
    if (stored)
        fs_notify_stored(fs, inode);
    return stored;
}

/* The first error of write-back since it was last asked for. */
static int take_error(struct fs_inode *inode)
{
    int error;

    pthread_mutex_lock(&inode->overlay_lock);
    error = inode->write_error;
    inode->write_error = 0;
    pthread_mutex_unlock(&inode->overlay_lock);
    return error;
}

int fs_file_flush(struct fs *fs, struct fs_inode *inode)
{
    if (fs->writeback != NULL && has_dirty(fs, inode) && !stored_inline(fs, inode) &&
        !is_small(fs, inode))
        fs_dirty_queue(fs, inode, false, FS_LATER);
    return take_error(inode);
}

int fs_file_write_back(struct fs *fs, struct fs_inode *inode)
{
    if (fs->writeback == NULL || !has_dirty(fs, inode) || stored_inline(fs, inode))
        return 0;
    fs_dirty_queue(fs, inode, true, FS_URGENT);
    return fs_dirty_wait(fs, inode);
}

int fs_file_sync(struct fs *fs, struct fs_inode *inode)
{
    int written = fs_file_write_back(fs, inode);
    int committed = index_commit(fs->index);
    int earlier = take_error(inode);

    return written != 0 ? written : earlier != 0 ? earlier : committed;
}
