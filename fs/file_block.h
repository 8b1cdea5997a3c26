/* SPDX-License-Identifier: BSD-2-Clause
 *
 * file_block.h - what file*.c share: one block of a file, stored or dirty. All with inode->lock held,
 * exclusively unless said otherwise.
 */
#ifndef FS_FILE_BLOCK_H
#define FS_FILE_BLOCK_H

#include "blocks.h"
#include "dirty.h"
#include "file.h"

/* Largest file: off_t, and block numbers far from overflow. */
#define FS_SIZE_MAX ((uint64_t)INT64_MAX)

/* Extents removed in one transaction. */
#define FS_EXTENTS_AT_ONCE 128u

/* Room that a block of LENGTH plain bytes may need in a pack. */
static inline uint64_t fs_block_cost(uint64_t length)
{
    return length + SEP_EXPANSION_MAX + INDEX_RECORD_HEADER;
}

/* Pins the stored block behind EXTENT, which the caller has just read; looks the extent up again
 * when the block has gone meanwhile (the compactor moves files to shared blocks). *extent is then
 * the newer one; *block NULL: a hole now. inode->lock held. */
int fs_extent_load(struct fs *fs, struct fs_inode *inode, struct index_extent *extent,
                   const struct fs_block **block);
/* Copies what the store has of a block to DATA (a block's room); *length: bytes, 0 for a hole.
 * inode->lock held. */
int fs_file_fetch(struct fs *fs, struct fs_inode *inode, uint64_t number, uint8_t *data,
                  uint32_t *length);
/* Valid bytes of a block as the file's size has it. inode->lock held. */
uint32_t fs_file_valid(const struct fs *fs, const struct fs_inode *inode, uint64_t number);

/* The block, dirty and HELD, for a write to bytes [FROM, TO) of it: with its present content unless
 * the write covers all of that, and room for TO bytes. -EIO, -ENOMEM. */
int fs_file_prepare(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t from,
                    uint32_t to, struct fs_dirty **dirty);
/* Makes an unchanged block dirty with its content, and reserves for it. For a file whose content
 * must leave the inode record, and before zeros are put into a block. */
int fs_file_make_dirty(struct fs *fs, struct fs_inode *inode, uint64_t number,
                       struct fs_dirty **dirty);
/* Writes into a HELD block (data NULL: zeros), filling a gap before FROM with zeros. */
void fs_dirty_fill(struct fs_dirty *dirty, uint32_t from, uint32_t to, const void *data);

/* Now as mtime and ctime, and perhaps a new size; the overlay begins. */
void fs_file_touch(struct fs_inode *inode, uint64_t size);
/* Settles the record after a change that made nothing dirty. */
int fs_file_settle(struct fs *fs, struct fs_inode *inode);
/* Takes blocks FIRST..LAST out of file and store. The caller touches and settles. */
int fs_file_remove(struct fs *fs, struct fs_inode *inode, uint64_t first, uint64_t last);
/* Shortens a stored block to KEEP bytes inside a transaction. */
int fs_extent_trim(struct index_txn *txn, struct fs_inode *inode, struct index_inode *record,
                   uint64_t number, uint32_t keep);

/* readahead.c: after a read of [offset, offset + size); inode->lock held. */
void fs_readahead(struct fs *fs, struct fs_inode *inode, struct fs_handle *handle, uint64_t offset,
                  uint64_t size);

#endif
