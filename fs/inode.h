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

#include "core.h"
#include "policy.h"

struct fs_dirty; /* writeback.h: one dirty block */

struct fs_inode {
    uint64_t ino;
    pthread_rwlock_t lock; /* file data; see core.h */
    /* guarded by the inode table's mutex */
    unsigned holds; /* operations in progress, dirty blocks, open handles */
    unsigned opens; /* open handles */
    struct fs_inode *hash_next;
    /* guarded by overlay_lock (leaf) */
    pthread_mutex_t overlay_lock;
    bool overlay; /* size and times below are newer than the record */
    uint64_t size;
    struct timespec mtime, ctime;
    bool stat_stale; /* st_blocks was answered while data was dirty: tell the kernel on flush */
    int write_error; /* first write-back error not yet reported by fsync or close (negative) */
    /* guarded by lock (exclusive) and the write-back mutex */
    struct fs_dirty *dirty;    /* owned by writeback.c */
    struct fs_policy policy;   /* as of the first hold */
    _Atomic int64_t last_read; /* seconds since the epoch */
};

int fs_inodes_new(struct fs_inodes **inodes);
void fs_inodes_free(struct fs_inodes *inodes);

/* Finds or loads. -ENOENT when the index has no such inode. Call outside a transaction. */
int fs_inode_hold(struct fs *fs, uint64_t ino, struct fs_inode **inode);
void fs_inode_drop(struct fs *fs, struct fs_inode *inode);
/* Already resident: held and returned; else NULL. May be called inside a transaction. */
struct fs_inode *fs_inode_peek(struct fs *fs, uint64_t ino);

/* Open handles. fs_inode_close starts reaping when the last handle of an unlinked file goes. */
int fs_inode_open(struct fs *fs, uint64_t ino, struct fs_inode **inode);
void fs_inode_close(struct fs *fs, struct fs_inode *inode);
bool fs_inode_is_open(struct fs *fs, uint64_t ino); /* may be called inside a transaction */

/* Attributes as users see them: index record plus overlay. Inside a transaction. */
int fs_attr_get(struct fs *fs, struct index_txn *txn, uint64_t ino, struct index_inode *attr);
/* Writes the record. size: the overlay keeps its own, and the record that of the flushed data; with
 * no overlay attr->size is stored. Times go to both. */
int fs_attr_put(struct fs *fs, struct index_txn *txn, const struct index_inode *attr);

/* Called inside a transaction when the last link went: marks the orphan, and either leaves it to
 * the last close or hands it to the reaper (which deletes in short transactions). */
int fs_inode_unlinked(struct fs *fs, struct index_txn *txn, struct index_inode *attr);
/* Finishes every orphan left by a crash; called by fs_start. */
int fs_inode_reap_all(struct fs *fs);

#endif
