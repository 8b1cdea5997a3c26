/* SPDX-License-Identifier: BSD-2-Clause
 *
 * notify.c - the kernel caches attributes; st_blocks that it was told while data was dirty is wrong
 * once the data is compressed and stored, so such an inode's attributes are invalidated then.
 *
 * Write-back and compaction go on while the mount goes away. The session's descriptor is used under a
 * lock and closed after fs_notify_end, so that a notification is never written to another file that was
 * given the same number. The lock is shared: the kernel may keep one notification waiting.
 */
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "dirty.h"

void fs_notify_start(struct fs *fs, struct fuse_session *session)
{
    pthread_rwlock_init(&fs->notify_lock, NULL);
    atomic_store(&fs->session, session);
}

void fs_notify_end(struct fs *fs)
{
    pthread_rwlock_wrlock(&fs->notify_lock);
    atomic_store(&fs->session, NULL);
    pthread_rwlock_unlock(&fs->notify_lock);
}

void fs_notify(struct fs *fs, uint64_t ino)
{
    struct fuse_session *session;

    if (atomic_load(&fs->session) == NULL)
        return;
    pthread_rwlock_rdlock(&fs->notify_lock);
    session = atomic_load(&fs->session);
    /* A negative offset leaves the kernel's pages alone. -ENOENT: it knows no such inode. */
    if (session != NULL)
        (void)fuse_lowlevel_notify_inval_inode(session, ino, -1, 0);
    pthread_rwlock_unlock(&fs->notify_lock);
}

void fs_notify_stored(struct fs *fs, struct fs_inode *inode)
{
    bool stale;

    pthread_mutex_lock(&inode->overlay_lock);
    stale = inode->stat_stale && !inode->overlay;
    if (stale)
        inode->stat_stale = false;
    pthread_mutex_unlock(&inode->overlay_lock);
    if (stale)
        fs_notify(fs, inode->ino);
}
