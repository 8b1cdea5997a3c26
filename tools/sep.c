/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sep.c - the command sep: compresses files with the block codecs of libsep, in the manner of xz and
 * zstd. Options, signals and messages; the work is elsewhere (sep_tool.h says where).
 *
 * A signal sets a flag that every wait looks at; the output in progress is then removed, and the
 * process ends by the same signal, so that a shell sees what happened.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "sep_tool.h"

enum {
    OPTION_CODEC = CLI_LONG_ONLY,
    OPTION_JSON,
    OPTION_PROGRESS,
    OPTION_RANGE,
    OPTION_RECOVER,
};

/* Larger than a store's blocks, since files are mostly read whole: on the first 2 MB of eight test
 * files, 1 MiB was 14 % smaller than 128 KiB in the geometric mean at level 5 (from 4 % for an image
 * to 29 % for JSON records); 2 MiB gained 1 % more, and halves what can be done at once. */
#define BLOCK_SIZE_DEFAULT (1u << 20)

static const struct cli_option option_table[] = {
    {'z', "compress", NULL, "compress (this is what it does anyway)"},
    {'d', "decompress", NULL, "decompress"},
    {'t', "test", NULL, "decompress, and write nothing"},
    {'l', "list", NULL, "show what .sep files hold, by their index"},
    {'k', "keep", NULL, "keep the input files"},
    {'c', "stdout", NULL, "write to standard output, keep the input files"},
    {'f', "force", NULL, "replace existing files; take links and special files"},
    {'o', "output", "FILE", "write to FILE, keep the input file"},
    {'1', NULL, NULL, "levels: -1 (fast) ..."},
    {'2', NULL, NULL, NULL},
    {'3', NULL, NULL, NULL},
    {'4', NULL, NULL, NULL},
    {'5', NULL, NULL, NULL},
    {'6', NULL, NULL, NULL},
    {'7', NULL, NULL, NULL},
    {'8', NULL, NULL, NULL},
    {'9', NULL, NULL, "... to -9 (small); -5 unless given"},
    {OPTION_CODEC, "codec", "CODEC", "sep[:N], zstd[:N], lz4[:N] or raw instead of a level"},
    {'m', "model", "FILE", "use this model, too; needed again to decompress what uses it"},
    {'b', "block-size", "SIZE", "plain bytes of a block, 16K to 4M; 1M unless given"},
    {'T', "threads", "N", "encode or decode N blocks at once; 0, the default: one a core"},
    {OPTION_RANGE, "range", "OFFSET:LENGTH", "with -d or -t: these plain bytes only"},
    {OPTION_RECOVER, "recover", NULL, "with -d or -t: take what is intact, zeros for the rest"},
    {OPTION_JSON, "json", NULL, "with --list: print one JSON object"},
    {'q', "quiet", NULL, "no warnings; twice: no errors either"},
    {'v', "verbose", NULL, "a line for each file; with --list, for each block"},
    {OPTION_PROGRESS, "progress", "WHEN", "auto (on a terminal), always or never"},
    {0},
};

static const struct cli_program program = {
    .name = "sep",
    .purpose = "Compresses FILEs to FILE.sep, or standard input to standard output.",
    .synopsis = "[-d|-t|-l] [-k] [-c] [-f] [-1..-9] [-T N] [-b SIZE] [-m FILE] [-o FILE] "
                "[OPTION...] [FILE...]",
    .options = option_table,
    .notes = "SIZE, OFFSET and LENGTH take K, M, G, T (1024). FILE \"-\" is standard input.\n"
             "Exit code: 0 all is well, 1 an error, 2 a warning: something was skipped.",
    .usage_exit = EXIT_FAILED,
};

static volatile sig_atomic_t stop_signal; /* the first of SIGINT, SIGTERM, SIGHUP that came */

static void on_signal(int number)
{
    if (stop_signal == 0)
        stop_signal = number;
}

/* ---- messages -----------------------------------------------------------------------------------
 */

static void message(struct tool *tool, const char *subject, const char *format, va_list list)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, list);
    cli_progress_clear(&tool->progress);
    cli_error(program.name, subject, "%s", text);
}

void tool_error(struct tool *tool, const char *subject, const char *format, ...)
{
    va_list list;
    tool->exit_code = EXIT_FAILED;
    va_start(list, format);
    if (tool->options->quiet < 2)
        message(tool, subject, format, list);
    va_end(list);
}

void tool_warn(struct tool *tool, const char *subject, const char *format, ...)
{
    va_list list;
    if (tool->exit_code == EXIT_FINE)
        tool->exit_code = EXIT_WARNED;
    va_start(list, format);
    if (tool->options->quiet < 1)
        message(tool, subject, format, list);
    va_end(list);
}

void tool_note(struct tool *tool, const char *subject, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (tool->options->quiet < 1)
        message(tool, subject, format, list);
    va_end(list);
}

void tool_progress(struct tool *tool, const struct input *input, uint64_t done, uint64_t plain,
                   uint64_t stored)
{
    char detail[3 * CLI_TEXT], left_text[CLI_TEXT];
    const char *const slash = strrchr(input->name, '/');
    if (!tool->progress.enabled)
        return;
    const double left = cli_progress_left(&tool->progress, done, input->size);
    snprintf(detail, sizeof detail, "%.2f:1%s%s%s", cli_ratio(plain, stored), left > 1 ? ", " : "",
             left > 1 ? cli_seconds(left, left_text) : "", left > 1 ? " left" : "");
    cli_progress_update(&tool->progress, slash != NULL ? slash + 1 : input->name, done, input->size,
                        detail);
}

/* ---- options ------------------------------------------------------------------------------------
 */

/* "131072", "128K", "4M"; false for anything else, or when it does not fit 63 bits. LENGTH: of TEXT
 * that counts. */
static bool parse_size(const char *text, size_t length, uint64_t *size)
{
    static const char units[] = "KMGT";
    char digits[24];
    unsigned shift = 0;
    if (length > 0 && strchr(units, text[length - 1]) != NULL)
        shift = 10 * (unsigned)(strchr(units, text[--length]) - units + 1);
    if (length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!cli_parse_u64(digits, 0, (uint64_t)INT64_MAX >> shift, size))
        return false;
    *size <<= shift;
    return true;
}

/* "OFFSET:LENGTH"; without LENGTH: up to the end. */
static bool parse_range(const char *text, struct tool_options *options)
{
    const char *const colon = strchr(text, ':');
    uint64_t length = 0;
    if (colon == NULL || !parse_size(text, (size_t)(colon - text), &options->range_begin))
        return false;
    options->has_range = true;
    options->range_end = UINT64_MAX;
    if (colon[1] == '\0')
        return true;
    if (!parse_size(colon + 1, strlen(colon + 1), &length))
        return false;
    options->range_end = options->range_begin + length; /* 63 bits each */
    return true;
}

static unsigned cores(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > POOL_THREADS_MAX ? POOL_THREADS_MAX : (unsigned)online;
}

/* Options with an argument. -1, or an exit code. */
static int parse_value(struct cli *cli, int id, struct tool_options *options,
                       enum cli_progress_mode *progress)
{
    uint64_t number;
    switch (id) {
    case OPTION_CODEC:
        if (sep_method_parse(cli->value, &options->method) != SEP_OK)
            return cli_usage(cli, "--codec=%s: unknown codec, or it has no such level", cli->value);
        break;
    case 'm':
        if (!model_files_add(&options->models, program.name, cli->value))
            return EXIT_FAILED;
        break;
    case 'b':
        if (!parse_size(cli->value, strlen(cli->value), &number) || number < SEP_BLOCK_SIZE_MIN ||
            number > SEP_BLOCK_SIZE_MAX)
            return cli_usage(cli, "--block-size=%s: 16K to 4M is accepted", cli->value);
        options->block_size = (uint32_t)number;
        break;
    case 'T':
        if (!cli_parse_u64(cli->value, 0, POOL_THREADS_MAX, &number))
            return cli_usage(cli, "--threads=%s: 0 to %d is accepted", cli->value,
                             POOL_THREADS_MAX);
        options->threads = number == 0 ? cores() : (unsigned)number;
        break;
    case 'o':
        options->output = cli->value;
        break;
    case OPTION_RANGE:
        if (!parse_range(cli->value, options))
            return cli_usage(cli, "--range=%s: OFFSET:LENGTH is accepted", cli->value);
        break;
    case OPTION_PROGRESS:
        if (!cli_progress_parse(cli->value, progress))
            return cli_usage(cli, "--progress=%s: auto, always or never is accepted", cli->value);
        break;
    }
    return -1;
}

static void parse_flag(int id, struct tool_options *options)
{
    switch (id) {
    case 'z':
        options->mode = MODE_COMPRESS;
        break;
    case 'd':
        options->mode = MODE_DECOMPRESS;
        break;
    case 't':
        options->mode = MODE_TEST;
        break;
    case 'l':
        options->mode = MODE_LIST;
        break;
    case 'k':
        options->keep = true;
        break;
    case 'c':
        options->to_stdout = true;
        break;
    case 'f':
        options->force = true;
        break;
    case 'q':
        options->quiet++;
        break;
    case 'v':
        options->verbose++;
        break;
    case OPTION_RECOVER:
        options->recover = true;
        break;
    case OPTION_JSON:
        options->as_json = true;
        break;
    default: /* -1 .. -9 */
        options->method = (struct sep_method){SEP_CODEC_SEP, (uint8_t)(id - '0')};
    }
}

/* Combinations that mean nothing. -1, or an exit code. */
static int check_options(const struct cli *cli, const struct tool_options *options)
{
    const bool decodes = options->mode == MODE_DECOMPRESS || options->mode == MODE_TEST;
    if ((options->recover || options->has_range) && !decodes)
        return cli_usage(cli, "--%s needs -d or -t", options->recover ? "recover" : "range");
    if (options->recover && options->has_range)
        return cli_usage(cli, "only one of --recover and --range may be given");
    if (options->as_json && options->mode != MODE_LIST)
        return cli_usage(cli, "--json needs --list");
    if (options->output != NULL && cli->count > 1)
        return cli_usage(cli, "-o takes one input file");
    if (options->output != NULL && options->to_stdout)
        return cli_usage(cli, "only one of -c and -o may be given");
    return -1;
}

static int parse(struct cli *cli, int argc, char **argv, struct tool_options *options,
                 enum cli_progress_mode *progress)
{
    cli_begin(cli, &program, argc, argv);
    for (int id; (id = cli_next(cli)) != CLI_END;) {
        if (id == CLI_EXIT)
            return cli->exit_code;
        if (cli->value == NULL) {
            parse_flag(id, options);
        } else {
            const int code = parse_value(cli, id, options, progress);
            if (code >= 0)
                return code;
        }
    }
    return check_options(cli, options);
}

/* ---- main ---------------------------------------------------------------------------------------
 */

static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: ends a wait */
    struct sigaction before;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        /* nohup and background jobs ignore some: so do we */
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

/* Each operand, until a signal comes. */
static void process_all(struct tool *tool, const struct cli *cli)
{
    if (tool->options->mode == MODE_LIST)
        list_begin(tool);
    for (int i = 0; i < (cli->count == 0 ? 1 : cli->count) && stop_signal == 0; i++) {
        const char *const path = cli->count == 0 ? "-" : cli->arguments[i];
        file_process(tool, strcmp(path, "-") == 0 ? NULL : path);
    }
    if (tool->options->mode == MODE_LIST)
        list_end(tool);
}

int main(int argc, char **argv)
{
    struct cli cli;
    enum cli_progress_mode progress = CLI_PROGRESS_AUTO;
    struct tool_options options = {
        .threads = cores(), .block_size = BLOCK_SIZE_DEFAULT, .method = {SEP_CODEC_SEP, 5}};
    struct tool tool = {.options = &options, .stop = &stop_signal};
    const int code = parse(&cli, argc, argv, &options, &progress);
    if (code >= 0) {
        model_files_free(&options.models);
        return code;
    }
    catch_signals();
    cli_progress_begin(&tool.progress, options.quiet > 0 && progress == CLI_PROGRESS_AUTO
                                           ? CLI_PROGRESS_NEVER
                                           : progress);
    tool.pool = pool_new(options.threads, &options.models);
    if (tool.pool == NULL)
        tool_error(&tool, NULL, "%s", strerror(ENOMEM));
    else
        process_all(&tool, &cli);
    pool_free(tool.pool);
    model_files_free(&options.models);
    if (stop_signal != 0) {
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return cli_finish(program.name, tool.exit_code, EXIT_FAILED);
}
