/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops_names.c - names: looking them up, making inodes and links, removing them. Each operation is
 * one index transaction: after a crash it is done or not begun.
 *
 * Checks come before the first change, so that an operation which fails leaves nothing behind. What
 * a record points to (inline content) is read again after a change, which may have moved it.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "acl.h"
#include "inode.h"
#include "ops.h"

static uint8_t type_of(uint32_t mode)
{
    return (uint8_t)IFTODT(mode);
}

static int get_dir(struct index_txn *txn, uint64_t ino, struct index_inode *dir)
{
    const int error = index_inode_get(txn, ino, dir);

    if (error != 0)
        return ops_stale(error);
    if (!S_ISDIR(dir->mode))
        return -ENOTDIR;
    return dir->nlink == 0 ? -ENOENT : 0;
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* "." and ".." are asked for by an NFS server that has only a file handle. */
static int resolve(struct index_txn *txn, fuse_ino_t parent, const char *name, uint64_t *ino)
{
    struct index_inode dir;
    struct index_dirent entry;
    int error;

    if (strcmp(name, ".") == 0) {
        *ino = parent;
        return 0;
    }
    if (strcmp(name, "..") == 0) {
        error = index_inode_get(txn, parent, &dir);
        *ino = dir.parent;
        return error;
    }
    error = index_dirent_lookup(txn, parent, name, &entry);
    *ino = entry.ino;
    return error;
}

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    struct fuse_entry_param answer = {.entry_timeout = ops->timeout};
    struct index_inode attr;
    struct index_txn *txn;
    uint64_t ino = 0;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0) {
        ops_reply_error(req, error);
        return;
    }
    error = resolve(txn, parent, name, &ino);
    if (error == 0) {
        error = fs_attr_get(fs, txn, ino, &attr);
        if (error == -ENOENT)
            error = -EUCLEAN; /* a name without an inode is damage, not absence */
        if (error == 0)
            ops_entry(ops, &attr, &answer);
    }
    index_end(txn);
    /* inode 0: the kernel remembers that there is no such name until it makes one itself */
    if (error != 0 && error != -ENOENT)
        ops_reply_error(req, error);
    else
        fuse_reply_entry(req, &answer);
}

void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    (void)lookups; /* of unlinked inodes, which alone matter, it is all of them */
    fs_inode_forgotten(((struct ops *)fuse_req_userdata(req))->fs, ino);
    fuse_reply_none(req);
}

void ops_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    struct fs *fs = ((struct ops *)fuse_req_userdata(req))->fs;

    for (size_t i = 0; i < count; i++)
        fs_inode_forgotten(fs, forgets[i].ino);
    fuse_reply_none(req);
}

void ops_readlink(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = ops_of(req)->fs;
    char target[INDEX_SYMLINK_MAX + 1];
    struct index_inode attr;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error == 0) {
        error = index_inode_get(txn, ino, &attr);
        if (error == 0 && !S_ISLNK(attr.mode))
            error = -EINVAL;
        if (error == 0 && ((attr.flags & INDEX_INODE_INLINE) == 0 || attr.inline_size == 0 ||
                           attr.inline_size > INDEX_SYMLINK_MAX))
            error = -EUCLEAN;
        if (error == 0) {
            memcpy(target, attr.inline_data, attr.inline_size);
            target[attr.inline_size] = '\0';
        }
        index_end(txn);
    }
    if (error != 0)
        ops_reply_error(req, ops_stale(error));
    else
        fuse_reply_readlink(req, target);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Owner, group and mode of a new inode, by the rules of a directory with the set-group-id bit. */
static void init_attr(fuse_req_t req, const struct index_inode *dir, const struct ops_node *node,
                      struct index_inode *attr)
{
    const struct fuse_ctx *caller = fuse_req_ctx(req);

    *attr = (struct index_inode){
        .parent = dir->ino,
        .mode = (uint32_t)node->mode,
        .uid = caller->uid,
        .gid = caller->gid,
        .nlink = S_ISDIR(node->mode) ? 2 : 1,
        .rdev = (uint32_t)node->rdev,
        .generation = 1, /* inode numbers are never reused, so nothing has to tell them apart */
    };
    if (dir->mode & S_ISGID) {
        attr->gid = dir->gid;
        if (S_ISDIR(node->mode))
            attr->mode |= S_ISGID;
    }
    attr->atime = attr->mtime = attr->ctime = attr->btime = ops_now();
    if (node->target != NULL) {
        attr->flags = INDEX_INODE_INLINE;
        attr->inline_data = node->target;
        attr->inline_size = (uint32_t)strlen(node->target);
        attr->size = attr->inline_size;
    }
}

static int make_in(struct ops *ops, struct index_txn *txn, fuse_req_t req, fuse_ino_t parent,
                   const char *name, const struct ops_node *node, struct index_inode *attr)
{
    const struct fs *fs = ops->fs;
    struct index_inode dir;
    int error = get_dir(txn, parent, &dir);

    if (error != 0)
        return error;
    init_attr(req, &dir, node, attr);
    attr->ino = index_inode_new(txn);
    error = index_dirent_add(txn, parent, name, attr->ino, type_of(attr->mode));
    if (error != 0)
        return error; /* -EEXIST, -ENAMETOOLONG: only a number was spent */
    if (fs->options.acl)
        error = fs_acl_create(txn, parent, attr, fuse_req_ctx(req)->umask);
    if (error == 0)
        error = index_inode_put(txn, attr);
    if (error == 0 && (S_ISREG(attr->mode) || S_ISDIR(attr->mode)))
        error = fs_policy_inherit(txn, parent, attr->ino);
    if (error == 0)
        error = ops_touch_parent(txn, &dir, S_ISDIR(attr->mode) ? 1 : 0);
    if (error == 0)
        ops_note_unprivileged(ops, attr->ino, attr->mode);
    return error;
}

int ops_make(struct ops *ops, fuse_req_t req, fuse_ino_t parent, const char *name,
             const struct ops_node *node, struct fuse_entry_param *entry)
{
    struct fs *fs = ops->fs;
    struct index_inode attr;
    struct index_txn *txn;
    int error = index_reserve(fs->index, 0);

    if (error == 0)
        error = index_begin(fs->index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    error = make_in(ops, txn, req, parent, name, node, &attr);
    if (error == 0)
        ops_entry(ops, &attr, entry);
    index_end(txn);
    return error;
}

static void reply_made(fuse_req_t req, fuse_ino_t parent, const char *name,
                       const struct ops_node *node)
{
    struct fuse_entry_param entry;
    const int error = ops_make(ops_of(req), req, parent, name, node, &entry);

    if (error != 0)
        ops_reply_error(req, error);
    else
        fuse_reply_entry(req, &entry);
}

void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    if (S_ISDIR(mode) || S_ISLNK(mode))
        ops_reply_error(req, -EINVAL);
    else
        reply_made(req, parent, name, &(struct ops_node){.mode = mode, .rdev = rdev});
}

void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    reply_made(req, parent, name, &(struct ops_node){.mode = S_IFDIR | (mode & 07777)});
}

void ops_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    const size_t length = strlen(target);

    if (length == 0 || length > INDEX_SYMLINK_MAX)
        ops_reply_error(req, length == 0 ? -ENOENT : -ENAMETOOLONG);
    else
        reply_made(req, parent, name, &(struct ops_node){.mode = S_IFLNK | 0777, .target = target});
}

static int link_in(struct fs *fs, struct index_txn *txn, fuse_ino_t ino, fuse_ino_t parent,
                   const char *name, struct index_inode *attr)
{
    struct index_inode dir;
    int error = get_dir(txn, parent, &dir);

    if (error == 0)
        error = ops_stale(fs_attr_get(fs, txn, ino, attr));
    if (error != 0)
        return error;
    if (S_ISDIR(attr->mode))
        return -EPERM;
    if (attr->nlink == 0)
        return -ENOENT;
    if (attr->nlink >= INDEX_LINK_MAX)
        return -EMLINK;
    error = index_dirent_add(txn, parent, name, ino, type_of(attr->mode));
    if (error == 0)
        error = fs_attr_get(fs, txn, ino, attr);
    if (error != 0)
        return error;
    attr->nlink++;
    attr->parent = parent;
    attr->ctime = ops_now();
    error = fs_attr_put(fs, txn, attr);
    return error != 0 ? error : ops_touch_parent(txn, &dir, 0);
}

void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    struct fuse_entry_param entry;
    struct index_inode attr;
    struct index_txn *txn;
    int error = index_reserve(fs->index, 0);

    if (error == 0)
        error = index_begin(fs->index, INDEX_WRITE, &txn);
    if (error == 0) {
        error = link_in(fs, txn, ino, parent, name, &attr);
        if (error == 0)
            ops_entry(ops, &attr, &entry);
        index_end(txn);
    }
    if (error != 0)
        ops_reply_error(req, error);
    else
        fuse_reply_entry(req, &entry);
}

/* ---- removing -------------------------------------------------------------------------------- */

static int unlink_in(struct fs *fs, struct index_txn *txn, fuse_ino_t parent, const char *name)
{
    struct index_dirent entry;
    struct index_inode dir;
    int error = get_dir(txn, parent, &dir);

    if (error == 0)
        error = index_dirent_lookup(txn, parent, name, &entry);
    if (error != 0)
        return error;
    if (entry.type == DT_DIR)
        return -EISDIR;
    error = index_dirent_remove(txn, parent, name);
    if (error == 0)
        error = ops_touch_parent(txn, &dir, 0);
    if (error == 0)
        error = ops_drop_link(fs, txn, entry.ino);
    return error;
}

static int rmdir_in(struct fs *fs, struct index_txn *txn, fuse_ino_t parent, const char *name)
{
    struct index_dirent entry;
    struct index_inode dir;
    int error = get_dir(txn, parent, &dir);

    if (error == 0)
        error = index_dirent_lookup(txn, parent, name, &entry);
    if (error != 0)
        return error;
    if (entry.type != DT_DIR)
        return -ENOTDIR;
    if (!index_dir_empty(txn, entry.ino))
        return -ENOTEMPTY;
    error = index_dirent_remove(txn, parent, name);
    if (error == 0)
        error = ops_touch_parent(txn, &dir, -1);
    if (error == 0)
        error = ops_drop_link(fs, txn, entry.ino);
    return error;
}

int ops_drop_link(struct fs *fs, struct index_txn *txn, uint64_t ino)
{
    struct index_inode record, *const attr = &record;
    const int error = fs_attr_get(fs, txn, ino, attr);

    if (error != 0)
        return error == -ENOENT ? 0 : error; /* a dangling name: removing it is the cure */
    attr->ctime = ops_now();
    if (S_ISDIR(attr->mode) || attr->nlink <= 1) {
        attr->nlink = 0;
        fs_inode_linger(fs, ino);
        return fs_inode_unlinked(fs, txn, attr);
    }
    attr->nlink--;
    return fs_attr_put(fs, txn, attr);
}

static void reply_removed(fuse_req_t req, fuse_ino_t parent, const char *name,
                          int (*remove_in)(struct fs *fs, struct index_txn *txn, fuse_ino_t parent,
                                           const char *name))
{
    struct fs *fs = ops_of(req)->fs;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_WRITE, &txn);

    if (error == 0) {
        error = remove_in(fs, txn, parent, name);
        index_end(txn);
    }
    ops_reply_error(req, error);
}

void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    reply_removed(req, parent, name, unlink_in);
}

void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    reply_removed(req, parent, name, rmdir_in);
}
