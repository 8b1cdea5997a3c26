/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_copy.c - copy_file_range(): where source and target lie alike in their blocks, whole blocks
 * are shared by naming them in both files; the rest goes through a buffer.
 */
#include "file_block.h"

#include <errno.h>
#include <stdlib.h>

#define COPY_BYTES (1u << 20) /* copied at a time */
#define SHARE_MAX  64u        /* blocks shared in one transaction */

struct copy {
    struct fs_inode *in, *out;
    uint64_t from, to; /* where to read and write next */
    uint64_t left;     /* bytes */
};

/* Both locks, in order of inode number: shared for the source, exclusive for the target. */
static void lock_both(const struct copy *copy)
{
    if (copy->in == copy->out) {
        pthread_rwlock_wrlock(&copy->out->lock);
    } else if (copy->in->ino < copy->out->ino) {
        pthread_rwlock_rdlock(&copy->in->lock);
        pthread_rwlock_wrlock(&copy->out->lock);
    } else {
        pthread_rwlock_wrlock(&copy->out->lock);
        pthread_rwlock_rdlock(&copy->in->lock);
    }
}

static void unlock_both(const struct copy *copy)
{
    pthread_rwlock_unlock(&copy->out->lock);
    if (copy->in != copy->out)
        pthread_rwlock_unlock(&copy->in->lock);
}

/* Bytes from here on that can be shared: whole blocks, or up to the end of both files. 0 = none. */
static uint64_t shareable(const struct fs *fs, const struct copy *copy)
{
    const uint64_t size = fs->block_size;
    uint64_t left = copy->left, blocks;

    if (copy->from % size != 0 || copy->to % size != 0 || copy->in->is_inline ||
        copy->out->is_inline || copy->from >= copy->in->size)
        return 0;
    if (left > copy->in->size - copy->from)
        left = copy->in->size - copy->from;
    if (left > SHARE_MAX * size)
        left = SHARE_MAX * size;
    /* the tail of the source can be shared where nothing of the target follows it */
    if (copy->from + left < copy->in->size || copy->to + left < copy->out->size)
        left -= left % size;
    blocks = (left + size - 1) / size;
    for (uint64_t i = 0; i < blocks; i++) /* what is dirty has no block to share yet */
        if (fs_dirty_find(copy->in, copy->from / size + i) != NULL)
            return i * size;
    return left;
}

/* One transaction that makes LENGTH bytes of the target name the source's blocks. */
static int share(struct fs *fs, const struct copy *copy, uint64_t length)
{
    const uint64_t size = fs->block_size, blocks = (length + size - 1) / size;
    struct index_inode record;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_WRITE, &txn);

    if (error != 0)
        return error;
    error = index_inode_get(txn, copy->out->ino, &record);
    for (uint64_t i = 0; i < blocks && error == 0; i++) {
        struct index_extent extent;
        uint64_t number = copy->to / size + i;
        bool more;

        error = index_extent_get(txn, copy->in->ino, copy->from / size + i, &extent);
        if (error == 0) {
            extent.number = number;
            error = index_extent_set(txn, copy->out->ino, &extent, &record);
        } else if (error == -ENOENT) {
            error = index_extent_remove(txn, copy->out->ino, number, number, 1, &record, &more);
        }
    }
    if (error == 0)
        error = fs_store_settle(fs, copy->out, txn, &record);
    index_end(txn);
    return error;
}

/* Shares what it can from here on; *length: bytes, 0 when the next ones have to be copied. */
static int share_some(struct fs *fs, const struct copy *copy, uint64_t *length)
{
    uint64_t end;
    int error = 0;

    lock_both(copy);
    *length = shareable(fs, copy);
    end = copy->to + *length;
    /* a target with dirty blocks below its new end may not get extents beyond its record's size */
    if (*length > 0 && end > copy->out->record_size) {
        struct index_inode record = {.size = copy->out->record_size};

        if (fs_store_bound(fs, copy->out, &record) < copy->out->size)
            *length = 0;
    }
    if (*length > 0) {
        fs_dirty_drop(fs, copy->out, copy->to / fs->block_size, (end - 1) / fs->block_size);
        fs_file_touch(copy->out, end > copy->out->size ? end : copy->out->size);
        error = share(fs, copy, *length);
        fs_store_parked(fs, copy->out);
    }
    unlock_both(copy);
    return error;
}

/* Through BUFFER, up to the next block boundary of a pair that could be shared again. *length: bytes
 * copied, 0 at the end of the source. */
static int copy_some(struct fs *fs, const struct copy *copy, uint8_t *buffer, uint64_t *length)
{
    uint64_t size = copy->left < COPY_BYTES ? copy->left : COPY_BYTES;
    ssize_t done;

    *length = 0;
    if (copy->from % fs->block_size == copy->to % fs->block_size &&
        size > fs->block_size - copy->from % fs->block_size)
        size = fs->block_size - copy->from % fs->block_size;
    done = fs_file_read(fs, copy->in, NULL, buffer, (size_t)size, copy->from);
    if (done > 0)
        done = fs_file_write(fs, copy->out, buffer, (size_t)done, copy->to, false);
    if (done < 0)
        return (int)done;
    *length = (uint64_t)done;
    return 0;
}

/* Cuts the request to what the source has now: a file copied to its own end must not follow itself.
 */
static int check(const struct fs *fs, struct copy *copy)
{
    uint64_t size;

    if (index_readonly(fs->index) || fs->writeback == NULL)
        return -EROFS;
    pthread_rwlock_rdlock(&copy->in->lock);
    size = copy->in->size;
    pthread_rwlock_unlock(&copy->in->lock);
    if (copy->from >= size) {
        copy->left = 0;
        return 0;
    }
    if (copy->left > size - copy->from)
        copy->left = size - copy->from;
    if (copy->to > FS_SIZE_MAX || copy->left > FS_SIZE_MAX - copy->to)
        return -EFBIG;
    if (copy->in == copy->out && copy->from < copy->to + copy->left &&
        copy->to < copy->from + copy->left)
        return -EINVAL;
    return 0;
}

ssize_t fs_file_copy(struct fs *fs, struct fs_inode *in, uint64_t offset_in, struct fs_inode *out,
                     uint64_t offset_out, uint64_t length)
{
    struct copy copy = {in, out, offset_in, offset_out, length};
    uint8_t *buffer = NULL;
    uint64_t part = 1;
    int error = check(fs, &copy);

    if (error != 0 || copy.left == 0)
        return error;
    length = copy.left;
    if (offset_in % fs->block_size == offset_out % fs->block_size) {
        error = fs_file_write_back(fs, in);
        if (error == 0)
            error = fs_file_write_back(fs, out);
        if (error != 0)
            return error;
    }
    while (copy.left > 0 && part > 0 && error == 0) {
        error = index_reserve(fs->index, 0); /* each transaction adds extents to the index */
        if (error == 0)
            error = share_some(fs, &copy, &part);
        if (error == 0 && part == 0) {
            if (buffer == NULL)
                buffer = malloc(COPY_BYTES);
            error = buffer != NULL ? copy_some(fs, &copy, buffer, &part) : -ENOMEM;
        }
        if (error == 0) {
            copy.from += part;
            copy.to += part;
            copy.left -= part;
        }
    }
    free(buffer);
    return copy.left < length ? (ssize_t)(length - copy.left) : error;
}
