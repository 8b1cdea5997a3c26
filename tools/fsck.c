/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fsck.c - sepfs-fsck: checks a store, and repairs what follows from the rest of it. The passes are
 * index_check's; this file opens the store the right way, asks, decodes (--deep), prints, and turns
 * the outcome into the exit codes of fsck(8).
 *
 * A mounted store is checked through a read-only snapshot and never repaired. A repair is repeated
 * until a round corrects nothing more (at most ROUNDS), each on the store opened anew: removing a
 * malformed record can leave others without their partner, and what a round calls corrected is
 * looked at again as it lies on disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "codec/sep.h"
#include "fs/fs.h"
#include "index/index.h"
#include "json.h"

enum {
    EXIT_CLEAN = 0,
    EXIT_CORRECTED = 1,
    EXIT_LEFT = 4,
    EXIT_ERROR = 8,
    EXIT_USAGE = 16,
    EXIT_CANCELED = 32
};
enum { ROUNDS = 3, THREADS_MAX = 64 };
enum { OPTION_SCRUB = CLI_LONG_ONLY, OPTION_DEEP, OPTION_SALVAGE, OPTION_JSON, OPTION_PROGRESS };

static const struct cli_option option_table[] = {
    {'n', "check", NULL, "check only and change nothing; works beside a mount"},
    {'p', "preen", NULL, "repair without asking if that removes nothing; else leave all as it is"},
    {'y', "yes", NULL, "repair everything that can be repaired, without asking"},
    {OPTION_SCRUB, "scrub", NULL, "also read every stored block and check its checksum"},
    {OPTION_DEEP, "deep", NULL, "also decode every block and compare it with its hash"},
    {OPTION_SALVAGE, "salvage", NULL, "rebuild a damaged or missing index; the old one is kept"},
    {OPTION_JSON, "json", NULL, "print one JSON object"},
    {OPTION_PROGRESS, "progress", "WHEN", "auto (on a terminal), always or never"},
    {0},
};

static const struct cli_program program = {
    .name = "sepfs-fsck",
    .purpose = "Checks a sepfs store and repairs what follows from the rest of it.",
    .synopsis = "STORE [-n|-p|-y] [--scrub|--deep|--salvage] [--json] [--progress=WHEN]",
    .options = option_table,
    .notes =
        "Without -n, -p or -y it asks before it repairs when run on a terminal, and only checks\n"
        "otherwise or when the store is mounted. Exit code: 0 clean, 1 problems corrected,\n"
        "4 problems left, 8 the check could not run, 16 usage, 32 interrupted.",
    .usage_exit = EXIT_USAGE,
};

static volatile bool interrupted; /* set by SIGINT and SIGTERM */

static void on_signal(int number)
{
    interrupted = true;
}

enum mode { MODE_ASK, MODE_CHECK, MODE_PREEN, MODE_YES };

struct decoder { /* of one scrub thread */
    struct sep_context *context;
    void *plain;
};

struct fsck {
    const char *store;
    enum mode mode;
    bool scrub, deep, salvage, as_json;
    struct index *index;
    struct cli_progress progress;
    struct json json;
    unsigned threads;
    struct decoder decoders[THREADS_MAX];
    struct fs_models *models; /* of the store, with deep */
    /* of the round in progress */
    uint64_t found, underivable, fixed, lost;
    bool only_fixed; /* an earlier round listed what this one meets: list what it corrects */
};

/* ---- decoding (--deep) --------------------------------------------------------------------------
 */

static int decoders_new(struct fsck *fsck)
{
    for (unsigned i = 0; i < fsck->threads; i++) {
        fsck->decoders[i].context = sep_context_new();
        fsck->decoders[i].plain = malloc(SEP_BLOCK_SIZE_MAX);
        if (fsck->decoders[i].context == NULL || fsck->decoders[i].plain == NULL)
            return -ENOMEM;
    }
    return 0;
}

static void decoders_free(struct fsck *fsck)
{
    for (unsigned i = 0; i < fsck->threads; i++) {
        sep_context_free(fsck->decoders[i].context);
        free(fsck->decoders[i].plain);
    }
}

/* The models that lie in the store; a missing one is found by the check itself. */
static int models_give(struct fsck *fsck)
{
    enum sep_status status = SEP_OK;
    const int error = fs_models_open(fsck->index, &fsck->models);
    if (error != 0)
        return error;
    for (unsigned i = 0; i < fsck->threads && status == SEP_OK; i++)
        status = fs_models_give(fsck->models, fsck->decoders[i].context);
    return status == SEP_OK ? 0 : -ENOMEM;
}

/* index_check.decode; each worker uses its own context and buffer. */
static int decode(void *arg, unsigned worker, const struct index_block *block, const void *payload,
                  char *reason, size_t size)
{
    struct fsck *const fsck = arg;
    const struct decoder *const decoder = &fsck->decoders[worker];
    if (block->plain_size > SEP_BLOCK_SIZE_MAX) {
        snprintf(reason, size, "plain size %" PRIu32 " is beyond the largest block",
                 block->plain_size);
        return -EIO;
    }
    const enum sep_status status =
        sep_decode(decoder->context, block->codec, payload, block->at.payload_size, decoder->plain,
                   block->plain_size);
    if (status == SEP_ERROR_MEMORY)
        return -ENOMEM;
    if (status != SEP_OK) {
        snprintf(reason, size, "does not decode with %s: %s", sep_codec_name(block->codec),
                 sep_status_text(status));
        return -EIO;
    }
    const struct index_hash hash = index_hash_of(decoder->plain, block->plain_size);
    if (hash.low != block->hash.low || hash.high != block->hash.high) {
        snprintf(reason, size, "decodes with %s to other bytes than were written",
                 sep_codec_name(block->codec));
        return -EIO;
    }
    return 0;
}

/* ---- callbacks ----------------------------------------------------------------------------------
 */

static const char *state_text(enum index_problem_state state)
{
    return state == INDEX_PROBLEM_FIXED ? "fixed" : state == INDEX_PROBLEM_LOST ? "lost" : "found";
}

static void on_problem(void *arg, const struct index_problem *problem)
{
    struct fsck *const fsck = arg;
    fsck->found += problem->state == INDEX_PROBLEM_FOUND;
    fsck->fixed += problem->state == INDEX_PROBLEM_FIXED;
    fsck->lost += problem->state == INDEX_PROBLEM_LOST;
    fsck->underivable += problem->state == INDEX_PROBLEM_FOUND && !problem->derivable;
    if (fsck->only_fixed && problem->state != INDEX_PROBLEM_FIXED)
        return;
    cli_progress_clear(&fsck->progress);
    if (!fsck->as_json) {
        printf("%s: ", problem->kind);
        cli_put(stdout, problem->text);
        puts(problem->state == INDEX_PROBLEM_FIXED  ? " (fixed)"
             : problem->state == INDEX_PROBLEM_LOST ? " (lost)"
                                                    : "");
        return;
    }
    json_object(&fsck->json, NULL);
    json_string(&fsck->json, "kind", problem->kind);
    json_string(&fsck->json, "state", state_text(problem->state));
    json_bool(&fsck->json, "derivable", problem->derivable);
    json_u64(&fsck->json, "inode", problem->ino);
    json_u64(&fsck->json, "block", problem->block);
    json_u64(&fsck->json, "pack", problem->pack);
    json_string(&fsck->json, "text", problem->text);
    json_end(&fsck->json);
}

static void on_progress(void *arg, const char *pass, uint64_t done, uint64_t total)
{
    struct fsck *const fsck = arg;
    char detail[64] = "", left[CLI_TEXT];
    const double seconds = cli_progress_left(&fsck->progress, done, total);
    if (seconds > 1)
        snprintf(detail, sizeof detail, "%s left", cli_seconds(seconds, left));
    cli_progress_update(&fsck->progress, pass, done, total, detail);
}

static void on_log(void *arg, int priority, const char *line)
{
    struct fsck *const fsck = arg;
    cli_progress_clear(&fsck->progress);
    cli_error(program.name, fsck->store, "%s", line);
}

/* ---- the store ----------------------------------------------------------------------------------
 */

static int open_store(struct fsck *fsck)
{
    char error[256];
    struct index_options options = {.log = on_log, .log_arg = fsck};
    options.flags = fsck->mode == MODE_CHECK ? INDEX_OPEN_READONLY : INDEX_OPEN_NO_RECOVER;
    int result = index_open(fsck->store, &options, &fsck->index, error, sizeof error);
    if (result == -EBUSY && fsck->mode == MODE_ASK) {
        cli_error(program.name, NULL, "%s; checking only", error);
        fsck->mode = MODE_CHECK;
        options.flags = INDEX_OPEN_READONLY;
        result = index_open(fsck->store, &options, &fsck->index, error, sizeof error);
    }
    if (result == -EBUSY)
        cli_error(program.name, NULL, "%s; unmount it first, or check it with -n", error);
    else if (result != 0)
        cli_error(program.name, NULL, "%s", error); /* names the path */
    return result;
}

/* Closes and opens again: the next round sees what is on disk. */
static int reopen_store(struct fsck *fsck)
{
    const int error = index_close(fsck->index);
    fsck->index = NULL;
    return error != 0 ? error : open_store(fsck);
}

/* ---- rounds -------------------------------------------------------------------------------------
 */

static int round_run(struct fsck *fsck, bool repair, bool scrub)
{
    const struct index_check check = {
        .repair = repair,
        .scrub = scrub,
        .threads = fsck->threads,
        .decode = fsck->deep ? decode : NULL,
        .decode_arg = fsck,
        .problem = on_problem,
        .progress = on_progress,
        .arg = fsck,
        .stop = &interrupted,
    };
    const int error = index_check(fsck->index, &check);
    cli_progress_clear(&fsck->progress);
    return error;
}

/* Repairs until a round has nothing to fix. On return found + lost is what is left. Damage that a
 * scrub met stays counted: later rounds do not read the blocks again. */
static int repair(struct fsck *fsck, uint64_t *fixed)
{
    uint64_t lost = fsck->lost;
    for (unsigned round = 0; round < ROUNDS; round++) {
        fsck->found = fsck->fixed = fsck->lost = fsck->underivable = 0;
        const int error = round_run(fsck, true, fsck->scrub && round == 0);
        *fixed += fsck->fixed;
        fsck->lost = lost = fsck->lost > lost ? fsck->lost : lost;
        fsck->only_fixed = true;
        if (error != 0 || fsck->fixed == 0)
            return error;
        const int reopened = reopen_store(fsck);
        if (reopened != 0)
            return reopened;
    }
    fsck->found += fsck->fixed; /* each round still meets new ones: do not call it corrected */
    return 0;
}

static bool confirm(const struct fsck *fsck)
{
    char answer[16];
    fprintf(stderr, "%s: %" PRIu64 " problems found; repair what can be repaired? (y/n) ",
            fsck->store, fsck->found + fsck->lost);
    fflush(stderr);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

/* Checks, and repairs as the mode says. */
static int rounds(struct fsck *fsck, uint64_t *fixed)
{
    if (fsck->mode == MODE_YES)
        return repair(fsck, fixed);
    const int error = round_run(fsck, false, fsck->scrub);
    if (error != 0 || fsck->mode == MODE_CHECK || fsck->found == 0)
        return error;
    if (fsck->mode == MODE_PREEN && fsck->underivable > 0) {
        cli_error(program.name, fsck->store,
                  "%" PRIu64 " problems need a decision: left as it is, run with -y to repair",
                  fsck->underivable);
        return 0;
    }
    if (fsck->mode == MODE_ASK && !confirm(fsck))
        return interrupted ? -ECANCELED : 0;
    fsck->only_fixed = true;
    fsck->scrub = false; /* done by the first round */
    return repair(fsck, fixed);
}

/* ---- summary ------------------------------------------------------------------------------------
 */

static void summary_text(const struct fsck *fsck, const struct index_space *space, uint64_t fixed)
{
    char files[CLI_TEXT], directories[CLI_TEXT], blocks[CLI_TEXT], logical[CLI_TEXT],
        stored[CLI_TEXT];
    const uint64_t left = fsck->found + fsck->lost;
    cli_put(stdout, fsck->store);
    if (fixed == 0 && left == 0)
        printf(": clean");
    else
        printf(": %" PRIu64 " corrected, %" PRIu64 " left", fixed, left);
    printf(", %s files, %s directories, %s blocks, %s stored in %s (%.2f:1)\n",
           cli_count(space->inodes - space->directories, files),
           cli_count(space->directories, directories), cli_count(space->blocks, blocks),
           cli_bytes(space->logical, logical),
           cli_bytes(space->live_bytes + space->index_bytes, stored),
           cli_ratio(space->logical, space->live_bytes + space->index_bytes));
}

static void summary_json(struct fsck *fsck, const struct index_space *space, uint64_t fixed,
                         int code)
{
    struct json *const json = &fsck->json;
    json_end(json); /* problems */
    json_u64(json, "corrected", fixed);
    json_u64(json, "left", fsck->found + fsck->lost);
    json_u64(json, "lost", fsck->lost);
    json_u64(json, "inodes", space->inodes);
    json_u64(json, "directories", space->directories);
    json_u64(json, "blocks", space->blocks);
    json_u64(json, "extents", space->extents);
    json_u64(json, "logical_bytes", space->logical);
    json_u64(json, "pack_bytes", space->pack_bytes);
    json_u64(json, "live_bytes", space->live_bytes);
    json_u64(json, "index_bytes", space->index_bytes);
    json_u64(json, "exit", (uint64_t)code);
    json_end(json);
}

static int check_store(struct fsck *fsck)
{
    struct index_space space = {0};
    uint64_t fixed = 0;
    int result = open_store(fsck);
    if (result != 0)
        return EXIT_ERROR;
    if (fsck->as_json) {
        json_begin(&fsck->json, stdout);
        json_object(&fsck->json, NULL);
        json_string(&fsck->json, "store", fsck->store);
        json_bool(&fsck->json, "repair", fsck->mode == MODE_PREEN || fsck->mode == MODE_YES);
        json_bool(&fsck->json, "scrub", fsck->scrub);
        json_bool(&fsck->json, "deep", fsck->deep);
        json_array(&fsck->json, "problems");
    }
    if (fsck->deep)
        result = models_give(fsck);
    if (result == 0)
        result = rounds(fsck, &fixed);
    if (result == 0)
        result = index_space(fsck->index, &space);
    const int closed = fsck->index != NULL ? index_close(fsck->index) : 0;
    if (result == 0)
        result = closed;
    int code = fsck->found + fsck->lost > 0 ? EXIT_LEFT : fixed > 0 ? EXIT_CORRECTED : EXIT_CLEAN;
    if (result == -ECANCELED)
        code = EXIT_CANCELED;
    else if (result != 0)
        code = EXIT_ERROR;
    if (code == EXIT_CANCELED)
        cli_error(program.name, fsck->store, "interrupted");
    else if (code == EXIT_ERROR)
        cli_error(program.name, fsck->store, "cannot check: %s", strerror(-result));
    if (fsck->as_json)
        summary_json(fsck, &space, fixed, code);
    else if (result == 0)
        summary_text(fsck, &space, fixed);
    return code;
}

/* ---- salvage ------------------------------------------------------------------------------------
 */

static void salvage_json(struct fsck *fsck, const struct index_salvage_result *result, int code)
{
    struct json *const json = &fsck->json;
    json_end(json); /* problems */
    json_u64(json, "records_from_index", result->from_index);
    json_u64(json, "records_from_copy", result->from_copy);
    json_string(json, "copy", result->copy);
    json_u64(json, "blocks_found", result->blocks_found);
    json_u64(json, "blocks_attached", result->blocks_attached);
    json_u64(json, "lost", result->lost);
    json_string(json, "set_aside", result->set_aside);
    json_u64(json, "exit", (uint64_t)code);
    json_end(json);
}

static void salvage_text(const struct fsck *fsck, const struct index_salvage_result *result)
{
    char index[CLI_TEXT], copy[CLI_TEXT], blocks[CLI_TEXT], attached[CLI_TEXT], lost[CLI_TEXT];
    printf("%s: index rebuilt from %s records of the old one, %s of %s, %s blocks in packs;"
           " %s blocks given to files by their records, %s losses\n",
           fsck->store, cli_count(result->from_index, index), cli_count(result->from_copy, copy),
           result->copy[0] != '\0' ? result->copy : "no copy",
           cli_count(result->blocks_found, blocks), cli_count(result->blocks_attached, attached),
           cli_count(result->lost, lost));
    if (result->set_aside[0] != '\0')
        printf("%s: the old index is kept as index/%s\n", fsck->store, result->set_aside);
}

static int salvage_store(struct fsck *fsck)
{
    const struct index_salvage options = {.problem = on_problem,
                                          .progress = on_progress,
                                          .arg = fsck,
                                          .stop = &interrupted,
                                          .threads = fsck->threads,
                                          .log = on_log,
                                          .log_arg = fsck};
    struct index_salvage_result result;
    char error[512] = "";
    if (fsck->as_json) {
        json_begin(&fsck->json, stdout);
        json_object(&fsck->json, NULL);
        json_string(&fsck->json, "store", fsck->store);
        json_bool(&fsck->json, "salvage", true);
        json_array(&fsck->json, "problems");
    }
    const int outcome = index_salvage(fsck->store, &options, &result, error, sizeof error);
    cli_progress_clear(&fsck->progress);
    const int code = outcome == -ECANCELED ? EXIT_CANCELED
                     : outcome != 0        ? EXIT_ERROR
                     : result.lost > 0     ? EXIT_LEFT
                                           : EXIT_CORRECTED;
    if (outcome != 0)
        cli_error(program.name, NULL, "%s; nothing was changed", error);
    if (fsck->as_json)
        salvage_json(fsck, &result, code);
    else if (outcome == 0)
        salvage_text(fsck, &result);
    return code;
}

/* ---- main ---------------------------------------------------------------------------------------
 */

static int parse(int argc, char **argv, struct fsck *fsck, enum cli_progress_mode *progress)
{
    struct cli cli;
    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        const enum mode mode = id == 'n' ? MODE_CHECK : id == 'p' ? MODE_PREEN : MODE_YES;
        switch (id) {
        case CLI_EXIT:
            return cli.exit_code;
        case 'n':
        case 'p':
        case 'y':
            if (fsck->mode != MODE_ASK && fsck->mode != mode)
                return cli_usage(&cli, "only one of -n, -p and -y may be given");
            fsck->mode = mode;
            break;
        case OPTION_DEEP:
            fsck->deep = true;
            fsck->scrub = true;
            break;
        case OPTION_SCRUB:
            fsck->scrub = true;
            break;
        case OPTION_SALVAGE:
            fsck->salvage = true;
            break;
        case OPTION_JSON:
            fsck->as_json = true;
            break;
        case OPTION_PROGRESS:
            if (!cli_progress_parse(cli.value, progress))
                return cli_usage(&cli, "--progress=%s: auto, always or never is accepted",
                                 cli.value);
            break;
        }
    }
    if (cli.count != 1)
        return cli_usage(&cli, cli.count == 0 ? "a store is needed" : "only one store is accepted");
    if (fsck->salvage && (fsck->scrub || fsck->mode != MODE_ASK))
        return cli_usage(&cli, "--salvage repairs and reads all blocks by itself: no -n, -p, -y, "
                               "--scrub or --deep with it");
    fsck->store = cli.arguments[0];
    return -1;
}

int main(int argc, char **argv)
{
    struct fsck *const fsck = calloc(1, sizeof *fsck);
    enum cli_progress_mode progress = CLI_PROGRESS_AUTO;
    const struct sigaction action = {.sa_handler =
                                         on_signal}; /* no SA_RESTART: ends the question */
    if (fsck == NULL) {
        cli_error(program.name, NULL, "%s", strerror(ENOMEM));
        return EXIT_ERROR;
    }
    int code = parse(argc, argv, fsck, &progress);
    if (code >= 0)
        goto out;
    if (fsck->mode == MODE_ASK && (!isatty(STDIN_FILENO) || fsck->as_json))
        fsck->mode = MODE_CHECK;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    fsck->threads = online < 1 ? 1 : online > THREADS_MAX ? THREADS_MAX : (unsigned)online;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    cli_progress_begin(&fsck->progress, progress);
    if (fsck->deep && decoders_new(fsck) != 0) {
        cli_error(program.name, fsck->store, "%s", strerror(ENOMEM));
        code = EXIT_ERROR;
    } else {
        code = fsck->salvage ? salvage_store(fsck) : check_store(fsck);
    }
    decoders_free(fsck);
    fs_models_free(fsck->models);
    code = cli_finish(program.name, code, EXIT_ERROR);
out:
    free(fsck);
    return code;
}
