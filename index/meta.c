/* SPDX-License-Identifier: BSD-2-Clause
 *
 * meta.c - the one record of INDEX_DB_META: format, identity, the next numbers, and the counters
 * that index_space answers from.
 *
 * The counters live in memory while the store is open for writing and go into the record at each
 * commit, in the transaction whose changes they count. A read-only index reads the record.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"

int index_state_load(struct index_txn *txn, struct index_state *state)
{
    struct index_key key;
    MDB_val value;
    index_key_text(&key, "state");
    int error = index_db_get(txn, INDEX_DB_META, &key, &value);
    if (error == 0 && index_record_get_state(&value, state) < 0)
        error = index_malformed(txn, INDEX_DB_META,
                                &(MDB_val){.mv_size = key.size, .mv_data = key.bytes});
    return error;
}

int index_state_store(struct index_txn *txn, bool clean)
{
    struct index *const index = txn->index;
    const uint64_t ahead = clean ? 0 : INDEX_NUMBERS_AHEAD;
    struct index_state state = {
        .format = INDEX_FORMAT_VERSION,
        .next_ino = index->next_ino + ahead,
        .next_block = atomic_load(&index->next_block) + ahead,
        .next_pack = index->packs.next_id,
        .clean = clean,
        .commit = mdb_txn_id(txn->mdb),
        .counters = index->counters,
    };
    memcpy(state.uuid, index->uuid, sizeof state.uuid);
    struct index_key key;
    index_key_text(&key, "state");
    index_record_state(&txn->record, &state);
    return index_db_put_record(txn, INDEX_DB_META, &key, &txn->record);
}

/* Counters never go below zero, whatever a damaged record made them. */
static void count(uint64_t *counter, uint64_t amount, int sign)
{
    if (sign > 0)
        *counter += amount;
    else
        *counter -= amount < *counter ? amount : *counter;
}

void index_count_inode(struct index *index, const struct index_inode *inode, int sign)
{
    struct index_counters *const c = &index->counters;
    if (S_ISREG(inode->mode))
        count(&c->logical, inode->size, sign);
    else if (S_ISDIR(inode->mode))
        count(&c->directories, 1, sign);
    else if (S_ISLNK(inode->mode))
        count(&c->symlinks, 1, sign);
    else
        count(&c->others, 1, sign);
}

int index_space(struct index *index, struct index_space *space)
{
    memset(space, 0, sizeof *space);
    struct statvfs host;
    if (index->io->fstatvfs(index->dir_fd, &host) < 0)
        return -errno;
    struct index_txn *txn;
    int error = index_begin(index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    struct index_state state;
    error = index_state_load(txn, &state);
    if (error != 0)
        goto out;
    struct index_counters c = state.counters;
    if (txn->writer)
        c = index->counters;
    space->inodes = index_db_entries(txn, INDEX_DB_INODE);
    space->directories = c.directories;
    space->symlinks = c.symlinks;
    space->others = c.others;
    space->blocks = index_db_entries(txn, INDEX_DB_BLOCK);
    space->extents = index_db_entries(txn, INDEX_DB_EXTENT);
    space->shared_blocks = c.shared_blocks;
    space->hot_blocks = index_db_entries(txn, INDEX_DB_HOT);
    space->pending = index_db_entries(txn, INDEX_DB_PENDING);
    space->logical = c.logical;
    space->live_bytes = c.live;
    space->index_bytes = atomic_load(&index->copy_bytes);
    struct index_pack pack = {.id = 0};
    while ((error = index_pack_next(txn, pack.id + 1, &pack)) == 0) {
        space->pack_bytes += pack.size;
        if (pack.id == UINT32_MAX)
            break;
    }
    if (error == -ENOENT)
        error = 0;
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++) {
        MDB_stat stat;
        if (mdb_stat(txn->mdb, index->db[db], &stat) == 0)
            space->index_bytes +=
                (stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) *
                stat.ms_psize;
    }
out:
    index_end(txn);
    space->host_total = (uint64_t)host.f_blocks * host.f_frsize;
    space->host_free =
        (uint64_t)host.f_bavail * host.f_frsize + atomic_load(&index->packs.headroom);
    return error;
}
