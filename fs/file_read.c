/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_read.c - read(): dirty bytes, stored blocks, zeros; and the access time.
 *
 * A request that spans several stored blocks has them decoded side by side: all but the first are
 * given to the workers, and this thread takes whichever nobody has begun.
 */
#include "file_block.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#define PIECES 64u /* blocks looked up in one transaction */

/* Where one block of the request comes from. */
struct piece {
    const struct fs_dirty *dirty;
    struct index_extent extent; /* length 0: a hole */
};

/* Finds the COUNT blocks from FIRST on. */
static int look_up(struct fs *fs, struct fs_inode *inode, uint64_t first, unsigned count,
                   struct piece *pieces)
{
    struct index_txn *txn = NULL;
    int error = 0;

    for (unsigned i = 0; i < count && error == 0; i++) {
        pieces[i].dirty = fs_dirty_find(inode, first + i);
        pieces[i].extent.length = 0;
        if (pieces[i].dirty != NULL || (first + i) * fs->block_size >= inode->record_size)
            continue;
        if (txn == NULL) {
            error = index_begin(fs->index, INDEX_READ, &txn);
            if (error != 0)
                return error;
        }
        error = index_extent_get(txn, inode->ino, first + i, &pieces[i].extent);
        if (error == -ENOENT) {
            pieces[i].extent.length = 0;
            error = 0;
        }
    }
    if (txn != NULL)
        index_end(txn);
    return error;
}

static void start_decoding(struct fs *fs, struct fs_inode *inode, const struct piece *pieces,
                           unsigned count)
{
    bool first = true;

    for (unsigned i = 0; i < count; i++) {
        if (pieces[i].dirty != NULL || pieces[i].extent.length == 0)
            continue;
        if (!first)
            fs_block_prefetch(fs, pieces[i].extent.block, inode->ino, true);
        first = false;
    }
}

/* Copies bytes [from, from + size) of a block that has LENGTH bytes at DATA. */
static void copy_out(uint8_t *out, uint32_t from, uint32_t size, const uint8_t *data,
                     uint32_t length)
{
    uint32_t have = from >= length ? 0 : length - from < size ? length - from : size;

    if (have > 0)
        memcpy(out, data + from, have);
    if (have < size)
        memset(out + have, 0, size - have);
}

static int read_piece(struct fs *fs, struct fs_inode *inode, struct piece *piece, uint32_t from,
                      uint32_t size, uint8_t *out)
{
    const struct fs_block *block = NULL;
    int error = 0;

    if (piece->dirty != NULL) {
        copy_out(out, from, size, piece->dirty->data, piece->dirty->length);
        return 0;
    }
    if (piece->extent.length > 0)
        error = fs_extent_load(fs, inode, &piece->extent, &block);
    if (error != 0)
        return error;
    if (block == NULL) {
        memset(out, 0, size);
        return 0;
    }
    copy_out(out, from, size, block->data + piece->extent.offset, piece->extent.length);
    fs_block_put(fs, block);
    return 0;
}

/* The whole file lies in the record. */
static int read_inline(struct fs *fs, struct fs_inode *inode, uint8_t *out, size_t size,
                       uint64_t offset)
{
    uint8_t content[INDEX_INLINE_MAX];
    uint32_t length;
    int error = fs_file_fetch(fs, inode, 0, content, &length);

    if (error == 0)
        copy_out(out, (uint32_t)offset, (uint32_t)size, content, length);
    return error;
}

static ssize_t read_blocks(struct fs *fs, struct fs_inode *inode, uint8_t *out, size_t size,
                           uint64_t offset)
{
    struct piece pieces[PIECES];
    size_t done = 0;
    int error = 0;

    while (done < size && error == 0) {
        uint64_t first = (offset + done) / fs->block_size;
        uint64_t count = (offset + size - 1) / fs->block_size - first + 1;

        if (count > PIECES)
            count = PIECES;
        error = look_up(fs, inode, first, (unsigned)count, pieces);
        if (error == 0 && count > 1)
            start_decoding(fs, inode, pieces, (unsigned)count);
        for (unsigned i = 0; i < count && error == 0; i++) {
            uint32_t from = (uint32_t)((offset + done) % fs->block_size);
            uint32_t part = fs->block_size - from;

            if (part > size - done)
                part = (uint32_t)(size - done);
            error = read_piece(fs, inode, &pieces[i], from, part, out + done);
            if (error == 0)
                done += part;
        }
    }
    /* All or an error: the kernel takes a short answer for the end of the file. It asks again, page by
     * page, for what a failed read-ahead covered, so a damaged block costs only its own pages. */
    return error != 0 ? error : (ssize_t)done;
}

/* ---- access time ---------------------------------------------------------------------------- */

/* relatime, but never coarser than half of cold_after: the compactor goes by it. */
static bool atime_due(const struct fs *fs, struct fs_inode *inode, int64_t now)
{
    int64_t granularity = fs->options.cold_after / 2;
    bool due;

    if (granularity > 24 * 3600)
        granularity = 24 * 3600;
    pthread_mutex_lock(&inode->overlay_lock);
    due = now - inode->atime > granularity || inode->atime < inode->mtime.tv_sec ||
          inode->atime < inode->ctime.tv_sec;
    if (due)
        inode->atime = now;
    pthread_mutex_unlock(&inode->overlay_lock);
    return due;
}

static void was_read(struct fs *fs, struct fs_inode *inode, const struct fs_handle *handle)
{
    struct index_inode record;
    struct index_txn *txn;
    struct timespec now;

    if (index_readonly(fs->index) || (handle != NULL && (handle->flags & O_NOATIME) != 0))
        return;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    atomic_store_explicit(&inode->last_read, now.tv_sec, memory_order_relaxed);
    if (!atime_due(fs, inode, now.tv_sec) || index_begin(fs->index, INDEX_WRITE, &txn) != 0)
        return;
    if (index_inode_get(txn, inode->ino, &record) == 0) {
        record.atime = now;
        index_inode_put(txn, &record); /* a failure makes the index read-only, and that is logged */
    }
    index_end(txn);
}

/* After a commit that failed the index is as of the one before, and what was stored since is in neither
 * of index and memory. -EIO for a file of which that is true, as far as its length tells: the rest
 * would read as zeros that nobody wrote. Needs inode->lock. */
static int check_kept(struct fs *fs, const struct fs_inode *inode)
{
    struct index_inode record;
    struct index_txn *txn;
    int error;

    if (fs->writeback == NULL || !index_readonly(fs->index))
        return 0;
    error = index_begin(fs->index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    error = index_inode_get(txn, inode->ino, &record);
    if (error == -ENOENT ||
        (error == 0 && (record.size < inode->record_size ||
                        ((record.flags & INDEX_INODE_INLINE) != 0) != inode->is_inline)))
        error = -EIO;
    index_end(txn);
    return error;
}

ssize_t fs_file_read(struct fs *fs, struct fs_inode *inode, struct fs_handle *handle, void *buffer,
                     size_t size, uint64_t offset)
{
    ssize_t done = 0;

    pthread_rwlock_rdlock(&inode->lock);
    if (offset < inode->size && size > 0)
        done = check_kept(fs, inode);
    if (done == 0 && offset < inode->size && size > 0) {
        if (size > inode->size - offset)
            size = (size_t)(inode->size - offset);
        if (inode->is_inline && inode->dirty_count == 0 && inode->size <= INDEX_INLINE_MAX) {
            done = read_inline(fs, inode, buffer, size, offset);
            done = done == 0 ? (ssize_t)size : done;
        } else {
            done = read_blocks(fs, inode, buffer, size, offset);
            if (done > 0 && handle != NULL)
                fs_readahead(fs, inode, handle, offset, (uint64_t)done);
        }
    }
    pthread_rwlock_unlock(&inode->lock);
    if (done > 0)
        was_read(fs, inode, handle);
    return done;
}
