/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops_file.c - open files: the thin layer between FUSE requests and file.h.
 *
 * fi->fh is a struct fs_handle, made by open or create and freed by release. Pages stay in the
 * kernel's cache across opens: nothing but the kernel changes a file, unless the mount is read-only
 * and another one is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "file.h"
#include "ops.h"

/* Most bytes of one copy_file_range request: a thread should not be gone for minutes. A caller asks
 * again for the rest. */
#define COPY_MAX (64u << 20)

static struct fs_handle *handle_of(const struct fuse_file_info *fi)
{
    return (struct fs_handle *)(uintptr_t)fi->fh;
}

/* May the kernel hold pages that were changed through this file and not written to us yet? Stores
 * through a shared mapping are such, and a mapping keeps its file open. */
static bool hides_pages(int flags)
{
    return (flags & O_ACCMODE) == O_RDWR;
}

static int open_handle(struct fs *fs, uint64_t ino, struct fuse_file_info *fi)
{
    struct fs_handle *handle = calloc(1, sizeof *handle);
    int error;

    if (handle == NULL)
        return -ENOMEM;
    error = fs_inode_open(fs, ino, &handle->inode);
    if (error != 0) {
        free(handle);
        return ops_stale(error);
    }
    handle->flags = fi->flags;
    if (hides_pages(handle->flags))
        atomic_fetch_add(&handle->inode->mappers, 1);
    fi->fh = (uintptr_t)handle;
    fi->keep_cache = !fs->options.readonly;
    /* close has nothing to tell who only read */
    fi->noflush = (fi->flags & O_ACCMODE) == O_RDONLY;
    return 0;
}

static void close_handle(struct fs *fs, struct fs_handle *handle)
{
    if (hides_pages(handle->flags))
        atomic_fetch_sub(&handle->inode->mappers, 1);
    fs_inode_close(fs, handle->inode);
    free(handle);
}

/* In a file that is about to change; without the agreement the kernel has done it by SETATTR. */
static int drop_privileges(struct ops *ops, fuse_req_t req, uint64_t ino)
{
    return ops->kill_privileges ? ops_drop_privileges(ops, req, ino) : 0;
}

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    int error = open_handle(fs, ino, fi);

    if (error == 0 && (fi->flags & O_TRUNC) != 0) {
        /* which no kernel does when open itself truncates */
        error = ops_drop_privileges(ops, req, ino);
        if (error == 0)
            error = fs_file_truncate(fs, handle_of(fi)->inode, 0);
        if (error != 0)
            close_handle(fs, handle_of(fi));
    }
    if (error != 0)
        ops_reply_error(req, error);
    else if (fuse_reply_open(req, fi) == -ENOENT) /* interrupted: no release will come */
        close_handle(fs, handle_of(fi));
}

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                struct fuse_file_info *fi)
{
    const struct ops_node node = {.mode = S_IFREG | (mode & 07777)};
    struct ops *ops = ops_of(req);
    struct fuse_entry_param entry;
    int error = ops_make(ops, req, parent, name, &node, &entry);

    if (error == 0)
        error = open_handle(ops->fs, entry.ino, fi);
    if (error != 0)
        ops_reply_error(req, error);
    else if (fuse_reply_create(req, &entry, fi) == -ENOENT)
        close_handle(ops->fs, handle_of(fi));
}

void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
    struct ops *ops = ops_of(req);
    struct fs_handle *handle = handle_of(fi);
    void *buffer = ops_buffer(ops);
    ssize_t count;

    (void)ino;
    if (buffer == NULL)
        count = -ENOMEM;
    else if (offset < 0 || size > OPS_IO_MAX)
        count = -EINVAL;
    else
        count = fs_file_read(ops->fs, handle->inode, handle, buffer, size, (uint64_t)offset);
    if (count < 0)
        ops_reply_error(req, (int)count);
    else
        fuse_reply_buf(req, buffer, (size_t)count);
}

void ops_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
               struct fuse_file_info *fi)
{
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    /* A kernel that caches writes knows the end of the file itself. */
    const bool append = (fi->flags & O_APPEND) != 0 && !fs->options.writeback;
    ssize_t count = offset < 0 ? -EINVAL : drop_privileges(ops, req, ino);

    if (fi->writepage) { /* the kernel may have been told st_blocks before it sent this */
        pthread_mutex_lock(&handle_of(fi)->inode->overlay_lock);
        handle_of(fi)->inode->stat_stale = true;
        pthread_mutex_unlock(&handle_of(fi)->inode->overlay_lock);
    }
    if (count == 0)
        count = fs_file_write(fs, handle_of(fi)->inode, data, size, (uint64_t)offset, append);
    if (count < 0)
        ops_reply_error(req, (int)count);
    else
        fuse_reply_write(req, (size_t)count);
}

void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    ops_reply_error(req, fs_file_flush(ops_of(req)->fs, handle_of(fi)->inode));
}

void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    close_handle(ops_of(req)->fs, handle_of(fi));
    ops_reply_error(req, 0);
}

/* Times and sizes lie in the same transaction as the data: datasync saves nothing. */
void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)ino;
    (void)datasync;
    ops_reply_error(req, fs_file_sync(ops_of(req)->fs, handle_of(fi)->inode));
}

void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                   struct fuse_file_info *fi)
{
    struct ops *ops = ops_of(req);
    int error = offset < 0 || length <= 0 ? -EINVAL : drop_privileges(ops, req, ino);

    if (error == 0)
        error = fs_file_allocate(ops->fs, handle_of(fi)->inode, mode, (uint64_t)offset,
                                 (uint64_t)length);
    ops_reply_error(req, error);
}

void ops_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
    struct fs *fs = ops_of(req)->fs;
    off_t result = -EINVAL;

    (void)ino;
    if (fs->options.writeback)
        /* What looks like a hole here may be data that the kernel has not sent: it answers by itself
         * then, that everything up to the end is data. */
        result = -ENOSYS;
    else if (offset < 0)
        result = -ENXIO;
    else if (whence == SEEK_DATA || whence == SEEK_HOLE)
        result = fs_file_seek(fs, handle_of(fi)->inode, (uint64_t)offset, whence);
    if (result < 0)
        ops_reply_error(req, (int)result);
    else
        fuse_reply_lseek(req, result);
}

void ops_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in,
                         struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t offset_out,
                         struct fuse_file_info *fi_out, size_t length, int flags)
{
    struct ops *ops = ops_of(req);
    struct fs *fs = ops->fs;
    ssize_t count = -EINVAL;

    (void)ino_in;
    if (flags == 0 && offset_in >= 0 && offset_out >= 0)
        count = drop_privileges(ops, req, ino_out);
    if (count == 0)
        count =
            fs_file_copy(fs, handle_of(fi_in)->inode, (uint64_t)offset_in, handle_of(fi_out)->inode,
                         (uint64_t)offset_out, length < COPY_MAX ? length : COPY_MAX);
    if (count < 0)
        ops_reply_error(req, (int)count);
    else
        fuse_reply_write(req, (size_t)count);
}
