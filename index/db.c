/* SPDX-License-Identifier: BSD-2-Clause
 *
 * db.c - the only file that reads and writes records through LMDB.
 *
 * An error of LMDB inside a write transaction leaves half an operation behind, so it poisons the
 * transaction: index_end has it rolled back, and the index accepts no writes until it is opened
 * again. Every value ends with its seal (seal.c), which is put and checked here and nowhere else: a
 * record whose seal does not match comes back empty, is malformed for every reader, and the reader
 * that meets it logs it with table and key. Keys greater than all others are put with MDB_APPEND, which keeps pages full instead of
 * half full: numbers are handed out in ascending order, so that is the usual case.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "internal.h"

int index_mdb_error(int rc)
{
    switch (rc) {
    case 0:
        return 0;
    case MDB_NOTFOUND:
        return -ENOENT;
    case MDB_KEYEXIST:
        return -EEXIST;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
        return -ENOSPC;
    case MDB_PAGE_NOTFOUND:
    case MDB_CORRUPTED:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
    case MDB_PAGE_FULL:
    case MDB_CURSOR_FULL:
        return -EUCLEAN;
    case MDB_READERS_FULL:
        return -EAGAIN;
    default:
        return rc > 0 ? -rc : -EIO;
    }
}

int index_fail(struct index_txn *txn, int error, const char *what)
{
    if (txn->error != 0)
        return error;
    txn->error = error;
    if (txn->writer) {
        if (atomic_exchange(&txn->index->failed, true))
            return error; /* said already */
        index_log(txn->index, LOG_ERR, "index: %s: %s; no further writes", what, strerror(-error));
    }
    return error;
}

/* Bytes of a key as hexadecimal digits, for messages. */
static void key_text(const MDB_val *key, char *text, size_t size)
{
    const uint8_t *const bytes = key->mv_data;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < key->mv_size && used + 3 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%02x", bytes[i]);
}

int index_malformed(struct index_txn *txn, enum index_db db, const MDB_val *key)
{
    char text[64];
    key_text(key, text, sizeof text);
    index_log(txn->index, LOG_ERR, "index: damaged %s record, key %s", index_db_names[db], text);
    return -EUCLEAN;
}

static MDB_val key_value(const struct index_key *key)
{
    return (MDB_val){.mv_size = key->size, .mv_data = (void *)(uintptr_t)key->bytes};
}

/* Turns a return value into ours; all but the usual ones poison the transaction. */
static int result(struct index_txn *txn, int rc, enum index_db db)
{
    if (rc == 0)
        return 0;
    if (rc == MDB_NOTFOUND)
        return -ENOENT;
    return index_fail(txn, index_mdb_error(rc), index_db_names[db]);
}

static int cursor(struct index_txn *txn, enum index_db db, MDB_cursor **found)
{
    if (txn->cursor[db] == NULL) {
        const int rc = mdb_cursor_open(txn->mdb, txn->index->db[db], &txn->cursor[db]);
        if (rc != 0) {
            txn->cursor[db] = NULL;
            return result(txn, rc, db);
        }
    }
    *found = txn->cursor[db];
    return 0;
}

/* Notes a change of about BYTES for the limits of a transaction. */
static void touch(struct index_txn *txn, size_t bytes)
{
    struct index *const index = txn->index;
    if (!index->changed) {
        index->changed = true;
        clock_gettime(CLOCK_MONOTONIC, &index->changed_at);
    }
    atomic_fetch_add_explicit(&index->operations, 1 + bytes / index->page_size,
                              memory_order_relaxed);
}

int index_db_get(struct index_txn *txn, enum index_db db, const struct index_key *key,
                 MDB_val *value)
{
    if (txn->error != 0)
        return txn->error;
    MDB_val k = key_value(key);
    const int error = result(txn, mdb_get(txn->mdb, txn->index->db[db], &k, value), db);
    if (error == 0)
        index_unseal(db, &k, value);
    return error;
}

int index_db_put(struct index_txn *txn, enum index_db db, const struct index_key *key,
                 const void *data, size_t size)
{
    if (txn->error != 0)
        return txn->error;
    MDB_cursor *at = NULL;
    const int error = cursor(txn, db, &at);
    if (error != 0)
        return error;
    touch(txn, size);
    MDB_val k = key_value(key), found = k;
    const uint32_t seal = index_seal(db, &k, data, size);
    MDB_val value = {.mv_size = size + INDEX_SEAL}, old;
    int rc = mdb_cursor_get(at, &found, &old, MDB_SET_RANGE);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return result(txn, rc, db);
    rc = mdb_cursor_put(at, &k, &value, MDB_RESERVE | (rc == MDB_NOTFOUND ? MDB_APPEND : 0));
    if (rc != 0)
        return result(txn, rc, db);
    if (size > 0)
        memcpy(value.mv_data, data, size);
    index_seal_put((uint8_t *)value.mv_data + size, seal);
    return 0;
}

int index_db_put_record(struct index_txn *txn, enum index_db db, const struct index_key *key,
                        const struct index_record *record)
{
    return index_db_put(txn, db, key, record->bytes, record->size);
}

int index_db_delete_raw(struct index_txn *txn, enum index_db db, const MDB_val *key)
{
    if (txn->error != 0)
        return txn->error;
    MDB_val k = *key;
    const int rc = mdb_del(txn->mdb, txn->index->db[db], &k, NULL);
    if (rc == 0)
        touch(txn, 0);
    return result(txn, rc, db);
}

int index_db_delete(struct index_txn *txn, enum index_db db, const struct index_key *key)
{
    const MDB_val k = key_value(key);
    return index_db_delete_raw(txn, db, &k);
}

static int step(struct index_txn *txn, enum index_db db, MDB_val *found, MDB_val *value,
                MDB_cursor_op how)
{
    if (txn->error != 0)
        return txn->error;
    MDB_cursor *at = NULL;
    const int error = cursor(txn, db, &at);
    if (error != 0)
        return error;
    const int rc = mdb_cursor_get(at, found, value, how);
    if (rc == 0)
        index_unseal(db, found, value);
    return result(txn, rc, db);
}

int index_db_seek(struct index_txn *txn, enum index_db db, const struct index_key *key,
                  MDB_val *found, MDB_val *value)
{
    *found = key_value(key);
    return step(txn, db, found, value, MDB_SET_RANGE);
}

int index_db_next(struct index_txn *txn, enum index_db db, MDB_val *found, MDB_val *value)
{
    return step(txn, db, found, value, MDB_NEXT);
}

int index_db_before(struct index_txn *txn, enum index_db db, const struct index_key *key,
                    MDB_val *found, MDB_val *value)
{
    const int error = index_db_seek(txn, db, key, found, value);
    if (error != 0 && error != -ENOENT)
        return error;
    return step(txn, db, found, value, error == 0 ? MDB_PREV : MDB_LAST);
}

uint64_t index_db_entries(struct index_txn *txn, enum index_db db)
{
    MDB_stat stat;
    if (txn->error != 0 || mdb_stat(txn->mdb, txn->index->db[db], &stat) != 0)
        return 0;
    return stat.ms_entries;
}
