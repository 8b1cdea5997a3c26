/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats_print.c - sepfs-stats as text and as JSON. Figures that are sums of others are printed from
 * the same fields, so that text and JSON never disagree.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "codec/sep.h"
#include "json.h"
#include "stats.h"

static double saved(uint64_t plain, uint64_t stored)
{
    return plain == 0 ? 0 : 100.0 * (1.0 - (double)stored / (double)plain);
}

/* Pack bytes in use and index: what the data needs, without garbage. */
static uint64_t needed(const struct stats_store *store)
{
    return store->space.live_bytes + store->space.index_bytes;
}

/* What the host has given to the store. */
static uint64_t on_disk(const struct stats_store *store)
{
    return store->packs_on_disk + store->index_on_disk;
}

static const char *method_text(uint8_t codec, uint8_t level, char text[CLI_TEXT])
{
    sep_method_format((struct sep_method){codec, level}, text, CLI_TEXT);
    return text;
}

/* ---- text: a store ------------------------------------------------------------------------------
 */

static void line_bytes(const char *name, uint64_t bytes, const char *rest)
{
    char text[CLI_TEXT];
    printf("  %-13s %10s  %s\n", name, cli_bytes(bytes, text), rest);
}

static void print_methods(const struct stats_store *store)
{
    char method[CLI_TEXT], blocks[CLI_TEXT], plain[CLI_TEXT], stored[CLI_TEXT], model[24];
    if (store->methods.count == 0)
        return;
    printf("\n  %-12s %-16s %12s %11s %11s %8s\n", "method", "model", "blocks", "plain", "stored",
           "ratio");
    for (size_t i = 0; i < store->methods.count; i++) {
        const struct stats_method *const row = &store->methods.rows[i];
        snprintf(model, sizeof model, row->model != 0 ? "%016" PRIx64 : "-", row->model);
        printf("  %-12s %-16s %12s %11s %11s %8.2f\n", method_text(row->codec, row->level, method),
               model, cli_count(row->blocks, blocks), cli_bytes(row->plain, plain),
               cli_bytes(row->stored, stored), cli_ratio(row->plain, row->stored));
    }
    printf("  %-12s %-16s %12s %11s %11s %8.2f\n", "all", "", cli_count(store->blocks, blocks),
           cli_bytes(store->plain, plain), cli_bytes(store->stored, stored),
           cli_ratio(store->plain, store->stored));
}

static void print_compaction(const struct stats_store *store)
{
    char rest[160], a[CLI_TEXT], b[CLI_TEXT], method[CLI_TEXT];
    snprintf(rest, sizeof rest, "plain in %s blocks, stored in %s", cli_count(store->hot_blocks, a),
             cli_bytes(store->hot_stored, b));
    line_bytes("hot", store->hot_plain, rest);
    snprintf(rest, sizeof rest, "plain in %s blocks, stored in %s",
             cli_count(store->blocks - store->hot_blocks, a),
             cli_bytes(store->stored - store->hot_stored, b));
    line_bytes("cold", store->plain - store->hot_plain, rest);
    if (store->declined + store->failed + store->incompressible_blocks > 0)
        printf("  %-13s %10s  incompressible; %" PRIu64 " did not get smaller, %" PRIu64
               " failed to compact\n",
               "blocks", cli_count(store->incompressible_blocks, a), store->declined,
               store->failed);
    for (size_t i = 0; i < store->failure_count; i++) {
        printf("    block %" PRIu64 " to %s: ", store->failures[i].block,
               method_text(store->failures[i].codec, store->failures[i].level, method));
        cli_put(stdout, store->failures[i].reason);
        putchar('\n');
    }
}

static const char *date_text(int64_t seconds, char text[CLI_TEXT])
{
    const time_t time = (time_t)seconds;
    struct tm tm;
    if (seconds == 0 || gmtime_r(&time, &tm) == NULL ||
        strftime(text, CLI_TEXT, "%Y-%m-%d %H:%M UTC", &tm) == 0)
        snprintf(text, CLI_TEXT, "never");
    return text;
}

static void print_scrub(const struct index_scrub *scrub)
{
    char date[CLI_TEXT], blocks[CLI_TEXT];
    if (scrub->rounds > 0)
        printf("  %-13s %10s  blocks checked until %s: %" PRIu64 " damaged, %" PRIu64
               " packs with a damaged header\n",
               "scrub", cli_count(scrub->last_blocks, blocks), date_text(scrub->finished_at, date),
               scrub->last_damaged, scrub->last_damaged_packs);
    if (scrub->next_block != 0)
        printf("  %-13s %10s  blocks checked since %s: %" PRIu64 " damaged, %" PRIu64
               " packs with a damaged header\n",
               "scrub, now", cli_count(scrub->blocks, blocks), date_text(scrub->started_at, date),
               scrub->damaged, scrub->damaged_packs);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

static uint64_t field(const struct stats_fields *fields, const char *key)
{
    uint64_t value;
    for (size_t i = 0; i < fields->count; i++) {
        if (strcmp(fields->rows[i].key, key) == 0 &&
            cli_parse_u64(fields->rows[i].value, 0, UINT64_MAX, &value))
            return value;
    }
    return 0;
}

/* The daemon's own figures, with units by the end of their names. */
static void print_daemon(const struct stats_fields *fields)
{
    char text[CLI_TEXT];
    if (fields->count == 0)
        return;
    const uint64_t hits = field(fields, "cache_hits");
    const uint64_t reads = hits + field(fields, "cache_misses");
    printf("\n  daemon, since it was mounted\n    %-22s %10.1f %%\n", "cache hits of reads",
           cli_percent(hits, reads));
    for (size_t i = 0; i < fields->count; i++) {
        const char *const key = fields->rows[i].key;
        const char *value = fields->rows[i].value;
        uint64_t number;
        if (strncmp(key, "scrub_", 6) == 0 && strcmp(key, "scrub_state") != 0)
            continue; /* print_scrub says it better */
        if (cli_parse_u64(value, 0, UINT64_MAX, &number))
            value = ends_with(key, "_ns") ? cli_seconds((double)number * 1e-9, text)
                    : ends_with(key, "_bytes") || ends_with(key, "_limit")
                        ? cli_bytes(number, text)
                        : cli_count(number, text);
        printf("    ");
        cli_put(stdout, key);
        printf("%*s ", (int)(strlen(key) < 22 ? 22 - strlen(key) : 0), "");
        printf("%*s", (int)(strlen(value) < 10 ? 10 - strlen(value) : 0), "");
        cli_put(stdout, value);
        putchar('\n');
    }
}

void stats_print_store(const struct stats_result *result)
{
    const struct stats_store *const store = &result->total;
    char rest[256], a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT];
    cli_put(stdout, result->path);
    if (result->mounted) {
        printf(": store ");
        cli_put(stdout, result->store);
        printf(", mounted\n");
    } else {
        printf(": store, not mounted\n");
    }
    snprintf(rest, sizeof rest, "in %s files, %s directories, %s symlinks",
             cli_count(store->files, a), cli_count(store->directories, b),
             cli_count(store->symlinks, c));
    line_bytes("logical", store->logical, rest);
    snprintf(rest, sizeof rest, "%.2f:1, %.1f %% saved; data %s, index %s",
             cli_ratio(store->logical, needed(store)), saved(store->logical, needed(store)),
             cli_bytes(store->space.live_bytes, a), cli_bytes(store->space.index_bytes, b));
    line_bytes("stored", needed(store), rest);
    /* A daemon at work holds space ahead of need: a ratio would say nothing. */
    if (result->mounted)
        snprintf(rest, sizeof rest, "packs %s, index %s, with room held for writing",
                 cli_bytes(store->packs_on_disk, a), cli_bytes(store->index_on_disk, b));
    else
        snprintf(rest, sizeof rest, "%.2f:1, %.1f %% saved; packs %s, index %s",
                 cli_ratio(store->logical, on_disk(store)), saved(store->logical, on_disk(store)),
                 cli_bytes(store->packs_on_disk, a), cli_bytes(store->index_on_disk, b));
    line_bytes("on disk", on_disk(store), rest);
    line_bytes("holes", store->holes, "never stored: zeros");
    snprintf(rest, sizeof rest, "in the inodes of %s small files",
             cli_count(store->inline_files, a));
    line_bytes("inline", store->inline_bytes, rest);
    snprintf(rest, sizeof rest, "found again, %s not stored twice; %s blocks with several users",
             cli_bytes(store->dedup_stored, a), cli_count(store->shared_blocks, b));
    line_bytes("dedup", store->dedup_plain, rest);
    snprintf(rest, sizeof rest, "of packs unused; %s of stored blocks overwritten",
             cli_bytes(store->dead_plain, a));
    line_bytes("garbage", store->garbage, rest);
    print_compaction(store);
    print_scrub(&store->scrub);
    print_methods(store);
    print_daemon(&result->daemon);
}

/* ---- text: files --------------------------------------------------------------------------------
 */

void stats_print_tree_header(void)
{
    printf("%11s %11s %8s %7s  %-18s %s\n", "logical", "stored", "ratio", "saved", "codecs",
           "path");
}

/* "sep 93% zstd 7%": shares of the plain bytes, largest first would need sorting four rows; the
 * order is that of the codec numbers. */
static void codecs_text(const struct stats_tree *tree, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < STATS_CODECS; i++) {
        if (tree->codecs[i].plain == 0)
            continue;
        const int length =
            snprintf(text + at, size - at, "%s%s %.0f%%", at > 0 ? " " : "", sep_codec_name(i),
                     cli_percent(tree->codecs[i].plain, tree->mapped));
        if (length < 0 || (size_t)length >= size - at)
            return;
        at += (size_t)length;
    }
}

void stats_print_tree(const char *path, const struct stats_tree *tree)
{
    char logical[CLI_TEXT], stored[CLI_TEXT], codecs[128];
    codecs_text(tree, codecs, sizeof codecs);
    printf("%11s %11s %8.2f %6.1f%%  %-18s ", cli_bytes(tree->logical, logical),
           cli_bytes(tree->stored, stored), cli_ratio(tree->logical, tree->stored),
           saved(tree->logical, tree->stored), codecs[0] != '\0' ? codecs : "-");
    cli_put(stdout, path);
    putchar('\n');
}

/* ---- JSON ---------------------------------------------------------------------------------------
 */

static void json_methods(struct json *json, const struct stats_methods *methods)
{
    char text[CLI_TEXT];
    json_array(json, "methods");
    for (size_t i = 0; i < methods->count; i++) {
        const struct stats_method *const row = &methods->rows[i];
        json_object(json, NULL);
        json_string(json, "codec", sep_codec_name(row->codec));
        json_u64(json, "level", row->level);
        snprintf(text, sizeof text, "%016" PRIx64, row->model);
        json_string(json, "model", row->model != 0 ? text : NULL);
        json_u64(json, "blocks", row->blocks);
        json_u64(json, "plain_bytes", row->plain);
        json_u64(json, "stored_bytes", row->stored);
        json_double(json, "ratio", cli_ratio(row->plain, row->stored));
        json_end(json);
    }
    json_end(json);
}

static void json_failures(struct json *json, const struct stats_store *store)
{
    char text[CLI_TEXT];
    json_array(json, "failures");
    for (size_t i = 0; i < store->failure_count; i++) {
        const struct stats_failure *const failure = &store->failures[i];
        json_object(json, NULL);
        json_u64(json, "block", failure->block);
        json_string(json, "method", method_text(failure->codec, failure->level, text));
        json_string(json, "reason", failure->reason);
        json_end(json);
    }
    json_end(json);
}

static void json_scrub(struct json *json, const struct index_scrub *scrub)
{
    json_object(json, "scrub");
    json_u64(json, "rounds", scrub->rounds);
    json_u64(json, "started_at", (uint64_t)scrub->started_at);
    json_u64(json, "finished_at", (uint64_t)scrub->finished_at);
    json_bool(json, "under_way", scrub->next_block != 0);
    json_u64(json, "blocks", scrub->blocks);
    json_u64(json, "bytes", scrub->bytes);
    json_u64(json, "damaged_blocks", scrub->damaged);
    json_u64(json, "damaged_packs", scrub->damaged_packs);
    json_u64(json, "last_blocks", scrub->last_blocks);
    json_u64(json, "last_bytes", scrub->last_bytes);
    json_u64(json, "last_damaged_blocks", scrub->last_damaged);
    json_u64(json, "last_damaged_packs", scrub->last_damaged_packs);
    json_end(json);
}

void stats_json_store(struct json *json, const struct stats_result *result)
{
    const struct stats_store *const store = &result->total;
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"block_size", store->block_size},
        {"files", store->files},
        {"directories", store->directories},
        {"symlinks", store->symlinks},
        {"others", store->others},
        {"logical_bytes", store->logical},
        {"stored_bytes", needed(store)},
        {"live_bytes", store->space.live_bytes},
        {"index_bytes", store->space.index_bytes},
        {"on_disk_bytes", on_disk(store)},
        {"packs_on_disk_bytes", store->packs_on_disk},
        {"index_on_disk_bytes", store->index_on_disk},
        {"mapped_bytes", store->mapped},
        {"hole_bytes", store->holes},
        {"inline_files", store->inline_files},
        {"inline_bytes", store->inline_bytes},
        {"blocks", store->blocks},
        {"extents", store->space.extents},
        {"block_plain_bytes", store->plain},
        {"block_stored_bytes", store->stored},
        {"shared_blocks", store->shared_blocks},
        {"dedup_plain_bytes", store->dedup_plain},
        {"dedup_stored_bytes", store->dedup_stored},
        {"dead_plain_bytes", store->dead_plain},
        {"packs", store->packs},
        {"garbage_bytes", store->garbage},
        {"hot_blocks", store->hot_blocks},
        {"hot_plain_bytes", store->hot_plain},
        {"hot_stored_bytes", store->hot_stored},
        {"cold_blocks", store->blocks - store->hot_blocks},
        {"cold_plain_bytes", store->plain - store->hot_plain},
        {"cold_stored_bytes", store->stored - store->hot_stored},
        {"incompressible_blocks", store->incompressible_blocks},
        {"declined_blocks", store->declined},
        {"failed_blocks", store->failed},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_u64(json, numbers[i].key, numbers[i].value);
    json_double(json, "ratio", cli_ratio(store->logical, needed(store)));
    json_double(json, "saved_percent", saved(store->logical, needed(store)));
    json_double(json, "on_disk_ratio", cli_ratio(store->logical, on_disk(store)));
    json_methods(json, &store->methods);
    json_failures(json, store);
    json_scrub(json, &store->scrub);
    json_object(json, "daemon");
    for (size_t i = 0; i < result->daemon.count; i++) {
        uint64_t value;
        const struct stats_field *const field = &result->daemon.rows[i];
        if (cli_parse_u64(field->value, 0, UINT64_MAX, &value))
            json_u64(json, field->key, value);
        else
            json_string(json, field->key, field->value);
    }
    json_end(json);
}

void stats_json_tree(struct json *json, const struct stats_tree *tree)
{
    json_u64(json, "files", tree->files);
    json_u64(json, "directories", tree->directories);
    json_u64(json, "symlinks", tree->symlinks);
    json_u64(json, "others", tree->others);
    json_u64(json, "logical_bytes", tree->logical);
    json_u64(json, "stored_bytes", tree->stored);
    json_u64(json, "mapped_bytes", tree->mapped);
    json_u64(json, "inline_bytes", tree->inline_bytes);
    json_u64(json, "hole_bytes", tree->holes);
    json_double(json, "ratio", cli_ratio(tree->logical, tree->stored));
    json_double(json, "saved_percent", saved(tree->logical, tree->stored));
    json_object(json, "codecs");
    for (unsigned i = 0; i < STATS_CODECS; i++) {
        if (tree->codecs[i].plain == 0)
            continue;
        json_object(json, sep_codec_name(i));
        json_u64(json, "plain_bytes", tree->codecs[i].plain);
        json_u64(json, "stored_bytes", tree->codecs[i].stored);
        json_end(json);
    }
    json_end(json);
}
