/* SPDX-License-Identifier: BSD-2-Clause
 *
 * writeback.h - dirty blocks and how they become stored ones. A dirty block is a whole block in
 * memory, at most options.dirty bytes of them in all: writers wait for the workers beyond that. A
 * block is written when it is complete, on flush and fsync, when it is older than the commit
 * interval, or when memory is short. Steps of a worker: zero test (a hole), hash, dedup (the stored
 * block is read back and compared), compress with the file's hot method, pack append, one
 * transaction (block, extent, size).
 *
 * A block being written can be overwritten: the writer gets a copy, which is written after it.
 */
#ifndef FS_WRITEBACK_H
#define FS_WRITEBACK_H

#include "inode.h"

int fs_writeback_start(struct fs *fs);
/* Writes everything, stops the flusher thread. First error met; what could not be written is logged
 * by path and dropped. */
int fs_writeback_stop(struct fs *fs);
void fs_writeback_free(struct fs *fs); /* once the workers have ended */

/* Queues every dirty block in the store, waits for them; no commit. */
int fs_writeback_all(struct fs *fs);
/* Bytes of dirty data now. */
uint64_t fs_writeback_bytes(struct fs *fs);

/* The rest is dirty.h, used by file*.c and store.c. */

#endif
