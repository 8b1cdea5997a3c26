/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats_collect.c - measures a store through the index alone: no block is read. Works in short read
 * transactions (BATCH records each), so that it holds up neither the daemon's writes nor the reuse
 * of index pages; a store in use is therefore measured piece by piece.
 *
 * Memory: a row for each method of storing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats.h"

enum { BATCH = 1024 };
enum { PACK_HEADER = 64 }; /* bytes that each pack begins with, docs/format.md */

static uint64_t sub(uint64_t from, uint64_t less)
{
    return from > less ? from - less : 0;
}

/* ---- a whole store ------------------------------------------------------------------------------
 */

void stats_count_type(uint32_t mode, uint64_t *files, uint64_t *directories, uint64_t *symlinks,
                      uint64_t *others)
{
    ++*(S_ISREG(mode) ? files : S_ISDIR(mode) ? directories : S_ISLNK(mode) ? symlinks : others);
}

static int collect_inodes(struct index *index, const volatile bool *stop, struct stats_store *store)
{
    int result = 0;
    for (uint64_t from = 0; result == 0;) {
        struct index_txn *txn;
        result = *stop ? -ECANCELED : index_begin(index, INDEX_READ, &txn);
        if (result != 0)
            break;
        for (unsigned i = 0; i < BATCH; i++) {
            struct index_inode inode;
            result = index_inode_next(txn, from, &inode);
            if (result != 0)
                break;
            from = inode.ino + 1;
            stats_count_type(inode.mode, &store->files, &store->directories, &store->symlinks,
                             &store->others);
            if (!S_ISREG(inode.mode))
                continue;
            store->logical += inode.size;
            if (inode.flags & INDEX_INODE_INLINE) {
                store->inline_files++;
                store->inline_bytes += inode.inline_size;
            }
        }
        index_end(txn);
    }
    return result == -ENOENT ? 0 : result;
}

static int method_add(struct stats_methods *methods, const struct index_block *block,
                      uint64_t stored)
{
    struct stats_method *row = NULL;
    for (size_t i = 0; i < methods->count && row == NULL; i++) {
        struct stats_method *const at = &methods->rows[i];
        if (at->codec == block->codec && at->level == block->level && at->model == block->model)
            row = at;
    }
    if (row == NULL) {
        struct stats_method *const rows =
            reallocarray(methods->rows, methods->count + 1, sizeof *rows);
        if (rows == NULL)
            return -ENOMEM;
        methods->rows = rows;
        row = &rows[methods->count++];
        *row = (struct stats_method){block->codec, block->level, block->model, 0, 0, 0};
    }
    row->blocks++;
    row->plain += block->plain_size;
    row->stored += stored;
    return 0;
}

static int count_block(struct stats_store *store, const struct index_block *block, bool hot)
{
    const uint64_t stored = (uint64_t)block->at.payload_size + INDEX_RECORD_HEADER;
    const uint64_t covered =
        block->live == UINT32_MAX ? (uint64_t)block->references * block->plain_size : block->live;
    store->blocks++;
    store->plain += block->plain_size;
    store->stored += stored;
    store->mapped += covered;
    if (block->references > 1)
        store->shared_blocks++;
    /* A shared block of small files covers itself once, whatever its references. */
    const uint64_t again = sub(covered, block->plain_size);
    store->dedup_plain += again;
    if (again > 0 && block->plain_size > 0)
        store->dedup_stored +=
            (uint64_t)((double)stored * (double)again / (double)block->plain_size);
    store->dead_plain += sub(block->plain_size, covered);
    store->incompressible_blocks += (block->flags & INDEX_BLOCK_INCOMPRESSIBLE) != 0;
    if (hot) {
        store->hot_blocks++;
        store->hot_plain += block->plain_size;
        store->hot_stored += stored;
    }
    return method_add(&store->methods, block, stored);
}

/* Blocks and the hot list, both in the order of ids, side by side. */
static int collect_blocks(struct index *index, const volatile bool *stop, struct stats_store *store)
{
    int result = 0;
    struct index_hot hot = {0};
    for (uint64_t from = 0; result == 0;) {
        struct index_txn *txn;
        result = *stop ? -ECANCELED : index_begin(index, INDEX_READ, &txn);
        if (result != 0)
            break;
        for (unsigned i = 0; i < BATCH && result == 0; i++) {
            struct index_block block;
            result = index_block_next(txn, from, &block);
            if (result != 0)
                break;
            from = block.id + 1;
            if (hot.block < block.id) {
                result = index_hot_next(txn, block.id, &hot);
                if (result == -ENOENT) {
                    hot.block = UINT64_MAX;
                    result = 0;
                }
            }
            if (result == 0)
                result = count_block(store, &block, hot.block == block.id);
        }
        index_end(txn);
    }
    return result == -ENOENT ? 0 : result;
}

static int collect_pending(struct index_txn *txn, struct stats_store *store)
{
    struct index_pending pending;
    int result;
    for (uint64_t from = 0; (result = index_pending_next(txn, from, &pending)) == 0;
         from = pending.block + 1) {
        if (pending.error == 0) {
            store->declined++;
            continue;
        }
        store->failed++;
        if (store->failure_count < STATS_FAILURES_MAX) {
            struct stats_failure *const failure = &store->failures[store->failure_count++];
            *failure = (struct stats_failure){pending.block, pending.codec, pending.level, ""};
            snprintf(failure->reason, sizeof failure->reason, "%.63s", pending.reason);
        }
    }
    return result == -ENOENT ? 0 : result;
}

static int collect_packs(struct index *index, struct stats_store *store)
{
    struct index_txn *txn;
    struct index_pack pack;
    int result = index_begin(index, INDEX_READ, &txn);
    if (result != 0)
        return result;
    for (uint32_t from = 0; (result = index_pack_next(txn, from, &pack)) == 0;) {
        store->packs++;
        store->garbage += sub(pack.size, pack.live + PACK_HEADER);
        if (pack.id == UINT32_MAX) {
            result = -ENOENT;
            break;
        }
        from = pack.id + 1;
    }
    if (result == -ENOENT)
        result = collect_pending(txn, store);
    if (result == 0)
        result = index_scrub_get(txn, &store->scrub);
    index_end(txn);
    return result;
}

/* Bytes the host has allocated for the files of a directory of the store. */
static int allocated(const char *store, const char *name, uint64_t *bytes)
{
    int result = 0;
    const int top = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fd = top < 0 ? -1 : openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL) {
        result = -errno;
        if (fd >= 0)
            close(fd);
    } else {
        const struct dirent *entry;
        while ((entry = readdir(directory)) != NULL) {
            struct stat stat;
            if (fstatat(fd, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(stat.st_mode))
                *bytes += (uint64_t)stat.st_blocks * 512;
        }
        closedir(directory);
    }
    if (top >= 0)
        close(top);
    return result;
}

static int by_size(const void *left, const void *right)
{
    const struct stats_method *const a = left, *const b = right;
    return a->plain < b->plain ? 1 : a->plain > b->plain ? -1 : 0;
}

int stats_collect_store(struct index *index, const volatile bool *stop, struct stats_store *store)
{
    *store = (struct stats_store){.block_size = index_block_size(index)};
    int result = collect_inodes(index, stop, store);
    if (result == 0)
        result = collect_blocks(index, stop, store);
    if (result == 0)
        result = collect_packs(index, store);
    if (result == 0)
        result = index_space(index, &store->space);
    if (result == 0)
        result = allocated(index_path(index), "packs", &store->packs_on_disk);
    if (result == 0)
        result = allocated(index_path(index), "index", &store->index_on_disk);
    uint64_t copies = 0;
    if (result == 0 && allocated(index_path(index), "index-copies", &copies) == 0)
        store->index_on_disk += copies; /* without the directory: none was made yet */
    if (store->methods.count > 0)
        qsort(store->methods.rows, store->methods.count, sizeof *store->methods.rows, by_size);
    store->holes = sub(store->logical, store->mapped + store->inline_bytes);
    return result;
}

void stats_result_free(struct stats_result *result)
{
    for (size_t i = 0; i < result->daemon.count; i++) {
        free(result->daemon.rows[i].key);
        free(result->daemon.rows[i].value);
    }
    free(result->daemon.rows);
    free(result->total.methods.rows);
    free(result->path);
    free(result->store);
}
