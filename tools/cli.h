/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cli.h - what every command does alike: options from one table, --help and --version from the same
 * table, one form of error line, human-readable sizes and times, and a progress bar.
 *
 * A command describes itself in a const struct cli_program, then loops:
 *
 *     struct cli cli;
 *     cli_begin(&cli, &program, argc, argv);
 *     for (int id; (id = cli_next(&cli)) != CLI_END;) {
 *         switch (id) {
 *         case 'n': ... cli.value ...
 *         case CLI_EXIT: return cli.exit_code;
 *         }
 *     }
 *     if (cli.count < 1) return cli_usage(&cli, "a store is needed");
 *     ... cli.arguments[0 .. cli.count) ...
 *
 * Long options take "=value" or " value". Options and operands may be mixed; "--" ends options.
 * Errors go to stderr as "sepfs-fsck: path: reason", data to stdout. getopt's own state makes one
 * struct cli in use at a time the limit; nothing else here is global.
 */
#ifndef TOOLS_CLI_H
#define TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- options ------------------------------------------------------------------------------------
 */

#define CLI_OPTIONS_MAX 64 /* rows of an option table, without the last */

struct cli_option {
    int id;               /* what cli_next returns: > 0. A printable character is also the short
                             option of that letter; others start at CLI_LONG_ONLY */
    const char *name;     /* long name without dashes; NULL: short only */
    const char *argument; /* placeholder of its argument ("SIZE"); NULL: takes none */
    const char *help;     /* lower case, no full stop; NULL: not shown by --help */
};

#define CLI_LONG_ONLY 256
#define CLI_END       (-1) /* no options left */
#define CLI_EXIT      (-2) /* --help or --version was served, or a bad option reported: exit */

struct cli_program {
    const char *name;                 /* "sepfs-fsck" */
    const char *purpose;              /* one line, lower case */
    const char *synopsis;             /* what follows the name: "STORE [-n|-p|-y] [OPTION...]" */
    const struct cli_option *options; /* ends with id 0. --help, -h and --version, -V are implied
                                         unless the table uses those letters itself */
    const char *notes;                /* printed after the options of --help; NULL: nothing */
    int usage_exit;                   /* exit code of a usage error */
};

struct cli {
    const struct cli_program *program;
    const char *value; /* argument of the option last returned, NULL when it takes none */
    char **arguments;  /* operands, valid after CLI_END; point into argv */
    int count;
    int exit_code; /* valid after CLI_EXIT */
    /* private */
    int argc;
    char **argv;
};

void cli_begin(struct cli *cli, const struct cli_program *program, int argc, char **argv);
/* Next option's id, CLI_END or CLI_EXIT. May reorder argv. */
int cli_next(struct cli *cli);
/* Reports a usage error ("name: message" and a pointer to --help); returns program->usage_exit. */
int cli_usage(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes TEXT with a '?' for each control character, those of two bytes in UTF-8 included: names and
 * messages that come from users, stores or daemons cannot rewrite the terminal or forge a line. */
void cli_put(FILE *out, const char *text);

/* "NAME: SUBJECT: message\n" on stderr; SUBJECT (a path, an option) may be NULL. Control characters
 * in the subject are shown as '?', so that a file name cannot rewrite the terminal. */
void cli_error(const char *name, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Decimal number in [MIN, MAX]; false for anything else, sign and blanks included. */
bool cli_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* Flushes stdout and returns CODE, or reports the error and returns FAILURE when data was lost
 * (full disk, closed pipe): the last thing main does. */
int cli_finish(const char *name, int code, int failure);

/* ---- human-readable values ----------------------------------------------------------------------
 */

#define CLI_TEXT 32 /* a buffer that fits each of these */

/* "0 B", "999 B", "1.5 KiB", "12 MiB": three digits, powers of 1024. Returns TEXT. */
const char *cli_bytes(uint64_t bytes, char text[CLI_TEXT]);
/* "850 us", "1.25 ms", "3.2 s", "4m05s", "2h03m". Returns TEXT. */
const char *cli_seconds(double seconds, char text[CLI_TEXT]);
/* "1,234,567". Returns TEXT. */
const char *cli_count(uint64_t count, char text[CLI_TEXT]);
/* PART as percentage of WHOLE, 0 when WHOLE is 0. */
double cli_percent(uint64_t part, uint64_t whole);
/* PLAIN to STORED, "4.2" of "4.2:1"; 1 when STORED is 0. */
double cli_ratio(uint64_t plain, uint64_t stored);

/* ---- progress -----------------------------------------------------------------------------------
 */

enum cli_progress_mode { CLI_PROGRESS_AUTO, CLI_PROGRESS_ALWAYS, CLI_PROGRESS_NEVER };

/* "auto", "always", "never"; false for anything else. */
bool cli_progress_parse(const char *text, enum cli_progress_mode *mode);

/* One line on stderr. On a terminal it is redrawn in place at most ten times a second; with
 * CLI_PROGRESS_ALWAYS and no terminal it is a new line at most once a second and one at the end. */
struct cli_progress {
    bool enabled, terminal, shown;
    unsigned columns;
    double started, drawn; /* seconds, monotonic clock */
    char label[32];
};

/* AUTO shows it only when stderr is a terminal. */
void cli_progress_begin(struct cli_progress *progress, enum cli_progress_mode mode);
/* LABEL: what is being done, TOTAL 0 = unknown. DETAIL (may be NULL) is shown after the bar. A new
 * label starts a new line and a new clock. Cheap when it is not time to redraw. */
void cli_progress_update(struct cli_progress *progress, const char *label, uint64_t done,
                         uint64_t total, const char *detail);
/* Seconds left at the present speed, from the time since this label began; negative when unknown.
 */
double cli_progress_left(const struct cli_progress *progress, uint64_t done, uint64_t total);
/* Clears the line on a terminal. Call before other output to stderr; the next update draws anew. */
void cli_progress_clear(struct cli_progress *progress);

#endif
