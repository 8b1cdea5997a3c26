/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cache.h - the table of decoded blocks, without the knowledge of how one is made; blocks.c alone
 * uses it.
 */
#ifndef FS_CACHE_H
#define FS_CACHE_H

#include <sys/queue.h>

#include "blocks.h"

enum fs_cached_state {
    FS_CACHED_QUEUED, /* a task will load it, unless somebody who needs it does so before */
    FS_CACHED_LOADING,
    FS_CACHED_READY,
    FS_CACHED_FAILED,
};

enum fs_cache_mode {
    FS_CACHE_WAIT,  /* wait for a load in progress, take over a queued one */
    FS_CACHE_TRY,   /* only claim what is absent */
    FS_CACHE_QUEUE, /* the same, for a task that will load it later with fs_cache_begin */
};

struct fs_cached {
    struct fs_block block; /* first: fs_block_put gets this pointer back */
    struct fs_cached *hash_next;
    TAILQ_ENTRY(fs_cached) lru; /* linked while ready and not pinned */
    uint64_t charge;            /* bytes counted against the limit, 0 = outside the table */
    struct fs_cached **ticket;  /* while QUEUED: where the task looks for it */
    uint32_t capacity;          /* of block.data, for fs_buffer_put */
    unsigned pins;
    int error; /* of the load, when FAILED */
    enum fs_cached_state state;
};

enum fs_cache_answer {
    FS_CACHE_HIT,     /* pinned and ready (only with WAIT) */
    FS_CACHE_CLAIMED, /* pinned; the caller loads it, then calls complete or fail */
    FS_CACHE_FULL,    /* absent, and everything else is pinned */
    FS_CACHE_PRESENT, /* ready, or somebody sees to it (only without WAIT) */
};

/* Looks ID up; a negative errno is the failure of the load that was waited for. With QUEUE, *entry
 * belongs to the table until fs_cache_begin is called: it becomes NULL when somebody loads the block
 * before. */
int fs_cache_get(struct fs_cache *cache, uint64_t id, enum fs_cache_mode mode,
                 struct fs_cached **entry);
/* For the task of a queued entry: true when it is still to be loaded, and then claimed. */
bool fs_cache_begin(struct fs_cache *cache, uint64_t id, struct fs_cached **entry);
/* Pins a ready block, or returns NULL. */
struct fs_cached *fs_cache_peek(struct fs_cache *cache, uint64_t id);
/* Hands over DATA; the entry stays pinned. */
void fs_cache_complete(struct fs_cache *cache, struct fs_cached *entry, void *data, uint32_t size,
                       uint32_t capacity);
/* Gives the claim up; waiters get ERROR. Unpins. */
void fs_cache_fail(struct fs_cache *cache, struct fs_cached *entry, int error);
void fs_cache_unpin(struct fs_cache *cache, struct fs_cached *entry);

#endif
