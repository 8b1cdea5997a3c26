/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_write.c - write(): into dirty blocks in memory.
 *
 * Room is promised by the index for the worst case (nothing compresses) before a byte is taken, so
 * that a full disk is reported here and not after close. A block that is overwritten whole is not
 * read first; of all others at most the first and the last one is.
 */
#include "file_block.h"

#include <errno.h>
#include <string.h>

#include "buffers.h"
#include "writeback.h"

struct span {
    const uint8_t *data;
    uint64_t offset, end; /* bytes of the file */
    uint64_t first, last; /* block numbers */
};

/* Bytes [*from, *to) of block NUMBER that the span covers. */
static void clip(const struct fs *fs, const struct span *span, uint64_t number, uint32_t *from,
                 uint32_t *to)
{
    uint64_t start = number * fs->block_size;

    *from = span->offset > start ? (uint32_t)(span->offset - start) : 0;
    *to = span->end - start < fs->block_size ? (uint32_t)(span->end - start) : fs->block_size;
}

/* What a write to bytes [.., TO) of a block adds to its reservation. Takes the block's version if
 * there is one to be written to in place, so that this stays true. */
static uint64_t growth(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t to)
{
    struct fs_dirty *dirty = fs_dirty_find(inode, number);
    uint32_t valid = fs_file_valid(fs, inode, number);
    uint64_t cost = fs_block_cost(to > valid ? to : valid);

    if (dirty == NULL || !fs_dirty_take(fs, dirty))
        return cost;
    return cost > dirty->reserved ? cost - dirty->reserved : 0;
}

/* Gives back the versions that growth took, from block NUMBER on. */
static void give_rest(struct fs *fs, struct fs_inode *inode, uint64_t number, uint64_t last)
{
    for (size_t i = fs_dirty_lower(inode, number);
         i < inode->dirty_count && inode->dirty[i]->number <= last; i++)
        if (inode->dirty[i]->state == FS_DIRTY_HELD)
            fs_dirty_give(fs, inode->dirty[i], false);
}

static int write_block(struct fs *fs, struct fs_inode *inode, const struct span *span,
                       uint64_t number, uint64_t *reserved)
{
    struct fs_dirty *dirty;
    uint32_t from, to;
    uint64_t add;
    int error;

    clip(fs, span, number, &from, &to);
    add = growth(fs, inode, number, to);
    error = fs_file_prepare(fs, inode, number, from, to, &dirty);
    if (error != 0)
        return error;
    fs_dirty_charge(dirty, add);
    *reserved -= add;
    fs_dirty_fill(dirty, from, to, span->data + (number * fs->block_size + from - span->offset));
    fs_dirty_give(fs, dirty, dirty->run_from == 0 && dirty->run_to == fs->block_size);
    return 0;
}

/* With inode->lock held exclusively. */
static ssize_t write_span(struct fs *fs, struct fs_inode *inode, const struct span *span)
{
    uint64_t reserved = 0, number, end;
    struct fs_dirty *dirty;
    uint32_t from, to;
    int error = 0;

    if (inode->is_inline && span->first > 0 && fs_dirty_find(inode, 0) == NULL) {
        /* the content must leave the record: more blocks follow it */
        error = fs_file_make_dirty(fs, inode, 0, &dirty);
        if (error != 0)
            return error;
        fs_dirty_give(fs, dirty, false);
    }
    for (number = span->first; number <= span->last; number++) {
        clip(fs, span, number, &from, &to);
        reserved += growth(fs, inode, number, to);
    }
    error = index_reserve(fs->index, reserved);
    if (error != 0) {
        give_rest(fs, inode, span->first, span->last);
        return error;
    }
    for (number = span->first; number <= span->last && error == 0; number++)
        error = write_block(fs, inode, span, number, &reserved);
    if (error != 0) {
        number--;
        give_rest(fs, inode, number, span->last);
        index_release(fs->index, reserved);
    }
    end = error == 0 ? span->end : number * fs->block_size;
    if (end <= span->offset)
        return error;
    fs_file_touch(inode, end > inode->size ? end : inode->size);
    return (ssize_t)(end - span->offset);
}

static ssize_t write_once(struct fs *fs, struct fs_inode *inode, const void *data, size_t size,
                          uint64_t offset, bool append)
{
    /* two more: the write may begin inside a block, and inline content may have to become one */
    const uint64_t room = (size / fs->block_size + 3) * fs_buffer_whole(fs);
    struct span span;
    ssize_t done = fs_dirty_admit(fs, room);

    if (done != 0)
        return done;
    pthread_rwlock_wrlock(&inode->lock);
    span.data = data;
    span.offset = append ? inode->size : offset;
    if (span.offset > FS_SIZE_MAX || size > FS_SIZE_MAX - span.offset) {
        done = -EFBIG;
    } else {
        span.end = span.offset + size;
        span.first = span.offset / fs->block_size;
        span.last = (span.end - 1) / fs->block_size;
        done = write_span(fs, inode, &span);
    }
    pthread_rwlock_unlock(&inode->lock);
    fs_dirty_leave(fs, room);
    return done;
}

ssize_t fs_file_write(struct fs *fs, struct fs_inode *inode, const void *data, size_t size,
                      uint64_t offset, bool append)
{
    uint64_t at_once;
    size_t done = 0;

    if (index_readonly(fs->index) || fs->writeback == NULL)
        return -EROFS;
    at_once = fs->writeback->limit / 2;
    while (done < size) {
        size_t part = size - done < at_once ? size - done : (size_t)at_once;
        const uint8_t *from = (const uint8_t *)data + done;
        ssize_t wrote = write_once(fs, inode, from, part, offset + done, append);

        if (wrote == -ENOSPC || wrote == -EDQUOT) {
            /* what is dirty has promised more than it needs once it is compressed */
            fs_writeback_all(fs);
            wrote = write_once(fs, inode, from, part, offset + done, append);
        }
        if (wrote < 0)
            return done > 0 ? (ssize_t)done : wrote;
        done += (size_t)wrote;
        if ((size_t)wrote < part)
            break;
    }
    return (ssize_t)done;
}
