/* SPDX-License-Identifier: BSD-2-Clause
 *
 * extent.c - which bytes of which block a file's blocks are, and the reference counts that follow.
 *
 * Each extent is one reference and LENGTH live bytes of its block. live saturates at 2^32-1 (a block
 * of zeros shared by thousands) and then stays there until the block goes or fsck recounts it.
 */
#include <errno.h>

#include "internal.h"

uint64_t index_extent_stored(const struct index_block *block, const struct index_extent *extent)
{
    const uint64_t span = (uint64_t)INDEX_RECORD_HEADER + block->at.payload_size;
    if (block->plain_size == 0 || extent->length >= block->plain_size)
        return span;
    return (span * extent->length + block->plain_size - 1) / block->plain_size;
}

static void charge(struct index_inode *inode, uint64_t stored, int sign)
{
    if (inode == NULL)
        return;
    if (sign > 0)
        inode->stored += stored;
    else /* the block may have been stored anew since: never below zero */
        inode->stored -= stored < inode->stored ? stored : inode->stored;
}

static int take_reference(struct index_txn *txn, const struct index_extent *extent,
                          struct index_inode *inode)
{
    struct index_block block;
    const int error = index_block_get(txn, extent->block, &block);
    if (error != 0)
        return error;
    if (extent->offset > block.plain_size || extent->length > block.plain_size - extent->offset)
        return -EINVAL;
    if (block.references == UINT32_MAX)
        return -EMLINK;
    block.references++;
    block.live =
        block.live > UINT32_MAX - extent->length ? UINT32_MAX : block.live + extent->length;
    charge(inode, index_extent_stored(&block, extent), 1);
    return index_block_put(txn, &block);
}

static int drop_reference(struct index_txn *txn, const struct index_extent *extent,
                          struct index_inode *inode)
{
    struct index_block block;
    const int error = index_block_get(txn, extent->block, &block);
    if (error == -ENOENT || error == -EUCLEAN)
        return 0; /* a dangling extent may go; fsck names the block */
    if (error != 0)
        return error;
    charge(inode, index_extent_stored(&block, extent), -1);
    if (block.references > 0)
        block.references--;
    if (block.live != UINT32_MAX)
        block.live -= extent->length < block.live ? extent->length : block.live;
    const int put = index_block_put(txn, &block);
    if (put != 0 || block.references > 0)
        return put;
    return index_txn_note_unused(txn, block.id);
}

/* Reads a found extent; -ENOENT when it belongs to another inode. */
static int parse(struct index_txn *txn, const MDB_val *found, const MDB_val *value, uint64_t ino,
                 struct index_extent *extent)
{
    uint64_t in;
    if (index_key_get_two(found, &in, &extent->number) == 0 && in != ino)
        return -ENOENT;
    if (index_record_get_extent(found, value, &in, extent) < 0)
        return index_malformed(txn, INDEX_DB_EXTENT, found);
    return 0;
}

int index_extent_get(struct index_txn *txn, uint64_t ino, uint64_t number,
                     struct index_extent *extent)
{
    struct index_key key;
    MDB_val value;
    index_key_two(&key, ino, number);
    const int error = index_db_get(txn, INDEX_DB_EXTENT, &key, &value);
    if (error != 0)
        return error;
    const MDB_val k = {.mv_size = key.size, .mv_data = key.bytes};
    return parse(txn, &k, &value, ino, extent);
}

int index_extent_next(struct index_txn *txn, uint64_t ino, uint64_t from,
                      struct index_extent *extent)
{
    struct index_key key;
    MDB_val found, value;
    index_key_two(&key, ino, from);
    const int error = index_db_seek(txn, INDEX_DB_EXTENT, &key, &found, &value);
    return error != 0 ? error : parse(txn, &found, &value, ino, extent);
}

int index_extent_set(struct index_txn *txn, uint64_t ino, const struct index_extent *extent,
                     struct index_inode *inode)
{
    const uint32_t block_size = txn->index->block_size;
    if (ino == 0 || extent->block == 0 || extent->length == 0 || extent->length > block_size ||
        extent->number > INT64_MAX / block_size)
        return -EINVAL;
    struct index_extent old;
    int error = index_extent_get(txn, ino, extent->number, &old);
    const bool replaces = error == 0;
    if (error != 0 && error != -ENOENT && error != -EUCLEAN)
        return error;
    error = take_reference(txn, extent, inode);
    if (error == 0 && replaces)
        error = drop_reference(txn, &old, inode);
    if (error != 0)
        return error;
    struct index_key key;
    index_key_two(&key, ino, extent->number);
    index_record_extent(&txn->record, extent);
    return index_db_put_record(txn, INDEX_DB_EXTENT, &key, &txn->record);
}

/* Removes the first extent in FIRST..LAST. -ENOENT: there is none. */
static int remove_one(struct index_txn *txn, uint64_t ino, uint64_t first, uint64_t last,
                      struct index_inode *inode)
{
    struct index_key key;
    MDB_val found, value;
    uint64_t in, number;
    index_key_two(&key, ino, first);
    int error = index_db_seek(txn, INDEX_DB_EXTENT, &key, &found, &value);
    if (error != 0)
        return error;
    if (index_key_get_two(&found, &in, &number) < 0)
        return index_malformed(txn, INDEX_DB_EXTENT, &found);
    if (in != ino || number > last)
        return -ENOENT;
    struct index_extent extent;
    const int parsed = parse(txn, &found, &value, ino, &extent);
    index_key_two(&key, ino, number);
    error = index_db_delete(txn, INDEX_DB_EXTENT, &key);
    /* One whose value is damaged goes as well; fsck recounts the block it named. */
    return error == 0 && parsed == 0 ? drop_reference(txn, &extent, inode) : error;
}

int index_extent_remove(struct index_txn *txn, uint64_t ino, uint64_t first, uint64_t last,
                        unsigned max, struct index_inode *inode, bool *more)
{
    struct index_extent extent;
    *more = false;
    for (unsigned i = 0; i < max && first <= last; i++) {
        const int error = remove_one(txn, ino, first, last, inode);
        if (error == -ENOENT)
            break;
        if (error != 0)
            return error;
    }
    int error = first <= last ? index_extent_next(txn, ino, first, &extent) : -ENOENT;
    *more = error == -EUCLEAN || (error == 0 && extent.number <= last);
    if (inode != NULL && error == -ENOENT && index_extent_next(txn, ino, 0, &extent) == -ENOENT)
        inode->stored = 0; /* sheds what swaps of its blocks left over */
    return error == -ENOENT || error == -EUCLEAN ? 0 : error;
}
