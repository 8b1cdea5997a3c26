/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact.h - what the parts of the compactor share; private to compact*.c.
 *
 * A pass, from top to bottom: a plan (compact_plan.c) walks the hot list or the files and yields
 * items, each an extent worth recoding. Items that are whole blocks become units of work at once;
 * small ones, pieces, wait in a window (compact_share.c) until there are enough to be sorted and
 * laid together into shared blocks. Units are encoded in batches and, once verified, brought into
 * the index (compact_run.c).
 */
#ifndef FS_COMPACT_H
#define FS_COMPACT_H

#include <pthread.h>
#include <time.h>

#include "compactor.h"
#include "gpu/gpu.h"
#include "policy.h"

/* Packs of which less than this many percent is alive are rewritten after a pass. */
#define COMPACT_GC_PERCENT 60u

/* Why a pass runs. */
enum compact_kind {
    COMPACT_ASKED,  /* a request: somebody may be waiting */
    COMPACT_TIMER,  /* blocks on the hot list have become old enough */
    COMPACT_REPACK, /* only shared blocks of which less than half is left */
    COMPACT_PROMOTE /* blocks decoded often go back to the hot codec */
};

/* ---- planning ------------------------------------------------------------------------------ */

/* An extent worth recoding. */
struct compact_item {
    uint64_t ino;    /* the file; 0 when the hot list's hint is out of date */
    uint64_t parent; /* a directory that holds it, a hint */
    struct index_extent extent;
    uint32_t plain_size; /* of the block */
    uint32_t stored;     /* bytes on disk: the extent's share of record and payload */
    uint32_t references; /* of the block */
    struct sep_method method;
    bool piece;   /* to be laid together with others */
    bool shared;  /* the block is a shared one, mostly dead */
    bool settled; /* coded well already; worth moving only together with other pieces */
};

/* Where a plan looks for work. */
enum compact_source { COMPACT_HOT_LIST, COMPACT_FILE, COMPACT_TREE, COMPACT_STORE };

/* What a plan knows of the file it is at. */
struct compact_file {
    uint64_t ino; /* 0: none */
    uint64_t parent;
    int64_t read_at, written_at; /* seconds since the epoch */
    struct fs_policy policy;
    bool regular;
};

struct compact_level { /* a directory on the way down */
    uint64_t dir;
    uint64_t cookie; /* next entry */
};

struct compact_plan {
    struct fs *fs;
    const struct fs_compact_request *request;
    enum compact_source source;
    enum compact_kind kind;
    int64_t now;   /* seconds since the epoch, when the plan began */
    uint32_t age;  /* seconds a block must have been left alone */
    int64_t due;   /* out: earliest time at which a block passed over is old enough; INT64_MAX */
    bool cold_now; /* young blocks may be wanted: do not stop at the first one */
    struct compact_file file;
    uint64_t block;  /* hot list: next id */
    uint64_t ino;    /* store: next inode; file: the inode, 0 when done */
    uint64_t number; /* next block number in the present file */
    struct compact_level *levels;
    unsigned depth, capacity;
    bool inside; /* number is a position in file */
};

#define COMPACT_CHUNK 256u

/* 0 or -ENOMEM. */
int compact_plan_begin(struct compact_plan *plan, struct fs *fs,
                       const struct fs_compact_request *request, enum compact_kind kind);
/* Fills ITEMS (COMPACT_CHUNK) with the next ones, *count may be 0. 1: there may be more, 0: the end,
 * negative errno. Takes blocks off the hot list that nothing is ever to be done with. */
int compact_plan_next(struct compact_plan *plan, struct compact_item *items, unsigned *count);
void compact_plan_end(struct compact_plan *plan);

/* Earliest time at which an entry of the hot list with id >= *block may be cold by policy; moves
 * *block behind the last entry. INT64_MAX: none. */
int compact_plan_due(struct fs *fs, uint64_t *block, int64_t *due, bool *cold_now);

/* Extents up to this length are laid together. */
uint32_t compact_piece_max(const struct fs *fs);
/* Packs that blocks coded with METHOD go to. */
enum index_class compact_class(struct sep_method method);
/* True when BLOCK is to be coded again to have the form METHOD gives. has_method: the request names
 * the method, and its level is meant exactly; a policy's level is a lower limit. */
bool compact_wants(const struct index_block *block, struct sep_method method, bool has_method);

/* ---- a pass -------------------------------------------------------------------------------- */

/* Where a piece came from and goes to. */
struct compact_target {
    uint64_t ino;
    struct index_extent extent; /* as planned; unchanged when the swap is made, or left out */
    uint32_t offset;            /* in the new block */
    bool twin;                  /* its bytes are those of another target */
};

/* One block to be coded. */
struct compact_unit {
    struct index_block block; /* the block as it is stored, or the new shared one */
    uint64_t ino, number;     /* a file that refers to it, 0 = unknown */
    struct sep_method method;
    uint8_t *source, *plain, *payload;
    struct compact_target *targets; /* NULL: the block keeps its extents */
    unsigned target_count;
    uint64_t stored; /* bytes on disk that it replaces */
    bool repack;     /* worth doing even when it saves no bytes now */
};

#define COMPACT_BATCH_UNITS 64u

struct compact_batch {
    struct gpu_batch gpu;
    struct gpu_job jobs[COMPACT_BATCH_UNITS];
    struct compact_unit units[COMPACT_BATCH_UNITS];
    unsigned count;
    size_t bytes; /* plain */
    struct compact_batch *next;
};

/* Pieces waiting to be laid together. */
struct compact_window {
    struct compact_item *items;
    unsigned count, capacity;
};

struct compact_pass {
    struct fs *fs;
    struct fs_compactor *compactor;
    struct fs_compact_request request;
    enum compact_kind kind;
    struct gpu_pipeline *pipeline; /* opened with the first unit */
    size_t batch_bytes;
    struct compact_batch *filling;
    struct compact_batch *flight; /* submitted, not applied */
    struct compact_window window;
    struct sep_context *context;
    uint8_t *scratch;      /* one block */
    uint64_t scratch_id;   /* block decoded there, 0 = none */
    uint32_t scratch_size; /* its bytes */
    uint64_t
        damaged_id; /* block that could not be decoded there last: its other pieces are lost too */
    uint64_t uncommitted;  /* bytes appended since the last commit */
    uint64_t committed_at; /* monotonic ms */
    uint64_t pathed_at;    /* when the status got its path, monotonic ms */
    uint64_t foreground;   /* operations seen, and when; see compact_gate */
    uint64_t foreground_at;
    uint64_t replaced; /* bytes of records that became garbage */
    bool recount;      /* blocks with several owners changed size */
    bool cold_now;     /* in: young blocks may be wanted */
    int64_t due;       /* out: see struct compact_plan */
    bool collected;    /* out: garbage was collected, and this many bytes of it are left */
    uint64_t garbage;
    int error; /* ends the pass */
};

/* compact_pass.c: everything from writing back to collecting garbage. */
int compact_pass_whole(struct compact_pass *pass);
/* compact_run.c: does what PLAN yields; in a COMPACT_PROMOTE pass, promotes. 0 or the error that ended it; -ECANCELED when the compactor stops. */
int compact_pass_run(struct compact_pass *pass, struct compact_plan *plan);

/* compact_recode.c */
/* Codes the block of ITEM again, in place. */
int compact_feed(struct compact_pass *pass, const struct compact_item *item);
/* Brings an encoded block into the index, or records why not. */
int compact_recode_apply(struct compact_pass *pass, struct compact_unit *unit,
                         const struct gpu_job *job);
/* Logs that the block cannot be recoded, with its place, and puts it into the pending list. */
int compact_damaged(struct compact_pass *pass, const struct compact_unit *unit, const char *reason);
/* Queues a unit; it and its buffers are taken over, also on failure. */
int compact_feed_unit(struct compact_pass *pass, const struct compact_unit *unit);
void compact_unit_free(struct compact_unit *unit);
/* Records that a block could not be or need not be recoded, and takes it off the hot list. error:
 * positive errno, 0 = would not get smaller. */
int compact_decline(struct compact_pass *pass, uint64_t block, struct sep_method method, int error,
                    const char *reason);

/* compact_share.c */
int compact_window_add(struct compact_pass *pass, const struct compact_item *item);
/* Lays together what waits. last: nothing more will come. */
int compact_window_flush(struct compact_pass *pass, bool last);
/* Brings an encoded shared block into the index; *payload_size of JOB is what it takes. */
int compact_share_apply(struct compact_pass *pass, struct compact_unit *unit,
                        const struct gpu_job *job);

/* compact_promote.c: feeds the blocks that were decoded often. */
int compact_promote(struct compact_pass *pass);

/* compact_recount.c: sets the stored bytes of every inode to the sum over its extents. */
int compact_recount(struct fs *fs, const volatile bool *stop);

/* compactor.c: status, pausing, stopping. */
struct fs_compact_status *compact_status_lock(struct compact_pass *pass);
void compact_status_unlock(struct compact_pass *pass);
/* Waits while the compactor is paused or, in a timer's pass, the foreground is busy. False: stop. */
bool compact_gate(struct compact_pass *pass);
const volatile bool *compact_stop_flag(const struct compact_pass *pass);
void compact_set_pipeline(struct compact_pass *pass, struct gpu_pipeline *pipeline);
uint64_t compact_now_ms(void);
/* Tells the kernel that st_blocks of INO changed. Outside locks and transactions. */
void compact_notify(struct fs *fs, uint64_t ino);

#endif
