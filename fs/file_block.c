/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_block.c - one block of a file: where its bytes are now, and how it becomes dirty.
 *
 * The bytes of a block are, in this order: its newest dirty version; the inode record when the file
 * is inline; the range of a stored block that its extent names; zeros.
 */
#include "file_block.h"

#include <errno.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "buffers.h"

#define SMALL_BUFFER 4096u /* first buffer of a small file, bytes */
#define LOOKUPS_MAX  8     /* times an extent may change under one read */

static int check_extent(const struct fs *fs, const struct fs_inode *inode,
                        const struct index_extent *extent, const struct fs_block *block)
{
    if (extent->length <= fs->block_size && extent->offset <= block->size &&
        extent->length <= block->size - extent->offset)
        return 0;
    fs_log(LOG_ERR,
           "inode %llu: block %llu: extent %u+%u lies outside stored block %llu (%u bytes)",
           (unsigned long long)inode->ino, (unsigned long long)extent->number, extent->offset,
           extent->length, (unsigned long long)block->id, block->size);
    return -EIO;
}

static int look_up(struct fs *fs, struct fs_inode *inode, uint64_t number,
                   struct index_extent *extent)
{
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    error = index_extent_get(txn, inode->ino, number, extent);
    index_end(txn);
    return error;
}

int fs_extent_load(struct fs *fs, struct fs_inode *inode, struct index_extent *extent,
                   const struct fs_block **block)
{
    *block = NULL;
    for (int i = 0; i < LOOKUPS_MAX; i++) {
        int error = fs_block_load(fs, extent->block, inode->ino, block);

        if (error == 0) {
            error = check_extent(fs, inode, extent, *block);
            if (error != 0)
                fs_block_put(fs, *block);
            return error;
        }
        if (error != -ENOENT)
            return error;
        error = look_up(fs, inode, extent->number, extent);
        if (error != 0)
            return error == -ENOENT ? 0 : error;
    }
    fs_log(LOG_ERR, "inode %llu: block %llu: stored block %llu does not exist",
           (unsigned long long)inode->ino, (unsigned long long)extent->number,
           (unsigned long long)extent->block);
    return -EIO;
}

static int fetch_inline(struct fs *fs, struct fs_inode *inode, uint8_t *data, uint32_t *length)
{
    struct index_inode record;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    error = index_inode_get(txn, inode->ino, &record);
    if (error == 0 && record.inline_size > INDEX_INLINE_MAX)
        error = -EIO;
    if (error == 0) {
        *length = record.inline_size;
        if (*length > 0)
            memcpy(data, record.inline_data, *length);
    }
    index_end(txn);
    return error;
}

int fs_file_fetch(struct fs *fs, struct fs_inode *inode, uint64_t number, uint8_t *data,
                  uint32_t *length)
{
    const struct fs_block *block;
    struct index_extent extent;
    int error;

    *length = 0;
    if (number * fs->block_size >= inode->record_size)
        return 0;
    if (inode->is_inline)
        return number == 0 ? fetch_inline(fs, inode, data, length) : 0;
    error = look_up(fs, inode, number, &extent);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    error = fs_extent_load(fs, inode, &extent, &block);
    if (error != 0 || block == NULL)
        return error;
    memcpy(data, block->data + extent.offset, extent.length);
    *length = extent.length;
    fs_block_put(fs, block);
    return 0;
}

uint32_t fs_file_valid(const struct fs *fs, const struct fs_inode *inode, uint64_t number)
{
    uint64_t start = number * fs->block_size;

    if (inode->size <= start)
        return 0;
    return inode->size - start < fs->block_size ? (uint32_t)(inode->size - start) : fs->block_size;
}

/* Buffer for a block that has LENGTH bytes: small for a small file, with room to grow. */
static size_t buffer_size(const struct fs *fs, uint64_t number, uint32_t length)
{
    size_t size = SMALL_BUFFER;

    if (number > 0)
        return fs->block_size;
    while (size < length)
        size *= 2;
    return size < fs->block_size ? size : fs->block_size;
}

static int prepare_new(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t from,
                       uint32_t to, struct fs_dirty *busy, struct fs_dirty **dirty)
{
    uint32_t valid = fs_file_valid(fs, inode, number);
    bool covered = from == 0 && to >= valid;
    bool stored = !covered && busy == NULL && number * fs->block_size < inode->record_size;
    struct fs_dirty *made;
    uint32_t need = to > valid ? to : valid;
    int error = 0;

    made = fs_dirty_new(fs, inode, number, stored ? fs->block_size : buffer_size(fs, number, need));
    if (made == NULL)
        return -ENOMEM;
    if (!covered && busy != NULL) {
        memcpy(made->data, busy->data, busy->length);
        made->length = busy->length;
    } else if (stored) {
        error = fs_file_fetch(fs, inode, number, made->data, &made->length);
    }
    if (error != 0) {
        fs_dirty_drop(fs, inode, number, number);
        return error;
    }
    made->run_from = 0;
    made->run_to = made->length < fs->block_size ? made->length : 0;
    *dirty = made;
    return 0;
}

int fs_file_prepare(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t from,
                    uint32_t to, struct fs_dirty **dirty)
{
    struct fs_dirty *found = fs_dirty_find(inode, number);

    if (found == NULL || !fs_dirty_take(fs, found))
        return prepare_new(fs, inode, number, from, to, found, dirty);
    *dirty = found;
    if (to <= found->capacity)
        return 0;
    return fs_dirty_grow(fs, found, buffer_size(fs, number, to));
}

int fs_file_make_dirty(struct fs *fs, struct fs_inode *inode, uint64_t number,
                       struct fs_dirty **dirty)
{
    const uint64_t cost = fs_block_cost(fs->block_size);
    int error = index_reserve(fs->index, cost);

    if (error != 0)
        return error;
    error = fs_file_prepare(fs, inode, number, 1, 1, dirty);
    if (error != 0)
        index_release(fs->index, cost);
    else
        fs_dirty_charge(*dirty, cost);
    return error;
}

void fs_dirty_fill(struct fs_dirty *dirty, uint32_t from, uint32_t to, const void *data)
{
    if (dirty->length < from)
        memset(dirty->data + dirty->length, 0, from - dirty->length);
    if (data != NULL)
        memcpy(dirty->data + from, data, to - from);
    else
        memset(dirty->data + from, 0, to - from);
    if (dirty->length < to)
        dirty->length = to;
    if (from > dirty->run_to || from < dirty->run_from)
        dirty->run_from = dirty->run_to = from;
    if (to > dirty->run_to)
        dirty->run_to = to;
}

void fs_file_touch(struct fs_inode *inode, uint64_t size)
{
    struct timespec now;

    /* the clock that the kernel stamps files with: cheap, a few milliseconds coarse */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    pthread_mutex_lock(&inode->overlay_lock);
    inode->overlay = true;
    inode->size = size;
    inode->mtime = inode->ctime = now;
    pthread_mutex_unlock(&inode->overlay_lock);
}

int fs_file_settle(struct fs *fs, struct fs_inode *inode)
{
    struct index_inode record;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_WRITE, &txn);

    if (error != 0)
        return error;
    error = index_inode_get(txn, inode->ino, &record);
    if (error == 0)
        error = fs_store_settle(fs, inode, txn, &record);
    index_end(txn);
    fs_store_parked(fs, inode);
    return error;
}

int fs_extent_trim(struct index_txn *txn, struct fs_inode *inode, struct index_inode *record,
                   uint64_t number, uint32_t keep)
{
    struct index_extent extent;
    int error = index_extent_get(txn, inode->ino, number, &extent);

    if (error != 0)
        return error == -ENOENT ? 0 : error;
    if (extent.length <= keep)
        return 0;
    extent.length = keep;
    return index_extent_set(txn, inode->ino, &extent, record);
}

int fs_file_remove(struct fs *fs, struct fs_inode *inode, uint64_t first, uint64_t last)
{
    bool more = !inode->is_inline;
    int error = 0;

    fs_dirty_drop(fs, inode, first, last);
    while (error == 0 && more) {
        struct index_inode record;
        struct index_txn *txn;

        error = index_begin(fs->index, INDEX_WRITE, &txn);
        if (error != 0)
            return error;
        error = index_inode_get(txn, inode->ino, &record);
        if (error == 0)
            error = index_extent_remove(txn, inode->ino, first, last, FS_EXTENTS_AT_ONCE, &record,
                                        &more);
        if (error == 0)
            error = index_inode_put(txn, &record);
        index_end(txn);
    }
    return error;
}
