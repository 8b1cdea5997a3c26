/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dirty.h - one version of one dirty block, and its states; private to the data path.
 *
 *            fs_dirty_take                    fs_dirty_give
 *   DIRTY  ----------------->  HELD by a writer  ---------->  DIRTY or QUEUED
 *   DIRTY  --fs_dirty_queue--> QUEUED --worker--> WRITING --> ENCODED --transaction--> freed
 *                                                    |           |
 *                                                    +-- error --+--> DIRTY, failed
 *
 * While WRITING or ENCODED the bytes are constant and belong to the worker: a writer then makes a
 * newer version, which is queued when the older one is stored. A version removed by truncation or a
 * hole while a worker has it is DROPPED; whoever has it frees it.
 *
 * Locks: which versions a file has (inode->dirty, older, newer, length, data) changes only under
 * inode->lock exclusively; states and lists under the write-back mutex.
 */
#ifndef FS_DIRTY_H
#define FS_DIRTY_H

#include "inode.h"
#include "workers.h"

enum fs_dirty_state {
    FS_DIRTY_IDLE,    /* waits for a reason to be written */
    FS_DIRTY_HELD,    /* a writer changes it */
    FS_DIRTY_QUEUED,  /* the workers have its task */
    FS_DIRTY_WRITING, /* a worker compresses and appends it */
    FS_DIRTY_ENCODED, /* waits for lower blocks that must be stored first */
    FS_DIRTY_DROPPED, /* no longer part of the file */
};

/* What the worker made of it. */
enum fs_dirty_form {
    FS_FORM_HOLE,   /* all zeros */
    FS_FORM_INLINE, /* goes into the inode record */
    FS_FORM_KNOWN,  /* the store has these bytes: block names them */
    FS_FORM_NEW,    /* block was appended to a pack */
    FS_FORM_HEALED, /* the same, under the id of a block with these bytes that is damaged */
};

struct fs_dirty {
    struct fs_task task;    /* first */
    struct fs_inode *inode; /* held */
    uint64_t number;        /* block number in the file */
    uint8_t *data;
    uint32_t capacity;         /* bytes of data */
    uint32_t length;           /* valid bytes; beyond them the block is zeros */
    uint32_t run_from, run_to; /* bytes written one after the other, to see that it is complete */
    struct fs_dirty *older;    /* version of the same block that a worker has */
    struct fs_dirty *newer;

    /* guarded by the write-back mutex */
    _Atomic(enum fs_dirty_state) state; /* ENCODED and DROPPED also need inode->lock */
    bool in_pool;                       /* the workers have its task, whatever the state */
    bool wanted;                        /* to be queued as soon as that is possible */
    bool failed;                /* IDLE after an error: retried at the next interval or by fsync */
    int error;                  /* why */
    uint64_t seq;               /* rises with every version */
    uint64_t since, touched;    /* when it became dirty, was last written: monotonic ms */
    uint64_t reserved;          /* bytes of index_reserve it stands for */
    TAILQ_ENTRY(fs_dirty) idle; /* while IDLE, oldest first */
    TAILQ_ENTRY(fs_dirty) all;  /* while not dropped, by seq */
    TAILQ_ENTRY(fs_dirty) own;  /* inode->versions, while not dropped, by seq */

    /* the worker's own, until stored */
    enum fs_dirty_form form;
    bool committed; /* part of the transaction in progress, with inode->lock held exclusively */
    uint64_t
        unlike; /* id of a stored block with this hash that does not read back as these bytes */
    struct index_location damaged; /* HEALED: where the damaged record lies */
    struct index_block block;
};

struct fs_writeback {
    struct fs *fs;
    uint64_t limit;
    pthread_mutex_t mutex;
    pthread_cond_t progress; /* a version was stored, failed or freed */
    pthread_cond_t wake;     /* for the flusher */
    uint64_t bytes;          /* capacity of all versions */
    uint64_t admitted;       /* promised to writers that are at it */
    uint64_t seq;            /* last given */
    unsigned busy;           /* versions that are QUEUED, WRITING or ENCODED */
    unsigned queued;         /* of them QUEUED */
    struct fs_dirty_list all, idle;
    bool stop;
    pthread_t flusher;
};

/* Waits until BYTES more of dirty data fit the limit and promises them; called without locks. Fails
 * with the write-back error when nothing can be written any more. Undone by fs_dirty_leave once the
 * versions exist. */
int fs_dirty_admit(struct fs *fs, uint64_t bytes);
void fs_dirty_leave(struct fs *fs, uint64_t bytes);

/* Index of the first dirty block with number >= NUMBER in inode->dirty. */
size_t fs_dirty_lower(const struct fs_inode *inode, uint64_t number);
/* Newest version of a block or NULL. */
struct fs_dirty *fs_dirty_find(const struct fs_inode *inode, uint64_t number);

/* What follows needs inode->lock exclusively. */

/* A new version, HELD, with room for SIZE bytes, length 0, put in front of what is there. NULL when
 * memory is short. */
struct fs_dirty *fs_dirty_new(struct fs *fs, struct fs_inode *inode, uint64_t number, size_t size);
/* Takes an existing version for changing. False: a worker has it, make a new one. */
bool fs_dirty_take(struct fs *fs, struct fs_dirty *dirty);
/* Grows the capacity to at least SIZE bytes. -ENOMEM. */
int fs_dirty_grow(struct fs *fs, struct fs_dirty *dirty, size_t size);
/* Adds to what the version stands for at index_reserve. */
void fs_dirty_charge(struct fs_dirty *dirty, uint64_t reserved);
/* Ends HELD. queue: it is complete. */
void fs_dirty_give(struct fs *fs, struct fs_dirty *dirty, bool queue);
/* Shortens a block to KEEP bytes, all versions of it; 0 drops it. -ENOMEM. */
int fs_dirty_cut(struct fs *fs, struct fs_inode *inode, uint64_t number, uint32_t keep);
/* Drops blocks FIRST..LAST. */
void fs_dirty_drop(struct fs *fs, struct fs_inode *inode, uint64_t first, uint64_t last);
/* Takes a stored version out of the file and frees it. */
void fs_dirty_stored(struct fs *fs, struct fs_dirty *dirty);

/* Needs no lock of the inode. Queues every idle version of INODE. retry: failed ones as well. */
void fs_dirty_queue(struct fs *fs, struct fs_inode *inode, bool retry, enum fs_priority priority);
/* Waits until what is dirty now is stored or failed; the error of a failed one. */
int fs_dirty_wait(struct fs *fs, struct fs_inode *inode);
/* For the worker: QUEUED -> WRITING. False: not now; the version may be gone. */
bool fs_dirty_start(struct fs *fs, struct fs_dirty *dirty);
/* For the worker, with inode->lock held exclusively: back to IDLE after an error. The version is
 * freed when a newer one has its bytes. */
void fs_dirty_failed(struct fs *fs, struct fs_dirty *dirty, int error);
/* ... back to QUEUED, because what was made of it no longer fits. */
void fs_dirty_again(struct fs *fs, struct fs_dirty *dirty);
void fs_dirty_set_encoded(struct fs *fs, struct fs_dirty *dirty);
/* Queues one version as soon as it can be, failed or not; with the write-back mutex. */
void fs_dirty_want_locked(struct fs_writeback *wb, struct fs_dirty *dirty);
/* Queues one version as soon as it can be; false when it has failed. */
bool fs_dirty_want(struct fs *fs, struct fs_dirty *dirty);
/* Frees a version that was dropped while the worker had it. */
void fs_dirty_free(struct fs *fs, struct fs_dirty *dirty);
/* The task of a version: store.c. */
void fs_store_run(struct fs_task *task, struct fs *fs, struct sep_context *context);

/* store.c. A file that fits the record, straight from the calling thread: 1 when that was done, 0
 * when this file isn't such. Needs inode->lock exclusively. */
int fs_store_inline(struct fs *fs, struct fs_inode *inode);
/* Stores encoded versions that nothing holds back any more: after versions were dropped or cut. Ends
 * the overlay when nothing is dirty. Needs inode->lock exclusively. */
void fs_store_parked(struct fs *fs, struct fs_inode *inode);
/* Largest size the record may have: no byte before it is only in memory, holes apart. */
uint64_t fs_store_bound(const struct fs *fs, const struct fs_inode *inode,
                        const struct index_inode *record);
/* Brings size and times of *record up to date and stores it. Needs inode->lock exclusively, inside a
 * transaction. */
int fs_store_settle(struct fs *fs, struct fs_inode *inode, struct index_txn *txn,
                    struct index_inode *record);
/* notify.c: tells the kernel that attributes it has are old; outside locks. */
void fs_notify_stored(struct fs *fs, struct fs_inode *inode);

#endif
