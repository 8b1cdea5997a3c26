/* SPDX-License-Identifier: BSD-2-Clause
 *
 * conformance_support.c - checks, users, children and files for the cases; see conformance.h.
 * A failed check exits the process at once: the runner cleans up after it.
 */
#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

#include "conformance.h"
#include "conformance_report.h"

static int report_fd = STDERR_FILENO; /* set once, before a case runs */

void cf_report_to(int fd)
{
    report_fd = fd;
}

static void report(const char *format, va_list arguments)
{
    char line[1000];
    const int size = vsnprintf(line, sizeof line, format, arguments);
    const size_t used = size < 0 ? 0 : (size_t)size < sizeof line ? (size_t)size : sizeof line - 1;
    if (write(report_fd, line, used) < 0)
        _exit(CF_FAILED); /* the reason is lost, the result is not */
}

void cf_report(enum cf_result result, const char *format, ...)
{
    (void)result;
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments);
    va_end(arguments);
}

static _Noreturn void fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static _Noreturn void fail(const char *file, int line, const char *format, ...)
{
    const char *base = strrchr(file, '/');
    cf_report(CF_FAILED, "%s:%d: ", base ? base + 1 : file, line);
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments);
    va_end(arguments);
    _exit(CF_FAILED);
}

void cf_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(format, arguments);
    va_end(arguments);
    _exit(CF_SKIPPED);
}

/* ---- checks -------------------------------------------------------------------------------------
 */

long cf_ok(long result, const char *text, const char *file, int line)
{
    if (result == -1)
        fail(file, line, "%s: %s", text, strerror(errno));
    return result;
}

int cf_ok_int(int result, const char *text, const char *file, int line)
{
    return (int)cf_ok(result, text, file, line);
}

int cf_ok_or_skip(int result, const char *text, const char *file, int line)
{
    if (result == -1 && (errno == EOPNOTSUPP || errno == ENOSYS))
        cf_skip("%s: %s", text, strerror(errno));
    return (int)cf_ok(result, text, file, line);
}

void cf_fails(intmax_t result, int code, int other, const char *text, const char *file, int line)
{
    if (result != -1)
        fail(file, line, "%s: no error, expected %s", text, strerror(code));
    if (errno != code && errno != other)
        fail(file, line, "%s: %s, expected %s", text, strerror(errno), strerror(code));
}

void cf_equal(intmax_t actual, intmax_t expected, const char *text, const char *file, int line)
{
    if (actual != expected)
        fail(file, line, "%s is %jd, expected %jd", text, actual, expected);
}

void cf_check(bool condition, const char *text, const char *file, int line)
{
    if (!condition)
        fail(file, line, "not true: %s", text);
}

void cf_same(const void *actual, const void *expected, size_t size, const char *text,
             const char *file, int line)
{
    const unsigned char *got = actual, *want = expected;
    for (size_t i = 0; i < size; i++) {
        if (got[i] != want[i])
            fail(file, line, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x", text, i, size,
                 got[i], want[i]);
    }
}

/* ---- processes and users ------------------------------------------------------------------------
 */

pid_t cf_fork(void (*body)(void *arg), void *arg)
{
    const pid_t child = CF_OK(fork());
    if (child == 0) {
        body(arg);
        _exit(CF_PASSED);
    }
    return child;
}

void cf_join(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            fail(__FILE__, __LINE__, "waitpid: %s", strerror(errno));
    }
    if (WIFSIGNALED(status))
        fail(__FILE__, __LINE__, "a child was killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != CF_PASSED)
        _exit(WEXITSTATUS(status)); /* the child has said why */
}

struct cf_signal cf_signal_new(void)
{
    int ends[2];
    CF_OK(pipe2(ends, O_CLOEXEC));
    return (struct cf_signal){.read = ends[0], .write = ends[1]};
}

void cf_signal_send(const struct cf_signal *signal)
{
    CF_EQUAL(write(signal->write, "", 1), 1);
}

void cf_signal_wait(const struct cf_signal *signal)
{
    struct pollfd ready = {.fd = signal->read, .events = POLLIN};
    char byte;
    CF_EQUAL(poll(&ready, 1, 10000), 1);
    CF_EQUAL(read(signal->read, &byte, 1), 1);
}

static void enter_own_directory(void *arg)
{
    (void)arg;
    struct stat status;
    cf_become(CF_USER, CF_USER);
    if (stat(".", &status))
        cf_skip("other users may not enter the mount (%s)", strerror(errno));
}

void cf_need_users(void)
{
    if (geteuid() != 0)
        cf_skip("only root may switch users");
    cf_join(cf_fork(enter_own_directory, NULL));
}

void cf_become_with(uid_t uid, gid_t gid, const gid_t *groups, size_t count)
{
    if (geteuid() != 0)
        CF_OK(seteuid(0));
    CF_OK(setgroups(count, groups));
    CF_OK(setegid(gid));
    CF_OK(seteuid(uid)); /* last: it takes the right to do the others away */
}

void cf_become(uid_t uid, gid_t gid)
{
    cf_become_with(uid, gid, NULL, 0);
}

void cf_become_root(void)
{
    cf_become(0, 0);
}

/* ---- files --------------------------------------------------------------------------------------
 */

void cf_write_file(const char *name, const char *text)
{
    const int fd = CF_OK(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    CF_EQUAL(write(fd, text, strlen(text)), strlen(text));
    CF_OK(close(fd));
}

void cf_expect_file(const char *name, const char *text)
{
    char content[4096];
    const int fd = CF_OK(open(name, O_RDONLY));
    const ssize_t size = CF_OK(read(fd, content, sizeof content));
    CF_OK(close(fd));
    if ((size_t)size != strlen(text) || memcmp(content, text, (size_t)size))
        fail(__FILE__, __LINE__, "%s holds \"%.*s\", expected \"%s\"", name, (int)size, content,
             text);
}

int cf_open(const char *name)
{
    return CF_OK(open(name, O_RDWR | O_CREAT, 0644));
}

void cf_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    const ssize_t done = pwrite(fd, data, size, offset);
    if (done != (ssize_t)size)
        fail(__FILE__, __LINE__, "pwrite of %zu bytes at %jd: %zd (%s)", size, (intmax_t)offset,
             done, done < 0 ? strerror(errno) : "short");
}

void cf_pread(int fd, void *data, size_t size, off_t offset)
{
    const ssize_t done = pread(fd, data, size, offset);
    if (done != (ssize_t)size)
        fail(__FILE__, __LINE__, "pread of %zu bytes at %jd: %zd (%s)", size, (intmax_t)offset,
             done, done < 0 ? strerror(errno) : "short");
}

void cf_expect_fill(int fd, unsigned char value, size_t size, off_t offset)
{
    static unsigned char buffer[1 << 16];
    while (size) {
        const size_t part = size < sizeof buffer ? size : sizeof buffer;
        cf_pread(fd, buffer, part, offset);
        for (size_t i = 0; i < part; i++) {
            if (buffer[i] != value)
                fail(__FILE__, __LINE__, "byte %jd is 0x%02x, expected 0x%02x",
                     (intmax_t)offset + (intmax_t)i, buffer[i], value);
        }
        size -= part;
        offset += (off_t)part;
    }
}

unsigned char *cf_pattern(size_t size, uint64_t seed)
{
    unsigned char *bytes = malloc(size);
    CF_CHECK(bytes != NULL);
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < size; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (unsigned char)(state >> 56);
    }
    return bytes;
}

struct stat cf_stat(const char *name)
{
    struct stat status;
    if (lstat(name, &status))
        fail(__FILE__, __LINE__, "lstat %s: %s", name, strerror(errno));
    return status;
}

struct stat cf_fstat(int fd)
{
    struct stat status;
    CF_OK(fstat(fd, &status));
    return status;
}

bool cf_exists(const char *name)
{
    struct stat status;
    if (lstat(name, &status) == 0)
        return true;
    if (errno != ENOENT)
        fail(__FILE__, __LINE__, "lstat %s: %s", name, strerror(errno));
    return false;
}

int cf_compare_times(struct timespec a, struct timespec b)
{
    if (a.tv_sec != b.tv_sec)
        return a.tv_sec < b.tv_sec ? -1 : 1;
    return a.tv_nsec < b.tv_nsec ? -1 : a.tv_nsec > b.tv_nsec ? 1 : 0;
}

void cf_tick(void)
{
    struct timespec start, now;
    const struct timespec pause = {.tv_nsec = 1000000};
    clock_gettime(CLOCK_REALTIME, &start);
    do { /* kernels stamp files with the coarse clock, at most 10 ms behind */
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (cf_compare_times(now, start) <= 0);
}
