/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dirty.c - the dirty blocks of all files: their states, and the bound on their memory.
 *
 * Invariants
 *  - bytes + admitted <= limit, but for one request larger than the limit, which runs alone.
 *  - A file has at most two versions of a block: one that a worker has, and a newer one that is not
 *    queued before the older is stored. So versions reach the index in the order they were written.
 *  - Every version is counted in exactly one of IDLE (on the idle list), HELD, or busy (QUEUED,
 *    WRITING, ENCODED); DROPPED ones are on no list and freed by the worker that has them.
 */
#include "dirty.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buffers.h"

/* Versions queued at once when memory is short: enough for every worker to have its next one. */
#define RELIEF 16u

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ---- states; with the write-back mutex ------------------------------------------------------ */

static void submit(struct fs_writeback *wb, struct fs_dirty *dirty, enum fs_priority priority)
{
    if (dirty->state == FS_DIRTY_IDLE)
        TAILQ_REMOVE(&wb->idle, dirty, idle);
    dirty->state = FS_DIRTY_QUEUED;
    dirty->wanted = false;
    dirty->failed = false;
    wb->busy++;
    wb->queued++;
    if (dirty->in_pool)
        return; /* its task is still on the way */
    dirty->in_pool = true;
    fs_workers_submit(wb->fs, &dirty->task, priority);
}

static void want(struct fs_writeback *wb, struct fs_dirty *dirty, enum fs_priority priority)
{
    if (dirty->state == FS_DIRTY_IDLE && dirty->older == NULL)
        submit(wb, dirty, priority);
    else if (dirty->state == FS_DIRTY_IDLE || dirty->state == FS_DIRTY_HELD)
        dirty->wanted = true;
}

static void set_idle(struct fs_writeback *wb, struct fs_dirty *dirty)
{
    dirty->state = FS_DIRTY_IDLE;
    dirty->touched = now_ms();
    TAILQ_INSERT_TAIL(&wb->idle, dirty, idle);
}

/* Takes a version off all lists. True when the caller has to free it, else a worker will. */
static bool retire(struct fs_writeback *wb, struct fs_dirty *dirty)
{
    enum fs_dirty_state state = dirty->state;

    TAILQ_REMOVE(&wb->all, dirty, all);
    TAILQ_REMOVE(&dirty->inode->versions, dirty, own);
    if (state == FS_DIRTY_IDLE)
        TAILQ_REMOVE(&wb->idle, dirty, idle);
    else if (state != FS_DIRTY_HELD)
        wb->busy--;
    if (state == FS_DIRTY_QUEUED)
        wb->queued--;
    dirty->state = FS_DIRTY_DROPPED;
    pthread_cond_broadcast(&wb->progress);
    return !dirty->in_pool && state != FS_DIRTY_WRITING;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Queues the versions touched longest ago; the error of a failed one when nothing can be queued and
 * nothing is under way. */
static int relieve(struct fs_writeback *wb)
{
    struct fs_dirty *dirty = TAILQ_FIRST(&wb->idle), *next;
    int error = 0;

    for (; dirty != NULL && wb->queued < RELIEF; dirty = next) {
        next = TAILQ_NEXT(dirty, idle);
        if (dirty->failed)
            error = dirty->error;
        else
            want(wb, dirty, FS_LATER);
    }
    return wb->busy == 0 && wb->admitted == 0 ? error : 0;
}

int fs_dirty_admit(struct fs *fs, uint64_t bytes)
{
    struct fs_writeback *wb = fs->writeback;
    int error = 0;

    if (bytes > wb->limit)
        bytes = wb->limit;
    pthread_mutex_lock(&wb->mutex);
    while (wb->bytes + wb->admitted + bytes > wb->limit) {
        error = relieve(wb);
        if (error != 0)
            break;
        pthread_cond_wait(&wb->progress, &wb->mutex);
    }
    if (error == 0)
        wb->admitted += bytes;
    pthread_mutex_unlock(&wb->mutex);
    return error;
}

void fs_dirty_leave(struct fs *fs, uint64_t bytes)
{
    struct fs_writeback *wb = fs->writeback;

    if (bytes > wb->limit)
        bytes = wb->limit;
    pthread_mutex_lock(&wb->mutex);
    wb->admitted -= bytes;
    pthread_cond_broadcast(&wb->progress);
    pthread_mutex_unlock(&wb->mutex);
}

static void count_bytes(struct fs *fs, uint64_t plus, uint64_t minus)
{
    struct fs_writeback *wb = fs->writeback;

    pthread_mutex_lock(&wb->mutex);
    wb->bytes = wb->bytes + plus - minus;
    if (minus > plus)
        pthread_cond_broadcast(&wb->progress);
    pthread_mutex_unlock(&wb->mutex);
}

void fs_dirty_free(struct fs *fs, struct fs_dirty *dirty)
{
    fs_buffer_put(fs, dirty->data, dirty->capacity);
    index_release(fs->index, dirty->reserved);
    count_bytes(fs, 0, dirty->capacity);
    fs_inode_drop(fs, dirty->inode);
    free(dirty);
}

/* ---- the blocks of one file ----------------------------------------------------------------- */

size_t fs_dirty_lower(const struct fs_inode *inode, uint64_t number)
{
    size_t low = 0, high = inode->dirty_count;

    if (high > 0 && inode->dirty[high - 1]->number < number)
        return high; /* appending */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (inode->dirty[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct fs_dirty *fs_dirty_find(const struct fs_inode *inode, uint64_t number)
{
    size_t i = fs_dirty_lower(inode, number);

    return i < inode->dirty_count && inode->dirty[i]->number == number ? inode->dirty[i] : NULL;
}

static int insert(struct fs_inode *inode, struct fs_dirty *dirty)
{
    size_t i = fs_dirty_lower(inode, dirty->number);

    if (i < inode->dirty_count && inode->dirty[i]->number == dirty->number) {
        dirty->older = inode->dirty[i];
        dirty->older->newer = dirty;
        inode->dirty[i] = dirty;
        return 0;
    }
    if (inode->dirty_count == inode->dirty_capacity) {
        size_t capacity = inode->dirty_capacity > 0 ? 2 * inode->dirty_capacity : 4;
        struct fs_dirty **grown = realloc(inode->dirty, capacity * sizeof(*grown));

        if (grown == NULL)
            return -ENOMEM;
        inode->dirty = grown;
        inode->dirty_capacity = capacity;
    }
    memmove(&inode->dirty[i + 1], &inode->dirty[i],
            (inode->dirty_count - i) * sizeof(inode->dirty[0]));
    inode->dirty[i] = dirty;
    inode->dirty_count++;
    return 0;
}

/* Takes a version out of the file's table; its newer one stays. With the write-back mutex as well, as
 * whether a version has an older one decides if it may be queued. */
static void unlink_version(struct fs_inode *inode, struct fs_dirty *dirty)
{
    size_t i;

    if (dirty->newer != NULL) {
        dirty->newer->older = NULL;
        dirty->newer = NULL;
        return;
    }
    i = fs_dirty_lower(inode, dirty->number);
    assert(i < inode->dirty_count && inode->dirty[i] == dirty && dirty->older == NULL);
    inode->dirty_count--;
    memmove(&inode->dirty[i], &inode->dirty[i + 1],
            (inode->dirty_count - i) * sizeof(inode->dirty[0]));
}

struct fs_dirty *fs_dirty_new(struct fs *fs, struct fs_inode *inode, uint64_t number, size_t size)
{
    struct fs_writeback *wb = fs->writeback;
    struct fs_dirty *dirty = calloc(1, sizeof(*dirty));

    if (dirty == NULL)
        return NULL;
    dirty->task.run = fs_store_run;
    dirty->inode = inode;
    dirty->number = number;
    dirty->state = FS_DIRTY_HELD;
    dirty->data = fs_buffer_get(fs, size, &dirty->capacity);
    if (dirty->data == NULL || insert(inode, dirty) != 0) {
        fs_buffer_put(fs, dirty->data, dirty->capacity);
        free(dirty);
        return NULL;
    }
    fs_inode_hold_again(fs, inode);
    pthread_mutex_lock(&wb->mutex);
    wb->bytes += dirty->capacity;
    dirty->seq = ++wb->seq;
    dirty->since = now_ms();
    TAILQ_INSERT_TAIL(&wb->all, dirty, all);
    TAILQ_INSERT_TAIL(&inode->versions, dirty, own);
    pthread_mutex_unlock(&wb->mutex);
    return dirty;
}

bool fs_dirty_take(struct fs *fs, struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;
    bool taken = true;

    pthread_mutex_lock(&wb->mutex);
    if (dirty->state == FS_DIRTY_IDLE) {
        TAILQ_REMOVE(&wb->idle, dirty, idle);
        dirty->state = FS_DIRTY_HELD;
    } else if (dirty->state == FS_DIRTY_QUEUED) {
        dirty->state = FS_DIRTY_HELD;
        dirty->wanted = true;
        wb->busy--;
        wb->queued--;
    } else if (dirty->state != FS_DIRTY_HELD) {
        taken = false;
    }
    pthread_mutex_unlock(&wb->mutex);
    return taken;
}

int fs_dirty_grow(struct fs *fs, struct fs_dirty *dirty, size_t size)
{
    uint32_t capacity, old = dirty->capacity;
    uint8_t *data;

    if (size <= old)
        return 0;
    data = fs_buffer_get(fs, size, &capacity);
    if (data == NULL)
        return -ENOMEM;
    memcpy(data, dirty->data, dirty->length);
    fs_buffer_put(fs, dirty->data, old);
    dirty->data = data;
    dirty->capacity = capacity;
    count_bytes(fs, capacity, old);
    return 0;
}

void fs_dirty_charge(struct fs_dirty *dirty, uint64_t reserved)
{
    dirty->reserved += reserved;
}

void fs_dirty_give(struct fs *fs, struct fs_dirty *dirty, bool queue)
{
    struct fs_writeback *wb = fs->writeback;

    pthread_mutex_lock(&wb->mutex);
    set_idle(wb, dirty);
    dirty->failed = false;
    if (queue || dirty->wanted)
        want(wb, dirty, FS_LATER);
    pthread_mutex_unlock(&wb->mutex);
}

static void drop_version(struct fs *fs, struct fs_inode *inode, struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;
    bool mine;

    pthread_mutex_lock(&wb->mutex);
    unlink_version(inode, dirty);
    mine = retire(wb, dirty);
    pthread_mutex_unlock(&wb->mutex);
    if (mine)
        fs_dirty_free(fs, dirty);
}

void fs_dirty_drop(struct fs *fs, struct fs_inode *inode, uint64_t first, uint64_t last)
{
    size_t from = fs_dirty_lower(inode, first);

    /* from the end, so that the table is not moved once for every block */
    for (size_t i = inode->dirty_count; i-- > from;) {
        struct fs_dirty *dirty = inode->dirty[i];

        if (dirty->number > last)
            continue;
        if (dirty->older != NULL)
            drop_version(fs, inode, dirty->older);
        drop_version(fs, inode, dirty);
    }
}

/* MADE takes the place of DIRTY in the order of versions: who waits for that one waits for this. */
static void stand_in(struct fs *fs, struct fs_inode *inode, struct fs_dirty *made,
                     struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;

    pthread_mutex_lock(&wb->mutex);
    made->seq = dirty->seq;
    TAILQ_REMOVE(&wb->all, made, all);
    TAILQ_INSERT_BEFORE(dirty, made, all);
    TAILQ_REMOVE(&inode->versions, made, own);
    TAILQ_INSERT_BEFORE(dirty, made, own);
    pthread_mutex_unlock(&wb->mutex);
}

/* The version that a worker has is too long: a shorter one takes its place. */
static int cut_busy(struct fs *fs, struct fs_inode *inode, struct fs_dirty *dirty, uint32_t keep)
{
    struct fs_dirty *shorter = fs_dirty_new(fs, inode, dirty->number, keep);

    if (shorter == NULL)
        return -ENOMEM;
    memcpy(shorter->data, dirty->data, keep);
    shorter->length = keep;
    /* without room it will be tried all the same: a truncation is not refused for lack of space */
    if (index_reserve(fs->index, keep + INDEX_RECORD_HEADER + SEP_EXPANSION_MAX) == 0)
        fs_dirty_charge(shorter, keep + INDEX_RECORD_HEADER + SEP_EXPANSION_MAX);
    stand_in(fs, inode, shorter, dirty);
    drop_version(fs, inode, dirty);
    fs_dirty_give(fs, shorter, true);
    return 0;
}

int fs_dirty_cut(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t keep)
{
    struct fs_dirty *dirty = fs_dirty_find(inode, number);

    if (dirty == NULL)
        return 0;
    if (keep == 0) {
        fs_dirty_drop(fs, inode, number, number);
        return 0;
    }
    if (dirty->older != NULL)
        drop_version(fs, inode, dirty->older);
    if (!fs_dirty_take(fs, dirty))
        return dirty->length > keep ? cut_busy(fs, inode, dirty, keep) : 0;
    if (dirty->length > keep) {
        dirty->length = keep;
        if (dirty->run_to > keep)
            dirty->run_to = keep;
        if (dirty->run_from > keep)
            dirty->run_from = keep;
    }
    fs_dirty_give(fs, dirty, false);
    return 0;
}

/* ---- the way into the store ------------------------------------------------------------------ */

void fs_dirty_queue(struct fs *fs, struct fs_inode *inode, bool retry, enum fs_priority priority)
{
    struct fs_writeback *wb = fs->writeback;
    struct fs_dirty *dirty;

    pthread_mutex_lock(&wb->mutex);
    TAILQ_FOREACH(dirty, &inode->versions, own)
    {
        if (!dirty->failed || retry)
            want(wb, dirty, priority);
    }
    pthread_mutex_unlock(&wb->mutex);
}

int fs_dirty_wait(struct fs *fs, struct fs_inode *inode)
{
    struct fs_writeback *wb = fs->writeback;
    struct fs_dirty *dirty;
    uint64_t until;
    int error = 0;

    pthread_mutex_lock(&wb->mutex);
    until = wb->seq;
    for (;;) {
        dirty = inode != NULL ? TAILQ_FIRST(&inode->versions) : TAILQ_FIRST(&wb->all);
        while (dirty != NULL && dirty->seq <= until && dirty->failed) {
            if (error == 0)
                error = dirty->error;
            dirty = inode != NULL ? TAILQ_NEXT(dirty, own) : TAILQ_NEXT(dirty, all);
        }
        if (dirty == NULL || dirty->seq > until)
            break;
        pthread_cond_wait(&wb->progress, &wb->mutex);
    }
    pthread_mutex_unlock(&wb->mutex);
    return error;
}

void fs_dirty_want_locked(struct fs_writeback *wb, struct fs_dirty *dirty)
{
    want(wb, dirty, FS_LATER);
}

bool fs_dirty_want(struct fs *fs, struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;
    bool fine;

    pthread_mutex_lock(&wb->mutex);
    fine = !dirty->failed;
    if (fine)
        want(wb, dirty, FS_LATER);
    pthread_mutex_unlock(&wb->mutex);
    return fine;
}

bool fs_dirty_start(struct fs *fs, struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;
    enum fs_dirty_state state;

    pthread_mutex_lock(&wb->mutex);
    state = dirty->state;
    dirty->in_pool = false;
    if (state == FS_DIRTY_QUEUED) {
        dirty->state = FS_DIRTY_WRITING;
        wb->queued--;
    }
    pthread_mutex_unlock(&wb->mutex);
    if (state == FS_DIRTY_DROPPED)
        fs_dirty_free(fs, dirty);
    return state == FS_DIRTY_QUEUED;
}

void fs_dirty_set_encoded(struct fs *fs, struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;

    pthread_mutex_lock(&wb->mutex);
    if (dirty->state == FS_DIRTY_HELD)
        wb->busy++;
    dirty->state = FS_DIRTY_ENCODED;
    pthread_mutex_unlock(&wb->mutex);
}

void fs_dirty_failed(struct fs *fs, struct fs_dirty *dirty, int error)
{
    struct fs_writeback *wb = fs->writeback;
    struct fs_dirty *newer = dirty->newer;

    if (newer != NULL) {
        drop_version(fs, dirty->inode, dirty);
        fs_dirty_want(fs, newer);
        return;
    }
    pthread_mutex_lock(&wb->mutex);
    wb->busy--;
    set_idle(wb, dirty);
    dirty->wanted = false;
    dirty->failed = true;
    dirty->error = error;
    pthread_cond_broadcast(&wb->progress);
    pthread_mutex_unlock(&wb->mutex);
}

void fs_dirty_again(struct fs *fs, struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;

    pthread_mutex_lock(&wb->mutex);
    wb->busy--; /* submit counts it again */
    submit(wb, dirty, FS_URGENT);
    pthread_mutex_unlock(&wb->mutex);
}

void fs_dirty_stored(struct fs *fs, struct fs_dirty *dirty)
{
    struct fs_writeback *wb = fs->writeback;
    struct fs_dirty *newer = dirty->newer;
    bool mine;

    pthread_mutex_lock(&wb->mutex);
    unlink_version(dirty->inode, dirty);
    if (newer != NULL && newer->wanted)
        want(wb, newer, FS_LATER);
    mine = retire(wb, dirty);
    pthread_mutex_unlock(&wb->mutex);
    if (mine)
        fs_dirty_free(fs, dirty);
}
