/* SPDX-License-Identifier: BSD-2-Clause
 *
 * launch.c - fs_mount: checks, goes into the background, waits for the mount to answer.
 *
 * The child does everything: LMDB must not be open across fork. It writes one message into a pipe:
 * 'R' when the mount answers, or 'E' and the reason. The parent prints the reason and exits with the
 * right code; a child that dies without a message is an error too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "core.h"
#include "fs.h"
#include "session.h"

#define MESSAGE_MAX 2048u /* at most PIPE_BUF, so that it is written whole */

static void send_message(struct fs_report *report, const char *message, size_t size)
{
    while (write(report->pipe, message, size) < 0 && errno == EINTR)
        ;
    close(report->pipe);
    report->pipe = -1;
}

void fs_report_ready(struct fs_report *report)
{
    if (report->delivered)
        return;
    report->delivered = true;
    if (report->pipe >= 0)
        send_message(report, "R", 1);
}

void fs_report_error(struct fs_report *report, const char *format, ...)
{
    char message[MESSAGE_MAX] = "E";
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message + 1, sizeof message - 1, format, arguments);
    va_end(arguments);
    if (report->delivered) {
        fs_log(LOG_ERR, "%s", message + 1);
        return;
    }
    report->delivered = true;
    if (report->pipe >= 0)
        send_message(report, message, strlen(message));
    else
        fprintf(stderr, "sepfs: %s\n", message + 1);
}

/* Parent: the child's message as an exit code. */
static int await(int pipe, pid_t child)
{
    char message[MESSAGE_MAX + 1];
    size_t used = 0;
    ssize_t count;
    int status;

    while (used < MESSAGE_MAX) {
        count = read(pipe, message + used, MESSAGE_MAX - used);
        if (count == 0 || (count < 0 && errno != EINTR))
            break;
        used += count > 0 ? (size_t)count : 0;
    }
    close(pipe);
    message[used] = '\0';
    if (message[0] == 'R')
        return 0;
    if (message[0] == 'E')
        fprintf(stderr, "sepfs: %s\n", message + 1);
    else if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
        fprintf(stderr, "sepfs: the daemon was ended by signal %d before the mount was ready\n",
                WTERMSIG(status));
    else
        fprintf(stderr, "sepfs: the daemon ended before the mount was ready\n");
    return 1;
}

/* Child: leaves the terminal, the working directory and every inherited descriptor but the pipe and
 * the standard ones behind; those are given up when the mount is ready. */
static int detach(int *pipe)
{
    const int null = open("/dev/null", O_RDWR);
    int moved;

    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return -errno;
    if (null > STDERR_FILENO)
        close(null);
    moved = fcntl(*pipe, F_DUPFD_CLOEXEC, 3);
    if (moved < 0)
        return -errno;
    if (moved != 3) {
        if (dup3(moved, 3, O_CLOEXEC) < 0)
            return -errno;
        moved = 3;
    }
    *pipe = moved;
    close_range(4, ~0u, 0);
    setsid();
    return chdir("/") != 0 ? -errno : 0;
}

static int run_child(int pipe, const struct fs_mount_paths *paths, const struct fs_options *options)
{
    struct fs_report report = {.pipe = pipe};
    const int error = detach(&report.pipe);

    if (error != 0) {
        fs_report_error(&report, "cannot go into the background: %s", strerror(-error));
        return 1;
    }
    fs_log_open(false, options->debug);
    return fs_serve(paths, options, &report);
}

static int run_in_background(const struct fs_mount_paths *paths, const struct fs_options *options)
{
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "sepfs: pipe: %s\n", strerror(errno));
        return 1;
    }
    fflush(NULL);
    child = fork();
    if (child < 0) {
        fprintf(stderr, "sepfs: fork: %s\n", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return 1;
    }
    if (child == 0) {
        close(ends[0]);
        exit(run_child(ends[1], paths, options));
    }
    close(ends[1]);
    return await(ends[0], child);
}

/* Every pack that is read keeps a descriptor. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int fs_mount(const char *store, const char *mountpoint, const struct fs_options *options)
{
    struct fs_mount_paths paths;
    struct fs_report report = {.pipe = -1};
    char error[512];

    if (fs_mount_check(store, mountpoint, options, &paths, error, sizeof error) != 0) {
        fprintf(stderr, "sepfs: %s\n", error);
        return 1;
    }
    /* The modes of files in the mount come from their creators; those of the store are ours. */
    umask(077);
    raise_descriptor_limit();
    if (!options->foreground)
        return run_in_background(&paths, options);
    fs_log_open(true, options->debug);
    return fs_serve(&paths, options, &report);
}
