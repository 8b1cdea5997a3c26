/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scrub.c - sepfs-scrub: finds the mount that PATH lies on and has its daemon check all stored
 * blocks, or says how far that is. The work is the daemon's: this command may be interrupted at any
 * time without changing what happens.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "fs/fs.h"
#include "json.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DAMAGE = 4, EXIT_INTERRUPTED = 130 };
enum { OPTION_WAIT = CLI_LONG_ONLY, OPTION_STATUS, OPTION_STOP, OPTION_JSON, OPTION_PROGRESS };

#define POLL_MS 200 /* between two looks at a round that is waited for */

static const struct cli_option option_table[] = {
    {OPTION_WAIT, "wait", NULL, "wait until the round is complete, with a progress bar"},
    {OPTION_STATUS, "status", NULL, "print what was checked and found; begin nothing"},
    {OPTION_STOP, "stop", NULL, "let the round under way rest"},
    {OPTION_JSON, "json", NULL, "print the status as one JSON object"},
    {OPTION_PROGRESS, "progress", "WHEN", "auto (on a terminal), always or never"},
    {0},
};

static const struct cli_program program = {
    .name = "sepfs-scrub",
    .purpose = "Has a mounted sepfs check all its stored blocks, at idle priority.",
    .synopsis = "PATH [--wait|--status|--stop] [--json] [--progress=WHEN]",
    .options = option_table,
    .notes =
        "PATH is a mount point, or a file or directory on one. A round that rests goes on where\n"
        "it was. Exit code: 0 done, 4 damage was found (with --wait or --status), 1 error,\n"
        "2 usage, 130 interrupted.",
    .usage_exit = EXIT_USAGE,
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = 1;
}

/* ---- answers of the daemon -------------------------------------------------------------------- */

struct status {
    uint64_t round, period, next_block, started_at, finished_at, rounds;
    uint64_t blocks, bytes, total_bytes, damaged, damaged_packs;
    uint64_t last_blocks, last_bytes, last_damaged, last_damaged_packs;
    char state[16];
};

static const struct number {
    const char *key;
    size_t offset;
} numbers[] = {
    {"round", offsetof(struct status, round)},
    {"scrub_period_s", offsetof(struct status, period)},
    {"scrub_next_block", offsetof(struct status, next_block)},
    {"scrub_started_at", offsetof(struct status, started_at)},
    {"scrub_finished_at", offsetof(struct status, finished_at)},
    {"scrub_rounds", offsetof(struct status, rounds)},
    {"scrub_blocks", offsetof(struct status, blocks)},
    {"scrub_bytes", offsetof(struct status, bytes)},
    {"scrub_total_bytes", offsetof(struct status, total_bytes)},
    {"scrub_damaged", offsetof(struct status, damaged)},
    {"scrub_damaged_packs", offsetof(struct status, damaged_packs)},
    {"scrub_last_blocks", offsetof(struct status, last_blocks)},
    {"scrub_last_bytes", offsetof(struct status, last_bytes)},
    {"scrub_last_damaged", offsetof(struct status, last_damaged)},
    {"scrub_last_damaged_packs", offsetof(struct status, last_damaged_packs)},
};

static void on_field(void *arg, const char *key, const char *value)
{
    struct status *const status = arg;
    if (strcmp(key, "scrub_state") == 0)
        snprintf(status->state, sizeof status->state, "%s", value);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(key, numbers[i].key) == 0)
            (void)cli_parse_u64(value, 0, UINT64_MAX,
                                (uint64_t *)((char *)status + numbers[i].offset));
    }
}

static int call(struct fs_client *client, const char *path, const char *action,
                struct status *status)
{
    char request[64], reason[256];
    *status = (struct status){0};
    snprintf(request, sizeof request, "scrub action=%s", action);
    const int error = fs_client_call(client, request, on_field, status, reason, sizeof reason);
    if (error != 0)
        cli_error(program.name, path, "%s", reason);
    return error;
}

/* ---- printing --------------------------------------------------------------------------------- */

static void print_json(const struct status *status)
{
    struct json json;
    json_begin(&json, stdout);
    json_object(&json, NULL);
    json_u64(&json, "version", 1);
    json_string(&json, "state", status->state);
    json_u64(&json, "period_seconds", status->period);
    json_u64(&json, "rounds", status->rounds);
    json_bool(&json, "under_way", status->next_block != 0);
    json_u64(&json, "started_at", status->started_at);
    json_u64(&json, "finished_at", status->finished_at);
    json_u64(&json, "blocks", status->blocks);
    json_u64(&json, "bytes", status->bytes);
    json_u64(&json, "total_bytes", status->total_bytes);
    json_u64(&json, "damaged_blocks", status->damaged);
    json_u64(&json, "damaged_packs", status->damaged_packs);
    json_u64(&json, "last_blocks", status->last_blocks);
    json_u64(&json, "last_bytes", status->last_bytes);
    json_u64(&json, "last_damaged_blocks", status->last_damaged);
    json_u64(&json, "last_damaged_packs", status->last_damaged_packs);
    json_end(&json);
}

static void print_counts(const char *what, uint64_t blocks, uint64_t bytes, uint64_t damaged,
                         uint64_t packs)
{
    char count[CLI_TEXT], size[CLI_TEXT], bad[CLI_TEXT];
    printf("%s%s block%s checked, %s: ", what, cli_count(blocks, count), blocks == 1 ? "" : "s",
           cli_bytes(bytes, size));
    if (damaged == 0 && packs == 0)
        printf("no damage\n");
    else
        printf("%s damaged, %" PRIu64 " packs with a damaged header\n", cli_count(damaged, bad),
               packs);
}

static void print_text(const struct status *status)
{
    printf("%s\n", status->state);
    if (status->next_block != 0)
        print_counts("so far: ", status->blocks, status->bytes, status->damaged,
                     status->damaged_packs);
    if (status->rounds != 0)
        print_counts("last complete round: ", status->last_blocks, status->last_bytes,
                     status->last_damaged, status->last_damaged_packs);
    else
        printf("no round was completed yet\n");
}

/* Damage that the round under way, or else the last one, has found. */
static int verdict(const struct status *status)
{
    const bool now = status->next_block != 0 && status->damaged + status->damaged_packs > 0;
    return now || status->last_damaged + status->last_damaged_packs > 0 ? EXIT_DAMAGE : EXIT_DONE;
}

/* ---- actions ---------------------------------------------------------------------------------- */

struct asked {
    bool wait, status, stop, json;
    enum cli_progress_mode progress;
};

static int wait_for(struct fs_client *client, const char *path, const struct asked *asked,
                    uint64_t round)
{
    const struct timespec nap = {.tv_nsec = POLL_MS * 1000 * 1000};
    struct cli_progress progress;
    struct status status;
    cli_progress_begin(&progress, asked->progress);
    for (;;) {
        if (interrupted) {
            cli_progress_clear(&progress);
            cli_error(program.name, path, "interrupted; the round goes on (--stop lets it rest)");
            return EXIT_INTERRUPTED;
        }
        if (call(client, path, "status", &status) != 0)
            return EXIT_FAILED;
        if (status.rounds >= round || strcmp(status.state, "running") != 0)
            break;
        cli_progress_update(&progress, "scrub", status.bytes, status.total_bytes, "");
        nanosleep(&nap, NULL);
    }
    cli_progress_clear(&progress);
    if (asked->json)
        print_json(&status);
    if (status.rounds < round) {
        cli_error(program.name, path,
                  "the round did not end: it was stopped, or an error of the "
                  "store, which the daemon has logged, ended it");
        return EXIT_FAILED;
    }
    if (!asked->json)
        print_counts("", status.last_blocks, status.last_bytes, status.last_damaged,
                     status.last_damaged_packs);
    const int code = verdict(&status);
    if (code == EXIT_DAMAGE)
        cli_error(program.name, path, "damage was found; sepfs-fsck --scrub names the files");
    return code;
}

static int act(struct fs_client *client, const char *path, const struct asked *asked)
{
    struct status status;
    const char *const action = asked->status ? "status" : asked->stop ? "stop" : "start";
    if (call(client, path, action, &status) != 0)
        return EXIT_FAILED;
    if (asked->wait)
        return wait_for(client, path, asked, status.round);
    if (asked->json)
        print_json(&status);
    else if (asked->status)
        print_text(&status);
    return asked->status ? verdict(&status) : EXIT_DONE;
}

static int run(const char *path, const struct asked *asked)
{
    char *const mountpoint = malloc(PATH_MAX), *const store = malloc(PATH_MAX);
    struct fs_client *client = NULL;
    uint64_t ino;
    int code = EXIT_FAILED;
    int error = mountpoint == NULL || store == NULL ? -ENOMEM : 0;
    if (error == 0)
        error = fs_client_find(path, mountpoint, store, &ino);
    if (error == -ENODEV) {
        cli_error(program.name, path, "does not lie on a mounted sepfs");
    } else if (error != 0) {
        cli_error(program.name, path, "%s", strerror(-error));
    } else if ((error = fs_client_open(store, &client)) != 0) {
        cli_error(program.name, store, "cannot reach the daemon: %s",
                  error == -ENOTCONN ? "it does not listen (mounted read-only?)"
                                     : strerror(-error));
    } else {
        code = act(client, path, asked);
    }
    fs_client_close(client);
    free(mountpoint);
    free(store);
    return code;
}

/* ---- main ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct asked asked = {.progress = CLI_PROGRESS_AUTO};
    struct cli cli;
    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        switch (id) {
        case CLI_EXIT:
            return cli.exit_code;
        case OPTION_WAIT:
            asked.wait = true;
            break;
        case OPTION_STATUS:
            asked.status = true;
            break;
        case OPTION_STOP:
            asked.stop = true;
            break;
        case OPTION_JSON:
            asked.json = true;
            break;
        case OPTION_PROGRESS:
            if (!cli_progress_parse(cli.value, &asked.progress))
                return cli_usage(&cli, "--progress: expected auto, always or never");
            break;
        }
    }
    if (cli.count != 1)
        return cli_usage(&cli, "one path is needed");
    if (asked.wait + asked.status + asked.stop > 1)
        return cli_usage(&cli, "--wait, --status and --stop exclude each other");
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return cli_finish(program.name, run(cli.arguments[0], &asked), EXIT_FAILED);
}
