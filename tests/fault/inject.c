/* SPDX-License-Identifier: BSD-2-Clause
 *
 * inject.c - see inject.h. A call that is let through goes to the kernel, or to the C library under
 * another name, so nothing here allocates. Sanitizers put themselves in the same place: this is not for
 * builds with them.
 *
 * The compactor's threads ask for the idle class of the scheduler. They don't get it here: thousands
 * of runs beside other work would take hours.
 */
#undef _FILE_OFFSET_BITS /* both names of each call are defined here */
#undef _FORTIFY_SOURCE

#include "inject.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct inject *_Atomic used;

void inject_use(struct inject *controls)
{
    atomic_store(&used, controls);
}

void inject_arm(struct inject *controls, unsigned kinds, int error, uint64_t fail_at, int forever)
{
    atomic_store(&controls->kinds, 0);
    controls->calls = controls->hits = 0;
    controls->hit_kind = 0;
    controls->fail_at = fail_at;
    controls->forever = (unsigned)forever;
    controls->error = error;
    atomic_store(&controls->kinds, kinds);
}

void inject_disarm(struct inject *controls)
{
    atomic_store(&controls->kinds, 0);
}

__attribute__((constructor)) static void begin(void)
{
    const char *const path = getenv(INJECT_VARIABLE);
    void *warm[2];
    (void)backtrace(warm, 2); /* loads what it needs while memory is there */
    if (path == NULL)
        return;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    void *const map = (void *)syscall(SYS_mmap, NULL, sizeof(struct inject), PROT_READ | PROT_WRITE,
                                      MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (map != MAP_FAILED)
        atomic_store(&used, map);
}

/* Counts a call. True when it is to fail: with errno set, or *half when that is possible. */
static bool hit(enum inject_kind kind, bool *half)
{
    struct inject *const c = atomic_load(&used);
    if (c == NULL || (atomic_load(&c->kinds) & (unsigned)kind) == 0)
        return false;
    const uint64_t call = atomic_fetch_add(&c->calls, 1) + 1, fail_at = c->fail_at;
    if (fail_at == 0 || call < fail_at || (call > fail_at && !c->forever))
        return false;
    if (atomic_fetch_add(&c->hits, 1) == 0) {
        void *where[12] = {0};
        const unsigned kinds = atomic_exchange(&c->kinds, 0);
        (void)backtrace(where, 12);
        atomic_store(&c->kinds, kinds);
        for (unsigned i = 0; i < 12; i++)
            c->where[i] = where[i];
        c->hit_kind = (unsigned)kind;
    }
    if (c->error == INJECT_SHORT) {
        if (half != NULL)
            *half = true;
        return half != NULL;
    }
    errno = c->error;
    return true;
}

static bool armed(enum inject_kind kind)
{
    struct inject *const c = atomic_load(&used);
    return c != NULL && (atomic_load(&c->kinds) & (unsigned)kind) != 0;
}

/* A file or directory on disk. */
static bool file_hit(enum inject_kind kind, int fd, bool *half)
{
    struct stat status;
    if (!armed(kind) || syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH) != 0)
        return false;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return false;
    return hit(kind, half);
}

static bool path_hit(enum inject_kind kind, int dir, const char *path)
{
    const struct inject *const c = atomic_load(&used);
    if (!armed(kind) || (dir == AT_FDCWD && strncmp(path, c->top, strlen(c->top)) != 0))
        return false;
    return (dir == AT_FDCWD || *path != '/') && hit(kind, NULL);
}

/* ---- files; each under the names that its callers use ---------------------------------------------- */

#define BOTH(type, name, parameters)                                                               \
    type name parameters;                                                                          \
    type name##64 parameters __attribute__((alias(#name)))

/* For what is no system call. */
#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (real == NULL)                                                                              \
    real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & (O_CREAT | __O_TMPFILE)) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return path_hit(INJECT_OPEN, dir, path) ? -1 : (int)syscall(SYS_openat, dir, path, flags, mode);
}
int openat64(int dir, const char *path, int flags, ...) __attribute__((alias("openat")));

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & (O_CREAT | __O_TMPFILE)) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return path_hit(INJECT_OPEN, AT_FDCWD, path)
               ? -1
               : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int close(int fd)
{
    const bool fails = file_hit(INJECT_CLOSE, fd, NULL);
    const int error = errno, rc = (int)syscall(SYS_close, fd);
    if (!fails)
        return rc;
    errno = error;
    return -1;
}

BOTH(ssize_t, pread, (int fd, void *data, size_t size, off_t offset));
ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    bool half = false;
    if (file_hit(INJECT_READ, fd, &half) && !half)
        return -1;
    return syscall(SYS_pread64, fd, data, half && size > 1 ? size / 2 : size, offset);
}

BOTH(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t offset));
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    bool half = false;
    if (file_hit(INJECT_WRITE, fd, &half) && !half)
        return -1;
    return syscall(SYS_pwrite64, fd, data, half && size > 1 ? size / 2 : size, offset);
}

BOTH(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t offset));
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    bool half = false;
    const bool fails = file_hit(INJECT_WRITE, fd, &half);
    if (!fails)
        return syscall(SYS_pwritev, fd, parts, count, offset, 0);
    /* A write that fails has written half of its first part, as on a full disk. */
    const int error = errno;
    const size_t size = parts->iov_len > 1 ? parts->iov_len / 2 : parts->iov_len;
    const ssize_t put = syscall(SYS_pwrite64, fd, parts->iov_base, size, offset);
    errno = error;
    return half ? put : -1;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    bool half = false;
    const bool fails = file_hit(INJECT_WRITE, fd, &half);
    if (!fails)
        return syscall(SYS_writev, fd, parts, count);
    if (half)
        return syscall(SYS_write, fd, parts->iov_base, parts->iov_len / 2);
    return -1;
}

int fsync(int fd)
{
    return file_hit(INJECT_SYNC, fd, NULL) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return file_hit(INJECT_SYNC, fd, NULL) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int msync(void *address, size_t size, int flags)
{
    return hit(INJECT_SYNC, NULL) ? -1 : (int)syscall(SYS_msync, address, size, flags);
}

BOTH(int, ftruncate, (int fd, off_t size));
int ftruncate(int fd, off_t size)
{
    return file_hit(INJECT_SPACE, fd, NULL) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

BOTH(int, fallocate, (int fd, int mode, off_t offset, off_t size));
int fallocate(int fd, int mode, off_t offset, off_t size)
{
    return file_hit(INJECT_SPACE, fd, NULL) ? -1
                                            : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int fstat64(int fd, struct stat64 *status)
{
    return file_hit(INJECT_STATUS, fd, NULL)
               ? -1
               : (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
}

int fstatvfs64(int fd, struct statvfs64 *status)
{
    REAL(int, "fstatvfs64", int, struct statvfs64 *);
    if (file_hit(INJECT_STATUS, fd, NULL) || real(fd, status) != 0)
        return -1;
    const struct inject *const c = atomic_load(&used);
    if (c != NULL && c->host_free != 0)
        status->f_bavail = status->f_bfree = c->host_free / status->f_frsize;
    return 0;
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    return path_hit(INJECT_OPEN, dir, path) ? -1 : (int)syscall(SYS_mkdirat, dir, path, mode);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return path_hit(INJECT_NAME, from_dir, from)
               ? -1
               : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
    return path_hit(INJECT_NAME, dir, path) ? -1 : (int)syscall(SYS_unlinkat, dir, path, flags);
}

int flock(int fd, int operation)
{
    return file_hit(INJECT_LOCK, fd, NULL) ? -1 : (int)syscall(SYS_flock, fd, operation);
}

DIR *fdopendir(int fd)
{
    REAL(DIR *, "fdopendir", int);
    return file_hit(INJECT_OPEN, fd, NULL) ? NULL : real(fd);
}

struct dirent64 *readdir64(DIR *dir)
{
    REAL(struct dirent64 *, "readdir64", DIR *);
    return file_hit(INJECT_STATUS, dirfd(dir), NULL) ? NULL : real(dir);
}

/* ---- memory and threads ------------------------------------------------------------------------------ */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    return hit(INJECT_MEMORY, NULL) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return hit(INJECT_MEMORY, NULL) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return hit(INJECT_MEMORY, NULL) ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return hit(INJECT_MEMORY, NULL) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **address, size_t alignment, size_t size)
{
    if (hit(INJECT_MEMORY, NULL))
        return ENOMEM;
    *address = __libc_memalign(alignment, size);
    return *address != NULL ? 0 : ENOMEM;
}

BOTH(void *, mmap, (void *address, size_t size, int access, int flags, int fd, off_t offset));
void *mmap(void *address, size_t size, int access, int flags, int fd, off_t offset)
{
    return hit(INJECT_MEMORY, NULL)
               ? MAP_FAILED
               : (void *)syscall(SYS_mmap, address, size, access, flags, fd, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *arg)
{
    REAL(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return hit(INJECT_THREAD, NULL) ? EAGAIN : real(thread, attributes, run, arg);
}

int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters)
{
    (void)thread;
    (void)policy;
    (void)parameters;
    return 0;
}
