/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scrub.h - checks the stored blocks of a mounted store, again and again, so that damage is found
 * while a second copy may still exist. See scrub.c for how it keeps out of the way.
 */
#ifndef FS_SCRUB_H
#define FS_SCRUB_H

#include "core.h"

enum fs_scrub_state {
    FS_SCRUB_IDLE,    /* no round is under way */
    FS_SCRUB_RUNNING, /* reads */
    FS_SCRUB_WAITING, /* gives way to other work, or is ahead of its rate */
    FS_SCRUB_STOPPED, /* by request, until one starts it or the next mount */
};

struct fs_scrub_status {
    enum fs_scrub_state state;
    struct index_scrub progress; /* as it is now; the copy in the index may be a little older */
    uint64_t live_bytes;         /* records to check in a round, bytes */
};

/* Both do nothing when the store is read-only. */
int fs_scrub_start(struct fs *fs);
void fs_scrub_stop(struct fs *fs); /* keeps the position */

/* A round begins, or the one under way goes on, without giving way to other work: somebody waits.
 * *round: progress.rounds once it is complete. -EOPNOTSUPP: read-only. */
int fs_scrub_begin(struct fs *fs, uint64_t *round);
/* The round under way rests, and none begins. */
int fs_scrub_halt(struct fs *fs);
int fs_scrub_status(struct fs *fs, struct fs_scrub_status *status);

const char *fs_scrub_state_text(enum fs_scrub_state state);

#endif
