/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ops.h - the FUSE operations, one file a kind, and what they share. Every operation answers its
 * request exactly once. None keeps the kernel's lookup counts: inode numbers are persistent and
 * never reused, so a number the kernel still remembers either names the same inode or none.
 *
 * The kernel checks permissions (default_permissions), serialises changes of one directory, and is
 * the only way to change anything in a mounted store: what it has cached stays true.
 */
#ifndef FS_OPS_H
#define FS_OPS_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "core.h"

#define OPS_IO_MAX       (1u << 20) /* bytes of one read or write request */
#define OPS_UNPRIVILEGED 4096u      /* entries of the table below */
#define OPS_CAPABILITY   "security.capability"

/* Seconds that the kernel may believe names and attributes. The longer one is limited only so that a
 * fault of ours in telling it about st_blocks would not last for ever. The shorter is for read-only
 * mounts: another mount of the same store may be changing it. */
#define OPS_TIMEOUT          3600.0
#define OPS_TIMEOUT_READONLY 1.0

struct ops {
    struct fs *fs;
    double timeout;
    pthread_key_t buffers; /* of each FUSE thread: OPS_IO_MAX bytes, allocated at the first use */
    /* FUSE_HANDLE_KILLPRIV_V2, see ops_privileges.c: set while FUSE_INIT is answered, before there
     * is a second thread */
    enum { OPS_INIT_BEFORE, OPS_INIT_OFFERED, OPS_INIT_DONE } init_state;
    uint64_t init_unique;
    bool kill_privileges;
    /* Inodes known to have neither set-id bits nor a capability. Slot ino % OPS_UNPRIVILEGED;
     * written inside transactions only, so in the order of the changes. */
    _Atomic uint64_t unprivileged[OPS_UNPRIVILEGED];
};

extern const struct fuse_lowlevel_ops ops_table;

int ops_new(struct fs *fs, struct ops **ops);
void ops_free(struct ops *ops);

/* Counts the request as foreground work. */
struct ops *ops_of(fuse_req_t req);
/* The thread's buffer, NULL when memory is short. */
void *ops_buffer(struct ops *ops);
/* Answers with an error given as 0 or a negative errno. */
void ops_reply_error(fuse_req_t req, int error);
/* An inode that the kernel names is gone: -ESTALE makes it look the path up again, where -ENOENT
 * would be believed although the name may have been given to another inode meanwhile. */
int ops_stale(int error);
struct timespec ops_now(void);

/* attributes; the first three inside a transaction */
void ops_stat(struct fs *fs, const struct index_inode *attr, struct stat *stat);
void ops_entry(struct ops *ops, const struct index_inode *attr, struct fuse_entry_param *entry);
int ops_touch_parent(struct index_txn *txn, struct index_inode *parent, int link_change);
void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                 struct fuse_file_info *fi);
void ops_statfs(fuse_req_t req, fuse_ino_t ino);

/* names */
struct ops_node {
    mode_t mode; /* type and permissions as asked for */
    dev_t rdev;
    const char *target; /* of a symbolic link */
};
int ops_make(struct ops *ops, fuse_req_t req, fuse_ino_t parent, const char *name,
             const struct ops_node *node, struct fuse_entry_param *entry);
/* One name of INO was removed; the last takes the inode along, once the kernel forgets it. Inside a
 * transaction. */
int ops_drop_link(struct fs *fs, struct index_txn *txn, uint64_t ino);
void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups);
void ops_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void ops_readlink(fuse_req_t req, fuse_ino_t ino);
void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void ops_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                const char *new_name, unsigned flags);

/* file contents */
void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                struct fuse_file_info *fi);
void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void ops_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
               struct fuse_file_info *fi);
void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                   struct fuse_file_info *fi);
void ops_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void ops_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in,
                         struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t offset_out,
                         struct fuse_file_info *fi_out, size_t length, int flags);

/* directories */
void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                 struct fuse_file_info *fi);
void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                     struct fuse_file_info *fi);
void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

/* extended attributes */
void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                  int flags);
void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

/* privileges of files: ops_privileges.c */
int ops_offer_kill_privileges(struct fuse_session *session); /* after the mount, before the loop */
/* Inside a transaction: INO has no capability, and MODE. */
void ops_note_unprivileged(struct ops *ops, uint64_t ino, uint32_t mode);
void ops_forget_unprivileged(struct ops *ops, uint64_t ino);
bool ops_known_unprivileged(struct ops *ops, uint64_t ino);
/* Inside a transaction: removes the capability and clears the bits in *mode. */
int ops_strip(struct index_txn *txn, uint64_t ino, uint32_t *mode);
/* The contents of INO change on behalf of REQ. */
int ops_drop_privileges(struct ops *ops, fuse_req_t req, uint64_t ino);

#endif
