/* SPDX-License-Identifier: BSD-2-Clause
 *
 * notify.c - the kernel caches attributes; st_blocks that it was told while data was dirty is wrong
 * once the data is compressed and stored, so such an inode's attributes are invalidated then.
 */
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "dirty.h"

void fs_notify_stored(struct fs *fs, struct fs_inode *inode)
{
    bool stale;

    if (fs->session == NULL)
        return;
    pthread_mutex_lock(&inode->overlay_lock);
    stale = inode->stat_stale && !inode->overlay;
    if (stale)
        inode->stat_stale = false;
    pthread_mutex_unlock(&inode->overlay_lock);
    if (stale) /* a negative offset leaves the kernel's pages alone; -ENOENT: it knows no such inode */
        fuse_lowlevel_notify_inval_inode(fs->session, inode->ino, -1, 0);
}
