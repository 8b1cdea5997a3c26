/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dirent.c - names in directories: one tree for lookup and for readdir with stable offsets.
 *
 * A name's place ("slot", also its readdir cookie) is 44 bits of its hash, seeded from the store's
 * UUID, and 4 bits that tell names of equal hash apart: a name takes the first free of its 16
 * slots and stays there. So an offset stays valid whatever happens to other names, and a directory
 * is one range of keys. A seventeenth name of one hash is refused with -ENOSPC; by chance that takes
 * about 2^44 names in one directory.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "internal.h"

#define PROBES 16u

/* First slot for a name; a multiple of 16, 16 <= slot < 2^48. */
static uint64_t first_slot(const struct index *index, const char *name, size_t size)
{
    const uint64_t hash = XXH3_64bits_withSeed(name, size, index->name_seed) >> 20;
    return (hash != 0 ? hash : 1) << 4;
}

static int check_name(const char *name, size_t *size)
{
    *size = strnlen(name, INDEX_NAME_MAX + 1);
    if (*size > INDEX_NAME_MAX)
        return -ENAMETOOLONG;
    if (*size == 0 || strchr(name, '/') != NULL || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return -EINVAL;
    return 0;
}

/* Reads a found record; -ENOENT when it belongs to another directory. */
static int parse(struct index_txn *txn, const MDB_val *found, const MDB_val *value, uint64_t dir,
                 struct index_dirent *entry)
{
    uint64_t in;
    if (index_key_get_dirent(found, &in, &entry->cookie) == 0 && in != dir)
        return -ENOENT;
    if (index_record_get_dirent(found, value, &in, entry) < 0)
        return index_malformed(txn, INDEX_DB_DIRENT, found);
    return 0;
}

/* Finds NAME. On -ENOENT *vacant is the slot for it, 0 when all are taken. */
static int find(struct index_txn *txn, uint64_t dir, const char *name, size_t size,
                struct index_dirent *entry, uint64_t *vacant)
{
    const uint64_t first = first_slot(txn->index, name, size);
    struct index_key key;
    MDB_val found, value;
    index_key_dirent(&key, dir, first);
    *vacant = 0;
    uint64_t expected = first;
    int error = index_db_seek(txn, INDEX_DB_DIRENT, &key, &found, &value);
    while (error == 0) {
        error = parse(txn, &found, &value, dir, entry);
        if (error != 0 || entry->cookie >= first + PROBES)
            break;
        if (entry->name_size == size && memcmp(entry->name, name, size) == 0)
            return 0;
        if (entry->cookie != expected && *vacant == 0)
            *vacant = expected;
        expected = entry->cookie + 1;
        error = index_db_next(txn, INDEX_DB_DIRENT, &found, &value);
    }
    if (error != 0 && error != -ENOENT)
        return error;
    if (*vacant == 0 && expected < first + PROBES)
        *vacant = expected;
    return -ENOENT;
}

static int put(struct index_txn *txn, uint64_t dir, struct index_dirent *entry, const char *name,
               size_t size, uint64_t ino, uint8_t type)
{
    struct index_key key;
    index_key_dirent(&key, dir, entry->cookie);
    entry->ino = ino;
    entry->type = type;
    entry->name_size = (uint8_t)size;
    memcpy(entry->name, name, size + 1);
    index_record_dirent(&txn->record, entry);
    return index_db_put_record(txn, INDEX_DB_DIRENT, &key, &txn->record);
}

int index_dirent_lookup(struct index_txn *txn, uint64_t dir, const char *name,
                        struct index_dirent *entry)
{
    size_t size;
    uint64_t vacant;
    const int error = check_name(name, &size);
    return error != 0 ? error : find(txn, dir, name, size, entry, &vacant);
}

int index_dirent_add(struct index_txn *txn, uint64_t dir, const char *name, uint64_t ino,
                     uint8_t type)
{
    struct index_dirent entry;
    size_t size;
    uint64_t vacant;
    int error = check_name(name, &size);
    if (error == 0 && (type > 15 || ino == 0))
        error = -EINVAL;
    if (error != 0)
        return error;
    error = find(txn, dir, name, size, &entry, &vacant);
    if (error == 0)
        return -EEXIST;
    if (error != -ENOENT)
        return error;
    if (vacant == 0)
        return -ENOSPC;
    entry.cookie = vacant;
    return put(txn, dir, &entry, name, size, ino, type);
}

int index_dirent_replace(struct index_txn *txn, uint64_t dir, const char *name, uint64_t ino,
                         uint8_t type)
{
    struct index_dirent entry;
    size_t size;
    uint64_t vacant;
    int error = check_name(name, &size);
    if (error == 0 && (type > 15 || ino == 0))
        error = -EINVAL;
    if (error == 0)
        error = find(txn, dir, name, size, &entry, &vacant);
    return error != 0 ? error : put(txn, dir, &entry, name, size, ino, type);
}

int index_dirent_remove(struct index_txn *txn, uint64_t dir, const char *name)
{
    struct index_dirent entry;
    const int error = index_dirent_lookup(txn, dir, name, &entry);
    if (error != 0)
        return error;
    struct index_key key;
    index_key_dirent(&key, dir, entry.cookie);
    return index_db_delete(txn, INDEX_DB_DIRENT, &key);
}

int index_dirent_next(struct index_txn *txn, uint64_t dir, uint64_t from,
                      struct index_dirent *entry)
{
    struct index_key key;
    MDB_val found, value;
    if (from >> 48 != 0)
        return -ENOENT;
    index_key_dirent(&key, dir, from);
    const int error = index_db_seek(txn, INDEX_DB_DIRENT, &key, &found, &value);
    return error != 0 ? error : parse(txn, &found, &value, dir, entry);
}

bool index_dir_empty(struct index_txn *txn, uint64_t dir)
{
    struct index_dirent entry;
    return index_dirent_next(txn, dir, 0, &entry) == -ENOENT;
}

/* Name of INO in DIR into ENTRY, by a scan. */
static int find_by_ino(struct index_txn *txn, uint64_t dir, uint64_t ino,
                       struct index_dirent *entry)
{
    struct index_key key;
    MDB_val found, value;
    index_key_dirent(&key, dir, 0);
    int error = index_db_seek(txn, INDEX_DB_DIRENT, &key, &found, &value);
    while (error == 0) {
        error = parse(txn, &found, &value, dir, entry);
        if (error == 0 && entry->ino == ino)
            return 0;
        if (error == -EUCLEAN || error == 0)
            error = index_db_next(txn, INDEX_DB_DIRENT, &found, &value);
    }
    return error;
}

const char *index_inode_path(struct index_txn *txn, uint64_t ino, char *text, size_t size)
{
    if (size == 0)
        return text;
    /* Built from the end of TEXT; every step uses at least two bytes, so a loop of parents ends. */
    size_t start = size - 1;
    text[start] = '\0';
    for (uint64_t at = ino; at != INDEX_ROOT_INO;) {
        struct index_inode inode;
        struct index_dirent entry;
        if (index_inode_get(txn, at, &inode) != 0 ||
            find_by_ino(txn, inode.parent, at, &entry) != 0 || entry.name_size + 1u > start) {
            snprintf(text, size, "inode %llu", (unsigned long long)ino);
            return text;
        }
        start -= entry.name_size;
        memcpy(text + start, entry.name, entry.name_size);
        text[--start] = '/';
        at = inode.parent;
    }
    if (ino == INDEX_ROOT_INO && start > 0)
        text[--start] = '/';
    memmove(text, text + start, size - start);
    return text;
}
