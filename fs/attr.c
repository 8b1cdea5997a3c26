/* SPDX-License-Identifier: BSD-2-Clause
 *
 * attr.c - attributes as users see them: the index record, with size and times of files that have
 * unflushed data taken from memory.
 */
#include "inode.h"

#include <string.h>
#include <sys/stat.h>

int fs_attr_get(struct fs *fs, struct index_txn *txn, uint64_t ino, struct index_inode *attr)
{
    struct fs_inode *inode = fs_inode_peek(fs, ino);
    int error = index_inode_get(txn, ino, attr);

    if (inode == NULL)
        return error;
    if (error == 0 && S_ISREG(attr->mode)) {
        pthread_mutex_lock(&inode->overlay_lock);
        if (inode->loaded)
            attr->size = inode->size;
        if (inode->overlay) {
            attr->mtime = inode->mtime;
            attr->ctime = inode->ctime;
            inode->stat_stale = true;
        }
        pthread_mutex_unlock(&inode->overlay_lock);
    }
    fs_inode_drop(fs, inode);
    return error;
}

static int put_resident(struct fs *fs, struct fs_inode *inode, struct index_txn *txn,
                        const struct index_inode *attr)
{
    bool open;
    struct index_inode record = *attr, old;
    uint8_t content[INDEX_INLINE_MAX];
    int error = index_inode_get(txn, attr->ino, &old);

    if (error != 0)
        return error;
    record.size = old.size;
    record.stored = old.stored;
    record.flags = old.flags;
    record.inline_size = old.inline_size;
    record.inline_data = old.inline_data;
    if (old.inline_size > 0 && old.inline_size <= sizeof(content)) {
        memcpy(content, old.inline_data, old.inline_size);
        record.inline_data = content;
    }
    error = index_inode_put(txn, &record);
    if (error != 0)
        return error;
    fs_inode_set_unlinked(fs, attr->ino, attr->nlink == 0, &open);
    pthread_mutex_lock(&inode->overlay_lock);
    inode->mtime = attr->mtime;
    inode->ctime = attr->ctime;
    inode->atime = attr->atime.tv_sec;
    pthread_mutex_unlock(&inode->overlay_lock);
    return 0;
}

int fs_attr_put(struct fs *fs, struct index_txn *txn, const struct index_inode *attr)
{
    struct fs_inode *inode = S_ISREG(attr->mode) ? fs_inode_peek(fs, attr->ino) : NULL;
    int error;

    if (inode == NULL)
        return index_inode_put(txn, attr);
    error = put_resident(fs, inode, txn, attr);
    fs_inode_drop(fs, inode);
    return error;
}
