/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_seek.c - SEEK_DATA and SEEK_HOLE, by whole blocks. A block with a dirty version or an extent
 * is data, whatever it holds: a wrong hole would lose data in a copy, a wrong data range only costs
 * zeros. For the same reason there are no holes while a file is open in a way that lets the kernel
 * hold changed pages (it does not write them back before it asks): inode->mappers.
 */
#include "file_block.h"

#include <errno.h>
#include <unistd.h>

#define LOOKUPS 1024u /* extents visited in one transaction */

/* First data block >= NUMBER, UINT64_MAX when there is none. */
static int next_data(struct fs_inode *inode, struct index_txn *txn, uint64_t number, uint64_t *data)
{
    size_t i = fs_dirty_lower(inode, number);
    struct index_extent extent;
    int error;

    *data = i < inode->dirty_count ? inode->dirty[i]->number : UINT64_MAX;
    if (*data == number)
        return 0;
    if (inode->is_inline) {
        if (number == 0)
            *data = 0;
        return 0;
    }
    error = index_extent_next(txn, inode->ino, number, &extent);
    if (error == 0 && extent.number < *data)
        *data = extent.number;
    return error == -ENOENT ? 0 : error;
}

/* First block >= NUMBER and <= LAST that is (not) data; LAST + 1 when there is none. */
static int seek_block(struct fs *fs, struct fs_inode *inode, uint64_t number, uint64_t last,
                      bool want_data, uint64_t *found)
{
    struct index_txn *txn;
    int error;

    for (;;) {
        error = index_begin(fs->index, INDEX_READ, &txn);
        if (error != 0)
            return error;
        for (unsigned i = 0; i < LOOKUPS; i++) {
            uint64_t data;

            error = next_data(inode, txn, number, &data);
            if (error != 0 || number > last || want_data || data != number) {
                index_end(txn);
                *found = want_data && number <= last ? data : number;
                return error;
            }
            number++;
        }
        index_end(txn);
    }
}

static off_t seek(struct fs *fs, struct fs_inode *inode, uint64_t offset, bool want_data)
{
    const uint64_t last = (inode->size - 1) / fs->block_size;
    uint64_t found, at;
    int error = seek_block(fs, inode, offset / fs->block_size, last, want_data, &found);

    if (error != 0)
        return error;
    if (found > last) /* the end of a file counts as a hole */
        return want_data ? -ENXIO : (off_t)inode->size;
    at = found * fs->block_size;
    return (off_t)(at > offset ? at : offset);
}

off_t fs_file_seek(struct fs *fs, struct fs_inode *inode, uint64_t offset, int whence)
{
    off_t at;

    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return -EINVAL;
    pthread_rwlock_rdlock(&inode->lock);
    if (offset >= inode->size)
        at = -ENXIO;
    else if (atomic_load(&inode->mappers) > 0)
        at = (off_t)(whence == SEEK_DATA ? offset : inode->size);
    else
        at = seek(fs, inode, offset, whence == SEEK_DATA);
    pthread_rwlock_unlock(&inode->lock);
    return at;
}
