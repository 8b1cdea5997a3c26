/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench_peer.c - runs commands, mounts and unmounts the two file systems that are compared.
 *
 * Both daemons run in the foreground as children: their pid is known (for VmHWM), and their exit is
 * the end of the unmount for either. Each is in a process group of its own, so that an interrupt
 * from the terminal stops the measurement and not the daemon below it; the caller then unmounts.
 */
#include "bench_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define NAME "sepfs-bench"

double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int start(const char *const argv[], bool daemon, bool quiet, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (quiet)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    short flags = POSIX_SPAWN_SETSIGMASK;
    if (daemon)
        flags |= POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes, flags);
    const int error =
        posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        cli_error(NAME, argv[0], "cannot be run: %s", strerror(error));
    return -error;
}

static int wait_for(pid_t pid, const char *what)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            const int error = errno;
            cli_error(NAME, what, "waiting for it: %s", strerror(error));
            return -error;
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status))
        cli_error(NAME, what, "exit status %d", WEXITSTATUS(status));
    else
        cli_error(NAME, what, "killed by signal %d", WTERMSIG(status));
    return -EIO;
}

int bench_command(const char *const argv[], double *seconds)
{
    const double begin = bench_now();
    pid_t pid;
    int error = start(argv, false, false, &pid);
    if (error == 0)
        error = wait_for(pid, argv[0]);
    if (seconds != NULL)
        *seconds = bench_now() - begin;
    return error;
}

int bench_shell(const char *script, const char *one, const char *two, const char *three,
                double *seconds)
{
    const char *const argv[] = {"sh", "-c", script, "sepfs-bench", one, two, three, NULL};
    return bench_command(argv, seconds);
}

bool bench_drop_caches(void)
{
    sync();
    const int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool good = write(fd, "3", 1) == 1;
    close(fd);
    return good;
}

/* ---- mounting -------------------------------------------------------------------------------- */

/* A mount point is on another device than its parent. */
static bool is_mounted(const char *path)
{
    char parent[PATH_MAX];
    struct stat inner, outer;
    const int length = snprintf(parent, sizeof parent, "%s/..", path);
    return length > 0 && (size_t)length < sizeof parent && stat(path, &inner) == 0 &&
           stat(parent, &outer) == 0 && inner.st_dev != outer.st_dev;
}

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    nanosleep(&pause, NULL);
}

int bench_target_mount(struct bench_target *target)
{
    char source[PATH_MAX + 8];
    snprintf(source, sizeof source, "source=%s", target->data);
    const char *const passthrough[] = {target->program,    "-f", "-o", source,
                                       target->mountpoint, NULL};
    const char *const sepfs[] = {target->program, "-f", target->data, target->mountpoint, NULL};
    if (target->side == BENCH_PEER && mkdir(target->data, 0700) != 0 && errno != EEXIST) {
        const int error = errno;
        cli_error(NAME, target->data, "%s", strerror(error));
        return -error;
    }
    /* passthrough_ll warns about a default of its own at every start. */
    const bool peer = target->side == BENCH_PEER;
    const int error = start(peer ? passthrough : sepfs, true, peer, &target->pid);
    if (error != 0) {
        target->pid = 0;
        return error;
    }
    for (const double deadline = bench_now() + 30; !is_mounted(target->mountpoint); nap()) {
        const bool gone = waitpid(target->pid, NULL, WNOHANG) == target->pid;
        if (!gone && bench_now() < deadline)
            continue;
        cli_error(NAME, target->program,
                  gone ? "exited before its mount answered"
                       : "its mount did not answer within 30 seconds");
        if (!gone) {
            kill(target->pid, SIGTERM);
            waitpid(target->pid, NULL, 0);
        }
        target->pid = 0;
        return -EIO;
    }
    return 0;
}

static uint64_t peak_memory(pid_t pid)
{
    char path[64], line[256];
    uint64_t kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *const status = fopen(path, "re");
    if (status == NULL)
        return 0;
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kilobytes = strtoull(line + 6, NULL, 10);
            break;
        }
    }
    fclose(status);
    return kilobytes * 1024;
}

int bench_target_unmount(struct bench_target *target)
{
    if (target->pid == 0)
        return 0;
    const uint64_t peak = peak_memory(target->pid);
    if (peak > target->peak)
        target->peak = peak;
    int error = bench_shell("fusermount3 -u \"$1\"", target->mountpoint, NULL, NULL, NULL);
    if (error != 0)
        kill(target->pid, SIGTERM); /* both daemons unmount on it */
    const int daemon = wait_for(target->pid, target->program);
    target->pid = 0;
    return error != 0 ? error : daemon;
}

int bench_target_clear(struct bench_target *target)
{
    return bench_shell("rm -rf \"$1\"", target->data, NULL, NULL, NULL);
}

/* ---- finding the programs -------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat stat_buffer;
    return stat(path, &stat_buffer) == 0 && S_ISREG(stat_buffer.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(const char *name, char path[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        const size_t length = strcspn(at, ":");
        if (length < PATH_MAX &&
            snprintf(path, PATH_MAX, "%.*s/%s", (int)length, at, name) < PATH_MAX &&
            is_program(path))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

int bench_find_tool(const char *name, char path[PATH_MAX])
{
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        char *const slash = strrchr(self, '/');
        *slash = '\0';
        static const char *const folders[] = {"", "/../sbin"};
        for (size_t i = 0; i < 2; i++) {
            if (snprintf(path, PATH_MAX, "%s%s/%s", self, folders[i], name) < PATH_MAX &&
                is_program(path))
                return 0;
        }
    }
    if (find_in_path(name, path))
        return 0;
    cli_error(NAME, name, "not found beside this program nor in PATH");
    return -ENOENT;
}

int bench_find_passthrough(const char *given, const char *work, char path[PATH_MAX])
{
    static const char *const sources[] = {
        "/usr/share/doc/libfuse3-dev/examples", /* Debian, Ubuntu */
        "/usr/share/doc/fuse3-devel/example",
        "/usr/share/doc/fuse3/example",
    };
    static const char build[] = "for f in passthrough_ll.c passthrough_helpers.h; do\n"
                                "  if [ -f \"$1/$f\" ]; then cp \"$1/$f\" \"$2/\"; else gzip -dc "
                                "\"$1/$f.gz\" >\"$2/$f\"; fi"
                                " || exit\n"
                                "done\n"
                                "${CC:-cc} -O2 -w -o \"$2/passthrough_ll\" \"$2/passthrough_ll.c\""
                                " $(pkg-config fuse3 --cflags --libs)";
    if (given != NULL) {
        if (realpath(given, path) != NULL && is_program(path))
            return 0;
        cli_error(NAME, given, "not a program");
        return -ENOENT;
    }
    if (find_in_path("passthrough_ll", path))
        return 0;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (access(sources[i], R_OK) != 0)
            continue;
        if (bench_shell(build, sources[i], work, NULL, NULL) == 0 &&
            snprintf(path, PATH_MAX, "%s/passthrough_ll", work) < PATH_MAX)
            return 0;
    }
    return -ENOENT;
}
