/* SPDX-License-Identifier: BSD-2-Clause
 *
 * workers.h - a pool of threads, each with its own codec context, serving a queue of small tasks.
 * Two priorities: tasks somebody waits for, then read-ahead and background write-back.
 */
#ifndef FS_WORKERS_H
#define FS_WORKERS_H

#include "core.h"

struct sep_context;
struct fs_task {
    void (*run)(struct fs_task *task, struct fs *fs, struct sep_context *context);
    struct fs_task *next; /* the pool's own */
};
enum fs_priority { FS_URGENT, FS_LATER, FS_PRIORITIES };

int fs_workers_start(struct fs *fs, unsigned threads);
/* Runs what is queued, then joins the threads. */
void fs_workers_stop(struct fs *fs);
/* The task is the caller's memory and belongs to the pool until run is called. */
void fs_workers_submit(struct fs *fs, struct fs_task *task, enum fs_priority priority);
unsigned fs_workers_count(const struct fs *fs);

/* A codec context for a thread that is not a worker (FUSE threads); from a small pool, may wait.
 * NULL when memory is short. Whoever has one takes no lock that others wait under. */
struct sep_context *fs_context_take(struct fs *fs);
void fs_context_return(struct fs *fs, struct sep_context *context);

#endif
