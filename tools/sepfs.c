/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sepfs.c - the mount command: "sepfs STORE MOUNTPOINT", also as mount.fuse3 calls it for
 * "mount -t fuse.sepfs STORE MOUNTPOINT" and for fstab.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "fs/fs.h"

static const struct cli_option options[] = {
    {'o', NULL, "OPT,...", "mount options, see below; may be given more than once"},
    {'f', "foreground", NULL, "stay in the foreground and log to stderr"},
    {'d', "debug", NULL, "print every request; implies -f"},
    {0},
};

/* The notes of --help: the mount options, from their own table. The caller frees. */
static char *describe_options(void)
{
    char *text = NULL;
    size_t size;
    FILE *const out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    fputs("Mount options:\n", out);
    fs_options_help(out);
    fputs(
        "\nSizes take K, M, G, T (powers of 1024), times s, m, h, d. The usual options of mount(8)"
        "\nare accepted too. STORE is created when it is missing or an empty directory.",
        out);
    fclose(out);
    return text;
}

static int mount_command(const char *notes, int argc, char **argv)
{
    const struct cli_program program = {
        .name = "sepfs",
        .purpose = "mount a compressed store",
        .synopsis = "STORE MOUNTPOINT [-f] [-d] [-o OPT,...]",
        .options = options,
        .notes = notes,
        .usage_exit = 1, /* as mount(8): incorrect invocation */
    };
    struct fs_options mount_options;
    char error[512];
    struct cli cli;

    fs_options_init(&mount_options);
    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        switch (id) {
        case 'o':
            if (fs_options_parse(&mount_options, cli.value, error, sizeof error) != 0) {
                cli_error(program.name, NULL, "%s", error);
                return program.usage_exit;
            }
            break;
        case 'f':
            mount_options.foreground = true;
            break;
        case 'd':
            mount_options.debug = true;
            break;
        case CLI_EXIT:
            return cli.exit_code;
        default:
            break;
        }
    }
    if (cli.count != 2)
        return cli_usage(&cli, "%s",
                         cli.count == 0   ? "a store and a mount point are needed"
                         : cli.count == 1 ? "a mount point is needed"
                                          : "more than a store and a mount point");
    if (mount_options.debug)
        mount_options.foreground = true;
    return fs_mount(cli.arguments[0], cli.arguments[1], &mount_options);
}

int main(int argc, char **argv)
{
    char *notes = describe_options();
    const int code = mount_command(notes, argc, argv);

    free(notes);
    return code;
}
