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

#endif
