/* SPDX-License-Identifier: BSD-2-Clause
 *
 * command.c - runs a command and keeps what it printed.
 */
#include "command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

int command(char *output, size_t size, const char *format, ...)
{
    static const char redirect[] = " </dev/null 2>&1";
    char line[1024];
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    assert_true(length > 0 && (size_t)length + sizeof redirect < sizeof line);
    strcat(line, redirect);
    FILE *const pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t used = 0, got;
    while (used + 1 < size && (got = fread(output + used, 1, size - 1 - used, pipe)) > 0)
        used += got;
    output[used] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void expect_part(const char *output, const char *part)
{
    if (strstr(output, part) == NULL)
        fail_msg("no \"%s\" in\n%s", part, output);
}

void expect_cases(const char *program, const struct command_case *cases, size_t count)
{
    char output[32768];
    for (size_t i = 0; i < count; i++) {
        const int code = command(output, sizeof output, "%s %s", program, cases[i].arguments);
        if (code != cases[i].code)
            fail_msg("%s: exit code %d:\n%s", cases[i].arguments, code, output);
        expect_part(output, cases[i].text);
    }
}
