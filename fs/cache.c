/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cache.c - decoded blocks in memory: shards by block id, each a hash table and a least-recently-used
 * list under one mutex.
 *
 * Invariants
 *  - The charges of a shard never exceed its limit. A claim charges a whole block before its size is
 *    known and is corrected when the block arrives.
 *  - A pinned entry is never freed or moved; an unpinned one is ready and on the list.
 *  - One thread loads a block; others wait for it, and share its error. Only a running load is waited
 *    for: a queued one is taken over by whoever needs the block, and its task then finds nothing to
 *    do. A load takes no lock that a waiter may hold.
 *  - Queued entries are charged, so read-ahead is bounded: they get at most half of a shard, and a
 *    task that comes late does not decode again what was read and forgotten meanwhile.
 */
#include "cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "buffers.h"

#define SHARDS_MAX       16u
#define SHARD_BLOCKS_MIN 16u /* whole blocks a shard must hold, or there are fewer shards */

TAILQ_HEAD(lru, fs_cached);

struct shard {
    pthread_mutex_t mutex;
    pthread_cond_t loaded;
    uint64_t limit, used;
    uint64_t queued; /* of used: charges of queued entries */
    struct lru lru;  /* first = used last */
    struct fs_cached **bucket;
    uint64_t mask; /* buckets - 1 */
};

struct fs_cache {
    struct fs *fs;
    uint64_t whole; /* charge of a whole block */
    unsigned shards;
    struct shard shard[SHARDS_MAX];
};

static uint64_t mix(uint64_t id)
{
    return (id * UINT64_C(0x9E3779B97F4A7C15)) >> 16;
}

static struct shard *shard_of(struct fs_cache *cache, uint64_t id)
{
    return &cache->shard[mix(id) % cache->shards];
}

static struct fs_cached **bucket_of(struct shard *shard, uint64_t id)
{
    return &shard->bucket[(mix(id) >> 4) & shard->mask];
}

static struct fs_cached *find(struct shard *shard, uint64_t id)
{
    struct fs_cached *entry = *bucket_of(shard, id);

    while (entry != NULL && entry->block.id != id)
        entry = entry->hash_next;
    return entry;
}

static void detach(struct shard *shard, struct fs_cached *entry)
{
    struct fs_cached **at = bucket_of(shard, entry->block.id);

    while (*at != entry)
        at = &(*at)->hash_next;
    *at = entry->hash_next;
    shard->used -= entry->charge;
    entry->charge = 0;
}

static void release(struct fs_cache *cache, struct fs_cached *entry)
{
    fs_buffer_put(cache->fs, (void *)(uintptr_t)entry->block.data, entry->capacity);
    free(entry);
}

/* Frees unpinned entries until BYTES more fit. False when pinned ones leave no room. */
static bool make_room(struct fs_cache *cache, struct shard *shard, uint64_t bytes)
{
    while (shard->used + bytes > shard->limit) {
        struct fs_cached *oldest = TAILQ_LAST(&shard->lru, lru);

        if (oldest == NULL)
            return false;
        TAILQ_REMOVE(&shard->lru, oldest, lru);
        detach(shard, oldest);
        release(cache, oldest);
    }
    return true;
}

int fs_cache_new(struct fs *fs, uint64_t limit, struct fs_cache **cache)
{
    struct fs_cache *made = calloc(1, sizeof(*made));
    uint64_t shards, buckets = 64;

    if (made == NULL)
        return -ENOMEM;
    made->fs = fs;
    made->whole = fs_buffer_whole(fs) + sizeof(struct fs_cached);
    shards = limit / (made->whole * SHARD_BLOCKS_MIN);
    made->shards = shards < 1 ? 1 : shards > SHARDS_MAX ? SHARDS_MAX : (unsigned)shards;
    while (buckets < (limit / made->shards) >> 14 && buckets < 65536)
        buckets *= 2;
    for (unsigned i = 0; i < made->shards; i++) {
        struct shard *shard = &made->shard[i];

        pthread_mutex_init(&shard->mutex, NULL);
        pthread_cond_init(&shard->loaded, NULL);
        TAILQ_INIT(&shard->lru);
        shard->limit = limit / made->shards;
        shard->mask = buckets - 1;
        shard->bucket = calloc(buckets, sizeof(struct fs_cached *));
        if (shard->bucket == NULL) {
            made->shards = i + 1;
            fs_cache_free(made);
            return -ENOMEM;
        }
    }
    *cache = made;
    return 0;
}

void fs_cache_drop(struct fs_cache *cache)
{
    for (unsigned i = 0; i < cache->shards; i++) {
        struct shard *shard = &cache->shard[i];

        pthread_mutex_lock(&shard->mutex);
        make_room(cache, shard, shard->limit);
        pthread_mutex_unlock(&shard->mutex);
    }
}

void fs_cache_free(struct fs_cache *cache)
{
    if (cache == NULL)
        return;
    fs_cache_drop(cache);
    for (unsigned i = 0; i < cache->shards; i++) {
        pthread_mutex_destroy(&cache->shard[i].mutex);
        pthread_cond_destroy(&cache->shard[i].loaded);
        free(cache->shard[i].bucket);
    }
    free(cache);
}

uint64_t fs_cache_bytes(struct fs_cache *cache)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < cache->shards; i++) {
        pthread_mutex_lock(&cache->shard[i].mutex);
        bytes += cache->shard[i].used;
        pthread_mutex_unlock(&cache->shard[i].mutex);
    }
    return bytes;
}

static void pin(struct shard *shard, struct fs_cached *entry)
{
    if (entry->pins++ == 0)
        TAILQ_REMOVE(&shard->lru, entry, lru);
}

/* Waits for the load of ENTRY to end, on which the caller has a pin. */
static int await(struct fs_cache *cache, struct shard *shard, struct fs_cached *entry)
{
    int error = 0;

    while (entry->state == FS_CACHED_LOADING)
        pthread_cond_wait(&shard->loaded, &shard->mutex);
    if (entry->state == FS_CACHED_FAILED) {
        error = entry->error;
        if (--entry->pins == 0)
            release(cache, entry);
    }
    return error;
}

static int claim(struct fs_cache *cache, struct shard *shard, uint64_t id,
                 enum fs_cached_state state, struct fs_cached **entry)
{
    struct fs_cached **bucket = bucket_of(shard, id), *made;
    const bool queued = state == FS_CACHED_QUEUED;

    if (queued && shard->queued + cache->whole > shard->limit / 2)
        return FS_CACHE_FULL;
    if (!make_room(cache, shard, cache->whole))
        return FS_CACHE_FULL;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return -ENOMEM;
    made->block.id = id;
    made->pins = 1;
    made->state = state;
    made->charge = cache->whole;
    shard->used += made->charge;
    shard->queued += queued ? made->charge : 0;
    made->ticket = queued ? entry : NULL;
    made->hash_next = *bucket;
    *bucket = made;
    *entry = made;
    return FS_CACHE_CLAIMED;
}

/* A queued entry gets its loader, who takes the task's pin over. */
static void start_loading(struct shard *shard, struct fs_cached *entry)
{
    entry->state = FS_CACHED_LOADING;
    entry->ticket = NULL;
    shard->queued -= entry->charge;
}

int fs_cache_get(struct fs_cache *cache, uint64_t id, enum fs_cache_mode mode,
                 struct fs_cached **entry)
{
    struct shard *shard = shard_of(cache, id);
    struct fs_cached *found;
    int answer = FS_CACHE_HIT;

    pthread_mutex_lock(&shard->mutex);
    found = find(shard, id);
    if (found == NULL) {
        answer = claim(cache, shard, id,
                       mode == FS_CACHE_QUEUE ? FS_CACHED_QUEUED : FS_CACHED_LOADING, entry);
    } else if (mode != FS_CACHE_WAIT) {
        answer = FS_CACHE_PRESENT;
    } else if (found->state == FS_CACHED_QUEUED) {
        *found->ticket = NULL;
        start_loading(shard, found);
        *entry = found;
        answer = FS_CACHE_CLAIMED;
    } else {
        if (found->state == FS_CACHED_READY)
            pin(shard, found);
        else
            found->pins++;
        *entry = found;
        answer = await(cache, shard, found);
    }
    pthread_mutex_unlock(&shard->mutex);
    return answer;
}

bool fs_cache_begin(struct fs_cache *cache, uint64_t id, struct fs_cached **entry)
{
    struct shard *shard = shard_of(cache, id);
    bool begin;

    pthread_mutex_lock(&shard->mutex);
    begin = *entry != NULL;
    if (begin)
        start_loading(shard, *entry);
    pthread_mutex_unlock(&shard->mutex);
    return begin;
}

struct fs_cached *fs_cache_peek(struct fs_cache *cache, uint64_t id)
{
    struct shard *shard = shard_of(cache, id);
    struct fs_cached *found;

    pthread_mutex_lock(&shard->mutex);
    found = find(shard, id);
    if (found != NULL && found->state == FS_CACHED_READY)
        pin(shard, found);
    else
        found = NULL;
    pthread_mutex_unlock(&shard->mutex);
    return found;
}

void fs_cache_complete(struct fs_cache *cache, struct fs_cached *entry, void *data, uint32_t size,
                       uint32_t capacity)
{
    struct shard *shard = shard_of(cache, entry->block.id);

    pthread_mutex_lock(&shard->mutex);
    entry->block.data = data;
    entry->block.size = size;
    entry->capacity = capacity;
    shard->used -= entry->charge;
    entry->charge = capacity + sizeof(*entry);
    shard->used += entry->charge;
    entry->state = FS_CACHED_READY;
    if (entry->pins > 1)
        pthread_cond_broadcast(&shard->loaded);
    pthread_mutex_unlock(&shard->mutex);
}

void fs_cache_fail(struct fs_cache *cache, struct fs_cached *entry, int error)
{
    struct shard *shard = shard_of(cache, entry->block.id);

    pthread_mutex_lock(&shard->mutex);
    detach(shard, entry);
    entry->state = FS_CACHED_FAILED;
    entry->error = error;
    if (--entry->pins == 0)
        release(cache, entry);
    else
        pthread_cond_broadcast(&shard->loaded);
    pthread_mutex_unlock(&shard->mutex);
}

void fs_cache_unpin(struct fs_cache *cache, struct fs_cached *entry)
{
    struct shard *shard;

    if (entry->charge == 0) { /* never was in the table: this thread's own */
        release(cache, entry);
        return;
    }
    shard = shard_of(cache, entry->block.id);
    pthread_mutex_lock(&shard->mutex);
    if (--entry->pins == 0)
        TAILQ_INSERT_HEAD(&shard->lru, entry, lru);
    pthread_mutex_unlock(&shard->mutex);
}
