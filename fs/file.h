/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file.h - the contents of one file: everything FUSE and the control socket do with its data.
 * All functions return 0 (or a count) or a negative errno, take and release inode->lock themselves
 * and are called outside transactions with a held inode.
 */
#ifndef FS_FILE_H
#define FS_FILE_H

#include <sys/types.h>
#include <sys/uio.h>

#include "inode.h"

/* Per open handle: detects sequential reading. All zero but inode and flags at first. The kernel
 * reads ahead with several requests at once, so the fields are atomic and only hints. */
struct fs_handle {
    struct fs_inode *inode;
    int flags;                    /* O_* of open */
    _Atomic uint64_t next_offset; /* where a sequential read would start */
    _Atomic unsigned sequential;  /* KiB read one after the other, 0 = elsewhere */
    _Atomic uint64_t ahead;       /* first block number not yet scheduled for read-ahead */
};

/* Reads up to SIZE bytes at OFFSET into BUFFER; short only at the end of the file. handle may be
 * NULL. */
ssize_t fs_file_read(struct fs *fs, struct fs_inode *inode, struct fs_handle *handle, void *buffer,
                     size_t size, uint64_t offset);
/* All or an error: room is reserved first (-ENOSPC), then the data is dirty in memory. append: at
 * the end of file, whatever OFFSET says. Short only after a part was accepted and then a damaged
 * block (-EIO) or a lack of memory met, or when SIZE is beyond half of options.dirty. */
ssize_t fs_file_write(struct fs *fs, struct fs_inode *inode, const void *data, size_t size,
                      uint64_t offset, bool append);
int fs_file_truncate(struct fs *fs, struct fs_inode *inode, uint64_t size);
/* mode: FALLOC_FL_* as of fallocate(2): 0, KEEP_SIZE, PUNCH_HOLE|KEEP_SIZE, ZERO_RANGE[|KEEP_SIZE].
 * Others: -EOPNOTSUPP. Allocation reserves nothing that lasts: data is compressed. */
int fs_file_allocate(struct fs *fs, struct fs_inode *inode, int mode, uint64_t offset,
                     uint64_t length);
/* whence: SEEK_DATA or SEEK_HOLE. Uncertain means data. -ENXIO past the end. */
off_t fs_file_seek(struct fs *fs, struct fs_inode *inode, uint64_t offset, int whence);
/* Shares whole blocks where both offsets are block-aligned, copies the rest. Overlapping ranges of
 * one file: -EINVAL. */
ssize_t fs_file_copy(struct fs *fs, struct fs_inode *in, uint64_t offset_in, struct fs_inode *out,
                     uint64_t offset_out, uint64_t length);
/* close: starts writing the dirty blocks and returns (one small block is left to the flusher, which
 * writes it a second later); reports (once) an earlier write-back error. */
int fs_file_flush(struct fs *fs, struct fs_inode *inode);
/* Writes the dirty blocks of INODE into the store without committing. */
int fs_file_write_back(struct fs *fs, struct fs_inode *inode);
/* fsync: write back, then index_commit; reports (once) an earlier write-back error. */
int fs_file_sync(struct fs *fs, struct fs_inode *inode);

#endif
