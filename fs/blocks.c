/* SPDX-License-Identifier: BSD-2-Clause
 *
 * blocks.c - from a block id to its plain bytes.
 *
 * A block may be moved to another pack while it is read (compaction, garbage collection): a read
 * that fails is believed only when the block still lies where it was looked for. What decodes is
 * compared with the block's plain hash before anybody sees it, so a wrong byte never leaves here:
 * damage is -EIO for this block, logged once per attempt with all its coordinates.
 */
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "buffers.h"
#include "cache.h"
#include "models.h"
#include "workers.h"

#define MOVES_MAX 16 /* times a block may move under one read before that counts as an error */

static int look_up(struct fs *fs, uint64_t id, struct index_block *block)
{
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    error = index_block_get(txn, id, block);
    index_end(txn);
    if (error == 0 && (block->plain_size == 0 || block->plain_size > fs->block_size ||
                       block->at.payload_size > fs_buffer_whole(fs))) {
        fs_log(LOG_ERR, "block %llu: impossible sizes %u plain, %u stored", (unsigned long long)id,
               block->plain_size, block->at.payload_size);
        error = -EIO;
    }
    return error;
}

static bool same_place(const struct index_location *a, const struct index_location *b)
{
    return a->pack == b->pack && a->offset == b->offset && a->payload_size == b->payload_size;
}

static int damaged(struct fs *fs, const struct index_block *block, uint64_t ino, const char *reason)
{
    char path[512];
    struct index_txn *txn;

    path[0] = '\0';
    if (index_begin(fs->index, INDEX_READ, &txn) == 0) {
        index_inode_path(txn, ino, path, sizeof(path));
        index_end(txn);
    }
    fs_log(LOG_ERR, "%s (inode %llu): block %llu in pack %u at offset %llu: %s", path,
           (unsigned long long)ino, (unsigned long long)block->id, block->at.pack,
           (unsigned long long)block->at.offset, reason);
    atomic_fetch_add_explicit(&fs->counters.read_errors, 1, memory_order_relaxed);
    return -EIO;
}

/* Reads the payload of BLOCK into BUFFER, following it when it moves. *block: as found last. */
static int read_payload(struct fs *fs, struct index_block *block, uint64_t ino, void *buffer)
{
    for (int i = 0; i < MOVES_MAX; i++) {
        struct index_location tried = block->at;
        int error = index_pack_read(fs->index, block, buffer);

        if (error != -EIO && error != -ESTALE)
            return error;
        error = look_up(fs, block->id, block);
        if (error != 0)
            return error;
        if (same_place(&tried, &block->at))
            break;
    }
    return damaged(fs, block, ino, "record is damaged or unreadable");
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void count_decode(struct fs *fs, uint64_t ns)
{
    unsigned bucket = 63u - (unsigned)__builtin_clzll(ns | 1);

    atomic_fetch_add_explicit(&fs->counters.blocks_read, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&fs->counters.decode_ns[bucket > 31 ? 31 : bucket], 1,
                              memory_order_relaxed);
}

/* Decodes BLOCK, as looked up, to PLAIN (block->plain_size bytes). */
static int decode(struct fs *fs, struct sep_context *context, struct index_block *block,
                  uint64_t ino, void *plain)
{
    uint64_t start = now_ns();
    uint32_t capacity;
    void *payload = fs_buffer_get(fs, fs_buffer_whole(fs), &capacity);
    enum sep_status status;
    struct index_hash hash;
    int error;

    if (payload == NULL)
        return -ENOMEM;
    error = read_payload(fs, block, ino, payload);
    if (error != 0)
        goto out;
    status = sep_decode(context, block->codec, payload, block->at.payload_size, plain,
                        block->plain_size);
    /* Contexts get models when the first block asks for one. */
    if (status == SEP_ERROR_MODEL_MISSING && fs_models_give(fs->models, context) == SEP_OK)
        status = sep_decode(context, block->codec, payload, block->at.payload_size, plain,
                            block->plain_size);
    if (status == SEP_ERROR_MEMORY) {
        error = -ENOMEM;
        goto out;
    }
    if (status != SEP_OK) {
        error = damaged(fs, block, ino, sep_status_text(status));
        goto out;
    }
    hash = index_hash_of(plain, block->plain_size);
    if (hash.low != block->hash.low || hash.high != block->hash.high)
        error = damaged(fs, block, ino, "decoded bytes do not have the stored hash");
    else
        count_decode(fs, now_ns() - start);
out:
    fs_buffer_put(fs, payload, capacity);
    return error;
}

int fs_block_decode(struct fs *fs, struct sep_context *context, uint64_t id, uint64_t ino,
                    void *plain, uint32_t *plain_size)
{
    struct index_block block;
    int error = look_up(fs, id, &block);

    if (error == 0)
        error = decode(fs, context, &block, ino, plain);
    *plain_size = error == 0 ? block.plain_size : 0;
    return error;
}

/* Decodes block ID into fresh memory. context may be NULL: one is then borrowed. */
static int decode_new(struct fs *fs, struct sep_context *context, uint64_t id, uint64_t ino,
                      void **data, uint32_t *size, uint32_t *capacity)
{
    struct index_block block;
    struct sep_context *borrowed = NULL;
    void *memory;
    int error = look_up(fs, id, &block);

    if (error != 0)
        return error;
    memory = fs_buffer_get(fs, block.plain_size, capacity);
    if (memory == NULL)
        return -ENOMEM;
    if (context == NULL)
        context = borrowed = fs_context_take(fs);
    error = context == NULL ? -ENOMEM : decode(fs, context, &block, ino, memory);
    if (borrowed != NULL)
        fs_context_return(fs, borrowed);
    if (error != 0) {
        fs_buffer_put(fs, memory, *capacity);
        return error;
    }
    fs_promote_read(fs, &block, ino);
    *data = memory;
    *size = block.plain_size;
    return 0;
}

/* Loads a claimed entry; on failure the claim is gone. */
static int fill(struct fs *fs, struct sep_context *context, struct fs_cached *entry, uint64_t ino)
{
    void *data;
    uint32_t size, capacity;
    int error = decode_new(fs, context, entry->block.id, ino, &data, &size, &capacity);

    if (error == 0)
        fs_cache_complete(fs->cache, entry, data, size, capacity);
    else
        fs_cache_fail(fs->cache, entry, error);
    return error;
}

static int load_uncached(struct fs *fs, uint64_t id, uint64_t ino, struct fs_cached **entry)
{
    struct fs_cached *own = calloc(1, sizeof(*own));
    void *data;
    int error;

    if (own == NULL)
        return -ENOMEM;
    own->block.id = id;
    error = decode_new(fs, NULL, id, ino, &data, &own->block.size, &own->capacity);
    if (error != 0) {
        free(own);
        return error;
    }
    own->block.data = data;
    *entry = own;
    return 0;
}

int fs_block_load(struct fs *fs, uint64_t id, uint64_t ino, const struct fs_block **block)
{
    struct fs_cached *entry = NULL;
    int answer = fs_cache_get(fs->cache, id, FS_CACHE_WAIT, &entry);

    if (answer < 0)
        return answer;
    atomic_fetch_add_explicit(answer == FS_CACHE_HIT ? &fs->counters.cache_hits
                                                     : &fs->counters.cache_misses,
                              1, memory_order_relaxed);
    if (answer == FS_CACHE_CLAIMED)
        answer = fill(fs, NULL, entry, ino);
    else if (answer == FS_CACHE_FULL)
        answer = load_uncached(fs, id, ino, &entry);
    if (answer == 0)
        *block = &entry->block;
    return answer;
}

void fs_block_put(struct fs *fs, const struct fs_block *block)
{
    fs_cache_unpin(fs->cache, (struct fs_cached *)(uintptr_t)block);
}

struct prefetch {
    struct fs_task task;     /* first */
    struct fs_cached *entry; /* the table's, see FS_CACHE_QUEUE */
    uint64_t id, ino;
};

static void run_prefetch(struct fs_task *task, struct fs *fs, struct sep_context *context)
{
    struct prefetch *prefetch = (struct prefetch *)task;

    if (fs_cache_begin(fs->cache, prefetch->id, &prefetch->entry)) {
        atomic_fetch_add_explicit(&fs->counters.readahead_blocks, 1, memory_order_relaxed);
        if (fill(fs, context, prefetch->entry, prefetch->ino) == 0)
            fs_cache_unpin(fs->cache, prefetch->entry);
    }
    free(prefetch);
}

void fs_block_prefetch(struct fs *fs, uint64_t id, uint64_t ino, bool urgent)
{
    struct prefetch *prefetch = malloc(sizeof(*prefetch));

    if (prefetch == NULL)
        return;
    prefetch->task.run = run_prefetch;
    prefetch->id = id;
    prefetch->ino = ino;
    if (fs_cache_get(fs->cache, id, FS_CACHE_QUEUE, &prefetch->entry) == FS_CACHE_CLAIMED)
        fs_workers_submit(fs, &prefetch->task, urgent ? FS_URGENT : FS_LATER);
    else
        free(prefetch);
}

void fs_block_insert(struct fs *fs, uint64_t id, const void *plain, uint32_t size)
{
    struct fs_cached *entry;
    uint32_t capacity;
    void *copy;

    if (fs_cache_get(fs->cache, id, FS_CACHE_TRY, &entry) != FS_CACHE_CLAIMED)
        return;
    copy = fs_buffer_get(fs, size, &capacity);
    if (copy == NULL) {
        fs_cache_fail(fs->cache, entry, -ENOMEM);
        return;
    }
    memcpy(copy, plain, size);
    fs_cache_complete(fs->cache, entry, copy, size, capacity);
    fs_cache_unpin(fs->cache, entry);
}

/* Whether the record in the pack is sound; its contents are known to be right if it is. 1 or a
 * negative errno. */
static int intact(struct fs *fs, uint64_t id, uint64_t ino)
{
    struct index_block block;
    uint32_t capacity;
    void *payload = fs_buffer_get(fs, fs_buffer_whole(fs), &capacity);
    int error;

    if (payload == NULL)
        return -ENOMEM;
    error = look_up(fs, id, &block);
    if (error == 0)
        error = read_payload(fs, &block, ino, payload);
    fs_buffer_put(fs, payload, capacity);
    return error == 0 ? 1 : error;
}

int fs_block_equal(struct fs *fs, struct sep_context *context, uint64_t id, uint64_t ino,
                   const void *plain, uint32_t size)
{
    struct fs_cached *entry = fs_cache_peek(fs->cache, id);
    uint32_t found, capacity;
    void *stored;
    int answer;

    if (entry != NULL) {
        answer = entry->block.size == size && memcmp(entry->block.data, plain, size) == 0;
        fs_cache_unpin(fs->cache, entry);
        return answer == 0 ? 0 : intact(fs, id, ino);
    }
    stored = fs_buffer_get(fs, fs->block_size, &capacity);
    if (stored == NULL)
        return -ENOMEM;
    answer = fs_block_decode(fs, context, id, ino, stored, &found);
    if (answer == 0)
        answer = found == size && memcmp(stored, plain, size) == 0;
    fs_buffer_put(fs, stored, capacity);
    return answer;
}
