/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_load.h - the loads that no command makes well: a large mixed file, its sequential writing
 * and reading, and very many empty files. Functions return 0 or a negative errno after one line on
 * stderr; -EINTR when SIGINT or SIGTERM is pending (the caller holds both blocked).
 */
#ifndef TOOLS_BENCH_LOAD_H
#define TOOLS_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

bool bench_interrupted(void);

/* Writes SIZE bytes of mixed data to PATH: the regular files below FROM one after the other, or,
 * with FROM NULL, the program's own mix. When FROM is used up it starts again with every byte
 * XORed with the number of the pass: just as compressible, but no block equals an earlier one, so
 * that deduplication gains nothing from the repetition. */
int bench_load_mixed(const char *from, uint64_t size, const char *path);

/* Copies the file SOURCE to TARGET in writes of 1 MiB. written: seconds until close returned;
 * synced: seconds until fsync, before that close, returned. */
int bench_load_write(const char *source, const char *target, double *written, double *synced);

/* Reads TARGET in reads of 1 MiB. With SOURCE, compares the two instead of only reading; -EIO when
 * they differ. */
int bench_load_read(const char *target, const char *source, double *seconds);

/* Creates COUNT empty files in the new directory DIR, lists their names, then looks each up (stat),
 * and removes all: the seconds of each. The names listed must be COUNT, or -EIO. */
struct bench_empty {
    double create, list, stat, remove;
};
int bench_load_empty(const char *dir, uint64_t count, struct bench_empty *times);

/* Bytes that the files below DIR occupy on the host (st_blocks). */
int bench_load_usage(const char *dir, uint64_t *bytes);

#endif
