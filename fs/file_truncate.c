/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_truncate.c - changing the size of a file.
 *
 * Shrinking cuts the last block that stays, dirty or stored, to its new length: what is beyond it
 * must read as zeros when the file grows again. A large file's extents go in several transactions;
 * the first one sets the size and marks the rest as work to finish, so a crash leaves the new size.
 */
#include "file_block.h"

#include <errno.h>

/* One transaction of a shrink to SIZE. first: of this truncation. */
static int shrink_record(struct fs *fs, struct fs_inode *inode, uint64_t size, bool first,
                         bool *more)
{
    const uint64_t whole = size / fs->block_size; /* blocks that stay as they are */
    const uint32_t keep = (uint32_t)(size % fs->block_size);
    const uint64_t gone = whole + (keep > 0);
    struct index_inode record;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_WRITE, &txn);

    *more = false;
    if (error != 0)
        return error;
    error = index_inode_get(txn, inode->ino, &record);
    if (error == 0 && (record.flags & INDEX_INODE_INLINE) == 0) {
        if (first && keep > 0)
            error = fs_extent_trim(txn, inode, &record, whole, keep);
        if (error == 0)
            error = index_extent_remove(txn, inode->ino, gone, UINT64_MAX, FS_EXTENTS_AT_ONCE,
                                        &record, more);
    }
    if (error == 0)
        error = fs_store_settle(fs, inode, txn, &record);
    /* without links the whole inode is marked already */
    if (error == 0 && record.nlink > 0 && first && *more)
        error = index_orphan_set(txn, inode->ino, gone);
    if (error == 0 && record.nlink > 0 && !first && !*more)
        error = index_orphan_clear(txn, inode->ino);
    index_end(txn);
    return error;
}

static int shrink(struct fs *fs, struct fs_inode *inode, uint64_t size)
{
    const uint32_t keep = (uint32_t)(size % fs->block_size);
    const uint64_t whole = size / fs->block_size;
    bool first = true, more = true;
    int error = keep > 0 ? fs_dirty_cut(fs, inode, whole, keep) : 0;

    if (error != 0)
        return error;
    fs_dirty_drop(fs, inode, whole + (keep > 0), UINT64_MAX);
    fs_file_touch(inode, size);
    while (error == 0 && more) {
        error = shrink_record(fs, inode, size, first, &more);
        first = false;
    }
    fs_store_parked(fs, inode);
    return error;
}

static int extend(struct fs *fs, struct fs_inode *inode, uint64_t size)
{
    struct fs_dirty *dirty;
    int error = 0;

    if (inode->is_inline && size > INDEX_INLINE_MAX) {
        error = fs_file_make_dirty(fs, inode, 0, &dirty);
        if (error != 0)
            return error;
        fs_dirty_give(fs, dirty, false);
    }
    fs_file_touch(inode, size);
    return fs_file_settle(fs, inode);
}

int fs_file_truncate(struct fs *fs, struct fs_inode *inode, uint64_t size)
{
    const uint64_t room = 2 * (uint64_t)fs->block_size;
    int error;

    if (index_readonly(fs->index) || fs->writeback == NULL)
        return -EROFS;
    if (size > FS_SIZE_MAX)
        return -EFBIG;
    error = fs_dirty_admit(fs, room);
    if (error != 0)
        return error;
    pthread_rwlock_wrlock(&inode->lock);
    error = size < inode->size ? shrink(fs, inode, size) : extend(fs, inode, size);
    pthread_rwlock_unlock(&inode->lock);
    fs_dirty_leave(fs, room);
    return error;
}
