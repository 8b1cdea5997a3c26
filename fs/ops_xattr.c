/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops_xattr.c - extended attributes: user., trusted., security. and the two of access control lists
 * are stored as given; those under user.sepfs. are sepfs' own. The kernel has checked permissions
 * and the limits of 255 bytes for a name and 64 KiB for a value.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "acl.h"
#include "inode.h"
#include "ops.h"
#include "policy.h"
#include "virtual.h"

static bool is_acl(const char *name)
{
    return strcmp(name, FS_ACL_ACCESS) == 0 || strcmp(name, FS_ACL_DEFAULT) == 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* 0 when NAME may be stored and read. Without -o acl nobody enforces a list, so none is taken or
 * shown: cp falls back to the mode, and setfacl says that it can't. */
static int check_name(const struct fs *fs, const char *name)
{
    if (fs_virtual_name(name) && strcmp(name, FS_POLICY_XATTR) != 0)
        return -EPERM;
    if (is_acl(name))
        return fs->options.acl ? 0 : -EOPNOTSUPP;
    if (!begins(name, "user.") && !begins(name, "trusted.") && !begins(name, "security."))
        return -EOPNOTSUPP;
    return strchr(name, '.')[1] == '\0' ? -EINVAL : 0;
}

/* ---- get ------------------------------------------------------------------------------------- */

static void reply_value(fuse_req_t req, const void *value, size_t length, size_t size)
{
    if (size == 0)
        fuse_reply_xattr(req, length);
    else if (length > size)
        ops_reply_error(req, -ERANGE);
    else
        fuse_reply_buf(req, value, length);
}

static int get_stored(struct ops *ops, fuse_ino_t ino, const char *name, void *buffer,
                      size_t *length)
{
    const void *value;
    struct index_txn *txn;
    int error = index_begin(ops->fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    error = index_xattr_get(txn, ino, name, &value, length);
    if (error == 0 && *length > INDEX_XATTR_SIZE_MAX)
        error = -EUCLEAN;
    if (error == 0)
        memcpy(buffer, value, *length);
    index_end(txn);
    return error;
}

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct ops *ops = ops_of(req);
    char *buffer;
    size_t length = 0;
    int error;

    /* asked by the kernel before the first write to a file */
    if (name[0] == 's' && strcmp(name, OPS_CAPABILITY) == 0 && ops_known_unprivileged(ops, ino)) {
        ops_reply_error(req, -ENODATA);
        return;
    }
    buffer = ops_buffer(ops);
    if (buffer == NULL) {
        error = -ENOMEM;
    } else if (fs_virtual_name(name) && strcmp(name, FS_POLICY_XATTR) != 0) {
        error = fs_virtual_get(ops->fs, ino, name, buffer);
        if (error >= 0) {
            length = (size_t)error;
            error = 0;
        }
    } else {
        error = check_name(ops->fs, name);
        if (error == 0)
            error = get_stored(ops, ino, name, buffer, &length);
    }
    if (error != 0)
        ops_reply_error(req, error);
    else
        reply_value(req, buffer, length, size);
}

/* ---- list ------------------------------------------------------------------------------------ */

static int list_names(struct fs *fs, fuse_ino_t ino, bool privileged, char *buffer, size_t *used)
{
    char name[INDEX_NAME_MAX + 1], after[INDEX_NAME_MAX + 1] = "";
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    while ((error = index_xattr_next(txn, ino, after, name)) == 0) {
        const size_t length = strlen(name) + 1;

        memcpy(after, name, length);
        if (fs_virtual_name(name) || (!privileged && begins(name, "trusted.")) ||
            (is_acl(name) && !fs->options.acl))
            continue;
        if (*used + length > XATTR_LIST_MAX) {
            error = -E2BIG;
            break;
        }
        memcpy(buffer + *used, name, length);
        *used += length;
    }
    index_end(txn);
    return error == -ENOENT ? 0 : error;
}

void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    struct ops *ops = ops_of(req);
    char *buffer = ops_buffer(ops);
    size_t used = 0;
    int error = -ENOMEM;

    if (buffer != NULL)
        error = list_names(ops->fs, ino, fuse_req_ctx(req)->uid == 0, buffer, &used);
    if (error != 0)
        ops_reply_error(req, error);
    else
        reply_value(req, buffer, used, size);
}

/* ---- set, remove ----------------------------------------------------------------------------- */

/* A resident inode works by the policy as of its first hold: give it the new one. */
static void refresh_policy(struct fs *fs, uint64_t ino, const struct fs_policy *policy)
{
    struct fs_inode *inode = fs_inode_peek(fs, ino);

    if (inode == NULL)
        return;
    pthread_rwlock_wrlock(&inode->lock);
    inode->policy = *policy;
    pthread_rwlock_unlock(&inode->lock);
    fs_inode_drop(fs, inode);
}

static bool in_groups(fuse_req_t req, uint32_t gid)
{
    gid_t list[256];
    const int count = fuse_req_getgroups(req, 256, list);

    if (fuse_req_ctx(req)->gid == gid)
        return true;
    for (int i = 0; i < count && i < 256; i++) {
        if (list[i] == gid)
            return true;
    }
    return false;
}

/* An access list changes the mode; one that says no more than the mode is not stored. */
static int apply_acl(fuse_req_t req, struct index_inode *attr, const char *name, const void *value,
                     size_t size, bool *keep)
{
    int error;

    if (strcmp(name, FS_ACL_DEFAULT) == 0) {
        if (!S_ISDIR(attr->mode))
            return -EACCES;
        return fs_acl_valid(value, size) ? 0 : -EINVAL;
    }
    error = fs_acl_to_mode(value, size, &attr->mode, keep);
    if (error == 0 && (attr->mode & S_ISGID) != 0 && fuse_req_ctx(req)->uid != 0 &&
        !in_groups(req, attr->gid))
        attr->mode &= ~(uint32_t)S_ISGID;
    return error;
}

/* ctime, and the mode that an access list gave. */
static int put_changed(struct fs *fs, struct index_txn *txn, uint64_t ino, const uint32_t *mode)
{
    struct index_inode attr;
    const int error = fs_attr_get(fs, txn, ino, &attr);

    if (error != 0)
        return error;
    if (mode != NULL)
        attr.mode = *mode;
    attr.ctime = ops_now();
    return fs_attr_put(fs, txn, &attr);
}

static int set_in(struct ops *ops, fuse_req_t req, struct index_txn *txn, fuse_ino_t ino,
                  const char *name, const void *value, size_t size, int flags)
{
    struct index_inode attr;
    bool keep = true;
    int error = ops_stale(fs_attr_get(ops->fs, txn, ino, &attr));

    if (error == 0 && is_acl(name))
        error = apply_acl(req, &attr, name, value, size, &keep);
    if (error != 0)
        return error;
    if (keep) {
        error = index_xattr_set(txn, ino, name, value, size, flags);
    } else {
        error = index_xattr_remove(txn, ino, name);
        if (error == -ENODATA)
            error = 0;
    }
    if (error == 0 && strcmp(name, OPS_CAPABILITY) == 0)
        ops_forget_unprivileged(ops, ino);
    return error != 0 ? error : put_changed(ops->fs, txn, ino, &attr.mode);
}

void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                  int flags)
{
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    const bool is_policy = strcmp(name, FS_POLICY_XATTR) == 0;
    struct fs_policy policy = {.hot = fs->options.hot, .cold = fs->options.cold};
    struct index_txn *txn;
    char text[INDEX_NAME_MAX + 1], reason[256];
    int error = check_name(fs, name);

    if (error == 0 && size > INDEX_XATTR_SIZE_MAX)
        error = -E2BIG;
    if (error == 0 && is_policy) {
        if (size >= sizeof text || memchr(value, '\0', size) != NULL) {
            error = -EINVAL;
        } else {
            memcpy(text, value, size);
            text[size] = '\0';
            error = fs_policy_parse(text, &policy, reason, sizeof reason);
        }
    }
    if (error == 0)
        error = index_reserve(fs->index, 0);
    if (error == 0)
        error = index_begin(fs->index, INDEX_WRITE, &txn);
    if (error == 0) {
        error = set_in(ops, req, txn, ino, name, value, size, flags);
        index_end(txn);
    }
    if (error == 0 && is_policy)
        refresh_policy(fs, ino, &policy);
    ops_reply_error(req, error);
}

void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct fs *fs = ops_of(req)->fs;
    const struct fs_policy policy = {.hot = fs->options.hot, .cold = fs->options.cold};
    struct index_txn *txn;
    int error = check_name(fs, name);

    if (error == 0)
        error = index_begin(fs->index, INDEX_WRITE, &txn);
    if (error == 0) {
        error = index_xattr_remove(txn, ino, name);
        if (error == 0)
            error = put_changed(fs, txn, ino, NULL);
        else if (error == -ENODATA && is_acl(name))
            error = 0; /* no list is what was asked for */
        index_end(txn);
    }
    if (error == 0 && strcmp(name, FS_POLICY_XATTR) == 0)
        refresh_policy(fs, ino, &policy);
    ops_reply_error(req, error);
}
