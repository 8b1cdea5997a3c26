/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops_attr.c - getattr, setattr, statfs, and the translation of index records to struct stat.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "acl.h"
#include "file.h"
#include "ops.h"

#define SECTOR 512u

/* Bytes for st_blocks: what is stored; at least one while there is data, because tar and grep take
 * a file of size without blocks for one hole. Unflushed data counts as long as it is plain. With -o
 * writeback the kernel may have data that we know nothing of, and shows it with our st_blocks: so
 * every file has one then. */
static uint64_t charged_bytes(struct fs *fs, const struct index_inode *attr)
{
    struct fs_inode *inode;
    uint64_t bytes = attr->stored;

    if (!S_ISREG(attr->mode) || bytes != 0)
        return bytes;
    if (fs->options.writeback || (attr->size != 0 && (attr->flags & INDEX_INODE_INLINE) != 0))
        bytes = 1;
    if (attr->size == 0 || (attr->flags & INDEX_INODE_INLINE) != 0)
        return bytes;
    inode = fs_inode_peek(fs, attr->ino);
    if (inode != NULL) {
        pthread_mutex_lock(&inode->overlay_lock);
        if (inode->overlay)
            bytes = attr->size;
        pthread_mutex_unlock(&inode->overlay_lock);
        fs_inode_drop(fs, inode);
    }
    return bytes;
}

void ops_stat(struct fs *fs, const struct index_inode *attr, struct stat *stat)
{
    memset(stat, 0, sizeof *stat);
    stat->st_ino = attr->ino;
    stat->st_mode = attr->mode;
    stat->st_nlink = attr->nlink;
    stat->st_uid = attr->uid;
    stat->st_gid = attr->gid;
    stat->st_rdev = attr->rdev;
    stat->st_size = (off_t)attr->size;
    stat->st_blksize = (blksize_t)fs->block_size;
    stat->st_blocks = (blkcnt_t)((charged_bytes(fs, attr) + SECTOR - 1) / SECTOR);
    stat->st_atim = attr->atime;
    stat->st_mtim = attr->mtime;
    stat->st_ctim = attr->ctime;
}

void ops_entry(struct ops *ops, const struct index_inode *attr, struct fuse_entry_param *entry)
{
    entry->ino = attr->ino;
    entry->generation = attr->generation;
    entry->attr_timeout = entry->entry_timeout = ops->timeout;
    ops_stat(ops->fs, attr, &entry->attr);
}

/* A name was added, removed or changed. parent: as just read. */
int ops_touch_parent(struct index_txn *txn, struct index_inode *parent, int link_change)
{
    parent->mtime = parent->ctime = ops_now();
    parent->nlink = (uint32_t)((int64_t)parent->nlink + link_change);
    return index_inode_put(txn, parent);
}

void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    struct index_inode attr;
    struct index_txn *txn;
    struct stat stat;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    (void)fi;
    if (error == 0) {
        error = fs_attr_get(fs, txn, ino, &attr);
        if (error == 0)
            ops_stat(fs, &attr, &stat);
        index_end(txn);
    }
    if (error != 0)
        ops_reply_error(req, ops_stale(error));
    else
        fuse_reply_attr(req, &stat, ops->timeout);
}

/* A new mode, or the one that a change of owner leaves. */
static int change_mode(struct ops *ops, struct index_txn *txn, struct index_inode *attr,
                       const struct stat *wish, int to_set)
{
    const int owner = FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID;
    uint32_t mode = attr->mode;
    int error = 0;

    if (to_set & FUSE_SET_ATTR_MODE) {
        mode = (attr->mode & S_IFMT) | (wish->st_mode & 07777);
        attr->mode = mode;
        error = fs_acl_chmod(txn, attr);
        if (mode & (S_ISUID | S_ISGID))
            ops_forget_unprivileged(ops, attr->ino);
    } else if ((to_set & owner) != 0 && ops->kill_privileges && !S_ISDIR(attr->mode)) {
        error = ops_strip(txn, attr->ino, &mode);
    } else {
        return 0;
    }
    if (error == 0) /* after a write: what attr points to may have moved */
        error = fs_attr_get(ops->fs, txn, attr->ino, attr);
    attr->mode = mode;
    return error;
}

/* Everything but the size. */
static int change(struct ops *ops, struct index_txn *txn, struct index_inode *attr,
                  const struct stat *wish, int to_set)
{
    const struct timespec now = ops_now();
    const int error = change_mode(ops, txn, attr, wish, to_set);

    if (error != 0)
        return error;
    if (to_set & FUSE_SET_ATTR_UID)
        attr->uid = wish->st_uid;
    if (to_set & FUSE_SET_ATTR_GID)
        attr->gid = wish->st_gid;
    if (to_set & FUSE_SET_ATTR_ATIME)
        attr->atime = (to_set & FUSE_SET_ATTR_ATIME_NOW) != 0 ? now : wish->st_atim;
    if (to_set & FUSE_SET_ATTR_MTIME)
        attr->mtime = (to_set & FUSE_SET_ATTR_MTIME_NOW) != 0 ? now : wish->st_mtim;
    /* Only a kernel that owns the times (-o writeback) sends ctime. */
    attr->ctime = (to_set & FUSE_SET_ATTR_CTIME) != 0 ? wish->st_ctim : now;
    return fs_attr_put(ops->fs, txn, attr);
}

static int truncate_to(struct ops *ops, fuse_req_t req, fuse_ino_t ino, off_t size)
{
    struct fs *fs = ops->fs;
    struct fs_inode *inode;
    int error = size < 0 ? -EINVAL : 0;

    if (error == 0 && ops->kill_privileges)
        error = ops_drop_privileges(ops, req, ino);
    if (error == 0)
        error = fs_inode_hold(fs, ino, &inode);
    if (error != 0)
        return error;
    error = fs_file_truncate(fs, inode, (uint64_t)size);
    fs_inode_drop(fs, inode);
    return error;
}

/* A kernel that owns the times (-o writeback) writes them back for inodes without names too, after
 * they are gone. It ignores the answer but would report an error at the next syncfs. */
static bool is_late_times(const struct ops *ops, int to_set)
{
    return ops->fs->options.writeback && (to_set & FUSE_SET_ATTR_CTIME) != 0 &&
           (to_set &
            (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_SIZE)) == 0;
}

void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *wish, int to_set,
                 struct fuse_file_info *fi)
{
    const int others = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID |
                       FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_CTIME;
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    struct index_inode attr;
    struct index_txn *txn;
    struct stat stat;
    int error = 0;

    (void)fi;
    if (to_set & FUSE_SET_ATTR_SIZE)
        error = truncate_to(ops, req, ino, wish->st_size);
    if (error == 0)
        error = index_begin(fs->index, (to_set & others) != 0 ? INDEX_WRITE : INDEX_READ, &txn);
    if (error == 0) {
        error = fs_attr_get(fs, txn, ino, &attr);
        if (error == 0 && (to_set & others) != 0)
            error = change(ops, txn, &attr, wish, to_set);
        if (error == 0)
            ops_stat(fs, &attr, &stat);
        index_end(txn);
    }
    if (error == -ENOENT && is_late_times(ops, to_set)) {
        stat = (struct stat){.st_ino = ino, .st_mode = S_IFREG};
        error = 0;
    }
    if (error != 0)
        ops_reply_error(req, ops_stale(error));
    else
        fuse_reply_attr(req, &stat, ops->timeout);
}

void ops_statfs(fuse_req_t req, fuse_ino_t ino)
{
    const uint64_t unit = 4096;
    struct fs *fs = ops_of(req)->fs;
    struct index_space space;
    const int error = index_space(fs->index, &space);
    struct statvfs answer = {.f_bsize = unit, .f_frsize = unit, .f_namemax = INDEX_NAME_MAX};

    (void)ino;
    if (error != 0) {
        ops_reply_error(req, error);
        return;
    }
    answer.f_blocks = space.host_total / unit;
    answer.f_bfree = answer.f_bavail = space.host_free / unit;
    /* An inode takes a few hundred bytes of index, so space is what limits their number. */
    answer.f_ffree = answer.f_favail = space.host_free / unit;
    answer.f_files = space.inodes + answer.f_ffree;
    fuse_reply_statfs(req, &answer);
}
