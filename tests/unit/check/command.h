/* SPDX-License-Identifier: BSD-2-Clause
 *
 * command.h - runs one of the project's commands as a user would and keeps what it printed.
 */
#ifndef TESTS_CHECK_COMMAND_H
#define TESTS_CHECK_COMMAND_H

#include <stddef.h>

/* Runs FORMAT through the shell, standard input empty, standard output and error into OUTPUT
 * (a terminated text of at most SIZE bytes). Returns the exit code, or minus the signal. */
int command(char *output, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails the running test unless PART is in OUTPUT. */
void expect_part(const char *output, const char *part);

/* One way to call a command: what it must exit with, and part of what it must print. */
struct command_case {
    const char *arguments;
    int code;
    const char *text;
};

/* Runs PROGRAM with each of COUNT cases. */
void expect_cases(const char *program, const struct command_case *cases, size_t count);

#endif
