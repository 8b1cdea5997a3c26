/* SPDX-License-Identifier: BSD-2-Clause
 *
 * core.h - struct fs: one mounted store, and what its parts share.
 *
 * Locks, in the order they are taken:
 *   1. fs_inode.lock (data of one file: readers share, writers exclude)
 *   2. the index transaction (index_begin .. index_end)
 *   3. leaf mutexes: the inode table, the block cache shards, the write-back queue, counters
 * Name-space operations take no inode lock: they happen inside one index transaction. Nothing
 * blocks on I/O, a codec or another worker inside 2 or 3.
 */
#ifndef FS_CORE_H
#define FS_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "index/index.h"
#include "options.h"
#include "promote.h"

struct fuse_session;
struct fs_buffers;
struct fs_inodes;
struct fs_reaper;
struct fs_cache;
struct fs_writeback;
struct fs_workers;
struct fs_compactor;
struct fs_models;
struct fs_control;
struct fs_scrub;

/* Monotonic counters since the mount; printed by sepfs-stats through the control socket. */
struct fs_counters {
    _Atomic uint64_t cache_hits, cache_misses;
    _Atomic uint64_t blocks_read, blocks_written, blocks_deduplicated, blocks_holes;
    _Atomic uint64_t readahead_blocks;
    _Atomic uint64_t read_errors, write_errors;
    _Atomic uint64_t blocks_healed; /* damaged ones stored again: their bytes were written */
    _Atomic uint64_t foreground;    /* operations served; the compactor pauses while it moves */
    _Atomic uint64_t decode_ns[32]; /* histogram: blocks whose decode took [2^i, 2^(i+1)) ns */
};

struct fs {
    struct index *index;
    struct fs_options options;
    uint32_t block_size;
    struct fs_buffers *buffers;     /* buffers.h */
    struct fs_inodes *inodes;       /* inode.h */
    struct fs_reaper *reaper;       /* reaper.h; NULL when read-only */
    struct fs_cache *cache;         /* blocks.h */
    struct fs_models *models;       /* models.h */
    struct fs_workers *workers;     /* workers.h: codec threads, foreground priority */
    struct fs_writeback *writeback; /* writeback.h; NULL when read-only */
    struct fs_compactor *compactor; /* compactor.h; NULL with compact=off or ro */
    struct fs_control *control;     /* control.h; NULL when read-only */
    struct fs_scrub *scrub;         /* scrub.h; NULL when read-only */
    /* Notifications to the kernel, notify.c. NULL in unit tests, and while nothing is mounted. */
    struct fuse_session *_Atomic session;
    pthread_rwlock_t notify_lock;
    struct fs_counters counters;
    atomic_bool recount;       /* stored bytes of inodes have to be summed again by the next pass */
    struct fs_promote promote; /* promote.h */
};

/* Starts everything above the index (workers, cache, write-back, reaper, compactor, scrub) on an open
 * store; session may be set later, and fs_control_start is called by whoever knows the mount point.
 * fs_stop stops control, scrub and compactor, writes everything back, stops the threads and commits; it
 * returns the first error met, and what could not be written is logged by path. Neither opens nor
 * closes the index. */
int fs_start(struct fs *fs, struct index *index, const struct fs_options *options);
int fs_stop(struct fs *fs);
/* The same without compactor, scrub and control: the data path alone (used by fs_start and by tests). */
int fs_data_start(struct fs *fs, struct index *index, const struct fs_options *options);
int fs_data_stop(struct fs *fs);

/* Tells the kernel that the attributes it caches for INO are stale (st_blocks changed). Outside locks;
 * does nothing without a session. fs_notify_start before the mount is served; after fs_notify_end no
 * thread uses the session's descriptor any more, so that it can be closed. */
void fs_notify(struct fs *fs, uint64_t ino);
void fs_notify_start(struct fs *fs, struct fuse_session *session);
void fs_notify_end(struct fs *fs);

/* printf-like logging: syslog priorities; stderr in the foreground, syslog otherwise; rate-limited.
 */
void fs_log_open(bool foreground, bool debug);
void fs_log(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fs_log_line(void *arg, int priority, const char *line); /* an index_log_fn */

#endif
