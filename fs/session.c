/* SPDX-License-Identifier: BSD-2-Clause
 *
 * session.c - the daemon: store, threads, mount, request loop, and back in the reverse order.
 *
 * The keeper is a thread that does what the request loop cannot do for itself. It has the new mount
 * asked for its root, which proves to the parent (and to systemd) that it answers; then it waits for the
 * signals that end the daemon, which all other threads block. On one it first has the kernel write
 * its dirty pages, which takes requests and so a running loop, and then stops the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "ops.h"
#include "session.h"

/* Threads of the request loop. One that waits (fsync, a full dirty limit) serves nobody, so there
 * are more than cores; each holds up to 2 MiB of buffers. None is ended for being idle: with libfuse's
 * limit of 10, creating 30,000 files made and ended a thousand threads. */
#define LOOP_THREADS 32u

#define WAKE_SIGNAL SIGUSR2 /* from the keeper to the main thread: look at the session's state */

struct session {
    const struct fs_mount_paths *paths;
    const struct fs_options *options;
    struct fs_report *report;
    struct fs fs;
    struct ops *ops;
    struct index *index;
    struct fuse_session *fuse;
    pthread_t main, keeper;
    _Atomic bool ended; /* the request loop has returned */
};

/* ---- libfuse's own messages ------------------------------------------------------------------ */

/* libfuse says why a mount failed by logging, through a function that gets no argument: the last
 * line is kept here. Written by the main thread before the loop starts. */
static char fuse_reason[256];

static void take_fuse_log(enum fuse_log_level level, const char *format, va_list arguments)
{
    char line[256];

    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = '\0';
    if (fuse_reason[0] == '\0' && level <= FUSE_LOG_ERR)
        memcpy(fuse_reason, line, sizeof line);
    fs_log((int)level, "%s", line);
}

/* ---- the daemon's surroundings ---------------------------------------------------------------- */

/* Tells systemd that the service is up (Type=notify), by its documented datagram. */
static void notify_systemd(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char message[64];
    size_t length;
    int fd;

    if (path == NULL || (path[0] != '/' && path[0] != '@'))
        return;
    length = strlen(path);
    if (length >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') /* the abstract name space */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    snprintf(message, sizeof message, "READY=1\nMAINPID=%ld", (long)getpid());
    if (sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
        fs_log(LOG_WARNING, "systemd was not notified: %s", strerror(errno));
    close(fd);
}

/* ---- the daemon's own mount -------------------------------------------------------------------
 *
 * A thread of the daemon must not wait for its own mount: once a request was read, the kernel lets
 * nothing but its answer or the end of the connection end the wait, and the connection ends when the
 * last thread of a killed daemon does. Such a daemon would not die. What is to be done on the mount
 * is done in a child that has nothing of the daemon open. */

/* Runs WORK(PATH) in a child; its result, 0 .. 255, or 255 when there is no child. WORK may call only
 * what is safe behind a fork of a process with threads. */
static int in_child(int (*work)(const char *path), const char *path)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0) {
        close_range(0, ~0u, 0);
        _exit(work(path));
    }
    if (child < 0)
        return 255;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Decimal digits of VALUE at AT; returns the end. */
static char *put_number(char *at, unsigned value)
{
    char digits[12];
    unsigned count = 0;

    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

/* Waits until the mount answers. The kernel starts every FUSE mount with 128 KiB of read-ahead and
 * lets only root raise it. */
static int first_answer(const char *path)
{
    static const char before[] = "/sys/class/bdi/", after[] = "/read_ahead_kb";
    char file[sizeof before + sizeof after + 24];
    struct stat root;
    char *at = file;
    int fd;

    if (stat(path, &root) != 0)
        return 1;
    memcpy(at, before, sizeof before - 1);
    at = put_number(at + sizeof before - 1, major(root.st_dev));
    *at++ = ':';
    at = put_number(at, minor(root.st_dev));
    memcpy(at, after, sizeof after);
    fd = open(file, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "1024", 4) != 4)
        return 0; /* it is slower then, and that is all */
    return 0;
}

/* Has the kernel send what it holds of the mount; an errno. */
static int send_all(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 && syncfs(fd) != 0 ? errno : 0;
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static void leave_terminal(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return;
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
}

static void sync_mount(const struct session *session)
{
    const int error = in_child(send_all, session->paths->mountpoint);

    if (error != 0 && error != 255)
        fs_log(LOG_ERR, "%s: the kernel could not write all cached data: %s",
               session->paths->mountpoint, strerror(error));
}

static void end_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGHUP);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
}

static void *keep(void *arg)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    struct session *session = arg;
    sigset_t signals;
    int number;

    if (in_child(first_answer, session->paths->mountpoint) == 0) {
        if (!session->options->foreground)
            leave_terminal();
        fs_report_ready(session->report);
        notify_systemd();
    }
    end_signals(&signals);
    while (sigwait(&signals, &number) != 0)
        ;
    if (atomic_load(&session->ended))
        return NULL;
    sync_mount(session);
    fuse_session_exit(session->fuse);
    /* The loop looks at the flag after its semaphore was interrupted: more than once, because a
     * signal between its look and its wait would be lost. */
    while (!atomic_load(&session->ended)) {
        pthread_kill(session->main, WAKE_SIGNAL);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static int start_keeper(struct session *session)
{
    session->main = pthread_self();
    return -pthread_create(&session->keeper, NULL, keep, session);
}

static void stop_keeper(struct session *session)
{
    pthread_kill(session->keeper, SIGHUP); /* it waits for it: nothing ends but its loop */
    pthread_join(session->keeper, NULL);
}

static void ignore_wake(int number)
{
    (void)number;
}

/* Before any thread exists: all inherit the mask. */
static void set_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigset_t signals;

    sigemptyset(&action.sa_mask);
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = ignore_wake; /* no SA_RESTART: the wait is to be interrupted */
    sigaction(WAKE_SIGNAL, &action, NULL);
    end_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

/* ---- store ----------------------------------------------------------------------------------- */

static int open_store(struct session *session)
{
    const struct fs_options *options = session->options;
    const struct index_options index_options = {
        .flags = options->readonly ? INDEX_OPEN_READONLY : INDEX_OPEN_CREATE | INDEX_OPEN_COPIES,
        .block_size = options->block_size,
        .log = fs_log_line,
    };
    char reason[512] = "";
    const int error =
        index_open(session->paths->store, &index_options, &session->index, reason, sizeof reason);

    if (error != 0) {
        if (reason[0] != '\0') /* it names the path */
            fs_report_error(session->report, "%s", reason);
        else
            fs_report_error(session->report, "store %s: %s", session->paths->store,
                            strerror(-error));
        return error;
    }
    return 0;
}

static int start_fs(struct session *session)
{
    int error = fs_start(&session->fs, session->index, session->options);

    if (error == 0) {
        error = ops_new(&session->fs, &session->ops);
        if (error != 0)
            (void)fs_stop(&session->fs);
    }
    if (error != 0)
        fs_report_error(session->report, "store %s: cannot start: %s", session->paths->store,
                        strerror(-error));
    return error;
}

/* ---- mount ----------------------------------------------------------------------------------- */

static int add_options(const struct session *session, struct fuse_args *args)
{
    const struct fs_options *options = session->options;
    char *list = NULL;
    int result = fuse_opt_add_arg(args, "sepfs");

    if (result == 0)
        result = fuse_opt_add_opt(&list, "default_permissions,subtype=sepfs,max_read=1048576");
    if (result == 0 && options->readonly)
        result = fuse_opt_add_opt(&list, "ro");
    if (result == 0 && options->allow_other)
        result = fuse_opt_add_opt(&list, "allow_other");
    if (result == 0 && options->debug)
        result = fuse_opt_add_opt(&list, "debug");
    if (result == 0 && options->fuse[0] != '\0')
        result = fuse_opt_add_opt(&list, options->fuse);
    if (result == 0) {
        char source[PATH_MAX + sizeof "fsname="];

        snprintf(source, sizeof source, "fsname=%s", session->paths->store);
        result = fuse_opt_add_opt_escaped(&list, source);
    }
    if (result == 0)
        result = fuse_opt_add_arg(args, "-o");
    if (result == 0)
        result = fuse_opt_add_arg(args, list);
    free(list);
    return result == 0 ? 0 : -ENOMEM;
}

static int mount_store(struct session *session)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    int error = add_options(session, &args);

    fuse_set_log_func(take_fuse_log);
    if (error == 0) {
        session->fuse = fuse_session_new(&args, &ops_table, sizeof ops_table, session->ops);
        if (session->fuse == NULL || fuse_session_mount(session->fuse, session->paths->mountpoint))
            error = -EIO;
        else if ((error = ops_offer_kill_privileges(session->fuse)) != 0)
            fuse_session_unmount(session->fuse);
    }
    fuse_opt_free_args(&args);
    if (error != 0) {
        fs_report_error(session->report, "mount point %s: %s", session->paths->mountpoint,
                        fuse_reason[0] != '\0' ? fuse_reason : "mount failed");
        if (session->fuse != NULL)
            fuse_session_destroy(session->fuse);
        session->fuse = NULL;
        return error;
    }
    fs_notify_start(&session->fs, session->fuse);
    return 0;
}

static int loop(struct session *session)
{
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    int result;

    if (config == NULL)
        return -ENOMEM;
    fuse_loop_cfg_set_max_threads(config, LOOP_THREADS);
    fuse_loop_cfg_set_idle_threads(config, LOOP_THREADS);
    result = fuse_session_loop_mt(session->fuse, config);
    fuse_loop_cfg_destroy(config);
    /* positive: ended by a signal */
    return result < 0 ? result : 0;
}

static int serve_mount(struct session *session)
{
    int error = 0;

    if (!session->options->readonly)
        error = fs_control_start(&session->fs, session->paths->mountpoint);
    if (error == 0)
        error = start_keeper(session);
    if (error != 0) {
        fs_report_error(session->report, "store %s: cannot start: %s", session->paths->store,
                        strerror(-error));
        fs_notify_end(&session->fs);
        fuse_session_unmount(session->fuse);
        return error;
    }
    error = loop(session);
    atomic_store(&session->ended, true);
    if (error != 0)
        fs_report_error(session->report, "mount point %s: serving it ended: %s",
                        session->paths->mountpoint, strerror(-error));
    fs_notify_end(&session->fs);
    fuse_session_unmount(session->fuse);
    stop_keeper(session);
    return error;
}

int fs_serve(const struct fs_mount_paths *paths, const struct fs_options *options,
             struct fs_report *report)
{
    struct session *session = calloc(1, sizeof *session);
    int error, result;

    if (session == NULL) {
        fs_report_error(report, "out of memory");
        return 1;
    }
    session->paths = paths;
    session->options = options;
    session->report = report;
    mallopt(M_ARENA_MAX, 4); /* an arena a thread would keep tens of MiB of free blocks */
    set_signals();
    error = open_store(session);
    if (error != 0)
        goto out;
    error = start_fs(session);
    if (error != 0)
        goto close;
    error = mount_store(session);
    if (error == 0)
        error = serve_mount(session);
    result = fs_stop(&session->fs);
    error = error != 0 ? error : result;
    if (session->fuse != NULL)
        fuse_session_destroy(session->fuse);
    ops_free(session->ops);
close:
    result = index_close(session->index);
    error = error != 0 ? error : result;
    if (result != 0)
        fs_log(LOG_ERR, "store %s: the last changes could not be written: %s", paths->store,
               strerror(-result));
out:
    free(session);
    return error == 0 ? 0 : 1;
}
