/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_extents.c - pass 4: every extent belongs to a regular file without inline content, begins
 * before the file's end, and covers bytes that its block has. Counts the references of the blocks.
 *
 * An extent whose block is missing stays: reading there gives EIO, so that the loss is seen, and the
 * range is not taken for a hole.
 */
#include "check.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

static const char pass[] = "extents";

struct owner { /* of the extents being looked at */
    uint64_t ino;
    bool valid;   /* a regular file with extents */
    uint64_t end; /* block number from which on there is nothing */
    const char *reason;
};

static int load_owner(struct checker *c, uint64_t ino, struct owner *owner)
{
    const uint64_t block_size = index_block_size(c->index);
    struct index_inode inode;
    struct index_key key;
    MDB_val value;
    uint64_t from;
    *owner = (struct owner){.ino = ino};
    const struct check_inode *const row = check_inode_find(c, ino);
    if (row == NULL)
        return 0;                              /* malformed key */
    if (row->rebuilt && !c->options->repair) { /* as it will be once it is repaired */
        owner->valid = row->type == S_IFREG;
        owner->reason = "is no regular file";
        owner->end = UINT64_MAX;
        return 0;
    }
    int error = index_inode_get(c->txn, ino, &inode);
    if (error != 0)
        return error;
    owner->end = inode.size / block_size + (inode.size % block_size != 0);
    owner->valid = S_ISREG(inode.mode) && (inode.flags & INDEX_INODE_INLINE) == 0;
    owner->reason = !S_ISREG(inode.mode) ? "is no regular file" : "keeps its content inline";
    /* being truncated or removed: what lies behind the mark is no problem */
    index_key_one(&key, ino);
    error = index_db_get(c->txn, INDEX_DB_ORPHAN, &key, &value);
    if (error == 0 && index_record_get_number(&value, &from) == 0)
        owner->end = UINT64_MAX;
    return error == -ENOENT ? 0 : error;
}

static int check_block(struct checker *c, uint64_t ino, const struct index_extent *extent)
{
    char path[PATH_MAX];
    struct check_block *const block = check_block_find(c, extent->block);
    if (block == NULL) {
        if (c->damage_count > 0 && c->damage[c->damage_count - 1].block == extent->block)
            return 0;
        return check_damage_add(c, extent->block, 0, "missing-block", "it has no record");
    }
    block->references += block->references < UINT32_MAX;
    block->live =
        extent->length > UINT32_MAX - block->live ? UINT32_MAX : block->live + extent->length;
    if (extent->offset > block->plain_size || extent->length > block->plain_size - extent->offset)
        check_problem(c, "extent-range", CHECK_LOST, ino, extent->block, 0,
                      "%.200s: block number %ju is bytes %u to %ju of block %ju, which has %u",
                      index_inode_path(c->txn, ino, path, sizeof path), (uintmax_t)extent->number,
                      extent->offset, (uintmax_t)extent->offset + extent->length,
                      (uintmax_t)extent->block, block->plain_size);
    return 0;
}

static int check_extent(struct checker *c, struct check_walk *walk, const struct owner *owner,
                        const struct index_extent *extent)
{
    if (owner->reason == NULL)
        return 0;
    if (!owner->valid) {
        if (!check_problem(c, "extent-owner", CHECK_LOSSY, owner->ino, extent->block, 0,
                           "inode %ju %s, but has an extent for block number %ju",
                           (uintmax_t)owner->ino, owner->reason, (uintmax_t)extent->number))
            return 0;
        return check_delete(c, walk);
    }
    if (extent->number >= owner->end) {
        if (!check_problem(c, "extent-beyond-end", CHECK_DERIVABLE, owner->ino, extent->block, 0,
                           "inode %ju ends before block number %ju, but has an extent for it",
                           (uintmax_t)owner->ino, (uintmax_t)extent->number))
            return 0;
        return check_delete(c, walk);
    }
    if (extent->length > index_block_size(c->index)) {
        if (!check_problem(c, "extent-length", CHECK_LOSSY, owner->ino, extent->block, 0,
                           "inode %ju: extent for block number %ju has %u bytes, more than a block",
                           (uintmax_t)owner->ino, (uintmax_t)extent->number, extent->length))
            return 0;
        return check_delete(c, walk);
    }
    return check_block(c, owner->ino, extent);
}

int check_extents(struct checker *c)
{
    const uint64_t total = index_db_entries(c->txn, INDEX_DB_EXTENT);
    struct check_walk walk = {.db = INDEX_DB_EXTENT};
    struct owner owner = {0};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct index_extent extent;
        uint64_t ino;
        error = check_step(c, pass, total);
        if (error != 0)
            return error;
        if (index_record_get_extent(&walk.found, &walk.value, &ino, &extent) != 0)
            continue;
        if (ino != owner.ino)
            error = load_owner(c, ino, &owner);
        if (error == 0)
            error = check_extent(c, &walk, &owner, &extent);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}
