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
    bool inside;     /* ino is being summed; otherwise the search goes on from there */
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

/* Looks at the next inode: enters it if it is a file that may have extents, else passes it by.
 * 1: go on, 0: there is none, negative errno. */
static int next_inode(struct index_txn *txn, struct sum *sum)
{
    struct index_inode inode;
    const int error = index_inode_next(txn, sum->ino, &inode);

    if (error != 0)
        return error == -ENOENT ? 0 : error;
    *sum = (struct sum){.ino = inode.ino, .stored = inode.stored, .inside = true};
    if (!S_ISREG(inode.mode) || (inode.flags & INDEX_INODE_INLINE))
        *sum = (struct sum){.ino = inode.ino + 1};
    return 1;
}

/* One transaction's worth of inodes and extents. It ends after a change, which *changed names, so
 * that the kernel is told outside. 1: more, 0: the end, negative errno. */
static int step(struct index_txn *txn, struct sum *sum, uint64_t *changed)
{
    unsigned visits = 0;

    while (visits < EXTENTS_MAX) {
        bool corrected;
        int result;

        if (!sum->inside) {
            visits++;
            result = next_inode(txn, sum);
            if (result <= 0)
                return result;
            continue;
        }
        result = add_extents(txn, sum, &visits);
        if (result < 0)
            return result;
        if (result == 0)
            break; /* the rest of it in the next step */
        result = correct(txn, sum, &corrected);
        if (result < 0)
            return result;
        *changed = corrected ? sum->ino : 0;
        *sum = (struct sum){.ino = sum->ino + 1};
        if (corrected)
            break;
    }
    return 1;
}

int compact_recount(struct fs *fs, const volatile bool *stop)
{
    struct sum sum = {.ino = 0};
    int more = 1;

    while (more > 0 && !*stop) {
        struct index_txn *txn;
        uint64_t changed = 0;

        more = index_begin(fs->index, INDEX_WRITE, &txn);
        if (more != 0)
            break;
        more = step(txn, &sum, &changed);
        index_end(txn);
        compact_notify(fs, changed);
    }
    return more < 0 ? more : 0;
}
