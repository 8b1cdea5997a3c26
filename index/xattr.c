/* SPDX-License-Identifier: BSD-2-Clause
 *
 * xattr.c - extended attributes: one record each, keyed by inode and name, so that an inode's
 * attributes are a range in the order of their names.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "internal.h"

static int make_key(struct index_key *key, uint64_t ino, const char *name)
{
    const size_t length = strnlen(name, INDEX_NAME_MAX + 1);
    if (length == 0 || length > INDEX_NAME_MAX)
        return -ERANGE;
    index_key_xattr(key, ino, name);
    return 0;
}

int index_xattr_get(struct index_txn *txn, uint64_t ino, const char *name, const void **value,
                    size_t *size)
{
    struct index_key key;
    MDB_val found;
    int error = make_key(&key, ino, name);
    if (error == 0)
        error = index_db_get(txn, INDEX_DB_XATTR, &key, &found);
    if (error == -ENOENT)
        return -ENODATA;
    if (error == 0 && index_record_get_xattr(&found, value, size) < 0)
        return index_malformed(txn, INDEX_DB_XATTR,
                               &(MDB_val){.mv_size = key.size, .mv_data = key.bytes});
    return error;
}

/* Most values fit the scratch record; the few that do not are worth an allocation. */
static int put_value(struct index_txn *txn, const struct index_key *key, const void *value,
                     size_t size)
{
    uint8_t *bytes = txn->record.bytes;
    if (size + 1 > sizeof txn->record.bytes) {
        bytes = malloc(size + 1);
        if (bytes == NULL)
            return -ENOMEM;
    }
    bytes[0] = INDEX_XATTR_VERSION;
    if (size > 0)
        memcpy(bytes + 1, value, size);
    const int error = index_db_put(txn, INDEX_DB_XATTR, key, bytes, size + 1);
    if (bytes != txn->record.bytes)
        free(bytes);
    return error;
}

int index_xattr_set(struct index_txn *txn, uint64_t ino, const char *name, const void *value,
                    size_t size, int flags)
{
    struct index_key key;
    if (size > INDEX_XATTR_SIZE_MAX)
        return -E2BIG;
    if ((flags & ~(XATTR_CREATE | XATTR_REPLACE)) != 0)
        return -EINVAL;
    int error = make_key(&key, ino, name);
    if (error != 0)
        return error;
    if (flags != 0) {
        MDB_val old;
        error = index_db_get(txn, INDEX_DB_XATTR, &key, &old);
        if (error == 0 && (flags & XATTR_CREATE))
            return -EEXIST;
        if (error == -ENOENT && (flags & XATTR_REPLACE))
            return -ENODATA;
        if (error != 0 && error != -ENOENT)
            return error;
    }
    return put_value(txn, &key, value, size);
}

int index_xattr_remove(struct index_txn *txn, uint64_t ino, const char *name)
{
    struct index_key key;
    int error = make_key(&key, ino, name);
    if (error == 0)
        error = index_db_delete(txn, INDEX_DB_XATTR, &key);
    return error == -ENOENT ? -ENODATA : error;
}

int index_xattr_next(struct index_txn *txn, uint64_t ino, const char *after, char *name)
{
    struct index_key key;
    MDB_val found, value;
    uint64_t in;
    if (strnlen(after, INDEX_NAME_MAX + 1) > INDEX_NAME_MAX)
        return -ERANGE;
    index_key_xattr(&key, ino, after);
    int error = index_db_seek(txn, INDEX_DB_XATTR, &key, &found, &value);
    if (error == 0 && found.mv_size == key.size && memcmp(found.mv_data, key.bytes, key.size) == 0)
        error = index_db_next(txn, INDEX_DB_XATTR, &found, &value);
    if (error != 0)
        return error;
    if (index_key_get_xattr(&found, &in, name) < 0)
        return index_malformed(txn, INDEX_DB_XATTR, &found);
    return in == ino ? 0 : -ENOENT;
}

bool index_xattr_any(struct index_txn *txn, uint64_t ino)
{
    char name[INDEX_NAME_MAX + 1];
    return index_xattr_next(txn, ino, "", name) == 0;
}
