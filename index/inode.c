/* SPDX-License-Identifier: BSD-2-Clause
 *
 * inode.c - inode records, and marks for work on an inode that a crash may interrupt.
 *
 * Numbers come from index->next_ino, which each commit stores with a margin ahead, so none is
 * handed out twice, not even by a session that crashed. The counters by kind and the sum of file
 * sizes follow every change here.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"

uint64_t index_inode_new(struct index_txn *txn)
{
    return txn->index->next_ino++;
}

static int get(struct index_txn *txn, const struct index_key *key, struct index_inode *inode)
{
    MDB_val value;
    const int error = index_db_get(txn, INDEX_DB_INODE, key, &value);
    if (error != 0)
        return error;
    const MDB_val k = {.mv_size = key->size, .mv_data = (void *)(uintptr_t)key->bytes};
    if (index_record_get_inode(&k, &value, inode) < 0)
        return index_malformed(txn, INDEX_DB_INODE, &k);
    return 0;
}

int index_inode_get(struct index_txn *txn, uint64_t ino, struct index_inode *inode)
{
    struct index_key key;
    index_key_one(&key, ino);
    return get(txn, &key, inode);
}

static bool valid_time(const struct timespec *time)
{
    return time->tv_nsec >= 0 && time->tv_nsec <= 999999999;
}

static bool valid(const struct index_inode *inode)
{
    uint32_t limit = 0;
    if (inode->flags & INDEX_INODE_INLINE)
        limit = S_ISLNK(inode->mode) ? INDEX_SYMLINK_MAX : INDEX_INLINE_MAX;
    return inode->ino != 0 && inode->mode <= UINT16_MAX && inode->size <= INT64_MAX &&
           (inode->flags & ~(unsigned)INDEX_INODE_INLINE) == 0 && inode->inline_size <= limit &&
           valid_time(&inode->atime) && valid_time(&inode->mtime) && valid_time(&inode->ctime) &&
           valid_time(&inode->btime);
}

int index_inode_put(struct index_txn *txn, const struct index_inode *inode)
{
    if (!valid(inode))
        return -EINVAL;
    struct index_key key;
    struct index_inode old;
    index_key_one(&key, inode->ino);
    /* inline_data may point at the old record: copy before anything is written. */
    index_record_inode(&txn->record, inode);
    int error = get(txn, &key, &old);
    const bool existed = error == 0;
    if (error != 0 && error != -ENOENT && error != -EUCLEAN)
        return error;
    error = index_db_put_record(txn, INDEX_DB_INODE, &key, &txn->record);
    if (error != 0)
        return error;
    if (existed)
        index_count_inode(txn->index, &old, -1);
    index_count_inode(txn->index, inode, 1);
    return 0;
}

/* Removes the attributes of an inode. */
static int delete_xattrs(struct index_txn *txn, uint64_t ino)
{
    struct index_key key;
    index_key_one(&key, ino);
    for (;;) {
        MDB_val found, value;
        const int error = index_db_seek(txn, INDEX_DB_XATTR, &key, &found, &value);
        if (error == -ENOENT)
            return 0;
        if (error != 0)
            return error;
        /* A prefix, not a parsed name, so that malformed keys go as well. */
        if (found.mv_size < key.size || memcmp(found.mv_data, key.bytes, key.size) != 0)
            return 0;
        struct index_key copy = {.size = found.mv_size};
        if (copy.size > sizeof copy.bytes)
            return index_malformed(txn, INDEX_DB_XATTR, &found);
        memcpy(copy.bytes, found.mv_data, copy.size);
        const int removed = index_db_delete(txn, INDEX_DB_XATTR, &copy);
        if (removed != 0)
            return removed;
    }
}

int index_inode_delete(struct index_txn *txn, uint64_t ino)
{
    struct index_key key;
    struct index_inode old;
    index_key_one(&key, ino);
    int error = get(txn, &key, &old);
    const bool readable = error == 0;
    if (error != 0 && error != -EUCLEAN)
        return error;
    error = index_db_delete(txn, INDEX_DB_INODE, &key);
    if (error != 0)
        return error;
    if (readable)
        index_count_inode(txn->index, &old, -1);
    error = delete_xattrs(txn, ino);
    if (error == 0)
        error = index_orphan_clear(txn, ino);
    return error;
}

int index_inode_next(struct index_txn *txn, uint64_t from, struct index_inode *inode)
{
    struct index_key key;
    MDB_val found, value;
    index_key_one(&key, from);
    const int error = index_db_seek(txn, INDEX_DB_INODE, &key, &found, &value);
    if (error == 0 && index_record_get_inode(&found, &value, inode) < 0)
        return index_malformed(txn, INDEX_DB_INODE, &found);
    return error;
}

int index_orphan_set(struct index_txn *txn, uint64_t ino, uint64_t from)
{
    struct index_key key;
    index_key_one(&key, ino);
    index_record_number(&txn->record, from);
    return index_db_put_record(txn, INDEX_DB_ORPHAN, &key, &txn->record);
}

int index_orphan_clear(struct index_txn *txn, uint64_t ino)
{
    struct index_key key;
    index_key_one(&key, ino);
    const int error = index_db_delete(txn, INDEX_DB_ORPHAN, &key);
    return error == -ENOENT ? 0 : error;
}

int index_orphan_next(struct index_txn *txn, uint64_t from_ino, uint64_t *ino, uint64_t *from)
{
    struct index_key key;
    MDB_val found, value;
    index_key_one(&key, from_ino);
    const int error = index_db_seek(txn, INDEX_DB_ORPHAN, &key, &found, &value);
    if (error != 0)
        return error;
    if (index_key_get_one(&found, ino) < 0 || index_record_get_number(&value, from) < 0)
        return index_malformed(txn, INDEX_DB_ORPHAN, &found);
    return 0;
}
