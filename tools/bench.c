/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench.c - sepfs-bench: measurements of this build on the user's own data, with peers measured in
 * the same run. Each measurement is a file of its own with its own options; here is the table.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} measurements[] = {
    {"codec", bench_codec},
    {"mount", bench_mount},
};

static const struct cli_option options[] = {{0}};

static const struct cli_program program = {
    .name = "sepfs-bench",
    .purpose = "measures this build on your own data, with peers in the same run",
    .synopsis = "codec|mount [OPTION...]",
    .options = options,
    .notes = "Measurements:\n"
             "  codec   ratio and speed of the block codecs on files\n"
             "  mount   file operations on a mount, beside libfuse's passthrough_ll example\n"
             "\n"
             "'sepfs-bench codec --help' and 'sepfs-bench mount --help' name their options.",
    .usage_exit = 2,
};

int main(int argc, char **argv)
{
    if (argc > 1) {
        for (size_t i = 0; i < sizeof measurements / sizeof measurements[0]; i++) {
            if (strcmp(argv[1], measurements[i].name) == 0)
                return measurements[i].run(argc - 1, argv + 1);
        }
    }
    struct cli cli;
    cli_begin(&cli, &program, argc, argv);
    if (cli_next(&cli) == CLI_EXIT)
        return cli.exit_code;
    if (cli.count < 1)
        return cli_usage(&cli, "a measurement is needed: codec or mount");
    return cli_usage(&cli, "%s: no such measurement; there are codec and mount", cli.arguments[0]);
}
