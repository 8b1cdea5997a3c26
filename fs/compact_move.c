/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_move.c - brings a shared block into the index: its record is appended, and in one
 * transaction every piece whose extent is still what it was moves to the new block. See
 * compact_share.c for how the block came about and why readers are safe.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compact.h"
#include "inode.h"

struct move {
    struct compact_pass *pass;
    const struct compact_unit *unit;
    struct fs_inode **locked; /* for each target: resident inode, held and write-locked, or NULL */
    bool *keep;               /* for each target */
    bool moved;
};

/* Takes the inode's lock if it is resident. False: somebody is at work there, or has unwritten
 * data. Several targets may be of one inode: the lock taken for the first serves the others. */
static bool lock_inode(struct move *move, unsigned at)
{
    const uint64_t ino = move->unit->targets[at].ino;
    struct fs_inode *inode = fs_inode_peek(move->pass->fs, ino);

    if (inode == NULL)
        return true;
    for (unsigned i = 0; i < at; i++) {
        if (move->locked[i] == inode) {
            fs_inode_drop(move->pass->fs, inode);
            return true;
        }
    }
    if (pthread_rwlock_trywrlock(&inode->lock) != 0) {
        fs_inode_drop(move->pass->fs, inode);
        return false;
    }
    move->locked[at] = inode;
    return inode->dirty_count == 0;
}

static void unlock_inodes(struct move *move)
{
    for (unsigned i = 0; i < move->unit->target_count; i++) {
        if (move->locked[i] != NULL) {
            pthread_rwlock_unlock(&move->locked[i]->lock);
            fs_inode_drop(move->pass->fs, move->locked[i]);
        }
    }
}

/* Decides target by target, and whether enough are left: at least half of the bytes. */
static bool choose(struct move *move, struct index_txn *txn)
{
    const struct compact_unit *unit = move->unit;
    uint64_t kept = 0;
    uint64_t all = 0;

    for (unsigned i = 0; i < unit->target_count; i++) {
        const struct index_extent *planned = &unit->targets[i].extent;
        struct index_extent extent;

        all += planned->length;
        move->keep[i] =
            lock_inode(move, i) &&
            index_extent_get(txn, unit->targets[i].ino, planned->number, &extent) == 0 &&
            extent.block == planned->block && extent.offset == planned->offset &&
            extent.length == planned->length;
        if (move->keep[i])
            kept += planned->length;
    }
    return kept > 0 && kept >= all / 2;
}

static int move_extent(struct index_txn *txn, const struct compact_target *target, uint64_t block)
{
    const struct index_extent extent = {.number = target->extent.number,
                                        .block = block,
                                        .offset = target->offset,
                                        .length = target->extent.length};
    struct index_inode inode;
    int error = index_inode_get(txn, target->ino, &inode);

    if (error == 0)
        error = index_extent_set(txn, target->ino, &extent, &inode);
    if (error == 0)
        error = index_inode_put(txn, &inode);
    return error;
}

static int move_all(struct move *move, struct index_txn *txn, const struct index_block *block)
{
    const struct compact_unit *unit = move->unit;
    int error;

    if (!choose(move, txn))
        return 0;
    error = index_block_add(txn, block, compact_class(unit->method));
    for (unsigned i = 0; i < unit->target_count && error == 0; i++) {
        if (move->keep[i])
            error = move_extent(txn, &unit->targets[i], block->id);
    }
    move->moved = error == 0;
    return error;
}

static int decline_all(struct compact_pass *pass, const struct compact_unit *unit)
{
    int error = 0;

    for (unsigned i = 0; i < unit->target_count && error == 0; i++) {
        const struct compact_target *target = &unit->targets[i];

        if (!target->twin || i == 0)
            error = compact_decline(pass, target->extent.block, unit->method, 0,
                                    "does not get smaller in a shared block");
    }
    return error;
}

static void count_moved(struct compact_pass *pass, const struct compact_unit *unit, uint64_t bytes)
{
    struct fs_compact_status *status = compact_status_lock(pass);

    for (unsigned i = 0; i < unit->target_count; i++) {
        status->blocks_done++;
        status->bytes_done += unit->targets[i].extent.length;
    }
    status->stored_before += unit->stored;
    status->stored_after += bytes;
    compact_status_unlock(pass);
}

int compact_share_apply(struct compact_pass *pass, struct compact_unit *unit,
                        const struct gpu_job *job)
{
    const uint64_t bytes = (uint64_t)job->payload_size + INDEX_RECORD_HEADER;
    const struct index_hash hash = index_hash_of(unit->plain, unit->block.plain_size);
    struct index *index = pass->fs->index;
    struct move move = {.pass = pass, .unit = unit};
    struct sep_block_info info = {0};
    struct index_txn *txn;
    int error;

    /* Memory that changed between laying and verifying must not reach the store. */
    if (hash.low != unit->block.hash.low || hash.high != unit->block.hash.high)
        return -EIO;
    if (bytes >= unit->stored && !unit->repack)
        return decline_all(pass, unit);
    if (job->used.codec == SEP_CODEC_SEP &&
        sep_block_inspect(job->payload, job->payload_size, &info) != SEP_OK)
        return -EINVAL;
    unit->block.codec = job->used.codec;
    unit->block.level = job->used.level;
    unit->block.model = info.model_hash;
    unit->block.owner_ino = unit->ino;
    unit->block.owner_block = unit->number;
    move.locked = calloc(unit->target_count, sizeof *move.locked);
    move.keep = calloc(unit->target_count, sizeof *move.keep);
    error = move.locked == NULL || move.keep == NULL ? -ENOMEM : index_reserve(index, bytes);
    if (error != 0)
        goto out;
    error = index_pack_append(index, compact_class(unit->method), &unit->block, job->payload,
                              job->payload_size);
    if (error == 0)
        error = index_begin(index, INDEX_WRITE, &txn);
    if (error == 0) {
        error = move_all(&move, txn, &unit->block);
        index_end(txn);
        unlock_inodes(&move);
    }
    index_release(index, bytes);
    if (error == -ESTALE) /* the pack is gone already: the work is lost, nothing else */
        error = 0;
    if (error == 0 && move.moved) {
        pass->uncommitted += bytes;
        pass->replaced += unit->stored;
        count_moved(pass, unit, bytes);
        for (unsigned i = 0; i < unit->target_count; i++) {
            if (move.keep[i])
                compact_notify(pass->fs, unit->targets[i].ino);
        }
    }
out:
    free(move.locked);
    free(move.keep);
    return error;
}
