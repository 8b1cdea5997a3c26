/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact.c - sepfs-compact: finds the mount that PATH lies on and asks its daemon to compact, to
 * pause, to resume, or what it is doing. All work is the daemon's: this command may be interrupted
 * at any time without changing what happens.
 */
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "daemon.h"
#include "fs/fs.h"
#include "json.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum {
    OPTION_ALL = CLI_LONG_ONLY,
    OPTION_OLDER_THAN,
    OPTION_CODEC,
    OPTION_LEVEL,
    OPTION_WAIT,
    OPTION_PAUSE,
    OPTION_RESUME,
    OPTION_STATUS,
    OPTION_GC,
    OPTION_JSON,
    OPTION_PROGRESS
};

static const struct cli_option option_table[] = {
    {OPTION_ALL, "all", NULL, "compact everything, whatever its age"},
    {OPTION_OLDER_THAN, "older-than", "TIME",
     "what was not written or read for TIME, as 12h or 30d"},
    {OPTION_CODEC, "codec", "METHOD",
     "sep, zstd or lz4, with :LEVEL; a fast one undoes compaction"},
    {OPTION_LEVEL, "level", "N", "level of the codec"},
    {OPTION_GC, "gc", NULL, "also collect garbage thoroughly"},
    {OPTION_WAIT, "wait", NULL, "wait until it is done, with a progress bar"},
    {OPTION_STATUS, "status", NULL, "print what the compactor is doing"},
    {OPTION_PAUSE, "pause", NULL, "pause the compactor until --resume"},
    {OPTION_RESUME, "resume", NULL, "let it go on"},
    {OPTION_JSON, "json", NULL, "print the status as one JSON object"},
    {OPTION_PROGRESS, "progress", "WHEN", "auto (on a terminal), always or never"},
    {0},
};

static const struct cli_program program = {
    .name = "sepfs-compact",
    .purpose = "Compresses cold data again, or watches and steers the compactor.",
    .synopsis = "PATH [OPTION...]",
    .options = option_table,
    .notes =
        "PATH is a mount point, or a file or directory on one. Without --all and --older-than,\n"
        "what is cold by the store's policy is compacted. The work is the daemon's: this\n"
        "command can be interrupted without stopping it.",
    .usage_exit = EXIT_USAGE,
};

enum action { ACTION_COMPACT, ACTION_STATUS, ACTION_PAUSE, ACTION_RESUME };

struct asked {
    enum action action;
    bool all, gc, wait, json, compact_option;
    uint32_t older_than; /* seconds, 0 = by policy */
    const char *codec;
    uint64_t level; /* 0 = the codec's default */
    enum cli_progress_mode progress;
};

/* ---- options ------------------------------------------------------------------------------- */

static bool set_action(struct asked *asked, enum action action)
{
    if (asked->action != ACTION_COMPACT && asked->action != action)
        return false;
    asked->action = action;
    return true;
}

/* 0, or a message about the option. */
static const char *take_option(struct asked *asked, int id, const char *value)
{
    switch (id) {
    case OPTION_OLDER_THAN:
        if (fs_parse_time(value, &asked->older_than) != 0 || asked->older_than == 0)
            return "--older-than: not a time such as 90s, 5m, 12h or 30d";
        break;
    case OPTION_CODEC:
        asked->codec = value;
        break;
    case OPTION_LEVEL:
        if (!cli_parse_u64(value, 1, 99, &asked->level))
            return "--level: not a number from 1 up";
        break;
    case OPTION_ALL:
        asked->all = true;
        break;
    case OPTION_GC:
        asked->gc = true;
        break;
    case OPTION_WAIT:
        asked->wait = true;
        break;
    case OPTION_JSON:
        asked->json = true;
        return NULL;
    case OPTION_PROGRESS:
        return cli_progress_parse(value, &asked->progress)
                   ? NULL
                   : "--progress: expected auto, always or never";
    case OPTION_STATUS:
        return set_action(asked, ACTION_STATUS) ? NULL
                                                : "--status, --pause and --resume exclude "
                                                  "each other";
    case OPTION_PAUSE:
        return set_action(asked, ACTION_PAUSE) ? NULL
                                               : "--status, --pause and --resume exclude "
                                                 "each other";
    case OPTION_RESUME:
        return set_action(asked, ACTION_RESUME) ? NULL
                                                : "--status, --pause and --resume exclude "
                                                  "each other";
    }
    asked->compact_option = true;
    return NULL;
}

/* The method as the daemon reads it, from --codec and --level. "" when neither was given. */
static const char *method_of(const struct asked *asked, char text[32], char reason[128])
{
    const char *codec = asked->codec != NULL ? asked->codec : "sep";
    struct sep_method method;
    enum sep_status status;

    text[0] = '\0';
    if (asked->codec == NULL && asked->level == 0)
        return text;
    if (asked->level != 0 && strchr(codec, ':') != NULL) {
        snprintf(reason, 128, "--codec=%.40s and --level both give a level", codec);
        return NULL;
    }
    if (asked->level != 0)
        snprintf(text, 32, "%.20s:%u", codec, (unsigned)asked->level);
    else
        snprintf(text, 32, "%.31s", codec);
    status = sep_method_parse(text, &method);
    if (status == SEP_OK && method.codec == SEP_CODEC_RAW)
        status = SEP_ERROR_CODEC;
    if (status != SEP_OK) {
        snprintf(reason, 128, "--codec, --level: %s: %s", text,
                 status == SEP_ERROR_CODEC ? "not a codec (expected sep, zstd or lz4)"
                                           : "no such level");
        return NULL;
    }
    sep_method_format(method, text, 32);
    return text;
}

/* ---- answers of the daemon ------------------------------------------------------------------ */

struct status {
    uint64_t ticket, running, paused, done;
    uint64_t blocks_done, blocks_total, bytes_done, bytes_total, stored_before, stored_after;
    uint64_t failed, declined, elapsed_ms, error;
    char backend[64], path[1024];
};

static const struct daemon_field fields[] = {
    {"ticket", offsetof(struct status, ticket), 0},
    {"running", offsetof(struct status, running), 0},
    {"paused", offsetof(struct status, paused), 0},
    {"done", offsetof(struct status, done), 0},
    {"blocks_done", offsetof(struct status, blocks_done), 0},
    {"blocks_total", offsetof(struct status, blocks_total), 0},
    {"bytes_done", offsetof(struct status, bytes_done), 0},
    {"bytes_total", offsetof(struct status, bytes_total), 0},
    {"stored_before", offsetof(struct status, stored_before), 0},
    {"stored_after", offsetof(struct status, stored_after), 0},
    {"failed", offsetof(struct status, failed), 0},
    {"declined", offsetof(struct status, declined), 0},
    {"elapsed_ms", offsetof(struct status, elapsed_ms), 0},
    {"error", offsetof(struct status, error), 0},
    {"backend", offsetof(struct status, backend), sizeof(((struct status *)0)->backend)},
    {"path", offsetof(struct status, path), sizeof(((struct status *)0)->path)},
};

static int call(const struct daemon *daemon, const char *request, struct status *status)
{
    return daemon_call(daemon, request, fields, sizeof fields / sizeof fields[0], status);
}

/* Plain bytes in a second, in 10^6. */
static double speed(const struct status *status)
{
    return status->elapsed_ms > 0 ? (double)status->bytes_done / 1000.0 / (double)status->elapsed_ms
                                  : 0.0;
}

static void print_json(const struct status *status)
{
    struct json json;

    json_begin(&json, stdout);
    json_object(&json, NULL);
    json_u64(&json, "version", 1);
    json_bool(&json, "running", status->running != 0);
    json_bool(&json, "paused", status->paused != 0);
    json_u64(&json, "blocks_done", status->blocks_done);
    json_u64(&json, "blocks_total", status->blocks_total);
    json_u64(&json, "bytes_done", status->bytes_done);
    json_u64(&json, "bytes_total", status->bytes_total);
    json_u64(&json, "stored_before", status->stored_before);
    json_u64(&json, "stored_after", status->stored_after);
    json_u64(&json, "failed", status->failed);
    json_u64(&json, "declined", status->declined);
    json_double(&json, "seconds", (double)status->elapsed_ms / 1000.0);
    json_double(&json, "megabytes_per_second", speed(status));
    json_string(&json, "error", status->error != 0 ? strerror((int)status->error) : NULL);
    json_string(&json, "backend", status->backend);
    json_string(&json, "path", status->path);
    json_end(&json);
}

/* "12 blocks, 1.5 MiB: 500 KiB became 200 KiB on disk (7.5:1), 2 declined, 1.2 s, 1.3 MB/s" */
static void print_summary(const struct status *status, const char *verb)
{
    char count[CLI_TEXT], plain[CLI_TEXT], before[CLI_TEXT], after[CLI_TEXT], time[CLI_TEXT];

    if (status->blocks_done == 0 && status->failed == 0 && status->declined == 0) {
        printf(status->error == 0 ? "nothing to compact\n" : "nothing compacted\n");
        return;
    }
    printf("%s %s block%s, %s: %s became %s on disk (%.2f:1)", verb,
           cli_count(status->blocks_done, count), status->blocks_done == 1 ? "" : "s",
           cli_bytes(status->bytes_done, plain), cli_bytes(status->stored_before, before),
           cli_bytes(status->stored_after, after),
           cli_ratio(status->bytes_done, status->stored_after));
    if (status->declined > 0)
        printf(", %s would not get smaller", cli_count(status->declined, count));
    if (status->failed > 0)
        printf(", %s failed", cli_count(status->failed, count));
    printf(", %s, %.1f MB/s\n", cli_seconds((double)status->elapsed_ms / 1000.0, time),
           speed(status));
}

static void print_status(const struct status *status)
{
    char done[CLI_TEXT], total[CLI_TEXT];

    printf("%s%s\n", status->running != 0 ? "running" : "idle",
           status->paused != 0 ? ", paused" : "");
    if (status->running != 0) {
        printf("%s of %s, %.1f MB/s, %s\n", cli_bytes(status->bytes_done, done),
               cli_bytes(status->bytes_total, total), speed(status), status->backend);
        if (status->path[0] != '\0') {
            printf("at ");
            cli_put(stdout, status->path);
            putchar('\n');
        }
    } else if (status->elapsed_ms > 0) {
        print_summary(status, "last:");
        if (status->error != 0)
            printf("stopped: %s\n", strerror((int)status->error));
    }
}

/* ---- actions ------------------------------------------------------------------------------- */

static void show_progress(struct cli_progress *progress, const struct status *status)
{
    char detail[512], left[CLI_TEXT] = "?";
    const double rate = speed(status);

    if (rate > 0 && status->bytes_total >= status->bytes_done)
        cli_seconds((double)(status->bytes_total - status->bytes_done) / 1e6 / rate, left);
    snprintf(detail, sizeof detail, "%.2f:1 %.1f MB/s %s left %s%s %.200s",
             cli_ratio(status->bytes_done, status->stored_after), rate, left, status->backend,
             status->paused != 0 ? " paused" : "", status->path);
    cli_progress_update(progress, "compact", status->bytes_done, status->bytes_total, detail);
}

static int wait_for(const struct daemon *daemon, const struct asked *asked, uint64_t ticket)
{
    struct cli_progress progress;
    struct status status;
    char request[96];

    cli_progress_begin(&progress, asked->progress);
    do {
        status = (struct status){0};
        snprintf(request, sizeof request, "wait ticket=%" PRIu64 " timeout_ms=500", ticket);
        if (daemon_interrupted()) {
            cli_progress_clear(&progress);
            cli_error(program.name, daemon->path,
                      "interrupted; the daemon goes on compacting (--pause pauses it)");
            return EXIT_INTERRUPTED;
        }
        if (call(daemon, request, &status) != 0)
            return EXIT_FAILED;
        show_progress(&progress, &status);
    } while (status.done == 0);
    cli_progress_clear(&progress);
    if (asked->json)
        print_json(&status);
    else
        print_summary(&status, "compacted");
    if (status.error != 0)
        cli_error(program.name, daemon->path, "compaction stopped: %s",
                  strerror((int)status.error));
    if (status.failed != 0)
        cli_error(program.name, daemon->path,
                  "%" PRIu64 " blocks could not be compacted and stay as they are; sepfs-fsck "
                  "names what is damaged",
                  status.failed);
    return status.error != 0 || status.failed != 0 ? EXIT_FAILED : EXIT_DONE;
}

static int compact(const struct daemon *daemon, const struct asked *asked, const char *method)
{
    struct status status = {0};
    char request[256];

    snprintf(request, sizeof request,
             "compact ino=%" PRIu64 " all=%d older_than=%" PRIu32 " gc=%d%s%s", daemon->ino,
             asked->all, asked->older_than, asked->gc, method[0] != '\0' ? " method=" : "", method);
    if (call(daemon, request, &status) != 0)
        return EXIT_FAILED;
    if (asked->wait)
        return wait_for(daemon, asked, status.ticket);
    if (asked->json && call(daemon, "status", &status) != 0)
        return EXIT_FAILED;
    if (asked->json)
        print_json(&status);
    return EXIT_DONE;
}

static int act(const struct daemon *daemon, const struct asked *asked, const char *method)
{
    struct status status = {0};

    switch (asked->action) {
    case ACTION_COMPACT:
        return compact(daemon, asked, method);
    case ACTION_PAUSE:
    case ACTION_RESUME:
        if (call(daemon, asked->action == ACTION_PAUSE ? "pause" : "resume", &status) != 0)
            return EXIT_FAILED;
        if (!asked->json)
            return EXIT_DONE;
        break;
    case ACTION_STATUS:
        break;
    }
    if (call(daemon, "status", &status) != 0)
        return EXIT_FAILED;
    if (asked->json)
        print_json(&status);
    else
        print_status(&status);
    return EXIT_DONE;
}

static int run(const char *path, const struct asked *asked, const char *method)
{
    struct daemon daemon;
    const int code =
        daemon_open(&daemon, program.name, path) ? act(&daemon, asked, method) : EXIT_FAILED;

    daemon_close(&daemon);
    return code;
}

int main(int argc, char **argv)
{
    struct asked asked = {.progress = CLI_PROGRESS_AUTO};
    char method_text[32], reason[128];
    const char *method;
    struct cli cli;

    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        const char *message;

        if (id == CLI_EXIT)
            return cli.exit_code;
        message = take_option(&asked, id, cli.value);
        if (message != NULL)
            return cli_usage(&cli, "%s", message);
    }
    if (cli.count != 1)
        return cli_usage(&cli, "one path is needed");
    if (asked.action != ACTION_COMPACT && asked.compact_option)
        return cli_usage(&cli, "--status, --pause and --resume take no options of a compaction");
    if (asked.all && asked.older_than != 0)
        return cli_usage(&cli, "--all and --older-than exclude each other");
    method = method_of(&asked, method_text, reason);
    if (method == NULL)
        return cli_usage(&cli, "%s", reason);
    /* No SA_RESTART is needed: a wait is asked for in slices of half a second. */
    daemon_catch_signals();
    return cli_finish(program.name, run(cli.arguments[0], &asked, method), EXIT_FAILED);
}
