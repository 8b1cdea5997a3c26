/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_records.c - pass 1: every record of every table decodes and holds values that can be. Fills
 * the inode and block tables, from records that are good.
 *
 * Repair removes malformed records. What they described is then missing, and the later passes
 * rebuild what other records tell about it, or report what is lost.
 */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char pass[] = "records";

/* The key for messages: its numbers where it has any, else hexadecimal. */
static const char *key_text(enum index_db db, const MDB_val *key, char *text, size_t size)
{
    uint64_t first, second;
    char name[INDEX_NAME_MAX + 1];
    if (db == INDEX_DB_DIRENT && index_key_get_dirent(key, &first, &second) == 0)
        snprintf(text, size, "directory %ju, slot %ju", (uintmax_t)first, (uintmax_t)second);
    else if (db == INDEX_DB_XATTR && index_key_get_xattr(key, &first, name) == 0)
        snprintf(text, size, "inode %ju, attribute %.64s", (uintmax_t)first, name);
    else if (db == INDEX_DB_EXTENT && index_key_get_two(key, &first, &second) == 0)
        snprintf(text, size, "inode %ju, block number %ju", (uintmax_t)first, (uintmax_t)second);
    else if (db == INDEX_DB_FREE && index_key_get_two(key, &first, &second) == 0)
        snprintf(text, size, "pack %ju, offset %ju", (uintmax_t)first, (uintmax_t)second);
    else if (index_key_get_one(key, &first) == 0)
        snprintf(text, size, "number %ju", (uintmax_t)first);
    else {
        size_t at = (size_t)snprintf(text, size, "key ");
        for (size_t i = 0; i < key->mv_size && i < 24 && at + 3 < size; i++)
            at +=
                (size_t)snprintf(text + at, size - at, "%02x", ((const uint8_t *)key->mv_data)[i]);
    }
    return text;
}

static bool known_type(uint32_t mode)
{
    return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISCHR(mode) || S_ISBLK(mode) ||
           S_ISFIFO(mode) || S_ISSOCK(mode);
}

static int add_inode(struct checker *c, const struct check_walk *walk)
{
    struct index_inode inode;
    if (index_record_get_inode(&walk->found, &walk->value, &inode) != 0 ||
        !known_type(inode.mode) || (inode.ino == INDEX_ROOT_INO && !S_ISDIR(inode.mode)) ||
        (S_ISLNK(inode.mode) && inode.inline_size == 0) ||
        ((inode.flags & INDEX_INODE_INLINE) && !S_ISLNK(inode.mode) && !S_ISREG(inode.mode)))
        return -EUCLEAN;
    struct check_inode *const row =
        check_grow((void **)&c->inodes, &c->inode_count, &c->inode_room, sizeof *c->inodes);
    if (row == NULL)
        return -ENOMEM;
    *row = (struct check_inode){.ino = inode.ino,
                                .parent = inode.parent,
                                .nlink = inode.nlink,
                                .up = CHECK_NO_PARENT,
                                .type = (uint16_t)(inode.mode & S_IFMT)};
    return 0;
}

static int add_block(struct checker *c, const struct check_walk *walk)
{
    struct index_block block;
    if (index_record_get_block(&walk->found, &walk->value, &block) != 0 ||
        block.plain_size > index_block_size(c->index))
        return -EUCLEAN;
    struct check_block *const row =
        check_grow((void **)&c->blocks, &c->block_count, &c->block_room, sizeof *c->blocks);
    if (row == NULL)
        return -ENOMEM;
    *row = (struct check_block){.id = block.id, .plain_size = block.plain_size};
    return 0;
}

static int decode_other(const struct check_walk *walk)
{
    const MDB_val *const key = &walk->found, *const value = &walk->value;
    char name[INDEX_NAME_MAX + 1];
    union {
        struct index_dirent dirent;
        struct index_extent extent;
        struct index_hot hot;
        struct index_pending pending;
        struct index_pack pack;
    } record;
    uint64_t first, second;
    const void *data;
    size_t size;
    int error;
    switch (walk->db) {
    case INDEX_DB_DIRENT:
        return index_record_get_dirent(key, value, &first, &record.dirent);
    case INDEX_DB_XATTR:
        error = index_key_get_xattr(key, &first, name);
        return error != 0 ? error : index_record_get_xattr(value, &data, &size);
    case INDEX_DB_EXTENT:
        return index_record_get_extent(key, value, &first, &record.extent);
    case INDEX_DB_HASH:
        error = index_key_get_hash(key, &first);
        return error != 0 ? error : index_record_get_number(value, &second);
    case INDEX_DB_ORPHAN:
        error = index_key_get_one(key, &first);
        return error != 0 ? error : index_record_get_number(value, &second);
    case INDEX_DB_HOT:
        return index_record_get_hot(key, value, &record.hot);
    case INDEX_DB_PENDING:
        return index_record_get_pending(key, value, &record.pending);
    case INDEX_DB_PACK:
        return index_record_get_pack(key, value, &record.pack);
    case INDEX_DB_FREE:
        error = index_key_get_two(key, &first, &second);
        return error != 0 ? error : index_record_get_number(value, &second);
    default:
        return 0;
    }
}

/* Whether everything that a record of this table says can be found out from others. */
static enum check_remedy remedy_of(enum index_db db)
{
    switch (db) {
    case INDEX_DB_HASH:
    case INDEX_DB_ORPHAN:
    case INDEX_DB_PENDING:
    case INDEX_DB_HOT:
    case INDEX_DB_PACK:
    case INDEX_DB_FREE:
        return CHECK_DERIVABLE;
    default:
        return CHECK_LOSSY;
    }
}

static int check_table(struct checker *c, enum index_db db, uint64_t total)
{
    struct check_walk walk = {.db = db};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        error = check_step(c, pass, total);
        if (error != 0)
            return error;
        error = db == INDEX_DB_INODE   ? add_inode(c, &walk)
                : db == INDEX_DB_BLOCK ? add_block(c, &walk)
                                       : decode_other(&walk);
        if (error != -EUCLEAN) {
            if (error != 0)
                return error;
            continue;
        }
        char text[128];
        uint64_t number = 0;
        index_key_get_one(&walk.found, &number);
        if (check_problem(c, "malformed-record", remedy_of(db), db == INDEX_DB_INODE ? number : 0,
                          db == INDEX_DB_BLOCK ? number : 0, 0, "%s record with %s: malformed",
                          index_db_names[db], key_text(db, &walk.found, text, sizeof text)))
            error = check_delete(c, &walk);
        else
            error = 0;
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

int check_records(struct checker *c)
{
    uint64_t total = 0;
    int error = 0;
    for (unsigned db = INDEX_DB_INODE; db < INDEX_DB_COUNT; db++)
        total += index_db_entries(c->txn, db);
    for (unsigned db = INDEX_DB_INODE; db < INDEX_DB_COUNT && error == 0; db++)
        error = check_table(c, db, total);
    return error;
}
