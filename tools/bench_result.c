/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_result.c - medians, table and JSON. Medians because one slow round (a flush of the host, a
 * timer) would spoil a mean; all samples go into the JSON for whoever wants to look further.
 */
#include "bench_result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bench_add(struct bench_series *series, enum bench_side side, double value)
{
    if (series->count[side] < BENCH_ROUNDS_MAX)
        series->value[side][series->count[side]++] = value;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const struct bench_series *series, enum bench_side side)
{
    const unsigned count = series->count[side];
    if (count == 0)
        return NAN;
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, series->value[side], count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], compare);
    return count % 2 != 0 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Three significant digits where there is a fraction, all of them otherwise. */
static const char *number(double value, char text[32])
{
    if (isnan(value))
        snprintf(text, 32, "-");
    else if (value >= 100)
        snprintf(text, 32, "%.0f", value);
    else if (value >= 10)
        snprintf(text, 32, "%.1f", value);
    else if (value >= 1)
        snprintf(text, 32, "%.2f", value);
    else
        snprintf(text, 32, "%.3f", value);
    return text;
}

static bool empty(const struct bench_series *series)
{
    return series->count[BENCH_PEER] == 0 && series->count[BENCH_SEPFS] == 0;
}

void bench_table(FILE *out, const struct bench_series *series, size_t count)
{
    fprintf(out, "%-30s %-6s %14s %14s %8s  %s\n", "median of each", "unit", "sepfs", "peer",
            "ratio", "peer");
    for (size_t i = 0; i < count; i++) {
        const struct bench_series *row = &series[i];
        if (empty(row))
            continue;
        const double own = bench_median(row, BENCH_SEPFS), peer = bench_median(row, BENCH_PEER);
        char own_text[32], peer_text[32], ratio_text[32];
        fprintf(out, "%-30s %-6s %14s %14s %8s  %s\n", row->name, row->unit, number(own, own_text),
                number(peer, peer_text), number(peer > 0 ? own / peer : NAN, ratio_text),
                row->peer != NULL && !isnan(peer) ? row->peer : "");
    }
}

void bench_json(struct json *json, const char *key, const struct bench_series *series, size_t count)
{
    static const char *const sides[BENCH_SIDES] = {"peer", "sepfs"};
    json_array(json, key);
    for (size_t i = 0; i < count; i++) {
        const struct bench_series *row = &series[i];
        if (empty(row))
            continue;
        json_object(json, NULL);
        json_string(json, "name", row->name);
        json_string(json, "unit", row->unit);
        json_string(json, "peer_name", row->peer);
        json_double(json, "ratio", bench_median(row, BENCH_SEPFS) / bench_median(row, BENCH_PEER));
        for (int side = 0; side < BENCH_SIDES; side++) {
            json_object(json, sides[side]);
            json_double(json, "median", bench_median(row, (enum bench_side)side));
            json_array(json, "samples");
            for (unsigned k = 0; k < row->count[side]; k++)
                json_double(json, NULL, row->value[side][k]);
            json_end(json);
            json_end(json);
        }
        json_end(json);
    }
    json_end(json);
}
