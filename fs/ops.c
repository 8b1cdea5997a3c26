/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops.c - the table of operations, what is agreed with the kernel when the mount begins, and the
 * helpers that every operation uses.
 *
 * File locks (flock, fcntl) are left to the kernel: it is the only way into a mounted store, so its
 * own lock tables are complete, and a lock costs no request. poll is left out: files are always
 * ready.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "ops.h"

static void want(struct fuse_conn_info *conn, unsigned capability, bool on)
{
    if (on && (conn->capable & capability) != 0)
        conn->want |= capability;
    else
        conn->want &= ~capability;
}

static void ops_init(void *userdata, struct fuse_conn_info *conn)
{
    const struct ops *ops = userdata;
    const struct fs_options *options = &ops->fs->options;

    conn->max_write = OPS_IO_MAX;
    conn->max_read = OPS_IO_MAX;
    conn->max_readahead = OPS_IO_MAX;
    conn->max_background = 32; /* read-ahead requests in flight: 32 MiB, decoded on all cores */
    conn->congestion_threshold = 24;
    conn->time_gran = 1;
    want(conn, FUSE_CAP_ASYNC_READ, true);
    want(conn, FUSE_CAP_ASYNC_DIO, true);
    want(conn, FUSE_CAP_PARALLEL_DIROPS, true);
    want(conn, FUSE_CAP_READDIRPLUS, true);
    want(conn, FUSE_CAP_READDIRPLUS_AUTO, true);
    want(conn, FUSE_CAP_ATOMIC_O_TRUNC, true);
    want(conn, FUSE_CAP_EXPORT_SUPPORT, true);
    want(conn, FUSE_CAP_CACHE_SYMLINKS, true);
    /* Nothing but the kernel changes a file: its pages stay valid whatever mtime says. Not so under
     * a read-only mount, where another mount of the store may do it. */
    want(conn, FUSE_CAP_AUTO_INVAL_DATA, options->readonly);
    want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA, !options->readonly);
    /* The first version leaves every case to us and asks before each write all the same; see
     * ops_privileges.c for the second. Without both the kernel clears set-id bits by SETATTR. */
    want(conn, FUSE_CAP_HANDLE_KILLPRIV, false);
    want(conn, FUSE_CAP_POSIX_LOCKS, false);
    want(conn, FUSE_CAP_FLOCK_LOCKS, false);
    want(conn, FUSE_CAP_IOCTL_DIR, false);
    want(conn, FUSE_CAP_WRITEBACK_CACHE, options->writeback);
    want(conn, FUSE_CAP_POSIX_ACL, options->acl);
    want(conn, FUSE_CAP_DONT_MASK, options->acl); /* a default ACL replaces the umask */
    /* Data comes from and goes to our own buffers: a pipe between would only add system calls. */
    want(conn, FUSE_CAP_SPLICE_READ, false);
    want(conn, FUSE_CAP_SPLICE_WRITE, false);
    want(conn, FUSE_CAP_SPLICE_MOVE, false);
}

const struct fuse_lowlevel_ops ops_table = {
    .init = ops_init,
    .lookup = ops_lookup,
    .forget = ops_forget,
    .forget_multi = ops_forget_multi,
    .getattr = ops_getattr,
    .setattr = ops_setattr,
    .statfs = ops_statfs,
    .readlink = ops_readlink,
    .mknod = ops_mknod,
    .mkdir = ops_mkdir,
    .symlink = ops_symlink,
    .link = ops_link,
    .unlink = ops_unlink,
    .rmdir = ops_rmdir,
    .rename = ops_rename,
    .open = ops_open,
    .create = ops_create,
    .read = ops_read,
    .write = ops_write,
    .flush = ops_flush,
    .release = ops_release,
    .fsync = ops_fsync,
    .fallocate = ops_fallocate,
    .lseek = ops_lseek,
    .copy_file_range = ops_copy_file_range,
    .opendir = ops_opendir,
    .readdir = ops_readdir,
    .readdirplus = ops_readdirplus,
    .releasedir = ops_releasedir,
    .fsyncdir = ops_fsyncdir,
    .setxattr = ops_setxattr,
    .getxattr = ops_getxattr,
    .listxattr = ops_listxattr,
    .removexattr = ops_removexattr,
};

int ops_new(struct fs *fs, struct ops **out)
{
    struct ops *ops = calloc(1, sizeof *ops);
    int error;

    if (ops == NULL)
        return -ENOMEM;
    ops->fs = fs;
    ops->timeout = fs->options.readonly ? OPS_TIMEOUT_READONLY : OPS_TIMEOUT;
    error = pthread_key_create(&ops->buffers, free);
    if (error != 0) {
        free(ops);
        return -error;
    }
    *out = ops;
    return 0;
}

void ops_free(struct ops *ops)
{
    if (ops == NULL)
        return;
    free(pthread_getspecific(ops->buffers)); /* of this thread; others freed theirs at their end */
    pthread_key_delete(ops->buffers);
    free(ops);
}

struct ops *ops_of(fuse_req_t req)
{
    struct ops *ops = fuse_req_userdata(req);

    atomic_fetch_add_explicit(&ops->fs->counters.foreground, 1, memory_order_relaxed);
    return ops;
}

void *ops_buffer(struct ops *ops)
{
    void *buffer = pthread_getspecific(ops->buffers);

    if (buffer == NULL) {
        buffer = malloc(OPS_IO_MAX);
        if (buffer != NULL && pthread_setspecific(ops->buffers, buffer) != 0) {
            free(buffer);
            buffer = NULL;
        }
    }
    return buffer;
}

void ops_reply_error(fuse_req_t req, int error)
{
    /* Callers know EIO; what is damaged is in the log. */
    fuse_reply_err(req, error == -EUCLEAN ? EIO : -error);
}

int ops_stale(int error)
{
    return error == -ENOENT ? -ESTALE : error;
}

struct timespec ops_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now;
}
