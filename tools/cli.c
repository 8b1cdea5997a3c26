/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cli.c - options, --help and --version from one table; error lines; human-readable values.
 * getopt_long gets tables built from the program's own, so that a letter, its long name, its help
 * text and the man page's check of --help can never disagree.
 */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { ID_HELP = CLI_LONG_ONLY + 4096, ID_VERSION };

static bool is_letter(int id)
{
    return id > ' ' && id < 127;
}

static bool has_letter(const struct cli_program *program, int letter)
{
    for (const struct cli_option *row = program->options; row->id != 0; row++) {
        if (row->id == letter)
            return true;
    }
    return false;
}

void cli_begin(struct cli *cli, const struct cli_program *program, int argc, char **argv)
{
    *cli = (struct cli){.program = program, .argc = argc, .argv = argv};
    optind = 0; /* restarts glibc's and musl's scan */
    opterr = 0;
}

/* ---- help ---------------------------------------------------------------------------------------
 */

static void help_row(FILE *out, int letter, const char *name, const char *argument,
                     const char *text)
{
    char left[64];
    char dash[4] = "";
    if (letter != 0)
        snprintf(dash, sizeof dash, "-%c", letter);
    if (name == NULL)
        snprintf(left, sizeof left, "  %s%s%s", dash, argument != NULL ? " " : "",
                 argument != NULL ? argument : "");
    else
        snprintf(left, sizeof left, "  %s%s--%s%s%s", letter != 0 ? dash : "  ",
                 letter != 0 ? ", " : "  ", name, argument != NULL ? "=" : "",
                 argument != NULL ? argument : "");
    if (strlen(left) > 27)
        fprintf(out, "%s\n%28s%s\n", left, "", text);
    else
        fprintf(out, "%-28s%s\n", left, text);
}

static void help(const struct cli_program *program, FILE *out)
{
    fprintf(out, "Usage: %s %s\n%s\n\n", program->name, program->synopsis, program->purpose);
    for (const struct cli_option *row = program->options; row->id != 0; row++) {
        if (row->help != NULL)
            help_row(out, is_letter(row->id) ? row->id : 0, row->name, row->argument, row->help);
    }
    help_row(out, has_letter(program, 'h') ? 0 : 'h', "help", NULL, "print this text and exit");
    help_row(out, has_letter(program, 'V') ? 0 : 'V', "version", NULL,
             "print the version and exit");
    if (program->notes != NULL)
        fprintf(out, "\n%s\n", program->notes);
}

/* ---- options ------------------------------------------------------------------------------------
 */

/* getopt's two tables, built anew for each call: a few dozen words, and no state to keep. */
struct tables {
    struct option rows[CLI_OPTIONS_MAX + 3];
    char letters[2 * CLI_OPTIONS_MAX + 8];
};

static void tables_fill(const struct cli_program *program, struct tables *tables)
{
    size_t count = 0, size = 0;
    tables->letters[size++] = ':'; /* a missing argument is told from an unknown option */
    for (const struct cli_option *row = program->options; row->id != 0 && count < CLI_OPTIONS_MAX;
         row++) {
        if (row->name != NULL)
            tables->rows[count++] = (struct option){
                row->name, row->argument != NULL ? required_argument : no_argument, NULL, row->id};
        if (is_letter(row->id)) {
            tables->letters[size++] = (char)row->id;
            if (row->argument != NULL)
                tables->letters[size++] = ':';
        }
    }
    tables->rows[count++] = (struct option){"help", no_argument, NULL, ID_HELP};
    tables->rows[count++] = (struct option){"version", no_argument, NULL, ID_VERSION};
    tables->rows[count] = (struct option){NULL, 0, NULL, 0};
    if (!has_letter(program, 'h'))
        tables->letters[size++] = 'h';
    if (!has_letter(program, 'V'))
        tables->letters[size++] = 'V';
    tables->letters[size] = '\0';
}

static int leave(struct cli *cli, int code)
{
    cli->exit_code = code;
    return CLI_EXIT;
}

/* Names the option getopt stopped at, as the user typed it. */
static int refuse(struct cli *cli, const char *what)
{
    const char *word = optind > 0 && optind <= cli->argc ? cli->argv[optind - 1] : NULL;
    if (optopt != 0 && is_letter(optopt) && (word == NULL || strncmp(word, "--", 2) != 0))
        return leave(cli, cli_usage(cli, "option '-%c' %s", optopt, what));
    return leave(cli, cli_usage(cli, "option '%s' %s", word != NULL ? word : "?", what));
}

int cli_next(struct cli *cli)
{
    struct tables tables;
    tables_fill(cli->program, &tables);
    cli->value = NULL;
    const int id = getopt_long(cli->argc, cli->argv, tables.letters, tables.rows, NULL);
    if (id == -1) {
        cli->arguments = cli->argv + optind;
        cli->count = cli->argc - optind;
        return CLI_END;
    }
    if (id == ID_HELP || (id == 'h' && !has_letter(cli->program, 'h'))) {
        help(cli->program, stdout);
        return leave(cli, cli_finish(cli->program->name, 0, cli->program->usage_exit));
    }
    if (id == ID_VERSION || (id == 'V' && !has_letter(cli->program, 'V'))) {
        printf("%s %s\n", cli->program->name, SEPFS_VERSION);
        return leave(cli, cli_finish(cli->program->name, 0, cli->program->usage_exit));
    }
    if (id == ':')
        return refuse(cli, "needs an argument");
    if (id == '?') {
        /* glibc sets optopt to the row's id when a long option got an argument it does not take */
        const char *word = optind > 0 ? cli->argv[optind - 1] : "";
        if (optopt != 0 && strncmp(word, "--", 2) == 0 && strchr(word, '=') != NULL)
            return refuse(cli, "takes no argument");
        return refuse(cli, "is unknown or ambiguous");
    }
    cli->value = optarg;
    return id;
}

void cli_put(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
            fputc('?', out);
            text++;
        } else {
            fputc(c < ' ' || c == 0x7f ? '?' : c, out);
        }
    }
}

int cli_usage(const struct cli *cli, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "%s: ", cli->program->name);
    cli_put(stderr, text);
    fprintf(stderr, "\nTry '%s --help'.\n", cli->program->name);
    return cli->program->usage_exit;
}

void cli_error(const char *name, const char *subject, const char *format, ...)
{
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "%s: ", name);
    if (subject != NULL) {
        cli_put(stderr, subject);
        fputs(": ", stderr);
    }
    cli_put(stderr, text);
    fputc('\n', stderr);
}

bool cli_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < min || number > max)
        return false;
    *value = number;
    return true;
}

int cli_finish(const char *name, int code, int failure)
{
    const bool failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || failed) {
        cli_error(name, "standard output", "%s", errno != 0 ? strerror(errno) : "write error");
        return failure;
    }
    return code;
}

/* ---- human-readable values ----------------------------------------------------------------------
 */

const char *cli_bytes(uint64_t bytes, char text[CLI_TEXT])
{
    static const char units[] = "KMGTPE";
    if (bytes < 1024) {
        snprintf(text, CLI_TEXT, "%" PRIu64 " B", bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 999.5 && units[unit + 1] != '\0') {
        value /= 1024;
        unit++;
    }
    snprintf(text, CLI_TEXT,
             value < 9.995   ? "%.2f %ciB"
             : value < 99.95 ? "%.1f %ciB"
                             : "%.0f %ciB",
             value, units[unit]);
    return text;
}

const char *cli_seconds(double seconds, char text[CLI_TEXT])
{
    if (seconds < 0)
        seconds = 0;
    if (seconds < 1e-3)
        snprintf(text, CLI_TEXT, "%.0f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(text, CLI_TEXT, seconds < 0.01 ? "%.2f ms" : "%.0f ms", seconds * 1e3);
    else if (seconds < 60)
        snprintf(text, CLI_TEXT, "%.1f s", seconds);
    else if (seconds < 3600)
        snprintf(text, CLI_TEXT, "%um%02us", (unsigned)seconds / 60, (unsigned)seconds % 60);
    else
        snprintf(text, CLI_TEXT, "%.0fh%02um", (double)(uint64_t)(seconds / 3600),
                 (unsigned)((uint64_t)seconds / 60 % 60));
    return text;
}

const char *cli_count(uint64_t count, char text[CLI_TEXT])
{
    char digits[CLI_TEXT];
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    size_t at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

double cli_percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

double cli_ratio(uint64_t plain, uint64_t stored)
{
    return stored == 0 ? 1 : (double)plain / (double)stored;
}
