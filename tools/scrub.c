/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scrub.c - sepfs-scrub: finds the mount that PATH lies on and has its daemon check all stored
 * blocks, or says how far that is. The work is the daemon's: this command may be interrupted at any
 * time without changing what happens.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "daemon.h"
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

/* ---- answers of the daemon -------------------------------------------------------------------- */

struct status {
    uint64_t round, period, next_block, started_at, finished_at, rounds;
    uint64_t blocks, bytes, total_bytes, damaged, damaged_packs;
    uint64_t last_blocks, last_bytes, last_damaged, last_damaged_packs;
    char state[16];
};

static const struct daemon_field fields[] = {
    {"scrub_state", offsetof(struct status, state), sizeof(((struct status *)0)->state)},
    {"round", offsetof(struct status, round), 0},
    {"scrub_period_s", offsetof(struct status, period), 0},
    {"scrub_next_block", offsetof(struct status, next_block), 0},
    {"scrub_started_at", offsetof(struct status, started_at), 0},
    {"scrub_finished_at", offsetof(struct status, finished_at), 0},
    {"scrub_rounds", offsetof(struct status, rounds), 0},
    {"scrub_blocks", offsetof(struct status, blocks), 0},
    {"scrub_bytes", offsetof(struct status, bytes), 0},
    {"scrub_total_bytes", offsetof(struct status, total_bytes), 0},
    {"scrub_damaged", offsetof(struct status, damaged), 0},
    {"scrub_damaged_packs", offsetof(struct status, damaged_packs), 0},
    {"scrub_last_blocks", offsetof(struct status, last_blocks), 0},
    {"scrub_last_bytes", offsetof(struct status, last_bytes), 0},
    {"scrub_last_damaged", offsetof(struct status, last_damaged), 0},
    {"scrub_last_damaged_packs", offsetof(struct status, last_damaged_packs), 0},
};

static int call(const struct daemon *daemon, const char *action, struct status *status)
{
    char request[64];
    *status = (struct status){0};
    snprintf(request, sizeof request, "scrub action=%s", action);
    return daemon_call(daemon, request, fields, sizeof fields / sizeof fields[0], status);
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

static int wait_for(const struct daemon *daemon, const struct asked *asked, uint64_t round)
{
    const struct timespec nap = {.tv_nsec = POLL_MS * 1000 * 1000};
    struct cli_progress progress;
    struct status status;
    cli_progress_begin(&progress, asked->progress);
    for (;;) {
        if (daemon_interrupted()) {
            cli_progress_clear(&progress);
            cli_error(program.name, daemon->path,
                      "interrupted; the round goes on (--stop lets it rest)");
            return EXIT_INTERRUPTED;
        }
        if (call(daemon, "status", &status) != 0)
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
        cli_error(program.name, daemon->path,
                  "the round did not end: it was stopped, or an error of the "
                  "store, which the daemon has logged, ended it");
        return EXIT_FAILED;
    }
    if (!asked->json)
        print_counts("", status.last_blocks, status.last_bytes, status.last_damaged,
                     status.last_damaged_packs);
    const int code = verdict(&status);
    if (code == EXIT_DAMAGE)
        cli_error(program.name, daemon->path,
                  "damage was found; sepfs-fsck --scrub names the files");
    return code;
}

static int act(const struct daemon *daemon, const struct asked *asked)
{
    struct status status;
    const char *const action = asked->status ? "status" : asked->stop ? "stop" : "start";
    if (call(daemon, action, &status) != 0)
        return EXIT_FAILED;
    if (asked->wait)
        return wait_for(daemon, asked, status.round);
    if (asked->json)
        print_json(&status);
    else if (asked->status)
        print_text(&status);
    return asked->status ? verdict(&status) : EXIT_DONE;
}

static int run(const char *path, const struct asked *asked)
{
    struct daemon daemon;
    const int code = daemon_open(&daemon, program.name, path) ? act(&daemon, asked) : EXIT_FAILED;
    daemon_close(&daemon);
    return code;
}

/* ---- main ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
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
    daemon_catch_signals();
    return cli_finish(program.name, run(cli.arguments[0], &asked), EXIT_FAILED);
}
