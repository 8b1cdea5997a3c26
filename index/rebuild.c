/* SPDX-License-Identifier: BSD-2-Clause
 *
 * rebuild.c - rewrites the index file at the end of a session when much of it is free pages.
 *
 * Every commit writes changed pages to new places, so a session of many changes leaves a file that
 * is mostly free pages, and pages that are two thirds full. Copying the records in the order of
 * their keys fills the pages of a new file: smaller than LMDB's own compacting copy, which keeps
 * pages as they are. The new file is synced and renamed over the old one; the caller has made sure
 * that no other process has either open. A record whose seal does not match ends the copy: what is
 * known of the damage is in the old file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "internal.h"

#define NEW_NAME    "data.mdb.new"
#define SLACK       (UINT64_C(256) << 10) /* bytes of free pages that are left alone */
#define BATCH_BYTES (UINT64_C(16) << 20)  /* copied in one transaction */
#define MAP_SPARE   (UINT64_C(16) << 20)  /* map of the copy beyond twice the old file, bytes */
#define MAIN_TABLES 2u                    /* LMDB's free list and table of tables */

/* Pages of the file, and those of them that no tree uses. */
static int measure(struct index *index, uint64_t *total, uint64_t *unused)
{
    MDB_envinfo info;
    MDB_txn *txn;
    int rc = mdb_env_info(index->env, &info);
    if (rc == 0)
        rc = mdb_txn_begin(index->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0)
        return rc;
    uint64_t used = 2; /* the two headers */
    for (unsigned i = 0; i < MAIN_TABLES + INDEX_DB_COUNT; i++) {
        MDB_stat stat;
        if (mdb_stat(txn, i < MAIN_TABLES ? i : index->db[i - MAIN_TABLES], &stat) == 0)
            used += stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
    }
    mdb_txn_abort(txn);
    *total = (uint64_t)info.me_last_pgno + 1;
    *unused = *total > used ? *total - used : 0;
    return 0;
}

struct copy {
    const struct index_io *io;
    MDB_env *to;
    MDB_txn *txn;
    uint64_t bytes; /* in the open transaction */
};

/* Puts one record; a full transaction is committed and the next begun. */
static int put(struct copy *copy, MDB_dbi db, MDB_val *key, MDB_val *value)
{
    int rc = mdb_put(copy->txn, db, key, value, MDB_APPEND);
    copy->bytes += key->mv_size + value->mv_size + 16;
    if (rc != 0 || copy->bytes < BATCH_BYTES)
        return rc;
    copy->bytes = 0;
    rc = copy->io->txn_commit(copy->txn);
    copy->txn = NULL;
    return rc != 0 ? rc : mdb_txn_begin(copy->to, NULL, 0, &copy->txn);
}

/* The state record names the commit that puts it: the last one does. */
static bool is_state(const MDB_val *key)
{
    struct index_key state;
    index_key_text(&state, "state");
    return key->mv_size == state.size && memcmp(key->mv_data, state.bytes, state.size) == 0;
}

static int copy_table(struct index *index, struct copy *copy, MDB_txn *from, unsigned number)
{
    MDB_dbi db;
    MDB_cursor *cursor;
    MDB_val key, value;
    int rc = mdb_dbi_open(copy->txn, index_db_names[number], MDB_CREATE, &db);
    if (rc == 0)
        rc = mdb_cursor_open(from, index->db[number], &cursor);
    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    while (rc == 0) {
        MDB_val plain = value;
        if (!index_unseal((enum index_db)number, &key, &plain))
            rc = MDB_CORRUPTED;
        if (rc == 0 && !(number == INDEX_DB_META && is_state(&key)))
            rc = put(copy, db, &key, &value);
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int copy_state(struct index *index, struct copy *copy, MDB_txn *from)
{
    struct index_state state;
    struct index_record record;
    struct index_key name;
    index_key_text(&name, "state");
    MDB_dbi db;
    MDB_val key = {.mv_size = name.size, .mv_data = name.bytes}, value;
    int rc = mdb_get(from, index->db[INDEX_DB_META], &key, &value);
    if (rc == 0)
        rc = mdb_dbi_open(copy->txn, index_db_names[INDEX_DB_META], 0, &db);
    if (rc != 0)
        return rc;
    if (!index_unseal(INDEX_DB_META, &key, &value) || index_record_get_state(&value, &state) != 0)
        return MDB_CORRUPTED;
    state.commit = mdb_txn_id(copy->txn);
    index_record_state(&record, &state);
    index_seal_put(record.bytes + record.size,
                   index_seal(INDEX_DB_META, &key, record.bytes, record.size));
    value = (MDB_val){.mv_size = record.size + INDEX_SEAL, .mv_data = record.bytes};
    return mdb_put(copy->txn, db, &key, &value, 0);
}

static int copy_tables(struct index *index, MDB_env *to)
{
    struct copy copy = {.io = index->io, .to = to};
    MDB_txn *from;
    int rc = mdb_txn_begin(index->env, NULL, MDB_RDONLY, &from);
    if (rc != 0)
        return rc;
    rc = mdb_txn_begin(to, NULL, 0, &copy.txn);
    for (unsigned number = 0; number < INDEX_DB_COUNT && rc == 0; number++)
        rc = copy_table(index, &copy, from, number);
    if (rc == 0)
        rc = copy_state(index, &copy, from);
    if (rc == 0) {
        rc = copy.io->txn_commit(copy.txn);
        copy.txn = NULL;
    }
    if (copy.txn != NULL)
        mdb_txn_abort(copy.txn);
    mdb_txn_abort(from);
    return rc;
}

bool index_rebuild_copy(struct index *index)
{
    uint64_t total, unused;
    if (measure(index, &total, &unused) != 0 || unused * 3 < total ||
        unused * index->page_size < SLACK)
        return false;
    char path[4096 + 32];
    snprintf(path, sizeof path, "%s/%s/" NEW_NAME, index->path, index->index_name);
    index->io->unlinkat(index->index_fd, NEW_NAME, 0);
    MDB_env *to = NULL;
    int rc = mdb_env_create(&to);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(to, INDEX_DB_COUNT);
    if (rc == 0)
        rc = mdb_env_set_mapsize(to, 2 * total * index->page_size + MAP_SPARE);
    if (rc == 0) /* synced once, at the end: until then it is nobody's data */
        rc = index->io->env_open(to, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
    if (rc == 0)
        rc = copy_tables(index, to);
    if (rc == 0)
        rc = -index_env_reach(index, to, 0);
    if (rc == 0)
        rc = index->io->env_sync(to, 1);
    if (to != NULL)
        mdb_env_close(to);
    if (rc == 0)
        return true;
    index->io->unlinkat(index->index_fd, NEW_NAME, 0);
    index_log(index, LOG_WARNING, "index: not rewritten: %s", mdb_strerror(rc));
    return false;
}

int index_rebuild_swap(struct index *index)
{
    if (index->io->renameat(index->index_fd, NEW_NAME, index->index_fd, "data.mdb") < 0)
        return -errno;
    return index_io_sync_dir(index->io, index->index_fd);
}
