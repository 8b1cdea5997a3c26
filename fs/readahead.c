/* SPDX-License-Identifier: BSD-2-Clause
 *
 * readahead.c - decoding before it is asked for. Two reads that follow one another make a handle
 * sequential; the window ahead of the reader is then as much as it has read so, from one block a
 * worker up to a quarter of the cache and WINDOW_MAX: what is decoded in vain when a reader stops is
 * never more than what it read. The window is refilled when half of it is used, so that the look-up
 * of extents is paid for once in many blocks and the workers always have some in hand.
 *
 * The kernel's own read-ahead sends requests side by side and out of order: a read that begins within
 * SLACK of where the next one was expected still counts as sequential.
 */
#include "file_block.h"

#include <errno.h>

#define WINDOW_MAX (8u << 20) /* bytes */
#define SLACK      (1u << 20) /* bytes */
#define AT_ONCE    64u        /* blocks scheduled by one read */

/* Blocks to have ready beyond the reader. */
static uint64_t window_blocks(const struct fs *fs, unsigned sequential)
{
    uint64_t most = fs->options.cache / 4, blocks = (uint64_t)sequential * 1024 / fs->block_size;

    if (most > WINDOW_MAX)
        most = WINDOW_MAX;
    most /= fs->block_size;
    if (blocks < fs_workers_count(fs))
        blocks = fs_workers_count(fs);
    return blocks < most ? blocks : most;
}

/* KiB read in sequence with this one; 0 for the first one elsewhere. */
static unsigned note_read(struct fs_handle *handle, uint64_t offset, uint64_t size)
{
    uint64_t expected = atomic_load_explicit(&handle->next_offset, memory_order_relaxed);
    unsigned sequential = atomic_load_explicit(&handle->sequential, memory_order_relaxed);

    if (offset <= expected + SLACK && offset + SLACK >= expected) {
        if (sequential < WINDOW_MAX / 1024)
            sequential += (unsigned)(size / 1024) + 1;
        if (offset + size > expected)
            atomic_store_explicit(&handle->next_offset, offset + size, memory_order_relaxed);
    } else {
        sequential = 0;
        atomic_store_explicit(&handle->next_offset, offset + size, memory_order_relaxed);
        atomic_store_explicit(&handle->ahead, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&handle->sequential, sequential, memory_order_relaxed);
    return sequential;
}

/* Blocks [FROM, TO) of the file to the workers. */
static void schedule(struct fs *fs, struct fs_inode *inode, uint64_t from, uint64_t to)
{
    struct index_extent extents[AT_ONCE];
    struct index_txn *txn;
    unsigned count = 0;

    if (index_begin(fs->index, INDEX_READ, &txn) != 0)
        return;
    while (count < AT_ONCE && from < to &&
           index_extent_next(txn, inode->ino, from, &extents[count]) == 0 &&
           extents[count].number < to)
        from = extents[count++].number + 1;
    index_end(txn);
    for (unsigned i = 0; i < count; i++)
        if (fs_dirty_find(inode, extents[i].number) == NULL)
            fs_block_prefetch(fs, extents[i].block, inode->ino, false);
}

void fs_readahead(struct fs *fs, struct fs_inode *inode, struct fs_handle *handle, uint64_t offset,
                  uint64_t size)
{
    unsigned sequential = note_read(handle, offset, size);
    uint64_t here = (offset + size + fs->block_size - 1) / fs->block_size;
    uint64_t ahead = atomic_load_explicit(&handle->ahead, memory_order_relaxed);
    uint64_t end = (inode->record_size + fs->block_size - 1) / fs->block_size;
    uint64_t window, to;

    if (sequential == 0 || here >= end)
        return;
    window = window_blocks(fs, sequential);
    if (ahead < here)
        ahead = here;
    if (window == 0 || ahead - here > window / 2)
        return;
    to = here + window;
    if (to > ahead + AT_ONCE)
        to = ahead + AT_ONCE;
    if (to > end)
        to = end;
    if (to <= ahead)
        return;
    atomic_store_explicit(&handle->ahead, to, memory_order_relaxed);
    schedule(fs, inode, ahead, to);
}
