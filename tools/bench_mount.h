/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_mount.h - what the measurement of mounts and its options share; see bench_mount.c.
 */
#ifndef TOOLS_BENCH_MOUNT_H
#define TOOLS_BENCH_MOUNT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench_peer.h"
#include "bench_result.h"
#include "cli.h"

enum row {
    ROW_UNTAR,
    ROW_FIND,
    ROW_READ_ALL,
    ROW_REMOVE,
    ROW_WRITE,
    ROW_WRITE_SYNC,
    ROW_READ_COLD,
    ROW_CREATE,
    ROW_LIST,
    ROW_STAT,
    ROW_DELETE,
    ROW_COMPACT,
    ROW_COMPACT_AGAIN,
    ROW_STORE_SIZE,
    ROW_MEMORY,
    ROW_COUNT
};

enum part { PART_TREE = 1, PART_FILE = 2, PART_EMPTY = 4, PART_COMPACT = 8 };

struct bench {
    const char *tree, *mixed_from, *compact, *passthrough;
    char base[PATH_MAX]; /* --work */
    uint64_t size, empty, rounds;
    unsigned parts; /* enum part */
    bool json;
    char work[PATH_MAX]; /* the directory made below base; "" = none yet */
    char compactor[PATH_MAX], fsck[PATH_MAX];
    struct bench_target target[BENCH_SIDES];
    bool has_peer, dropped;
    struct bench_series rows[ROW_COUNT];
    struct cli_progress progress;
};

/* Fills BENCH from the command line. 0 to go on, -1 when *code is the exit code. */
int bench_mount_parse(struct bench *bench, int argc, char **argv, int *code);

#endif
