/* SPDX-License-Identifier: BSD-2-Clause
 *
 * log.c - the daemon's log: stderr in the foreground, syslog (and so the journal) otherwise.
 *
 * A damaged pack can make every read fail: at most LINES_PER_SECOND lines are let through in one
 * second, the rest are counted and the count is logged when the next second begins. The state is
 * one per process, as syslog's own is.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "core.h"

#define LINES_PER_SECOND 20u
#define LINE_MAX_BYTES   1024u

static struct {
    pthread_mutex_t lock;
    bool foreground, debug;
    time_t second; /* monotonic clock */
    unsigned lines, dropped;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .foreground = true};

void fs_log_open(bool foreground, bool debug)
{
    pthread_mutex_lock(&state.lock);
    state.foreground = foreground;
    state.debug = debug;
    state.lines = state.dropped = 0;
    if (!foreground)
        openlog("sepfs", LOG_PID, LOG_DAEMON);
    pthread_mutex_unlock(&state.lock);
}

/* Called with the lock held. A file name must not forge a second line or rewrite a terminal: control
 * characters, those of two bytes in UTF-8 included, become question marks. */
static void emit(int priority, const char *line)
{
    char clean[LINE_MAX_BYTES];
    size_t used = 0;

    for (; *line != '\0' && used + 1 < sizeof clean; line++) {
        const unsigned char c = (unsigned char)*line, next = (unsigned char)line[1];
        const bool pair = c == 0xc2 && next >= 0x80 && next < 0xa0;

        clean[used++] = pair || c < 0x20 || c == 0x7f ? '?' : *line;
        line += pair;
    }
    clean[used] = '\0';
    if (state.foreground)
        fprintf(stderr, "sepfs: %s\n", clean);
    else
        syslog(priority, "%s", clean);
}

void fs_log_line(void *arg, int priority, const char *line)
{
    struct timespec now;

    (void)arg;
    if (priority == LOG_DEBUG && !state.debug)
        return;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    pthread_mutex_lock(&state.lock);
    if (now.tv_sec != state.second) {
        if (state.dropped != 0) {
            char text[64];

            snprintf(text, sizeof text, "%u more lines in one second were left out", state.dropped);
            emit(LOG_WARNING, text);
        }
        state.second = now.tv_sec;
        state.lines = state.dropped = 0;
    }
    if (state.lines < LINES_PER_SECOND || state.debug) {
        state.lines++;
        emit(priority, line);
    } else {
        state.dropped++;
    }
    pthread_mutex_unlock(&state.lock);
}

void fs_log(int priority, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;
    size_t length;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    length = strlen(line);
    while (length != 0 && line[length - 1] == '\n') /* libfuse ends its lines, others do not */
        line[--length] = '\0';
    fs_log_line(NULL, priority, line);
}
