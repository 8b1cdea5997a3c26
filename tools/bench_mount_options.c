/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_mount_options.c - the command line of sepfs-bench mount.
 */
#include "bench_mount.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fs.h"

enum {
    OPTION_TREE = CLI_LONG_ONLY,
    OPTION_MIXED,
    OPTION_SIZE,
    OPTION_EMPTY,
    OPTION_COMPACT,
    OPTION_ROUNDS,
    OPTION_ONLY,
    OPTION_WORK,
    OPTION_PASSTHROUGH,
    OPTION_JSON,
    OPTION_PROGRESS,
};

static const struct cli_option options[] = {
    {OPTION_TREE, "tree", "DIR", "tree to untar, list, read and remove"},
    {OPTION_MIXED, "mixed-from", "DIR", "files that the mixed file is made of"},
    {OPTION_SIZE, "size", "SIZE", "of the mixed file (default 1G)"},
    {OPTION_EMPTY, "empty", "N", "number of empty files (default 1000000)"},
    {OPTION_COMPACT, "compact", "DIR", "tree to copy and compact, beside mksquashfs"},
    {OPTION_ROUNDS, "rounds", "N", "rounds of tree and file (default 5)"},
    {OPTION_ONLY, "only", "LIST", "of tree,file,empty,compact (default: all that can be)"},
    {OPTION_WORK, "work", "DIR", "where to measure (default /var/tmp)"},
    {OPTION_PASSTHROUGH, "passthrough", "PROGRAM", "libfuse's passthrough_ll"},
    {OPTION_JSON, "json", NULL, "print JSON, with every sample"},
    {OPTION_PROGRESS, "progress", "WHEN", "auto, always or never"},
    {0}};

static const struct cli_program program = {
    .name = "sepfs-bench mount",
    .purpose = "measures file operations on a mount, beside libfuse's passthrough_ll",
    .synopsis = "[OPTION...]",
    .options = options,
    .notes = "tree and compact are measured when --tree and --compact name a directory. Without\n"
             "--mixed-from the mixed file is words, records and noise in turn. A file of --size\n"
             "needs up to three times its room in --work.",
    .usage_exit = 2,
};

static bool parse_only(const char *text, unsigned *parts)
{
    static const char *const names[] = {"tree", "file", "empty", "compact"};
    *parts = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        size_t i = 0;
        while (i < 4 && (strlen(names[i]) != length || strncmp(names[i], text, length) != 0))
            i++;
        if (i == 4)
            return false;
        *parts |= 1u << i;
        text += length + (text[length] == ',');
    }
    return *parts != 0;
}

int bench_mount_parse(struct bench *bench, int argc, char **argv, int *code)
{
    struct cli cli;
    enum cli_progress_mode progress = CLI_PROGRESS_AUTO;
    unsigned only = 0;
    bool good = true;
    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        switch (id) {
        case OPTION_TREE:
            bench->tree = cli.value;
            break;
        case OPTION_MIXED:
            bench->mixed_from = cli.value;
            break;
        case OPTION_SIZE:
            good = fs_parse_size(cli.value, &bench->size) == 0 && bench->size > 0;
            break;
        case OPTION_EMPTY:
            good = cli_parse_u64(cli.value, 1, 9999999, &bench->empty);
            break;
        case OPTION_COMPACT:
            bench->compact = cli.value;
            break;
        case OPTION_ROUNDS:
            good = cli_parse_u64(cli.value, 1, BENCH_ROUNDS_MAX, &bench->rounds);
            break;
        case OPTION_ONLY:
            good = parse_only(cli.value, &only);
            break;
        case OPTION_WORK:
            if (realpath(cli.value, bench->base) == NULL) {
                cli_error(program.name, cli.value, "%s", strerror(errno));
                *code = 2;
                return -1;
            }
            break;
        case OPTION_PASSTHROUGH:
            bench->passthrough = cli.value;
            break;
        case OPTION_JSON:
            bench->json = true;
            break;
        case OPTION_PROGRESS:
            good = cli_progress_parse(cli.value, &progress);
            break;
        default:
            *code = cli.exit_code;
            return -1;
        }
        if (!good) {
            *code = cli_usage(&cli, "'%s' is not a value that this option takes", cli.value);
            return -1;
        }
    }
    bench->parts = PART_FILE | PART_EMPTY | (bench->tree != NULL ? PART_TREE : 0u) |
                   (bench->compact != NULL ? PART_COMPACT : 0u);
    *code = 0;
    if (cli.count > 0)
        *code = cli_usage(&cli, "takes no operand: '%s'", cli.arguments[0]);
    else if ((only & PART_TREE) != 0 && bench->tree == NULL)
        *code = cli_usage(&cli, "--only=tree needs --tree");
    else if ((only & PART_COMPACT) != 0 && bench->compact == NULL)
        *code = cli_usage(&cli, "--only=compact needs --compact");
    if (only != 0)
        bench->parts = only;
    cli_progress_begin(&bench->progress, progress);
    return *code == 0 ? 0 : -1;
}
