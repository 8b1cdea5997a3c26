/* SPDX-License-Identifier: BSD-2-Clause
 *
 * store.c - how encoded versions of dirty blocks become part of the file: one transaction that puts
 * block, extent, size and times together.
 *
 * Invariant: the record's size never covers a byte that is only in memory, and no extent lies beyond
 * the record's size. Workers finish in any order, so a block that makes the file longer waits,
 * ENCODED, until every lower block that does so is stored; the one that ends the wait stores them
 * all, up to BATCH in one transaction. After a crash a file that was being appended to is a prefix
 * of what was written (at block granularity).
 */
#include "dirty.h"

#include <errno.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "encode.h"

#define BATCH 16u /* blocks stored in one transaction: about half a millisecond */

static uint64_t end_of(const struct fs *fs, const struct fs_dirty *dirty)
{
    return dirty->number * fs->block_size + dirty->length;
}

/* Higher blocks must not be stored before this one. */
static bool holds_back(const struct fs *fs, const struct fs_inode *inode,
                       const struct fs_dirty *dirty)
{
    return end_of(fs, dirty) > inode->record_size || (inode->is_inline && dirty->number == 0);
}

uint64_t fs_store_bound(const struct fs *fs, const struct fs_inode *inode,
                        const struct index_inode *record)
{
    uint64_t size = record->size;
    size_t i;

    if (size > inode->size)
        size = inode->size;
    if ((record->flags & INDEX_INODE_INLINE) != 0 && inode->dirty_count > 0 &&
        inode->dirty[0]->number == 0 && !inode->dirty[0]->committed)
        return size;
    for (i = fs_dirty_lower(inode, size / fs->block_size); i < inode->dirty_count; i++) {
        const struct fs_dirty *dirty = inode->dirty[i];
        uint64_t start = dirty->number * fs->block_size;

        if (!dirty->committed && end_of(fs, dirty) > size)
            return start > size ? start : size;
    }
    return inode->size;
}

int fs_store_settle(struct fs *fs, struct fs_inode *inode, struct index_txn *txn,
                    struct index_inode *record)
{
    uint8_t content[INDEX_INLINE_MAX] = {0};
    int error;

    record->size = fs_store_bound(fs, inode, record);
    if ((record->flags & INDEX_INODE_INLINE) != 0 && record->size <= sizeof(content)) {
        uint32_t keep = (uint32_t)record->size;

        if (keep > record->inline_size)
            keep = record->inline_size;
        if (keep > 0)
            memcpy(content, record->inline_data, keep);
        record->inline_data = content;
        record->inline_size = (uint32_t)record->size;
    }
    pthread_mutex_lock(&inode->overlay_lock);
    if (inode->overlay) {
        record->mtime = inode->mtime;
        record->ctime = inode->ctime;
    }
    pthread_mutex_unlock(&inode->overlay_lock);
    error = index_inode_put(txn, record);
    if (error == 0) {
        inode->record_size = record->size;
        inode->is_inline = (record->flags & INDEX_INODE_INLINE) != 0;
    }
    return error;
}

static void end_overlay(struct fs_inode *inode)
{
    if (inode->dirty_count > 0 || inode->record_size != inode->size)
        return;
    pthread_mutex_lock(&inode->overlay_lock);
    inode->overlay = false;
    pthread_mutex_unlock(&inode->overlay_lock);
}

/* ---- one transaction ------------------------------------------------------------------------ */

static int set_extent(struct index_txn *txn, const struct fs_dirty *dirty, uint64_t block,
                      struct index_inode *record)
{
    const struct index_extent extent = {
        .number = dirty->number, .block = block, .offset = 0, .length = dirty->length};

    record->flags &= ~(uint32_t)INDEX_INODE_INLINE;
    record->inline_size = 0;
    return index_extent_set(txn, dirty->inode->ino, &extent, record);
}

static int set_hole(struct index_txn *txn, const struct fs_dirty *dirty, struct index_inode *record)
{
    bool more;

    record->flags &= ~(uint32_t)INDEX_INODE_INLINE;
    record->inline_size = 0;
    return index_extent_remove(txn, dirty->inode->ino, dirty->number, dirty->number, 1, record,
                               &more);
}

/* The block found earlier is shared if it is still there. */
static int set_known(struct index_txn *txn, const struct fs_dirty *dirty,
                     struct index_inode *record)
{
    struct index_block now;
    int error = index_block_get(txn, dirty->block.id, &now);

    if (error != 0)
        return error == -ENOENT ? -EAGAIN : error;
    return set_extent(txn, dirty, dirty->block.id, record);
}

static int set_inline(struct index_txn *txn, struct fs_dirty *dirty, struct index_inode *record)
{
    bool more;
    int error;

    if (dirty->inode->size > INDEX_INLINE_MAX || dirty->length > INDEX_INLINE_MAX)
        return -EAGAIN; /* has grown since */
    error = index_extent_remove(txn, dirty->inode->ino, 0, 0, 1, record, &more);
    if (error != 0)
        return error;
    record->flags |= INDEX_INODE_INLINE;
    record->inline_data = dirty->data;
    record->inline_size = dirty->length;
    return 0;
}

/* Another file may have got the same bytes while these were compressed: then they are shared. */
static int set_new(struct index_txn *txn, const struct fs_dirty *dirty, struct index_inode *record)
{
    struct index_block same;
    int error = index_block_find(txn, dirty->block.hash, dirty->length, &same);

    if (error == 0 && same.id != dirty->unlike)
        return -EAGAIN;
    if (error != 0 && error != -ENOENT && error != -EUCLEAN) /* malformed: as good as none */
        return error;
    error = index_block_add(txn, &dirty->block, INDEX_HOT);
    if (error == -ESTALE) /* waited so long that its pack was taken for empty, and removed */
        return -EAGAIN;
    return error != 0 ? error : set_extent(txn, dirty, dirty->block.id, record);
}

/* The damaged record is replaced if the block still lies there; then all is as if it were new. */
static int set_healed(struct index_txn *txn, const struct fs_dirty *dirty,
                      struct index_inode *record)
{
    const struct index_hot hot = {.block = dirty->block.id,
                                  .ino = dirty->inode->ino,
                                  .number = dirty->number,
                                  .stored_at = (int64_t)time(NULL)};
    int error = index_block_swap(txn, &dirty->block, &dirty->damaged);

    if (error == -ESTALE)
        return -EAGAIN;
    if (error == 0)
        error = index_hot_add(txn, &hot);
    if (error == 0)
        error = index_pending_remove(txn, dirty->block.id);
    return error != 0 ? error : set_extent(txn, dirty, dirty->block.id, record);
}

static int apply(struct index_txn *txn, struct fs_dirty *dirty, struct index_inode *record)
{
    switch (dirty->form) {
    case FS_FORM_INLINE:
        return set_inline(txn, dirty, record);
    case FS_FORM_HOLE:
        return set_hole(txn, dirty, record);
    case FS_FORM_KNOWN:
        return set_known(txn, dirty, record);
    case FS_FORM_NEW:
        return set_new(txn, dirty, record);
    case FS_FORM_HEALED:
        return set_healed(txn, dirty, record);
    }
    return -EINVAL;
}

/* Other files that refer to it are charged for the old record until they are counted again. */
static void count_healed(struct fs *fs, const struct fs_dirty *dirty)
{
    atomic_fetch_add_explicit(&fs->counters.blocks_healed, 1, memory_order_relaxed);
    atomic_store(&fs->recount, true);
    fs_log(LOG_NOTICE,
           "block %llu in pack %u at offset %llu was damaged: stored again, its bytes were written",
           (unsigned long long)dirty->block.id, dirty->damaged.pack,
           (unsigned long long)dirty->damaged.offset);
}

static void count_stored(struct fs *fs, const struct fs_dirty *dirty)
{
    struct fs_counters *counters = &fs->counters;

    atomic_fetch_add_explicit(&counters->blocks_written, 1, memory_order_relaxed);
    if (dirty->form == FS_FORM_KNOWN)
        atomic_fetch_add_explicit(&counters->blocks_deduplicated, 1, memory_order_relaxed);
    else if (dirty->form == FS_FORM_HOLE)
        atomic_fetch_add_explicit(&counters->blocks_holes, 1, memory_order_relaxed);
    else if (dirty->form == FS_FORM_HEALED)
        count_healed(fs, dirty);
}

/* The transaction for COUNT versions in ascending order. *done: how many are stored, also on an
 * error; the one after them met it, or has to be encoded again. *gone: the file is being deleted. */
static int transact(struct fs *fs, struct fs_inode *inode, struct fs_dirty **batch, size_t count,
                    size_t *done, bool *gone)
{
    struct index_inode record;
    struct index_txn *txn;
    size_t i = 0;
    int error = index_begin(fs->index, INDEX_WRITE, &txn);

    *done = 0;
    if (error != 0)
        return error;
    error = index_inode_get(txn, inode->ino, &record);
    *gone = error == -ENOENT || fs_inode_doomed(fs, inode);
    if (*gone || error != 0)
        goto out;
    /* inline content, which writes to other records may move, is replaced by block 0, and that is
     * first whenever there is any */
    for (i = 0; i < count; i++) {
        uint64_t end = end_of(fs, batch[i]);

        error = apply(txn, batch[i], &record);
        if (error != 0)
            break;
        batch[i]->committed = batch[i]->newer == NULL;
        if (end > record.size)
            record.size = end;
    }
    if (error == -EAGAIN)
        error = 0;
    if (i > 0) { /* what was applied stays applied, whatever the next one met */
        const int settled = fs_store_settle(fs, inode, txn, &record);

        if (settled == 0)
            *done = i;
        else
            error = settled;
    }
out:
    index_end(txn);
    return *gone ? 0 : error;
}

static void log_failure(struct fs *fs, const struct fs_dirty *dirty, int error)
{
    char path[512] = "";
    struct index_txn *txn;

    if (index_begin(fs->index, INDEX_READ, &txn) == 0) {
        index_inode_path(txn, dirty->inode->ino, path, sizeof(path));
        index_end(txn);
    }
    fs_log(LOG_ERR, "%s (inode %llu): block %llu can't be written: %s; it stays in memory", path,
           (unsigned long long)dirty->inode->ino, (unsigned long long)dirty->number,
           strerror(-error));
}

static void fail(struct fs *fs, struct fs_inode *inode, struct fs_dirty *dirty, int error)
{
    log_failure(fs, dirty, error);
    atomic_fetch_add_explicit(&fs->counters.write_errors, 1, memory_order_relaxed);
    pthread_mutex_lock(&inode->overlay_lock);
    if (inode->write_error == 0)
        inode->write_error = error;
    pthread_mutex_unlock(&inode->overlay_lock);
    fs_dirty_failed(fs, dirty, error);
}

/* What waits behind a version that could not be written can't be written either. */
static void fail_parked(struct fs *fs, struct fs_inode *inode, uint64_t number, int error)
{
    for (size_t i = fs_dirty_lower(inode, number + 1); i < inode->dirty_count; i++) {
        struct fs_dirty *newest = inode->dirty[i];
        struct fs_dirty *oldest = newest->older != NULL ? newest->older : newest;

        if (oldest->state == FS_DIRTY_ENCODED)
            fs_dirty_failed(fs, oldest, error);
    }
}

/* Stores a batch. False when nothing was stored. */
static bool commit_batch(struct fs *fs, struct fs_inode *inode, struct fs_dirty **batch,
                         size_t count)
{
    const uint64_t last = batch[count - 1]->number;
    size_t done;
    bool gone = false;
    int error = transact(fs, inode, batch, count, &done, &gone);

    for (size_t i = 0; i < count; i++) {
        batch[i]->committed = false;
        if (gone || i < done) {
            if (!gone)
                count_stored(fs, batch[i]);
            fs_dirty_stored(fs, batch[i]);
        } else if (error != 0) {
            fail(fs, inode, batch[i], error);
        } else if (i == done) {
            fs_dirty_again(fs, batch[i]);
        }
    }
    if (error != 0)
        fail_parked(fs, inode, last, error);
    return error == 0 && (gone || done > 0);
}

/* ---- the order ------------------------------------------------------------------------------ */

/* Collects encoded versions that nothing holds back, lowest first. *blocker: the first version that
 * holds back what comes after it, or NULL. */
static size_t gather(const struct fs *fs, const struct fs_inode *inode, struct fs_dirty **batch,
                     struct fs_dirty **blocker)
{
    size_t count = 0;
    size_t i = inode->is_inline ? 0 : fs_dirty_lower(inode, inode->record_size / fs->block_size);

    *blocker = NULL;
    for (; i < inode->dirty_count && count < BATCH; i++) {
        struct fs_dirty *newest = inode->dirty[i];
        struct fs_dirty *oldest = newest->older != NULL ? newest->older : newest;

        if (oldest->state == FS_DIRTY_ENCODED) {
            batch[count++] = oldest;
            if (newest == oldest || newest->length <= oldest->length)
                continue;
        } else if (!holds_back(fs, inode, newest) && !holds_back(fs, inode, oldest)) {
            continue;
        }
        *blocker = newest;
        break;
    }
    return count;
}

void fs_store_parked(struct fs *fs, struct fs_inode *inode)
{
    struct fs_dirty *batch[BATCH], *blocker;
    size_t count;

    do {
        count = gather(fs, inode, batch, &blocker);
    } while (count > 0 && commit_batch(fs, inode, batch, count));
    end_overlay(inode);
}

/* A version was encoded: stores it with everything that waited for it, or parks it. */
static void store(struct fs *fs, struct fs_inode *inode, struct fs_dirty *dirty)
{
    struct fs_dirty *batch[BATCH], *blocker = NULL;
    uint64_t number = dirty->number;
    bool parked = true;
    size_t count;

    fs_dirty_set_encoded(fs, dirty);
    if (!holds_back(fs, inode, dirty) && !inode->is_inline) {
        batch[0] = dirty;
        commit_batch(fs, inode, batch, 1);
        end_overlay(inode);
        return;
    }
    do {
        count = gather(fs, inode, batch, &blocker);
        for (size_t i = 0; i < count; i++)
            parked = parked && batch[i] != dirty;
    } while (count > 0 && commit_batch(fs, inode, batch, count));
    end_overlay(inode);
    if (parked && count > 0) /* the last batch did not go through: look what is in the way now */
        gather(fs, inode, batch, &blocker);
    if (parked && blocker != NULL && blocker->number < number && !fs_dirty_want(fs, blocker))
        fail_parked(fs, inode, blocker->number, blocker->error);
}

void fs_store_run(struct fs_task *task, struct fs *fs, struct sep_context *context)
{
    struct fs_dirty *dirty = (struct fs_dirty *)task;
    struct fs_inode *inode;
    int error;

    if (!fs_dirty_start(fs, dirty))
        return;
    inode = dirty->inode;
    fs_inode_hold_again(fs, inode); /* freeing the version drops its own hold */
    error = fs_encode(fs, context, dirty);
    pthread_rwlock_wrlock(&inode->lock);
    if (dirty->state == FS_DIRTY_DROPPED) {
        pthread_rwlock_unlock(&inode->lock);
        fs_dirty_free(fs, dirty);
        fs_inode_drop(fs, inode);
        return;
    }
    if (error != 0) {
        uint64_t number = dirty->number;

        fail(fs, inode, dirty, error);
        fail_parked(fs, inode, number, error);
    } else {
        store(fs, inode, dirty);
    }
    pthread_rwlock_unlock(&inode->lock);
    fs_notify_stored(fs, inode);
    fs_inode_drop(fs, inode);
}

int fs_store_inline(struct fs *fs, struct fs_inode *inode)
{
    struct fs_dirty *dirty = inode->dirty_count == 1 ? inode->dirty[0] : NULL;

    if (dirty == NULL || dirty->number != 0 || dirty->older != NULL ||
        inode->size > INDEX_INLINE_MAX || !fs_dirty_take(fs, dirty))
        return 0;
    dirty->form = FS_FORM_INLINE;
    fs_dirty_set_encoded(fs, dirty);
    commit_batch(fs, inode, &dirty, 1);
    end_overlay(inode);
    return 1;
}
