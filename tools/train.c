/* SPDX-License-Identifier: BSD-2-Clause
 *
 * train.c - sepfs-train: what was asked for. train_run.c does it.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train.h"

#define SIZE_PUBLIC  (128u << 20)
#define SIZE_PRIVATE (64u << 20)

enum {
    OPTION_KIND = CLI_LONG_ONLY,
    OPTION_STORE,
    OPTION_DATA,
    OPTION_NAME,
    OPTION_TEXT,
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_SIZE,
    OPTION_TIME,
    OPTION_ROWS,
    OPTION_NO_NET,
    OPTION_RESUME,
    OPTION_PROGRESS
};

static const struct cli_option option_table[] = {
    {'o', "output", "MODEL", "write the model to MODEL; without it, train and judge only"},
    {OPTION_KIND, "kind", "KIND", "private (the default) or public"},
    {OPTION_STORE, "store", "STORE", "learn from STORE and install the model there if it pays"},
    {OPTION_DATA, "data", "DATA", "learn from text, binary or x86-64 data, or all (the default)"},
    {OPTION_NAME, "name", "NAME", "name kept in the model; that of the file unless given"},
    {OPTION_TEXT, "text", "TEXT", "kept in the model: what it was trained on"},
    {OPTION_SEED, "seed", "N", "chooses sample and starting weights; 1 unless given"},
    {OPTION_THREADS, "threads", "N", "threads; the model does not depend on it"},
    {OPTION_SIZE, "size", "SIZE", "bytes of blocks to learn from and to judge by"},
    {OPTION_TIME, "time", "TIME", "end the training of the net after TIME"},
    {OPTION_ROWS, "rows-log", "N", "rows of a patch, as a power of 2 from 8 to 16"},
    {OPTION_NO_NET, "no-net", NULL, "primed states only"},
    {OPTION_RESUME, "resume", NULL, "go on from MODEL.checkpoint"},
    {OPTION_PROGRESS, "progress", "WHEN", "auto (on a terminal), always or never"},
    {0},
};

static const struct cli_program program = {
    .name = "sepfs-train",
    .purpose = "Trains a model that the SEP codec starts from.",
    .synopsis = "[OPTION...] -o MODEL PATH... | --store=STORE",
    .options = option_table,
    .notes =
        "PATHs are files, or folders of files. Blocks that are not trained on are coded without\n"
        "and with the model, and the sizes shown. Interrupted, it leaves MODEL.checkpoint, and\n"
        "--resume with the same options goes on to the same result.",
    .usage_exit = TRAIN_EXIT_USAGE,
};

volatile sig_atomic_t train_interrupted;

static void on_signal(int number)
{
    train_interrupted = 1;
}

static bool set_kind(struct train_request *request, const char *value)
{
    const bool is_public = strcmp(value, "public") == 0;

    request->kind = is_public ? SEP_MODEL_PUBLIC : SEP_MODEL_PRIVATE;
    return is_public || strcmp(value, "private") == 0;
}

static bool set_data(struct train_request *request, const char *value)
{
    if (strcmp(value, "text") == 0)
        request->kinds = TRAIN_KINDS_TEXT;
    else if (strcmp(value, "binary") == 0)
        request->kinds = TRAIN_KINDS_BINARY;
    else if (strcmp(value, "x86-64") == 0)
        request->kinds = TRAIN_KIND_BIT(TRAIN_KIND_X86);
    else
        return strcmp(value, "all") == 0;
    return true;
}

static bool set_number(unsigned *to, const char *value, unsigned min, unsigned max)
{
    uint64_t number;

    if (!cli_parse_u64(value, min, max, &number))
        return false;
    *to = (unsigned)number;
    return true;
}

/* NULL, or what is wrong. */
static const char *take_option(struct train_request *request, int id, const char *value)
{
    uint32_t seconds;

    switch (id) {
    case 'o':
        request->output = value;
        break;
    case OPTION_KIND:
        return set_kind(request, value) ? NULL : "--kind: not private or public";
    case OPTION_DATA:
        return set_data(request, value) ? NULL : "--data: not text, binary, x86-64 or all";
    case OPTION_NAME:
        request->title = value;
        return strlen(value) < 48 ? NULL : "--name: longer than 47 bytes";
    case OPTION_STORE:
        request->store = value;
        break;
    case OPTION_TEXT:
        request->text = value;
        break;
    case OPTION_SEED:
        return cli_parse_u64(value, 0, UINT64_MAX, &request->seed) ? NULL : "--seed: not a number";
    case OPTION_THREADS:
        return set_number(&request->threads, value, 1, TRAIN_THREADS_MAX)
                   ? NULL
                   : "--threads: not a number from 1 to 64";
    case OPTION_SIZE:
        return fs_parse_size(value, &request->size_limit) == 0 && request->size_limit >= 1u << 20
                   ? NULL
                   : "--size: not a size of 1M or more";
    case OPTION_TIME:
        if (fs_parse_time(value, &seconds) != 0 || seconds == 0)
            return "--time: not a time such as 90s, 5m or 1h";
        request->time_limit = seconds;
        break;
    case OPTION_ROWS:
        return set_number(&request->rows_log, value, 8, 16) ? NULL : "--rows-log: not from 8 to 16";
    case OPTION_NO_NET:
        request->no_net = true;
        break;
    case OPTION_RESUME:
        request->resume = true;
        break;
    case OPTION_PROGRESS:
        return cli_progress_parse(value, &request->progress_mode)
                   ? NULL
                   : "--progress: not auto, always or never";
    default:
        break;
    }
    return NULL;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

int main(int argc, char **argv)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct train_request request = {
        .name = program.name,
        .kind = SEP_MODEL_PRIVATE,
        .kinds = TRAIN_KINDS_TEXT | TRAIN_KINDS_BINARY,
        .seed = 1,
        .threads = cores < 1    ? 1
                   : cores > 16 ? 16
                                : (unsigned)cores,
    };
    struct cli cli;

    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        const char *wrong;

        if (id == CLI_EXIT)
            return cli.exit_code;
        wrong = take_option(&request, id, cli.value);
        if (wrong != NULL)
            return cli_usage(&cli, "%s", wrong);
    }
    if ((cli.count == 0) == (request.store == NULL))
        return cli_usage(&cli, "either files and folders to learn from or --store is needed");
    if (request.store != NULL && request.kind != SEP_MODEL_PRIVATE)
        return cli_usage(&cli, "--store makes private models only");
    if (request.resume && request.output == NULL)
        return cli_usage(&cli, "--resume needs --output");
    if (request.size_limit == 0)
        request.size_limit = request.kind == SEP_MODEL_PUBLIC ? SIZE_PUBLIC : SIZE_PRIVATE;
    if (request.title == NULL)
        request.title = request.output != NULL  ? last_part(request.output)
                        : request.store != NULL ? "private"
                                                : "unnamed";
    request.paths = cli.arguments;
    request.path_count = cli.count;
    catch_signals();
    cli_progress_begin(&request.progress, request.progress_mode);
    return cli_finish(program.name, train_run(&request), TRAIN_EXIT_FAILED);
}
