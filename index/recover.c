/* SPDX-License-Identifier: BSD-2-Clause
 *
 * recover.c - finishes work on inodes that a crash interrupted: a truncation whose extents were not
 * all removed, a file that was unlinked but open. Each mark in INDEX_DB_ORPHAN is worked off in
 * steps short enough for any transaction; a crash here leaves the rest for the next opening.
 */
#include <errno.h>

#include "internal.h"

#define STEP 1024u /* extents in one go */

/* The block from which on a truncation was to remove, but none that the size covers: the mark is old
 * when the file was written to after a truncation that met damage. */
static uint64_t behind_size(const struct index *index, const struct index_inode *inode,
                            uint64_t from)
{
    const uint64_t covered =
        inode->size / index->block_size + (inode->size % index->block_size != 0);
    return from < covered ? covered : from;
}

/* Removes up to STEP extents of an orphan, or ends it. *more: there is more to do on it. */
static int step(struct index_txn *txn, uint64_t ino, uint64_t from, bool *more)
{
    struct index_inode inode;
    *more = false;
    int error = index_inode_get(txn, ino, &inode);
    const bool readable = error == 0;
    if (error != 0 && error != -ENOENT && error != -EUCLEAN)
        return error;
    if (readable && inode.nlink > 0)
        from = behind_size(txn->index, &inode, from);
    error = index_extent_remove(txn, ino, from, UINT64_MAX, STEP, readable ? &inode : NULL, more);
    if (error != 0)
        return error;
    if (*more || (readable && inode.nlink > 0))
        error = readable ? index_inode_put(txn, &inode) : 0;
    else if (readable)
        return index_inode_delete(txn, ino);
    return error == 0 && !*more ? index_orphan_clear(txn, ino) : error;
}

/* Whether anything is to be done, without opening a write transaction. */
static int any_orphan(struct index *index)
{
    struct index_txn *txn;
    uint64_t ino, from;
    int error = index_begin(index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    error = index_orphan_next(txn, 0, &ino, &from);
    index_end(txn);
    return error;
}

int index_recover(struct index *index)
{
    uint64_t at = 0;
    int error = any_orphan(index);
    while (error == 0) {
        struct index_txn *txn;
        uint64_t ino, from;
        bool more = false;
        error = index_begin(index, INDEX_WRITE, &txn);
        if (error != 0)
            return error;
        error = index_orphan_next(txn, at, &ino, &from);
        if (error == 0) {
            error = step(txn, ino, from, &more);
            at = more ? ino : ino + 1;
        }
        index_end(txn);
    }
    /* A malformed mark stays for fsck. */
    return error == -ENOENT || error == -EUCLEAN ? 0 : error;
}
