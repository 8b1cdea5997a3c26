/* SPDX-License-Identifier: BSD-2-Clause
 *
 * progress.c - the progress line of cli.h. Drawing is limited by time, not by calls: a caller may
 * update once per block of a terabyte.
 */
#include "cli.h"

#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

bool cli_progress_parse(const char *text, enum cli_progress_mode *mode)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *mode = (enum cli_progress_mode)i;
            return true;
        }
    }
    return false;
}

void cli_progress_begin(struct cli_progress *progress, enum cli_progress_mode mode)
{
    struct winsize size = {0};
    *progress = (struct cli_progress){.terminal = isatty(STDERR_FILENO) != 0, .columns = 80};
    progress->enabled =
        mode == CLI_PROGRESS_ALWAYS || (mode == CLI_PROGRESS_AUTO && progress->terminal);
    if (progress->terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        progress->columns = size.ws_col;
}

double cli_progress_left(const struct cli_progress *progress, uint64_t done, uint64_t total)
{
    if (done == 0 || total == 0)
        return -1;
    if (done >= total)
        return 0;
    return (now() - progress->started) * (double)(total - done) / (double)done;
}

static void draw(struct cli_progress *progress, uint64_t done, uint64_t total, const char *detail)
{
    char bar[25] = "";
    char line[512];
    char count[CLI_TEXT];
    const bool more = detail != NULL && detail[0] != '\0';
    if (total > 0) {
        const double share = done >= total ? 1 : (double)done / (double)total;
        const size_t full = (size_t)(share * 24);
        memset(bar, '#', full);
        memset(bar + full, '.', 24 - full);
        bar[24] = '\0';
        snprintf(line, sizeof line, "%-16s [%s] %5.1f%%%s%s", progress->label, bar, share * 100,
                 more ? "  " : "", more ? detail : "");
    } else {
        snprintf(line, sizeof line, "%-16s %s%s%s", progress->label, cli_count(done, count),
                 more ? "  " : "", more ? detail : "");
    }
    if (progress->terminal) {
        if (progress->columns < sizeof line)
            line[progress->columns - 1] = '\0';
        fputc('\r', stderr);
        cli_put(stderr, line);
        fputs("\033[K", stderr);
    } else {
        cli_put(stderr, line);
        fputc('\n', stderr);
    }
    fflush(stderr);
    progress->shown = true;
}

void cli_progress_update(struct cli_progress *progress, const char *label, uint64_t done,
                         uint64_t total, const char *detail)
{
    if (!progress->enabled)
        return;
    const double time = now();
    if (strncmp(progress->label, label, sizeof progress->label - 1) != 0) {
        snprintf(progress->label, sizeof progress->label, "%s", label);
        progress->started = time;
        progress->drawn = 0;
    }
    if (done == 0 && !progress->terminal)
        return; /* a line that says nothing yet */
    const bool last = total > 0 && done >= total;
    if (!last && time - progress->drawn < (progress->terminal ? 0.1 : 1.0))
        return;
    progress->drawn = time;
    draw(progress, done, total, detail);
}

void cli_progress_clear(struct cli_progress *progress)
{
    if (!progress->enabled || !progress->shown)
        return;
    if (progress->terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    progress->shown = false;
    progress->drawn = 0;
}
