/* SPDX-License-Identifier: BSD-2-Clause
 *
 * blocks.h - reading stored blocks: the cache of decoded blocks, and the one way from a block id to
 * its plain bytes (pack read, checksum, decode, plain hash). Keyed by block id, whose plain bytes
 * never change, so nothing is ever invalidated. Memory stays within the limit given: pinned blocks
 * beyond it make fs_block_load decode into a buffer that is freed when it is put.
 */
#ifndef FS_BLOCKS_H
#define FS_BLOCKS_H

#include "core.h"

struct fs_block {
    uint64_t id;
    uint32_t size; /* plain bytes */
    const uint8_t *data;
};

/* limit: bytes of decoded blocks and their bookkeeping. Needs fs->buffers. */
int fs_cache_new(struct fs *fs, uint64_t limit, struct fs_cache **cache);
void fs_cache_free(struct fs_cache *cache);
uint64_t fs_cache_bytes(struct fs_cache *cache); /* in use now, at most the limit */
void fs_cache_drop(struct fs_cache *cache);      /* forgets every block that is not pinned */

/* Returns the decoded block, from the cache or the pack; concurrent callers of one block share one
 * decode. Outside transactions. -ENOENT: no such block (any more). -EIO after a damaged record:
 * logged with path (INO), block and pack. */
int fs_block_load(struct fs *fs, uint64_t id, uint64_t ino, const struct fs_block **block);
void fs_block_put(struct fs *fs, const struct fs_block *block);
/* Schedules a decode on the workers unless the block is cached, loading, or memory is short.
 * urgent: the caller is about to wait for it. */
void fs_block_prefetch(struct fs *fs, uint64_t id, uint64_t ino, bool urgent);
/* Puts freshly written plain bytes into the cache (copied). Best effort. */
void fs_block_insert(struct fs *fs, uint64_t id, const void *plain, uint32_t size);
/* The uncached core: index look-up, pack read with retry when the block moves, decode, hash check.
 * plain: block->plain_size bytes, at most fs->block_size. context: of the calling thread. */
struct sep_context;
int fs_block_decode(struct fs *fs, struct sep_context *context, uint64_t id, uint64_t ino,
                    void *plain, uint32_t *plain_size);
/* Whether the stored block reads back as exactly PLAIN: 1 or 0, negative errno when it can't be
 * read. What the cache holds is not enough: the record in the pack is read as well. */
int fs_block_equal(struct fs *fs, struct sep_context *context, uint64_t id, uint64_t ino,
                   const void *plain, uint32_t size);

#endif
