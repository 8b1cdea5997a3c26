/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_recount.c - makes the stored bytes of inodes (st_blocks) the sum over their extents again.
 *
 * When a block with one owner changes its size, its inode is corrected in the same transaction. A
 * block that several files share has no list of its owners: after a pass that touched such blocks,
 * the files are walked once. Small files are summed in one transaction; large ones in several, and
 * the sum counts only if the inode did not change between the first and the last.
 */
#include <errno.h>
#include <sys/stat.h>

#include "compact.h"

#define EXTENTS_MAX 1024u /* summed in one transaction */

struct sum {
    uint64_t ino;
    uint64_t stored; /* the inode's, when summing began */
    uint64_t bytes;  /* so far */
    uint64_t number; /* next extent */
};

/* 1: the sum is complete, 0: more extents follow, negative errno. */
static int add_extents(struct index_txn *txn, struct sum *sum, unsigned *visits)
{
    while (*visits < EXTENTS_MAX) {
        struct index_extent extent;
        struct index_block block;
        int error = index_extent_next(txn, sum->ino, sum->number, &extent);

        (*visits)++;
        if (error != 0)
            return error == -ENOENT ? 1 : error;
        error = index_block_get(txn, extent.block, &block);
        if (error == 0)
            sum->bytes += index_extent_stored(&block, &extent);
        else if (error != -ENOENT)
            return error;
        sum->number = extent.number + 1;
    }
    return 0;
}

static int correct(struct index_txn *txn, const struct sum *sum, bool *changed)
{
    struct index_inode inode;
    const int error = index_inode_get(txn, sum->ino, &inode);

    *changed = false;
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    if (inode.stored != sum->stored || inode.stored == sum->bytes)
        return 0;
    inode.stored = sum->bytes;
    *changed = true;
    return index_inode_put(txn, &inode);
}

/* One transaction's worth of inodes and extents from sum on. 1: more, 0: the end. */
static int step(struct fs *fs, struct sum *sum)
{
    struct index_txn *txn;
    unsigned visits = 0;
    bool changed = false;
    uint64_t ino = 0;
    int result = index_begin(fs->index, INDEX_WRITE, &txn);

    if (result != 0)
        return result;
    result = 1;
    /* Ends after a change, to tell the kernel outside the transaction. */
    while (result > 0 && visits < EXTENTS_MAX && !changed) {
        struct index_inode inode;

        if (sum->number == 0) {
            result = index_inode_next(txn, sum->ino, &inode);
            visits++;
            if (result == 0) {
                sum->ino = inode.ino;
                sum->stored = inode.stored;
                sum->bytes = 0;
                if (!S_ISREG(inode.mode) || (inode.flags & INDEX_INODE_INLINE)) {
                    sum->ino++;
                    result = 1;
                    continue;
                }
            } else {
                result = result == -ENOENT ? 0 : result;
                break;
            }
        }
        result = add_extents(txn, sum, &visits);
        if (result == 0) {
            result = 1; /* the rest in the next step */
            break;
        }
        if (result > 0) {
            const int error = correct(txn, sum, &changed);

            ino = sum->ino++;
            sum->number = 0;
            if (error != 0)
                result = error;
        }
    }
    index_end(txn);
    if (changed)
        compact_notify(fs, ino);
    return result;
}

int compact_recount(struct fs *fs, const volatile bool *stop)
{
    struct sum sum = {.ino = 0};
    int more = 1;

    while (more > 0 && !*stop)
        more = step(fs, &sum);
    return more < 0 ? more : 0;
}
