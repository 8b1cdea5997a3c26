/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_result.h - samples of one quantity on two sides, their medians, the table and the JSON.
 */
#ifndef TOOLS_BENCH_RESULT_H
#define TOOLS_BENCH_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "json.h"

#define BENCH_ROUNDS_MAX 101u

enum bench_side { BENCH_PEER, BENCH_SEPFS, BENCH_SIDES };

/* One row. A side without samples was not measured and is shown as "-". */
struct bench_series {
    const char *name; /* "untar" */
    const char *unit; /* "s", "MB/s" (10^6), "MiB", "B", "" */
    const char *peer; /* what the peer's side was measured on; NULL: there is no peer */
    double value[BENCH_SIDES][BENCH_ROUNDS_MAX];
    unsigned count[BENCH_SIDES];
};

/* Samples beyond BENCH_ROUNDS_MAX are dropped. */
void bench_add(struct bench_series *series, enum bench_side side, double value);
/* NAN without samples; the mean of the two middle ones of an even number. */
double bench_median(const struct bench_series *series, enum bench_side side);

/* Rows without any sample are left out. ratio: sepfs / peer, of the medians. */
void bench_table(FILE *out, const struct bench_series *series, size_t count);
/* Writes an array KEY with the same rows and all samples. */
void bench_json(struct json *json, const char *key, const struct bench_series *series,
                size_t count);

#endif
