/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops_rename.c - rename: move, replace, exchange. One transaction, so that after a crash the old
 * name or the new one is there, never neither and never both.
 *
 * A program that replaces a file by rename expects the old contents or the new ones, fsync or not.
 * So unflushed data of the file that replaces another is written first: then the transaction that
 * holds the rename also holds it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "file.h"
#include "ops.h"

#define DEPTH_MAX 65536u /* directories above one: more is a loop in a damaged index */

struct rename {
    uint64_t from_dir, to_dir;
    const char *from_name, *to_name;
    struct index_dirent from, to;
    bool replaces; /* to exists */
};

static int look_up(struct index_txn *txn, struct rename *rename)
{
    int error = index_dirent_lookup(txn, rename->from_dir, rename->from_name, &rename->from);

    if (error != 0)
        return error;
    error = index_dirent_lookup(txn, rename->to_dir, rename->to_name, &rename->to);
    rename->replaces = error == 0;
    return error == -ENOENT ? 0 : error;
}

/* Whether DIR is ANCESTOR or lies below it: moving ANCESTOR there would cut a loop off the tree. */
static int check_loop(struct index_txn *txn, uint64_t dir, uint64_t ancestor)
{
    struct index_inode attr;

    for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
        int error;

        if (dir == ancestor)
            return -EINVAL;
        if (dir == INDEX_ROOT_INO)
            return 0;
        error = index_inode_get(txn, dir, &attr);
        if (error != 0)
            return error;
        dir = attr.parent;
    }
    return -EUCLEAN;
}

static int check(struct index_txn *txn, const struct rename *rename, unsigned flags)
{
    const bool from_is_dir = rename->from.type == DT_DIR;
    const bool to_is_dir = rename->replaces && rename->to.type == DT_DIR;
    const bool moves = rename->from_dir != rename->to_dir;
    int error = 0;

    if ((flags & RENAME_NOREPLACE) != 0 && rename->replaces)
        return -EEXIST;
    if ((flags & RENAME_EXCHANGE) != 0 && !rename->replaces)
        return -ENOENT;
    if (from_is_dir && moves)
        error = check_loop(txn, rename->to_dir, rename->from.ino);
    if ((flags & RENAME_EXCHANGE) != 0) {
        if (error == 0 && to_is_dir && moves)
            error = check_loop(txn, rename->from_dir, rename->to.ino);
        return error;
    }
    if (error != 0 || !rename->replaces)
        return error;
    if (from_is_dir != to_is_dir)
        return from_is_dir ? -ENOTDIR : -EISDIR;
    return to_is_dir && !index_dir_empty(txn, rename->to.ino) ? -ENOTEMPTY : 0;
}

/* The inode's own record after it moved to DIR. */
static int moved(struct fs *fs, struct index_txn *txn, uint64_t ino, uint64_t dir)
{
    struct index_inode attr;
    const int error = fs_attr_get(fs, txn, ino, &attr);

    if (error != 0)
        return error;
    attr.parent = dir;
    attr.ctime = ops_now();
    return fs_attr_put(fs, txn, &attr);
}

/* Times of both directories and their counts of subdirectories. */
static int touch_both(struct index_txn *txn, const struct rename *rename, int from_links,
                      int to_links)
{
    struct index_inode dir;
    int error = index_inode_get(txn, rename->from_dir, &dir);

    if (rename->from_dir == rename->to_dir)
        return error != 0 ? error : ops_touch_parent(txn, &dir, from_links + to_links);
    if (error == 0)
        error = ops_touch_parent(txn, &dir, from_links);
    if (error == 0)
        error = index_inode_get(txn, rename->to_dir, &dir);
    if (error == 0)
        error = ops_touch_parent(txn, &dir, to_links);
    return error;
}

static int exchange(struct fs *fs, struct index_txn *txn, const struct rename *rename)
{
    const int from_is_dir = rename->from.type == DT_DIR;
    const int to_is_dir = rename->to.type == DT_DIR;
    int error = index_dirent_replace(txn, rename->from_dir, rename->from_name, rename->to.ino,
                                     rename->to.type);

    if (error == 0)
        error = index_dirent_replace(txn, rename->to_dir, rename->to_name, rename->from.ino,
                                     rename->from.type);
    if (error == 0)
        error = moved(fs, txn, rename->from.ino, rename->to_dir);
    if (error == 0)
        error = moved(fs, txn, rename->to.ino, rename->from_dir);
    if (error == 0)
        error = touch_both(txn, rename, to_is_dir - from_is_dir, from_is_dir - to_is_dir);
    return error;
}

static int move(struct fs *fs, struct index_txn *txn, const struct rename *rename)
{
    const int is_dir = rename->from.type == DT_DIR;
    int error;

    if (rename->replaces)
        error = index_dirent_replace(txn, rename->to_dir, rename->to_name, rename->from.ino,
                                     rename->from.type);
    else
        error = index_dirent_add(txn, rename->to_dir, rename->to_name, rename->from.ino,
                                 rename->from.type);
    if (error == 0)
        error = index_dirent_remove(txn, rename->from_dir, rename->from_name);
    if (error == 0)
        error = moved(fs, txn, rename->from.ino, rename->to_dir);
    if (error == 0 && rename->replaces)
        error = ops_drop_link(fs, txn, rename->to.ino);
    /* a replaced directory takes its own ".." away */
    if (error == 0)
        error = touch_both(txn, rename, -is_dir, is_dir - (rename->replaces ? is_dir : 0));
    return error;
}

/* Writes the unflushed data of a regular file that is about to replace another. */
static int write_replacement(struct fs *fs, struct rename *rename, unsigned flags)
{
    struct fs_inode *inode;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    error = look_up(txn, rename);
    index_end(txn);
    if (error != 0 || flags != 0 || !rename->replaces || rename->from.type != DT_REG)
        return error;
    inode = fs_inode_peek(fs, rename->from.ino);
    if (inode != NULL) {
        error = fs_file_write_back(fs, inode);
        fs_inode_drop(fs, inode);
    }
    return error;
}

void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                const char *new_name, unsigned flags)
{
    struct fs *fs = ops_of(req)->fs;
    struct rename rename = {parent, new_parent, name, new_name, {0}, {0}, false};
    struct index_txn *txn;
    int error;

    if (flags != 0 && flags != RENAME_NOREPLACE && flags != RENAME_EXCHANGE) {
        ops_reply_error(req, -EINVAL);
        return;
    }
    error = write_replacement(fs, &rename, flags);
    if (error == 0 && !rename.replaces)
        error = index_reserve(fs->index, 0); /* the new name may be longer or elsewhere */
    if (error == 0)
        error = index_begin(fs->index, INDEX_WRITE, &txn);
    if (error == 0) {
        error = look_up(txn, &rename);
        if (error == 0)
            error = check(txn, &rename, flags);
        if (error == 0 && !(rename.replaces && rename.from.ino == rename.to.ino))
            error = (flags & RENAME_EXCHANGE) != 0 ? exchange(fs, txn, &rename)
                                                   : move(fs, txn, &rename);
        index_end(txn);
    }
    ops_reply_error(req, error);
}
