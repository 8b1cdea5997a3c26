/* SPDX-License-Identifier: BSD-2-Clause
 *
 * work.c - the compactor's lists: hot blocks, which no pass has settled, and pending ones, which a
 * pass could not make smaller. Both are keyed by block id, which ascends with age.
 */
#include <errno.h>

#include "internal.h"

static int remove_mark(struct index_txn *txn, enum index_db db, uint64_t block)
{
    struct index_key key;
    index_key_one(&key, block);
    const int error = index_db_delete(txn, db, &key);
    return error == -ENOENT ? 0 : error;
}

int index_hot_next(struct index_txn *txn, uint64_t from_block, struct index_hot *hot)
{
    struct index_key key;
    MDB_val found, value;
    index_key_one(&key, from_block);
    const int error = index_db_seek(txn, INDEX_DB_HOT, &key, &found, &value);
    if (error == 0 && index_record_get_hot(&found, &value, hot) < 0)
        return index_malformed(txn, INDEX_DB_HOT, &found);
    return error;
}

int index_hot_add(struct index_txn *txn, const struct index_hot *hot)
{
    struct index_key key;
    index_key_one(&key, hot->block);
    index_record_hot(&txn->record, hot);
    return index_db_put_record(txn, INDEX_DB_HOT, &key, &txn->record);
}

int index_hot_remove(struct index_txn *txn, uint64_t block)
{
    return remove_mark(txn, INDEX_DB_HOT, block);
}

int index_pending_next(struct index_txn *txn, uint64_t from_block, struct index_pending *pending)
{
    struct index_key key;
    MDB_val found, value;
    index_key_one(&key, from_block);
    const int error = index_db_seek(txn, INDEX_DB_PENDING, &key, &found, &value);
    if (error == 0 && index_record_get_pending(&found, &value, pending) < 0)
        return index_malformed(txn, INDEX_DB_PENDING, &found);
    return error;
}

int index_pending_put(struct index_txn *txn, const struct index_pending *pending)
{
    struct index_key key;
    index_key_one(&key, pending->block);
    index_record_pending(&txn->record, pending);
    return index_db_put_record(txn, INDEX_DB_PENDING, &key, &txn->record);
}

int index_pending_get(struct index_txn *txn, uint64_t block, struct index_pending *pending)
{
    const int error = index_pending_next(txn, block, pending);
    return error == 0 && pending->block != block ? -ENOENT : error;
}

int index_pending_remove(struct index_txn *txn, uint64_t block)
{
    return remove_mark(txn, INDEX_DB_PENDING, block);
}
