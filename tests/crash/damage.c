/* SPDX-License-Identifier: BSD-2-Clause
 *
 * damage.c - see damage.h. Records are put past the functions that would keep counters right.
 */
#include "damage.h"

#include <errno.h>

static int damage_inodes(struct index_txn *txn, unsigned *count)
{
    struct index_inode inode;
    int error = 0;
    for (uint64_t from = INDEX_ROOT_INO + 1; error == 0; from = inode.ino + 1) {
        struct index_record record;
        struct index_key key;
        error = index_inode_next(txn, from, &inode);
        if (error != 0)
            break;
        if (inode.nlink == 0) /* its removal is under way */
            continue;
        inode.nlink++;
        index_key_one(&key, inode.ino);
        index_record_inode(&record, &inode);
        error = index_db_put_record(txn, INDEX_DB_INODE, &key, &record);
        ++*count;
    }
    return error == -ENOENT ? 0 : error;
}

static int damage_block(struct index_txn *txn, struct index_block *block)
{
    struct index_record record;
    struct index_key key;
    block->references += 2;
    index_key_one(&key, block->id);
    index_record_block(&record, block);
    int error = index_db_put_record(txn, INDEX_DB_BLOCK, &key, &record);
    if (error != 0)
        return error;
    index_key_hash(&key, block->hash);
    error = index_db_delete(txn, INDEX_DB_HASH, &key);
    return error == -ENOENT ? 0 : error; /* two blocks may have the same bytes */
}

static int damage_blocks(struct index_txn *txn, unsigned *count)
{
    struct index_block block;
    int error = 0;
    for (uint64_t from = 0; error == 0; from = block.id + 1) {
        error = index_block_next(txn, from, &block);
        if (error == 0 && block.id % 2 == 0) {
            error = damage_block(txn, &block);
            ++*count;
        }
    }
    return error == -ENOENT ? 0 : error;
}

int damage_plant(struct index_txn *txn, unsigned *count)
{
    *count = 0;
    const int error = damage_inodes(txn, count);
    return error != 0 ? error : damage_blocks(txn, count);
}
