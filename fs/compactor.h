/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compactor.h - re-compresses what has been left alone. See compactor.c for the steps of a pass.
 */
#ifndef FS_COMPACTOR_H
#define FS_COMPACTOR_H

#include "core.h"

/* What a pass is asked to do; filled by the control socket or, from the policy, by the timer. */
struct fs_compact_request {
    uint64_t ino;             /* a file or directory (with everything below), 0 = the whole store */
    bool all;                 /* whatever its age; otherwise older_than decides */
    uint32_t older_than;      /* seconds since last written and read; 0 = options.cold_after */
    bool has_method;          /* otherwise each file's policy says */
    struct sep_method method; /* also a fast one (lz4, zstd up to 9): un-compacts, whatever the age
                                 unless older_than is given. What was un-compacted stays so until
                                 a request names a method or all */
    bool gc;                  /* also collect garbage thoroughly */
};

struct fs_compact_status {
    bool running, paused;
    uint64_t blocks_done, blocks_total;   /* of the current or last request */
    uint64_t bytes_done, bytes_total;     /* plain bytes */
    uint64_t stored_before, stored_after; /* of the blocks done */
    uint64_t failed, declined;            /* blocks; declined: would not get smaller */
    uint64_t elapsed_ms;
    int error;        /* first error that ended the request, negative errno */
    char backend[32]; /* "cpu (2 workers)" */
    char path[256];   /* last file worked on */
};

int fs_compactor_start(struct fs *fs);
void fs_compactor_stop(struct fs *fs); /* abandons batches in flight; nothing is lost */

/* Queues a request; *ticket is then passed to fs_compactor_wait. */
int fs_compactor_request(struct fs *fs, const struct fs_compact_request *request, uint64_t *ticket);
/* Waits at most TIMEOUT_MS for the request to end. 1 = ended (its status in *status), 0 = still
 * going (present status), negative errno. */
int fs_compactor_wait(struct fs *fs, uint64_t ticket, unsigned timeout_ms,
                      struct fs_compact_status *status);
void fs_compactor_pause(struct fs *fs, bool pause);
void fs_compactor_status(struct fs *fs, struct fs_compact_status *status);

#endif
