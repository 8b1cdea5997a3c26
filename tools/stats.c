/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats.c - sepfs-stats: finds out what each PATH is (a store, a mount point, or something on a
 * mount), asks a running daemon to write back first, measures (stats_collect.c) and prints
 * (stats_print.c, stats_prometheus.c). The index is opened read-only, beside the daemon if there is
 * one; what the daemon refused to write back is not counted.
 *
 * --json: {"version": 1, "results": [{"path", "type": "store" | "tree", "store", "mounted", ...}]},
 * sizes in bytes; members are only ever added. See stats_json_store and stats_json_tree.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "fs/fs.h"
#include "json.h"
#include "stats.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };
enum { OPTION_JSON = CLI_LONG_ONLY, OPTION_PROMETHEUS };

static const struct cli_option option_table[] = {
    {'r', "recursive", NULL, "also list everything below the directories given"},
    {OPTION_JSON, "json", NULL, "print one JSON object"},
    {OPTION_PROMETHEUS, "prometheus", NULL, "print in the Prometheus text format"},
    {0},
};

static const struct cli_program program = {
    .name = "sepfs-stats",
    .purpose = "Shows how much data a sepfs store or a part of it holds, and in how many bytes.",
    .synopsis = "PATH... [-r] [--json|--prometheus]",
    .options = option_table,
    .notes = "PATH is a store, a mount point, or a file or directory on one. A directory counts\n"
             "with everything below it.",
    .usage_exit = EXIT_USAGE,
};

static volatile bool interrupted; /* set by SIGINT and SIGTERM */

static void on_signal(int number)
{
    interrupted = true;
}

struct stats {
    bool recursive, as_json, prometheus;
    bool header; /* the table's head was printed */
    struct json json;
    struct stats_result *results; /* kept for --prometheus */
    size_t count;
};

static void on_log(void *arg, int priority, const char *line)
{
    cli_error(program.name, arg, "%s", line);
}

/* ---- the daemon ---------------------------------------------------------------------------------
 */

static void on_field(void *arg, const char *key, const char *value)
{
    struct stats_fields *const fields = arg;
    struct stats_field *const rows = reallocarray(fields->rows, fields->count + 1, sizeof *rows);
    if (rows == NULL) {
        fields->failed = true;
        return;
    }
    fields->rows = rows;
    const struct stats_field field = {strdup(key), strdup(value)};
    if (field.key == NULL || field.value == NULL) {
        free(field.key);
        free(field.value);
        fields->failed = true;
        return;
    }
    rows[fields->count++] = field;
}

static void on_nothing(void *arg, const char *key, const char *value)
{
}

/* Has the daemon write back, and reads its figures for a whole store. A daemon that may not be
 * asked (another user's) is no failure: what it has committed is measured. */
static int ask_daemon(struct stats_result *result)
{
    struct fs_client *client;
    char error[256] = "";
    int code = fs_client_open(result->store, &client);
    if (code == -ENOTCONN || code == -EACCES || code == -EPERM || code == -ENOENT)
        return 0;
    if (code != 0) {
        cli_error(program.name, result->store, "cannot reach the daemon: %s", strerror(-code));
        return 0;
    }
    result->mounted = true;
    code = fs_client_call(client, "sync", on_nothing, NULL, error, sizeof error);
    if (code == 0 && result->whole)
        code = fs_client_call(client, "stats", on_field, &result->daemon, error, sizeof error);
    if (code != 0)
        cli_error(program.name, result->store, "the daemon refused: %s",
                  error[0] != '\0' ? error : strerror(-code));
    fs_client_close(client);
    return result->daemon.failed ? -ENOMEM : 0;
}

/* ---- one path -----------------------------------------------------------------------------------
 */

/* Whether PATH is a mount point or lies on a mount; otherwise it is taken for a store. */
static int locate(const char *path, struct stats_result *result, uint64_t *ino)
{
    char mountpoint[PATH_MAX], store[PATH_MAX], *real = realpath(path, NULL);
    int code = real == NULL ? -errno : fs_client_find(real, mountpoint, store, ino);
    result->path = strdup(path);
    if (code == 0) {
        result->mounted = true;
        result->whole = strcmp(real, mountpoint) == 0;
        result->store = strdup(store);
    } else if (code == -ENODEV) {
        result->whole = true;
        result->store = strdup(real);
        code = 0;
    }
    free(real);
    if (code == 0 && (result->path == NULL || result->store == NULL))
        code = -ENOMEM;
    return code;
}

static void on_row(void *arg, const char *path, const struct stats_tree *tree)
{
    struct stats *const stats = arg;
    if (!stats->as_json) {
        stats_print_tree(path, tree);
        return;
    }
    json_object(&stats->json, NULL);
    json_string(&stats->json, "path", path);
    stats_json_tree(&stats->json, tree);
    json_end(&stats->json);
}

static int collect(struct stats *stats, struct index *index, uint64_t ino,
                   struct stats_result *result)
{
    if (result->whole)
        return stats_collect_store(index, &interrupted, &result->total);
    const bool list = stats->recursive;
    if (!stats->as_json && !stats->prometheus && !stats->header) {
        stats_print_tree_header();
        stats->header = true;
    }
    if (list && stats->as_json)
        json_array(&stats->json, "entries");
    const int code = stats_collect_tree(index, ino, result->path, &interrupted,
                                        list ? on_row : NULL, stats, &result->tree);
    if (list && stats->as_json)
        json_end(&stats->json);
    return code;
}

static void print(struct stats *stats, const struct stats_result *result)
{
    if (stats->prometheus)
        return;
    if (stats->as_json && result->whole)
        stats_json_store(&stats->json, result);
    else if (stats->as_json)
        stats_json_tree(&stats->json, &result->tree);
    else if (result->whole)
        stats_print_store(result);
    else
        stats_print_tree(result->path, &result->tree);
}

/* Measures and prints PATH; the error, if any, was printed. */
static int show(struct stats *stats, const char *path, struct stats_result *result)
{
    char error[256];
    uint64_t ino = INDEX_ROOT_INO;
    struct index *index = NULL;
    int code = locate(path, result, &ino);
    if (code == 0)
        code = ask_daemon(result);
    if (code != 0) {
        cli_error(program.name, path, "%s", strerror(-code));
        return code;
    }
    const struct index_options options = {
        .flags = INDEX_OPEN_READONLY, .log = on_log, .log_arg = result->store};
    code = index_open(result->store, &options, &index, error, sizeof error);
    if (code != 0) {
        cli_error(program.name, NULL, "%s", error); /* names the path */
        return code;
    }
    if (stats->as_json) {
        json_object(&stats->json, NULL);
        json_string(&stats->json, "path", result->path);
        json_string(&stats->json, "type", result->whole ? "store" : "tree");
        json_string(&stats->json, "store", result->store);
        json_bool(&stats->json, "mounted", result->mounted);
    }
    code = collect(stats, index, ino, result);
    if (code == 0)
        print(stats, result);
    else if (code != -ECANCELED)
        cli_error(program.name, path, "%s", strerror(-code));
    if (stats->as_json) {
        json_string(&stats->json, "error", code != 0 ? strerror(-code) : NULL);
        json_end(&stats->json);
    }
    index_close(index);
    return code;
}

/* ---- main ---------------------------------------------------------------------------------------
 */

static int run(struct stats *stats, char **paths, size_t count)
{
    int code = EXIT_DONE;
    if (stats->as_json) {
        json_begin(&stats->json, stdout);
        json_object(&stats->json, NULL);
        json_u64(&stats->json, "version", 1);
        json_array(&stats->json, "results");
    }
    for (size_t i = 0; i < count && !interrupted; i++) {
        struct stats_result *const result = &stats->results[stats->count];
        if (show(stats, paths[i], result) == 0) {
            stats->count++;
        } else {
            stats_result_free(result);
            *result = (struct stats_result){0};
            code = EXIT_FAILED;
        }
    }
    if (stats->as_json) {
        json_end(&stats->json);
        json_end(&stats->json);
    }
    if (stats->prometheus && !interrupted)
        stats_print_prometheus(stats->results, stats->count);
    for (size_t i = 0; i < stats->count; i++)
        stats_result_free(&stats->results[i]);
    return interrupted ? EXIT_INTERRUPTED : code;
}

int main(int argc, char **argv)
{
    struct stats stats = {0};
    struct cli cli;
    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        switch (id) {
        case CLI_EXIT:
            return cli.exit_code;
        case 'r':
            stats.recursive = true;
            break;
        case OPTION_JSON:
            stats.as_json = true;
            break;
        case OPTION_PROMETHEUS:
            stats.prometheus = true;
            break;
        }
    }
    if (cli.count == 0)
        return cli_usage(&cli, "a store, a mount point, or files on one are needed");
    if (stats.as_json && stats.prometheus)
        return cli_usage(&cli, "only one of --json and --prometheus may be given");
    if (stats.recursive && stats.prometheus)
        return cli_usage(&cli, "-r does not go with --prometheus");
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    stats.results = calloc((size_t)cli.count, sizeof *stats.results);
    if (stats.results == NULL) {
        cli_error(program.name, NULL, "%s", strerror(ENOMEM));
        return EXIT_FAILED;
    }
    const int code = run(&stats, cli.arguments, (size_t)cli.count);
    free(stats.results);
    return cli_finish(program.name, code, EXIT_FAILED);
}
