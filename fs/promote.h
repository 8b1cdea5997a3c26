/* SPDX-License-Identifier: BSD-2-Clause
 *
 * promote.h - counts how often cold blocks are decoded, for the mount option promote: a block that
 * is decoded PROMOTE_READS times within PROMOTE_WINDOW seconds goes back to the hot codec.
 *
 * What counts is decoding, not reading: a block that the cache holds costs nothing, however often it
 * is read. The table is a small, lossy memory of recent decodes; losing one delays a promotion.
 */
#ifndef FS_PROMOTE_H
#define FS_PROMOTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "index/index.h"

struct fs;

#define FS_PROMOTE_READS  3u
#define FS_PROMOTE_WINDOW 600  /* seconds */
#define FS_PROMOTE_SLOTS  512u /* blocks remembered, a power of two */

/* Part of struct fs, so that a decode at any time has a place to count. Fields are changed one by
 * one: whoever uses them checks that the file does refer to the block. */
struct fs_promote {
    struct fs_promote_slot {
        _Atomic uint64_t block, ino; /* ino: a file through which it was read */
        _Atomic int64_t since;       /* of the first decode counted, seconds since the epoch */
        _Atomic uint32_t reads;
    } slots[FS_PROMOTE_SLOTS];
};

/* A block was decoded for a reader of INO. Cheap, from any thread. */
void fs_promote_read(struct fs *fs, const struct index_block *block, uint64_t ino);
/* True when a block was decoded often enough. */
bool fs_promote_ready(struct fs *fs);
/* Takes out the next block that was decoded often enough, from *slot on. False: none is left. */
bool fs_promote_take(struct fs *fs, unsigned *slot, uint64_t *block, uint64_t *ino);

#endif
