/* SPDX-License-Identifier: BSD-2-Clause
 *
 * inode.c - the table of inodes in memory and their life: hold, open, drop.
 *
 * Invariants
 *  - At most one struct a number. It is put into the table before its record is read, so that nobody
 *    can load, change and forget the same inode in between.
 *  - An inode is freed when its last hold goes; every dirty version has a hold, so nothing unwritten
 *    is ever forgotten, and the record is then exact.
 *  - An unlinked inode is deleted only when no handle has it open and the kernel does not refer to it
 *    any more (`lingering`): between a path walk and the open that ends it, another process may have
 *    given the name to another inode, and the open must still find the old one whole.
 */
#include "inode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "inoset.h"
#include "reaper.h"

#define BUCKETS 4096u /* about as many inodes as a busy mount has open and dirty */

struct fs_inodes {
    pthread_mutex_t mutex;
    pthread_cond_t loaded;
    struct fs_inode *bucket[BUCKETS];
    struct fs_inoset lingering; /* unlinked, and the kernel has not said FORGET yet */
};

int fs_inodes_new(struct fs_inodes **inodes)
{
    *inodes = calloc(1, sizeof(**inodes));
    if (*inodes == NULL)
        return -ENOMEM;
    pthread_mutex_init(&(*inodes)->mutex, NULL);
    pthread_cond_init(&(*inodes)->loaded, NULL);
    return 0;
}

static void free_inode(struct fs_inode *inode)
{
    pthread_rwlock_destroy(&inode->lock);
    pthread_mutex_destroy(&inode->overlay_lock);
    free(inode->dirty);
    free(inode);
}

void fs_inodes_free(struct fs_inodes *inodes)
{
    if (inodes == NULL)
        return;
    for (unsigned i = 0; i < BUCKETS; i++) {
        while (inodes->bucket[i] != NULL) {
            struct fs_inode *inode = inodes->bucket[i];

            inodes->bucket[i] = inode->hash_next;
            free_inode(inode);
        }
    }
    fs_inoset_free(&inodes->lingering);
    pthread_mutex_destroy(&inodes->mutex);
    pthread_cond_destroy(&inodes->loaded);
    free(inodes);
}

static struct fs_inode **bucket_of(struct fs_inodes *inodes, uint64_t ino)
{
    return &inodes->bucket[(ino * UINT64_C(0x9E3779B97F4A7C15)) >> 52];
}

static struct fs_inode *find(struct fs_inodes *inodes, uint64_t ino)
{
    struct fs_inode *inode = *bucket_of(inodes, ino);

    while (inode != NULL && inode->ino != ino)
        inode = inode->hash_next;
    return inode;
}

static void detach(struct fs_inodes *inodes, struct fs_inode *inode)
{
    struct fs_inode **at = bucket_of(inodes, inode->ino);

    while (*at != inode)
        at = &(*at)->hash_next;
    *at = inode->hash_next;
    inode->detached = true;
}

/* A new inode in the table, held once and loading. */
static struct fs_inode *insert(struct fs_inodes *inodes, uint64_t ino)
{
    struct fs_inode **bucket = bucket_of(inodes, ino);
    struct fs_inode *inode = calloc(1, sizeof(*inode));
    pthread_rwlockattr_t attr;

    if (inode == NULL)
        return NULL;
    /* a stream of readers must not keep write-back from ever finishing */
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&inode->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&inode->overlay_lock, NULL);
    TAILQ_INIT(&inode->versions);
    inode->ino = ino;
    inode->holds = 1;
    inode->loading = true;
    inode->hash_next = *bucket;
    *bucket = inode;
    return inode;
}

static int load(struct fs *fs, struct fs_inode *inode, bool *unlinked)
{
    struct index_inode record;
    struct index_txn *txn;
    int error = index_begin(fs->index, INDEX_READ, &txn);

    if (error != 0)
        return error;
    error = index_inode_get(txn, inode->ino, &record);
    if (error == 0)
        error = fs_policy_get(fs, txn, inode->ino, &inode->policy);
    if (error == 0) {
        inode->record_size = record.size;
        inode->is_inline = (record.flags & INDEX_INODE_INLINE) != 0 && S_ISREG(record.mode);
        atomic_store(&inode->last_read, record.atime.tv_sec);
        *unlinked = record.nlink == 0;
        pthread_mutex_lock(&inode->overlay_lock);
        inode->size = record.size;
        inode->mtime = record.mtime;
        inode->ctime = record.ctime;
        inode->atime = record.atime.tv_sec;
        inode->loaded = true;
        pthread_mutex_unlock(&inode->overlay_lock);
    }
    index_end(txn);
    return error;
}

/* Nobody can want it again, and the reaper does not have it yet. Under the table mutex. */
static bool is_over(const struct fs_inodes *inodes, const struct fs_inode *inode)
{
    return inode->unlinked && inode->opens == 0 && !inode->reaping &&
           !fs_inoset_has(&inodes->lingering, inode->ino);
}

/* Drops a hold under the table mutex, which it releases. */
static void drop_locked(struct fs *fs, struct fs_inode *inode)
{
    uint64_t ino = inode->ino;
    bool last = --inode->holds == 0;
    bool reap = !inode->detached && is_over(fs->inodes, inode);

    if (last && !inode->detached)
        detach(fs->inodes, inode);
    pthread_mutex_unlock(&fs->inodes->mutex);
    if (!last)
        return;
    assert(inode->dirty_count == 0);
    free_inode(inode);
    if (reap)
        fs_reaper_push(fs, ino);
}

int fs_inode_hold(struct fs *fs, uint64_t ino, struct fs_inode **inode)
{
    struct fs_inodes *inodes = fs->inodes;
    struct fs_inode *found;
    bool unlinked = false;
    int error = 0;

    pthread_mutex_lock(&inodes->mutex);
    found = find(inodes, ino);
    if (found != NULL) {
        found->holds++;
        while (found->loading)
            pthread_cond_wait(&inodes->loaded, &inodes->mutex);
        error = found->load_error;
    } else {
        found = insert(inodes, ino);
        if (found == NULL) {
            pthread_mutex_unlock(&inodes->mutex);
            return -ENOMEM;
        }
        pthread_mutex_unlock(&inodes->mutex);
        error = load(fs, found, &unlinked);
        pthread_mutex_lock(&inodes->mutex);
        found->loading = false;
        found->load_error = error;
        found->unlinked |= unlinked;
        if (error != 0)
            detach(inodes, found);
        pthread_cond_broadcast(&inodes->loaded);
    }
    if (error != 0) {
        drop_locked(fs, found);
        return error;
    }
    pthread_mutex_unlock(&inodes->mutex);
    *inode = found;
    return 0;
}

void fs_inode_hold_again(struct fs *fs, struct fs_inode *inode)
{
    pthread_mutex_lock(&fs->inodes->mutex);
    inode->holds++;
    pthread_mutex_unlock(&fs->inodes->mutex);
}

void fs_inode_drop(struct fs *fs, struct fs_inode *inode)
{
    pthread_mutex_lock(&fs->inodes->mutex);
    drop_locked(fs, inode);
}

struct fs_inode *fs_inode_peek(struct fs *fs, uint64_t ino)
{
    struct fs_inode *inode;

    pthread_mutex_lock(&fs->inodes->mutex);
    inode = find(fs->inodes, ino);
    if (inode != NULL)
        inode->holds++;
    pthread_mutex_unlock(&fs->inodes->mutex);
    return inode;
}

int fs_inode_open(struct fs *fs, uint64_t ino, struct fs_inode **inode)
{
    int error = fs_inode_hold(fs, ino, inode);

    if (error != 0)
        return error;
    pthread_mutex_lock(&fs->inodes->mutex);
    if ((*inode)->reaping) {
        drop_locked(fs, *inode);
        return -ENOENT;
    }
    (*inode)->opens++;
    pthread_mutex_unlock(&fs->inodes->mutex);
    return 0;
}

void fs_inode_close(struct fs *fs, struct fs_inode *inode)
{
    uint64_t ino = inode->ino;
    bool reap;

    pthread_mutex_lock(&fs->inodes->mutex);
    inode->opens--;
    reap = is_over(fs->inodes, inode) && inode->holds > 1;
    drop_locked(fs, inode);
    if (reap) /* dirty blocks still hold it: let the reaper drop them */
        fs_reaper_push(fs, ino);
}

bool fs_inode_is_open(struct fs *fs, uint64_t ino)
{
    struct fs_inode *inode;
    bool open;

    pthread_mutex_lock(&fs->inodes->mutex);
    inode = find(fs->inodes, ino);
    open = inode != NULL && inode->opens > 0;
    pthread_mutex_unlock(&fs->inodes->mutex);
    return open;
}

bool fs_inode_doomed(struct fs *fs, const struct fs_inode *inode)
{
    bool doomed;

    pthread_mutex_lock(&fs->inodes->mutex);
    doomed = inode->reaping;
    pthread_mutex_unlock(&fs->inodes->mutex);
    return doomed;
}

bool fs_inode_claim(struct fs *fs, struct fs_inode *inode)
{
    bool claimed;

    pthread_mutex_lock(&fs->inodes->mutex);
    claimed = is_over(fs->inodes, inode);
    inode->reaping |= claimed;
    pthread_mutex_unlock(&fs->inodes->mutex);
    return claimed;
}

bool fs_inode_set_unlinked(struct fs *fs, uint64_t ino, bool unlinked, bool *open)
{
    struct fs_inode *inode;

    pthread_mutex_lock(&fs->inodes->mutex);
    inode = find(fs->inodes, ino);
    if (inode != NULL) {
        inode->unlinked = unlinked;
        *open = inode->opens > 0;
    }
    pthread_mutex_unlock(&fs->inodes->mutex);
    return inode != NULL;
}

void fs_inode_linger(struct fs *fs, uint64_t ino)
{
    pthread_mutex_lock(&fs->inodes->mutex);
    /* without memory it is deleted at once: an open in that moment is told to look again */
    (void)fs_inoset_add(&fs->inodes->lingering, ino);
    pthread_mutex_unlock(&fs->inodes->mutex);
}

void fs_inode_forgotten(struct fs *fs, uint64_t ino)
{
    bool lingered;

    pthread_mutex_lock(&fs->inodes->mutex);
    lingered = fs_inoset_remove(&fs->inodes->lingering, ino);
    pthread_mutex_unlock(&fs->inodes->mutex);
    if (lingered)
        fs_reaper_push(fs, ino);
}

void fs_inode_forget_all(struct fs *fs)
{
    uint64_t ino;

    do {
        pthread_mutex_lock(&fs->inodes->mutex);
        ino = fs_inoset_pop(&fs->inodes->lingering);
        pthread_mutex_unlock(&fs->inodes->mutex);
        if (ino != 0)
            fs_reaper_push(fs, ino);
    } while (ino != 0);
}

static bool lingers(struct fs *fs, uint64_t ino)
{
    bool found;

    pthread_mutex_lock(&fs->inodes->mutex);
    found = fs_inoset_has(&fs->inodes->lingering, ino);
    pthread_mutex_unlock(&fs->inodes->mutex);
    return found;
}

int fs_inode_unlinked(struct fs *fs, struct index_txn *txn, struct index_inode *attr)
{
    /* more extents than this would hold up everybody else in the transaction */
    const unsigned at_once = 16;
    bool more = false, open = false;
    int error = fs_attr_put(fs, txn, attr);

    if (error != 0)
        return error;
    if (fs_inode_set_unlinked(fs, attr->ino, true, &open) || lingers(fs, attr->ino)) {
        error = index_orphan_set(txn, attr->ino, 0);
        if (error == 0 && !open && !lingers(fs, attr->ino))
            fs_reaper_push(fs, attr->ino);
        return error;
    }
    error = index_extent_remove(txn, attr->ino, 0, UINT64_MAX, at_once, NULL, &more);
    if (error != 0)
        return error;
    if (!more)
        return index_inode_delete(txn, attr->ino);
    error = index_orphan_set(txn, attr->ino, 0);
    if (error == 0)
        fs_reaper_push(fs, attr->ino);
    return error;
}
