/* SPDX-License-Identifier: BSD-2-Clause
 *
 * inode.h - inodes in memory. One exists only while a file is open, has dirty data, or an operation
 * is in it; the kernel's lookup counts keep nothing here (inode numbers are persistent and never
 * reused), so memory does not grow with the number of files the kernel has seen.
 *
 * A file with unflushed data has a newer size and newer times than its index record: the overlay.
 * All readers and writers of attributes go through fs_attr_get / fs_attr_put, inside a transaction.
 */
#ifndef FS_INODE_H
#define FS_INODE_H

#include <pthread.h>
#include <sys/queue.h>

#include "core.h"
#include "policy.h"

struct fs_dirty; /* dirty.h: one version of one dirty block */
TAILQ_HEAD(fs_dirty_list, fs_dirty);

struct fs_inode {
    uint64_t ino;
    pthread_rwlock_t lock; /* file data; see core.h */

    /* guarded by the inode table's mutex */
    struct fs_inode *hash_next;
    unsigned holds; /* operations in progress, dirty blocks, open handles */
    unsigned opens; /* open handles */
    bool loading;   /* the record is being read; fs_inode_hold waits */
    bool detached;  /* no longer in the table: loading failed */
    bool unlinked;  /* no names left: goes to the reaper with the last handle */
    bool reaping;   /* the reaper has it: can't be opened any more */
    int load_error;

    pthread_mutex_t overlay_lock; /* leaf; guards what follows */
    bool loaded;                  /* size and times are set */
    bool overlay;                 /* size and times are newer than the record */
    uint64_t size;                /* regular files: always the true one */
    struct timespec mtime, ctime;
    int64_t atime;   /* seconds; of the record */
    bool stat_stale; /* st_blocks was answered while data was dirty: tell the kernel on flush */
    int write_error; /* first write-back error not yet reported by fsync or close (negative) */

    /* guarded by lock: changed under it exclusively, read under it shared */
    uint64_t record_size;    /* size in the index record; no extent lies beyond it */
    bool is_inline;          /* the record holds the content (INDEX_INODE_INLINE) */
    struct fs_dirty **dirty; /* newest version of each dirty block, by ascending number */
    size_t dirty_count, dirty_capacity;

    struct fs_dirty_list versions; /* all versions, oldest first; write-back mutex */
    struct fs_policy policy;       /* as of the first hold */
    _Atomic unsigned mappers;  /* open handles behind which the kernel may have unwritten pages */
    _Atomic int64_t last_read; /* seconds since the epoch */
};

int fs_inodes_new(struct fs_inodes **inodes);
void fs_inodes_free(struct fs_inodes *inodes);

/* Finds or loads. -ENOENT when the index has no such inode. Call outside a transaction. */
int fs_inode_hold(struct fs *fs, uint64_t ino, struct fs_inode **inode);
/* Another hold for who already has one. */
void fs_inode_hold_again(struct fs *fs, struct fs_inode *inode);
/* May be called inside a transaction. */
void fs_inode_drop(struct fs *fs, struct fs_inode *inode);
/* Already resident: held and returned; else NULL. May be called inside a transaction. */
struct fs_inode *fs_inode_peek(struct fs *fs, uint64_t ino);

/* Open handles. fs_inode_close starts reaping when the last handle of an unlinked file goes. */
int fs_inode_open(struct fs *fs, uint64_t ino, struct fs_inode **inode);
void fs_inode_close(struct fs *fs, struct fs_inode *inode);
bool fs_inode_is_open(struct fs *fs, uint64_t ino); /* may be called inside a transaction */
/* No names and no handles: nobody will ever read what is dirty. */
bool fs_inode_doomed(struct fs *fs, const struct fs_inode *inode);
/* After a link appeared or the last one went: open handles or not. False: not in memory. */
bool fs_inode_set_unlinked(struct fs *fs, uint64_t ino, bool unlinked, bool *open);
/* For the reaper: claims an unlinked inode that is not open. Its drop then queues nothing. */
bool fs_inode_claim(struct fs *fs, struct fs_inode *inode);

/* Attributes as users see them: index record plus overlay. Inside a transaction. */
int fs_attr_get(struct fs *fs, struct index_txn *txn, uint64_t ino, struct index_inode *attr);
/* Writes the record. Regular files in memory keep size, stored bytes and inline content of the
 * record (those belong to the data path); otherwise attr is stored as it is. Times go to record and
 * overlay. */
int fs_attr_put(struct fs *fs, struct index_txn *txn, const struct index_inode *attr);

/* Before fs_inode_unlinked: the kernel refers to this inode, and will say when it does no longer.
 * May be called inside a transaction. Kernels forget an inode without links as soon as its last
 * dentry, file and mapping have gone. */
void fs_inode_linger(struct fs *fs, uint64_t ino);
/* The kernel refers to it no longer (harmless for inodes that do not linger). A FORGET that was
 * under way while the inode was looked up once more makes this come early; then an open at that
 * moment is answered -ESTALE, and the kernel walks the path again. */
void fs_inode_forgotten(struct fs *fs, uint64_t ino);
/* The kernel is gone: so for all. */
void fs_inode_forget_all(struct fs *fs);
/* Called inside a transaction when the last link went (attr->nlink is 0): stores attr, marks the
 * orphan, and leaves it to the last close or FORGET, deletes it at once when it is small, or hands
 * it to the reaper (which deletes in short transactions). */
int fs_inode_unlinked(struct fs *fs, struct index_txn *txn, struct index_inode *attr);
/* Finishes every orphan left by a crash: interrupted truncations now, unlinked files in the
 * background. Called by fs_start. */
int fs_inode_reap_all(struct fs *fs);

#endif
