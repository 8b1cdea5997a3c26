/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reaper.h - the thread that deletes unlinked files, however large, in short transactions.
 */
#ifndef FS_REAPER_H
#define FS_REAPER_H

#include "core.h"

int fs_reaper_start(struct fs *fs);
/* Every queued inode gets one more transaction, which is enough for all but large files; the rest is
 * marked in the index and done after the next start. */
void fs_reaper_stop(struct fs *fs);
/* Queues an inode without names. Any context: a leaf lock and no I/O. */
void fs_reaper_push(struct fs *fs, uint64_t ino);
/* Waits until the queue is empty and nothing is in progress. */
void fs_reaper_wait(struct fs *fs);

#endif
