/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_allocate.c - fallocate(): growing a file, holes, and ranges of zeros. A zeroed range is a
 * hole too: what a hole costs to fill later is checked at write() like any other.
 */
#include "file_block.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>

/* Whether the store or memory has anything for a block. 1, 0 or a negative errno. */
static int has_bytes(struct fs *fs, struct fs_inode *inode, uint64_t number)
{
    struct index_extent extent;
    struct index_txn *txn;
    int error;

    if (fs_dirty_find(inode, number) != NULL)
        return 1;
    if (number * fs->block_size >= inode->record_size)
        return 0;
    if (inode->is_inline)
        return number == 0;
    error = index_begin(fs->index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    error = index_extent_get(txn, inode->ino, number, &extent);
    index_end(txn);
    return error == 0 ? 1 : error == -ENOENT ? 0 : error;
}

static int trim(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t keep)
{
    struct index_inode record;
    struct index_txn *txn;
    int error = fs_dirty_cut(fs, inode, number, keep);

    if (error == 0)
        error = index_begin(fs->index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    error = index_inode_get(txn, inode->ino, &record);
    if (error == 0)
        error = fs_extent_trim(txn, inode, &record, number, keep);
    if (error == 0)
        error = index_inode_put(txn, &record);
    index_end(txn);
    return error;
}

/* Zeros in bytes [FROM, TO) of one block that keeps others. */
static int zero_part(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t from,
                     uint32_t to)
{
    struct fs_dirty *dirty;
    int answer = has_bytes(fs, inode, number);

    if (answer <= 0)
        return answer;
    if (from > 0 && to >= fs_file_valid(fs, inode, number) && !inode->is_inline)
        return trim(fs, inode, number, from); /* nothing after the range: no need to decode */
    answer = fs_file_make_dirty(fs, inode, number, &dirty);
    if (answer != 0)
        return answer;
    if (from < dirty->length)
        fs_dirty_fill(dirty, from, to < dirty->length ? to : dirty->length, NULL);
    fs_dirty_give(fs, dirty, false);
    return 0;
}

/* Zeros in bytes [FROM, TO) of the file, within its size. */
static int zero_range(struct fs *fs, struct fs_inode *inode, uint64_t from, uint64_t to)
{
    const uint32_t size = fs->block_size;
    uint64_t first = from / size, last = (to - 1) / size, keep_last = to % size;
    int error = 0;

    /* the last block of the file goes whole when the range has all its bytes */
    if (to >= inode->size)
        keep_last = 0;
    if (from % size != 0 || (first == last && keep_last != 0) || (inode->is_inline && first == 0)) {
        uint64_t end = first == last ? to - first * size : size;

        error = zero_part(fs, inode, first, (uint32_t)(from % size), (uint32_t)end);
        if (error != 0 || first == last)
            return error;
        first++;
    }
    if (keep_last != 0) {
        error = zero_part(fs, inode, last, 0, (uint32_t)keep_last);
        if (error != 0)
            return error;
        last--;
    }
    return first <= last ? fs_file_remove(fs, inode, first, last) : 0;
}

/* Whether LENGTH bytes would fit now; promises nothing that lasts. */
static int check_room(struct fs *fs, uint64_t length)
{
    int error = index_reserve(fs->index, length);

    if (error == 0)
        index_release(fs->index, length);
    return error;
}

static int allocate(struct fs *fs, struct fs_inode *inode, int mode, uint64_t from, uint64_t to)
{
    const bool zero = (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0;
    const bool grow = (mode & FALLOC_FL_KEEP_SIZE) == 0 && to > inode->size;
    uint64_t end = to < inode->size ? to : inode->size;
    struct fs_dirty *dirty;
    int error = 0;

    if (zero && from < end)
        error = zero_range(fs, inode, from, end);
    if (error == 0 && grow && inode->is_inline && to > INDEX_INLINE_MAX) {
        error = fs_file_make_dirty(fs, inode, 0, &dirty);
        if (error == 0)
            fs_dirty_give(fs, dirty, false);
    }
    if (error != 0 || (!zero && !grow)) {
        fs_store_parked(fs, inode);
        return error;
    }
    fs_file_touch(inode, grow ? to : inode->size);
    return fs_file_settle(fs, inode);
}

int fs_file_allocate(struct fs *fs, struct fs_inode *inode, int mode, uint64_t offset,
                     uint64_t length)
{
    const uint64_t room = 4 * (uint64_t)fs->block_size;
    int error;

    switch (mode) {
    case 0:
    case FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_ZERO_RANGE:
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
        break;
    default:
        return -EOPNOTSUPP;
    }
    if (length == 0)
        return -EINVAL;
    if (index_readonly(fs->index) || fs->writeback == NULL)
        return -EROFS;
    if (offset > FS_SIZE_MAX || length > FS_SIZE_MAX - offset)
        return -EFBIG;
    if ((mode & ~FALLOC_FL_KEEP_SIZE) == 0) {
        error = check_room(fs, length);
        if (error != 0)
            return error;
    }
    error = fs_dirty_admit(fs, room);
    if (error != 0)
        return error;
    pthread_rwlock_wrlock(&inode->lock);
    error = allocate(fs, inode, mode, offset, offset + length);
    pthread_rwlock_unlock(&inode->lock);
    fs_dirty_leave(fs, room);
    return error;
}
