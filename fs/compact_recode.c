/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_recode.c - one block in another form: reading the old one, swapping in the new one, and
 * what is recorded when there is nothing to gain or something is wrong.
 *
 * A block is replaced only when its new form was decoded and equals the old contents, whose hash was
 * checked, and only if it still lies where it was read (compare and swap): a write that came in
 * between wins. A damaged block is left as it is, for fsck; it is neither copied nor tried again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "compact.h"

#define READ_TRIES 4u

/* ---- what cannot or need not be done ------------------------------------------------------- */

static int mark_incompressible(struct index_txn *txn, uint64_t id)
{
    struct index_block block;
    int error = index_block_get(txn, id, &block);

    if (error == 0)
        error = index_block_set_flags(txn, id, block.flags | INDEX_BLOCK_INCOMPRESSIBLE);
    return error;
}

int compact_decline(struct compact_pass *pass, uint64_t id, struct sep_method method, int error,
                    const char *reason)
{
    struct index_pending pending = {.block = id,
                                    .error = error,
                                    .codec = method.codec,
                                    .level = method.level,
                                    .tried_at = (int64_t)time(NULL)};
    struct fs_compact_status *status;
    struct index_block block;
    struct index_txn *txn;
    int result = index_begin(pass->fs->index, INDEX_WRITE, &txn);

    if (result != 0)
        return result;
    snprintf(pending.reason, sizeof pending.reason, "%s", reason);
    result = index_block_get(txn, id, &block);
    if (result == 0)
        result = index_pending_put(txn, &pending);
    if (result == 0 || result == -ENOENT)
        result = index_hot_remove(txn, id);
    index_end(txn);
    status = compact_status_lock(pass);
    if (error != 0)
        status->failed++;
    else
        status->declined++;
    compact_status_unlock(pass);
    return result;
}

/* No codec makes it smaller: not to be looked at again, whatever the method. */
static int give_up_on(struct compact_pass *pass, const struct compact_unit *unit)
{
    struct index_txn *txn;
    int error = index_begin(pass->fs->index, INDEX_WRITE, &txn);

    if (error != 0)
        return error;
    error = mark_incompressible(txn, unit->block.id);
    if (error == 0 || error == -ENOENT)
        error = index_hot_remove(txn, unit->block.id);
    index_end(txn);
    compact_status_lock(pass)->declined++;
    compact_status_unlock(pass);
    return error;
}

int compact_damaged(struct compact_pass *pass, const struct compact_unit *unit, const char *reason)
{
    char path[1024] = "unknown file";
    struct index_txn *txn;

    if (unit->ino != 0 && index_begin(pass->fs->index, INDEX_READ, &txn) == 0) {
        index_inode_path(txn, unit->ino, path, sizeof path);
        index_end(txn);
    }
    fs_log(LOG_ERR, "%s: block %llu in pack %u at %llu: %s; left as it is", path,
           (unsigned long long)unit->block.id, unit->block.at.pack,
           (unsigned long long)unit->block.at.offset, reason);
    return compact_decline(pass, unit->block.id, unit->method, EIO, reason);
}

/* ---- from items to units ------------------------------------------------------------------- */

/* The method is meant as it is, also when it makes the block larger. */
static bool exact(const struct compact_pass *pass)
{
    return pass->request.has_method || pass->kind == COMPACT_PROMOTE;
}

/* Already on its way: several extents may name one block. */
static bool in_flight(const struct compact_pass *pass, uint64_t id)
{
    for (unsigned i = 0; pass->filling != NULL && i < pass->filling->count; i++) {
        if (pass->filling->units[i].block.id == id)
            return true;
    }
    for (const struct compact_batch *batch = pass->flight; batch != NULL; batch = batch->next) {
        for (unsigned i = 0; i < batch->count; i++) {
            if (batch->units[i].block.id == id)
                return true;
        }
    }
    return false;
}

static int look_up(struct compact_pass *pass, uint64_t id, struct index_block *block)
{
    struct index_txn *txn;
    int error = index_begin(pass->fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    error = index_block_get(txn, id, block);
    index_end(txn);
    if (error == 0 &&
        (block->plain_size == 0 || block->plain_size > pass->fs->block_size ||
         block->at.payload_size == 0 || block->at.payload_size > sep_bound(block->plain_size)))
        return -EUCLEAN;
    return error;
}

static bool same_place(const struct index_location *a, const struct index_location *b)
{
    return a->pack == b->pack && a->offset == b->offset && a->payload_size == b->payload_size;
}

/* Reads the stored form of unit->block. The block may move while it is read: an error counts only
 * when it still lies where it was looked for. -ENOENT: it is gone. */
static int read_source(struct compact_pass *pass, struct compact_unit *unit)
{
    int error = 0;

    /* Room for any form of the block: look_up has checked that payloads fit. */
    unit->source = malloc(sep_bound(unit->block.plain_size));
    if (unit->source == NULL)
        return -ENOMEM;
    for (unsigned try = 0; try < READ_TRIES; try++) {
        struct index_block again;

        error = index_pack_read(pass->fs->index, &unit->block, unit->source);
        if (error != -EIO && error != -ESTALE)
            return error;
        if (look_up(pass, unit->block.id, &again) != 0)
            return -ENOENT;
        if (same_place(&again.at, &unit->block.at) && error == -EIO)
            return error;
        unit->block = again;
    }
    return error;
}

/* Failed or declined since it was planned: several extents may name one block. */
static bool tried_meanwhile(struct compact_pass *pass, uint64_t id, struct sep_method method)
{
    struct index_pending pending;
    struct index_txn *txn;
    bool tried;

    if (index_begin(pass->fs->index, INDEX_READ, &txn) != 0)
        return false;
    tried = index_pending_get(txn, id, &pending) == 0 && pending.codec == method.codec &&
            pending.level == method.level;
    index_end(txn);
    return tried;
}

int compact_feed(struct compact_pass *pass, const struct compact_item *item)
{
    struct compact_unit unit = {
        .ino = item->ino, .number = item->extent.number, .method = item->method};
    int error;

    if (in_flight(pass, item->extent.block) ||
        (item->references > 1 && tried_meanwhile(pass, item->extent.block, item->method)))
        return 0;
    error = look_up(pass, item->extent.block, &unit.block);
    if (error == -EUCLEAN) {
        /* The index has logged the record; fsck can mend it, a pass cannot. */
        compact_status_lock(pass)->failed++;
        compact_status_unlock(pass);
        return 0;
    }
    if (error == 0 && !compact_wants(&unit.block, item->method, exact(pass)))
        return 0; /* done meanwhile, through another extent */
    if (error == 0)
        error = read_source(pass, &unit);
    if (error == -EIO) {
        error = compact_damaged(pass, &unit, "damaged record");
        compact_unit_free(&unit);
        return error;
    }
    if (error != 0) {
        compact_unit_free(&unit);
        return error == -ENOENT || error == -ESTALE ? 0 : error;
    }
    unit.stored = (uint64_t)unit.block.at.payload_size + INDEX_RECORD_HEADER;
    unit.plain = malloc(unit.block.plain_size);
    if (unit.plain == NULL) {
        compact_unit_free(&unit);
        return -ENOMEM;
    }
    return compact_feed_unit(pass, &unit);
}

/* ---- swapping ------------------------------------------------------------------------------ */

static void count_done(struct compact_pass *pass, uint64_t plain, uint64_t before, uint64_t after)
{
    struct fs_compact_status *status = compact_status_lock(pass);

    status->blocks_done++;
    status->bytes_done += plain;
    status->stored_before += before;
    status->stored_after += after;
    compact_status_unlock(pass);
}

/* Files that hold one extent of the block are charged for it: the sum changes with its size. */
static int charge_owner(struct compact_pass *pass, struct index_txn *txn,
                        const struct compact_unit *unit, const struct index_block *changed,
                        uint64_t *notify)
{
    struct index_extent extent;
    struct index_inode inode;
    uint64_t old_share;
    int error;

    if (unit->ino == 0 || changed->references > 1)
        pass->recount = true;
    if (unit->ino == 0)
        return 0;
    error = index_extent_get(txn, unit->ino, unit->number, &extent);
    if (error != 0 || extent.block != changed->id)
        return error == -ENOENT ? 0 : error;
    error = index_inode_get(txn, unit->ino, &inode);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    old_share = index_extent_stored(&unit->block, &extent);
    inode.stored = inode.stored > old_share ? inode.stored - old_share : 0;
    inode.stored += index_extent_stored(changed, &extent);
    *notify = unit->ino;
    return index_inode_put(txn, &inode);
}

/* Appends the new form and swaps it in. */
static int swap(struct compact_pass *pass, struct compact_unit *unit, const struct gpu_job *job)
{
    const uint64_t bytes = (uint64_t)job->payload_size + INDEX_RECORD_HEADER;
    struct index *index = pass->fs->index;
    struct index_block changed = unit->block;
    struct sep_block_info info = {0};
    struct index_txn *txn;
    uint64_t notify = 0;
    int error;

    if (job->used.codec == SEP_CODEC_SEP &&
        sep_block_inspect(job->payload, job->payload_size, &info) != SEP_OK)
        return -EINVAL;
    changed.codec = job->used.codec;
    changed.level = job->used.level;
    changed.model = info.model_hash;
    changed.owner_ino = unit->ino;
    changed.owner_block = unit->number;
    error = index_reserve(index, bytes);
    if (error != 0)
        return error;
    error = index_pack_append(index, compact_class(unit->method), &changed, job->payload,
                              job->payload_size);
    if (error == 0)
        error = index_begin(index, INDEX_WRITE, &txn);
    if (error == 0) {
        struct index_block now;

        /* References may have come or gone since the block was read. */
        if (index_block_get(txn, changed.id, &now) == 0) {
            changed.references = now.references;
            changed.live = now.live;
            changed.flags = now.flags;
        }
        error = index_block_swap(txn, &changed, &unit->block.at);
        if (error == 0)
            error = index_pending_remove(txn, changed.id);
        if (error == 0)
            error = charge_owner(pass, txn, unit, &changed, &notify);
        if (error == 0 && pass->kind == COMPACT_PROMOTE)
            error = index_hot_add(txn, &(struct index_hot){.block = changed.id,
                                                           .ino = unit->ino,
                                                           .number = unit->number,
                                                           .stored_at = (int64_t)time(NULL)});
        index_end(txn);
    }
    index_release(index, bytes);
    if (error == 0) {
        pass->uncommitted += bytes;
        pass->replaced += unit->stored;
        count_done(pass, unit->block.plain_size, unit->stored, bytes);
        if (notify != 0)
            compact_notify(pass->fs, notify);
    }
    return error == -ESTALE || error == -ENOENT ? 0 : error;
}

/* Order of the codecs by how much they compress. */
static unsigned rank(unsigned codec)
{
    switch (codec) {
    case SEP_CODEC_LZ4:
        return 1;
    case SEP_CODEC_ZSTD:
        return 2;
    case SEP_CODEC_SEP:
        return 3;
    default:
        return 0;
    }
}

/* A faster form is what was asked for, whatever its size; any other must be smaller. */
static bool worth_it(const struct compact_pass *pass, const struct compact_unit *unit,
                     const struct gpu_job *job)
{
    const struct index_block *block = &unit->block;
    const bool faster = rank(job->used.codec) < rank(block->codec) ||
                        (job->used.codec == block->codec && job->used.level < block->level);

    return job->payload_size < block->at.payload_size || (exact(pass) && faster);
}

int compact_recode_apply(struct compact_pass *pass, struct compact_unit *unit,
                         const struct gpu_job *job)
{
    const struct index_hash hash = index_hash_of(unit->plain, unit->block.plain_size);

    if (hash.low != unit->block.hash.low || hash.high != unit->block.hash.high)
        return compact_damaged(pass, unit, "contents do not match their hash");
    if (job->used.codec != unit->method.codec)
        return rank(unit->method.codec) > rank(unit->block.codec) ||
                       unit->block.codec == SEP_CODEC_RAW
                   ? give_up_on(pass, unit)
                   : compact_decline(pass, unit->block.id, unit->method, 0, "does not get smaller");
    if (!worth_it(pass, unit, job))
        return compact_decline(pass, unit->block.id, unit->method, 0, "does not get smaller");
    return swap(pass, unit, job);
}
