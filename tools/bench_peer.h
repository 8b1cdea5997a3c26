/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_peer.h - what sepfs-bench mount runs: commands, and the two file systems side by side,
 * sepfs on a store and passthrough_ll on a plain directory of the same disk.
 *
 * Functions return 0 or a negative errno after one line on stderr.
 */
#ifndef TOOLS_BENCH_PEER_H
#define TOOLS_BENCH_PEER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench_result.h"

/* Seconds on the monotonic clock. */
double bench_now(void);

/* Runs ARGV (looked up in PATH), waits, gives its wall-clock time. stdout goes to /dev/null.
 * SIGINT and SIGTERM, which the caller holds blocked, act on the command as usual. -EIO when its
 * exit status is not 0. seconds may be NULL. */
int bench_command(const char *const argv[], double *seconds);
/* The same with sh -c SCRIPT and up to three arguments ($1 ...; NULL: none). */
int bench_shell(const char *script, const char *one, const char *two, const char *three,
                double *seconds);

/* Writes the host's dirty pages back and, as root, drops its caches. False when it could not. */
bool bench_drop_caches(void);

/* A file system that can be mounted again and again. */
struct bench_target {
    enum bench_side side;
    char program[PATH_MAX];    /* the daemon */
    char data[PATH_MAX];       /* store, or the directory behind passthrough_ll */
    char mountpoint[PATH_MAX]; /* an empty directory */
    pid_t pid;                 /* of the daemon, 0 = not mounted */
    uint64_t peak;             /* most bytes resident over all mounts so far (VmHWM) */
};

/* Starts the daemon in the foreground as a child and waits until the mount answers. */
int bench_target_mount(struct bench_target *target);
/* Unmounts, waits for the daemon's exit and notes its peak memory. Nothing when not mounted. */
int bench_target_unmount(struct bench_target *target);
/* Removes the data: the next mount starts empty. Not mounted. */
int bench_target_clear(struct bench_target *target);

/* Finds a command of this project beside this program, in ../sbin, or in PATH. */
int bench_find_tool(const char *name, char path[PATH_MAX]);
/* Finds passthrough_ll: GIVEN (a binary; may be NULL), one in PATH, or built in WORK from the
 * source that libfuse's development package ships. -ENOENT, silently, when there is none. */
int bench_find_passthrough(const char *given, const char *work, char path[PATH_MAX]);

#endif
