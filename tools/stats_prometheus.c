/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats_prometheus.c - sepfs-stats in the Prometheus text exposition format, for a textfile
 * collector: every metric has its HELP and TYPE once, then a sample for each result. Metric names
 * are stable; the daemon's own figures are passed on as sepfs_daemon_KEY.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "codec/sep.h"
#include "stats.h"

static void label(const char *name, const char *value)
{
    printf("%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '\n')
            fputs("\\n", stdout);
        else
            printf("%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
    }
    putchar('"');
}

static void head(const char *name, const char *help)
{
    printf("# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

struct metric {
    const char *name, *help;
    size_t offset; /* of a uint64_t in struct stats_store or stats_tree */
};

#define STORE(name, field, help)                                                                   \
    {                                                                                              \
        "sepfs_" name, help, offsetof(struct stats_store, field)                                   \
    }
static const struct metric store_metrics[] = {
    STORE("files", files, "Regular files."),
    STORE("directories", directories, "Directories."),
    STORE("logical_bytes", logical, "Sizes of all regular files."),
    STORE("live_bytes", space.live_bytes, "Bytes of packs that blocks lie in."),
    STORE("index_bytes", space.index_bytes, "Bytes of the index in use."),
    STORE("packs_on_disk_bytes", packs_on_disk, "Bytes allocated for packs by the host."),
    STORE("index_on_disk_bytes", index_on_disk, "Bytes allocated for the index by the host."),
    STORE("host_free_bytes", space.host_free, "Bytes free on the host file system."),
    STORE("hole_bytes", holes, "Bytes of files that are holes."),
    STORE("inline_bytes", inline_bytes, "Bytes of files kept in their inodes."),
    STORE("dedup_plain_bytes", dedup_plain, "Bytes of files found stored already."),
    STORE("garbage_bytes", garbage, "Bytes of packs that nothing refers to."),
    STORE("blocks", blocks, "Stored blocks."),
    STORE("shared_blocks", shared_blocks, "Stored blocks with several users."),
    STORE("hot_blocks", hot_blocks, "Blocks that compaction has not settled."),
    STORE("hot_plain_bytes", hot_plain, "Plain bytes of hot blocks."),
    STORE("declined_blocks", declined, "Blocks that compaction could not make smaller."),
    STORE("failed_blocks", failed, "Blocks whose compaction failed."),
    STORE("scrub_rounds", scrub.rounds, "Times that all blocks were checked."),
    STORE("scrub_finished_seconds", scrub.finished_at,
          "When the last complete check of all blocks ended, seconds since the epoch."),
    STORE("scrub_blocks", scrub.last_blocks, "Blocks that it checked."),
    STORE("scrub_damaged_blocks", scrub.last_damaged, "Blocks that it found damaged."),
    STORE("scrub_damaged_packs", scrub.last_damaged_packs, "Packs whose header it found damaged."),
};
#define TREE(name, field, help)                                                                    \
    {                                                                                              \
        "sepfs_path_" name, help, offsetof(struct stats_tree, field)                               \
    }
static const struct metric tree_metrics[] = {
    TREE("files", files, "Regular files below the path."),
    TREE("logical_bytes", logical, "Sizes of the regular files below the path."),
    TREE("stored_bytes", stored, "Bytes stored for the files below the path."),
    TREE("hole_bytes", holes, "Bytes of the files below the path that are holes."),
};

static void print_metrics(const struct metric *metrics, size_t metric_count, bool whole,
                          const struct stats_result *results, size_t count)
{
    for (size_t i = 0; i < metric_count; i++) {
        head(metrics[i].name, metrics[i].help);
        for (size_t j = 0; j < count; j++) {
            const char *const base =
                whole ? (const char *)&results[j].total : (const char *)&results[j].tree;
            uint64_t value;
            if (results[j].whole != whole)
                continue;
            memcpy(&value, base + metrics[i].offset, sizeof value);
            printf("%s{", metrics[i].name);
            label(whole ? "store" : "path", whole ? results[j].store : results[j].path);
            printf("} %" PRIu64 "\n", value);
        }
    }
}

static void print_methods(const char *name, const char *help, size_t offset,
                          const struct stats_result *results, size_t count)
{
    head(name, help);
    for (size_t j = 0; j < count; j++) {
        for (size_t i = 0; i < results[j].total.methods.count; i++) {
            const struct stats_method *const row = &results[j].total.methods.rows[i];
            uint64_t value;
            char text[32];
            memcpy(&value, (const char *)row + offset, sizeof value);
            printf("%s{", name);
            label("store", results[j].store);
            sep_method_format((struct sep_method){row->codec, row->level}, text, sizeof text);
            putchar(',');
            label("method", text);
            putchar(',');
            snprintf(text, sizeof text, "%016" PRIx64, row->model);
            label("model", row->model != 0 ? text : "");
            printf("} %" PRIu64 "\n", value);
        }
    }
}

static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return isdigit((unsigned char)text[0]) && *end == '\0';
}

/* The daemons' fields, grouped by key: the first result that has a key prints it for all. */
static bool printed_before(const struct stats_result *results, size_t result, size_t field)
{
    const char *const key = results[result].daemon.rows[field].key;
    for (size_t j = 0; j <= result; j++) {
        const size_t end = j == result ? field : results[j].daemon.count;
        for (size_t i = 0; i < end; i++) {
            if (strcmp(results[j].daemon.rows[i].key, key) == 0 &&
                is_number(results[j].daemon.rows[i].value))
                return true;
        }
    }
    return false;
}

static void print_daemon_key(const char *key, const struct stats_result *results, size_t count)
{
    char name[128];
    snprintf(name, sizeof name, "sepfs_daemon_%s", key);
    for (char *at = name; *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at))
            *at = '_';
    }
    printf("# HELP %s The daemon's %s.\n# TYPE %s gauge\n", name, key, name);
    for (size_t j = 0; j < count; j++) {
        for (size_t i = 0; i < results[j].daemon.count; i++) {
            const struct stats_field *const field = &results[j].daemon.rows[i];
            if (strcmp(field->key, key) != 0 || !is_number(field->value))
                continue;
            printf("%s{", name);
            label("store", results[j].store);
            printf("} %s\n", field->value);
        }
    }
}

void stats_print_prometheus(const struct stats_result *results, size_t count)
{
    bool wholes = false, trees = false;
    for (size_t j = 0; j < count; j++)
        *(results[j].whole ? &wholes : &trees) = true;
    if (wholes) {
        print_metrics(store_metrics, sizeof store_metrics / sizeof store_metrics[0], true, results,
                      count);
        print_methods("sepfs_method_blocks", "Blocks stored by a method.",
                      offsetof(struct stats_method, blocks), results, count);
        print_methods("sepfs_method_plain_bytes", "Plain bytes stored by a method.",
                      offsetof(struct stats_method, plain), results, count);
        print_methods("sepfs_method_stored_bytes", "Bytes that they take, headers included.",
                      offsetof(struct stats_method, stored), results, count);
    }
    for (size_t j = 0; j < count; j++) {
        for (size_t i = 0; i < results[j].daemon.count; i++) {
            if (is_number(results[j].daemon.rows[i].value) && !printed_before(results, j, i))
                print_daemon_key(results[j].daemon.rows[i].key, results, count);
        }
    }
    if (trees)
        print_metrics(tree_metrics, sizeof tree_metrics / sizeof tree_metrics[0], false, results,
                      count);
}
