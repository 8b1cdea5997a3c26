/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.c - a shared object that stands in front of the C library and logs each call that changes
 * the tree below a directory. Linked into a program, or loaded before it with LD_PRELOAD.
 *
 *   RECORD_TOP      the directory, which exists; what is in it at the start is logged as durable
 *   RECORD_LOG      the log, made anew
 *   RECORD_SYNC_US  how long a sync takes at least, microseconds: time for others to write meanwhile
 *
 * A change and its entry are made under one lock, so the log has the true order; a sync is two
 * entries with the lock free in between, and covers what is logged before the first. The state is
 * shared with forked children, which go on in the same log. Objects are known by device and inode.
 *
 * What it cannot log it does not let pass: links, renames to another directory, writable shared
 * mappings (LMDB's lock file, which is worth nothing after a power cut, is let alone) end the
 * process.
 */
#undef _FILE_OFFSET_BITS /* both names of each call are defined here */
#undef _FORTIFY_SOURCE   /* whose headers define some of them as well */

#include "record.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef __LP64__
#error "offsets are taken to have 64 bits under all names"
#endif

#define OBJECTS 65536u
#define PARTS   64 /* of one writev; LMDB uses at most 64 */

struct object {
    dev_t dev;
    ino_t ino;
    uint32_t number;
    bool unrecorded; /* the lock file of LMDB */
};

struct shared {
    pthread_mutex_t mutex;
    uint64_t entries;
    uint64_t end;      /* 1: the process dies; more: and so many entries less one to go; 0: never */
    uint32_t end_type; /* enum record_type of these entries, 0 = all */
    uint32_t last;     /* object number */
    uint32_t count;
    unsigned durable_writes; /* under way */
    struct object objects[OBJECTS];
};

static struct shared *shared; /* NULL: nothing is recorded */
static int log_fd = -1;
static long sync_us;

#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (real == NULL)                                                                              \
    real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int real_openat(int dir, const char *path, int flags, mode_t mode)
{
    REAL(int, "openat64", int, const char *, int, ...);
    return real(dir, path, flags, mode);
}

static ssize_t real_writev(int fd, const struct iovec *parts, int count)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return real(fd, parts, count);
}

static ssize_t real_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off_t);
    return real(fd, parts, count, offset);
}

/* ---- log; mutex held ---------------------------------------------------------------------------- */

static void die(const char *what)
{
    fprintf(stderr, "record: %s: %s\n", what, strerror(errno));
    abort();
}

static void lock(void)
{
    const int rc = pthread_mutex_lock(&shared->mutex);
    if (rc == EOWNERDEAD) /* record_die */
        pthread_mutex_consistent(&shared->mutex);
    else if (rc != 0)
        die("lock");
}

static void unlock(void)
{
    pthread_mutex_unlock(&shared->mutex);
}

static void end_process(void) __attribute__((noreturn));

static void end_process(void)
{
    shared->end = 0;
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* Returns the number of the entry. */
static uint64_t append(const struct record_entry *entry, const struct iovec *payload, int count)
{
    struct iovec parts[PARTS + 1];
    struct record_entry head = *entry;
    size_t size = sizeof head;
    head.size = 0;
    for (int i = 0; i < count; i++) {
        parts[i + 1] = payload[i];
        head.size += (uint32_t)payload[i].iov_len;
        size += payload[i].iov_len;
    }
    parts[0] = (struct iovec){&head, sizeof head};
    if (real_writev(log_fd, parts, count + 1) != (ssize_t)size)
        die("writing the log");
    const uint64_t number = shared->entries++;
    if (shared->end > 1 && (shared->end_type == 0 || shared->end_type == entry->type))
        shared->end--;
    if (shared->end == 1 && shared->durable_writes == 0)
        end_process();
    return number;
}

static uint64_t append_text(enum record_type type, uint32_t object, uint32_t dir, const char *text,
                            size_t size)
{
    const struct iovec payload = {(void *)(uintptr_t)text, size};
    return append(&(struct record_entry){.type = type, .object = object, .dir = dir}, &payload, 1);
}

static uint64_t append_plain(enum record_type type, uint32_t object, uint64_t offset,
                             uint64_t length)
{
    return append(
        &(struct record_entry){.type = type, .object = object, .offset = offset, .length = length},
        NULL, 0);
}

/* ---- objects; mutex held ------------------------------------------------------------------------ */

/* Newest first: an inode number may be used again. */
static const struct object *find(const struct stat *status)
{
    for (uint32_t i = shared->count; i-- > 0;) {
        const struct object *const object = &shared->objects[i];
        if (object->ino == status->st_ino && object->dev == status->st_dev)
            return object;
    }
    return NULL;
}

static uint32_t number_of(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return 0;
    const struct object *const object = find(&status);
    return object == NULL || object->unrecorded ? 0 : object->number;
}

static uint32_t add(const struct stat *status, const char *name)
{
    if (shared->count == OBJECTS)
        die("too many files");
    const bool lock_file = strcmp(name, "lock.mdb") == 0;
    shared->objects[shared->count++] = (struct object){.dev = status->st_dev,
                                                       .ino = status->st_ino,
                                                       .number = ++shared->last,
                                                       .unrecorded = lock_file};
    return shared->last;
}

/* The directory that PATH leads into, 0 if it is not below the top; *name: the last part of PATH. */
static uint32_t parent_of(int dir, const char *path, const char **name)
{
    char up[4096];
    struct stat status;
    const char *const slash = strrchr(path, '/');
    *name = slash == NULL ? path : slash + 1;
    const size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof up || **name == '\0')
        return 0;
    memcpy(up, path, length);
    up[length] = '\0';
    if (fstatat(dir, length == 0 ? "." : up, &status, 0) < 0)
        return 0;
    if (length == 0 && dir != AT_FDCWD && fstat(dir, &status) < 0)
        return 0;
    const struct object *const parent = find(&status);
    return parent == NULL ? 0 : parent->number;
}

/* ---- start --------------------------------------------------------------------------------------- */

static void take_file(int dir, const char *name, uint32_t object)
{
    static uint8_t buffer[1u << 16];
    const int fd = real_openat(dir, name, O_RDONLY | O_CLOEXEC, 0);
    ssize_t got;
    uint64_t at = 0;
    if (fd < 0)
        die(name);
    while ((got = read(fd, buffer, sizeof buffer)) > 0) {
        const struct iovec payload = {buffer, (size_t)got};
        append(&(struct record_entry){.type = RECORD_WRITE, .object = object, .offset = at},
               &payload, 1);
        at += (uint64_t)got;
    }
    if (got < 0)
        die(name);
    close(fd);
}

/* Logs what is in a directory; closes FD. */
static void take_directory(int fd, uint32_t number)
{
    DIR *const dir = fdopendir(fd);
    const struct dirent *entry;
    if (dir == NULL)
        die("directory");
    while ((entry = readdir(dir)) != NULL) {
        const char *const name = entry->d_name;
        struct stat status;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            die(name);
        const uint32_t object = add(&status, name);
        if (S_ISDIR(status.st_mode)) {
            append_text(RECORD_DIRECTORY, object, number, name, strlen(name));
            take_directory(real_openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), object);
        } else {
            append_text(RECORD_CREATE, object, number, name, strlen(name));
            if (!shared->objects[shared->count - 1].unrecorded)
                take_file(fd, name, object);
        }
    }
    closedir(dir);
}

static void make_shared(void)
{
    pthread_mutexattr_t attr;
    struct shared *const made =
        mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        die("memory");
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&made->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    shared = made;
}

__attribute__((constructor)) static void start(void)
{
    const char *const top = getenv("RECORD_TOP"), *const path = getenv("RECORD_LOG");
    const char *const delay = getenv("RECORD_SYNC_US");
    struct stat status;
    if (top == NULL || path == NULL)
        return;
    log_fd = real_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    const int fd = real_openat(AT_FDCWD, top, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (log_fd < 0 || fd < 0 || fstat(fd, &status) < 0)
        die(top);
    sync_us = delay != NULL ? atol(delay) : 0;
    make_shared();
    lock();
    take_directory(fd, add(&status, ""));
    append_plain(RECORD_BASE, 0, 0, 0);
    unlock();
}

void record_mark(const void *data, size_t size)
{
    if (shared == NULL)
        return;
    lock();
    append_text(RECORD_MARK, 0, 0, data, size);
    unlock();
}

void record_die(void)
{
    while (shared != NULL) {
        lock();
        if (shared->durable_writes == 0)
            end_process();
        unlock();
    }
    abort(); /* a program that asks for its end has a log */
}

void record_die_later(uint64_t count, uint32_t type)
{
    if (shared == NULL)
        return;
    lock();
    shared->end = count == 0 ? 0 : count + 1;
    shared->end_type = type;
    unlock();
}

static void take_time(void)
{
    const struct timespec time = {.tv_sec = sync_us / 1000000, .tv_nsec = sync_us % 1000000 * 1000};
    if (sync_us > 0)
        nanosleep(&time, NULL);
}

/* ---- names ---------------------------------------------------------------------------------------- */

static int open_logged(int dir, const char *path, int flags, mode_t mode)
{
    struct stat before, after;
    const char *name;
    if (shared == NULL || (flags & (O_CREAT | O_TRUNC)) == 0)
        return real_openat(dir, path, flags, mode);
    lock();
    const bool existed = fstatat(dir, path, &before, 0) == 0;
    const uint32_t parent = parent_of(dir, path, &name);
    const int fd = real_openat(dir, path, flags, mode);
    const int error = errno;
    if (fd >= 0 && parent != 0 && fstat(fd, &after) == 0) {
        if (!existed)
            append_text(RECORD_CREATE, add(&after, name), parent, name, strlen(name));
        else if ((flags & O_TRUNC) != 0 && before.st_size > 0 && number_of(fd) != 0)
            append_plain(RECORD_RESIZE, number_of(fd), 0, 0);
    }
    unlock();
    errno = error;
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return makes ? va_arg(args, mode_t) : 0;
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_logged(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...) __attribute__((alias("openat")));

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_logged(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int mkdirat(int dir, const char *path, mode_t mode)
{
    REAL(int, "mkdirat", int, const char *, mode_t);
    struct stat status;
    const char *name;
    if (shared == NULL)
        return real(dir, path, mode);
    lock();
    const uint32_t parent = parent_of(dir, path, &name);
    const int rc = real(dir, path, mode);
    const int error = errno;
    if (rc == 0 && parent != 0 && fstatat(dir, path, &status, 0) == 0)
        append_text(RECORD_DIRECTORY, add(&status, name), parent, name, strlen(name));
    unlock();
    errno = error;
    return rc;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

int unlinkat(int dir, const char *path, int flags)
{
    REAL(int, "unlinkat", int, const char *, int);
    struct stat status;
    const char *name;
    if (shared == NULL)
        return real(dir, path, flags);
    lock();
    const uint32_t parent = parent_of(dir, path, &name);
    const bool known = parent != 0 && fstatat(dir, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
    const struct object *const object = known ? find(&status) : NULL;
    const int rc = real(dir, path, flags);
    const int error = errno;
    if (rc == 0 && object != NULL)
        append_text(RECORD_UNLINK, object->number, parent, name, strlen(name));
    unlock();
    errno = error;
    return rc;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
    struct stat status;
    const char *old, *name;
    char both[512];
    if (shared == NULL)
        return real(from_dir, from, to_dir, to, flags);
    lock();
    const uint32_t parent = parent_of(from_dir, from, &old);
    if (parent_of(to_dir, to, &name) != parent || (parent != 0 && flags != 0))
        die("a rename that cannot be logged");
    const bool known = parent != 0 && fstatat(from_dir, from, &status, AT_SYMLINK_NOFOLLOW) == 0;
    const struct object *const object = known ? find(&status) : NULL;
    const int rc = real(from_dir, from, to_dir, to, flags);
    const int error = errno;
    if (rc == 0 && object != NULL) {
        const int length = snprintf(both, sizeof both, "%s%c%s", old, '\0', name);
        append_text(RECORD_RENAME, object->number, parent, both, (size_t)length);
    }
    unlock();
    errno = error;
    return rc;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return renameat2(from_dir, from, to_dir, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    REAL(int, "linkat", int, const char *, int, const char *, int);
    const char *name;
    if (shared != NULL && parent_of(to_dir, to, &name) != 0)
        die("a link cannot be logged");
    return real(from_dir, from, to_dir, to, flags);
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* ---- contents --------------------------------------------------------------------------------------- */

/* Cuts the payload to what was written. */
static int cut(struct iovec *parts, int count, size_t size)
{
    int used = 0;
    for (; used < count && size > 0; used++) {
        if (parts[used].iov_len > size)
            parts[used].iov_len = size;
        size -= parts[used].iov_len;
    }
    return used;
}

/* OFFSET < 0: at the file's own position. */
static ssize_t write_logged(int fd, const struct iovec *parts, int count, off_t offset)
{
    struct iovec copy[PARTS];
    if (shared != NULL)
        lock();
    const uint32_t object = shared == NULL ? 0 : number_of(fd);
    if (object == 0) {
        if (shared != NULL)
            unlock();
        return offset < 0 ? real_writev(fd, parts, count) : real_pwritev(fd, parts, count, offset);
    }
    const int flags = fcntl(fd, F_GETFL);
    const off_t at = offset < 0 ? lseek(fd, 0, SEEK_CUR) : offset;
    if (count > PARTS || (flags & O_APPEND) != 0 || at < 0)
        die("a write that cannot be logged");
    const ssize_t put =
        offset < 0 ? real_writev(fd, parts, count) : real_pwritev(fd, parts, count, offset);
    const int error = errno;
    if (put > 0) {
        const struct record_entry entry = {
            .type = RECORD_WRITE, .object = object, .offset = (uint64_t)at};
        const bool durable = (flags & O_DSYNC) != 0;
        shared->durable_writes += durable;
        memcpy(copy, parts, (size_t)count * sizeof *copy);
        const uint64_t number = append(&entry, copy, cut(copy, count, (size_t)put));
        if (durable) {
            unlock();
            take_time();
            lock();
            shared->durable_writes--;
            append_plain(RECORD_WRITTEN, object, number, 0);
        }
    }
    unlock();
    errno = error;
    return put;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    return write_logged(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
    __attribute__((alias("pwritev")));

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    const struct iovec part = {(void *)(uintptr_t)data, size};
    return pwritev(fd, &part, 1, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
    __attribute__((alias("pwrite")));

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return write_logged(fd, parts, count, -1);
}

ssize_t write(int fd, const void *data, size_t size)
{
    const struct iovec part = {(void *)(uintptr_t)data, size};
    return write_logged(fd, &part, 1, -1);
}

int ftruncate(int fd, off_t size)
{
    REAL(int, "ftruncate64", int, off_t);
    if (shared == NULL)
        return real(fd, size);
    lock();
    const uint32_t object = number_of(fd);
    const int rc = real(fd, size);
    const int error = errno;
    if (rc == 0 && object != 0)
        append_plain(RECORD_RESIZE, object, (uint64_t)size, 0);
    unlock();
    errno = error;
    return rc;
}

int ftruncate64(int fd, off_t size) __attribute__((alias("ftruncate")));

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    REAL(int, "fallocate64", int, int, off_t, off_t);
    struct stat status;
    if (shared == NULL)
        return real(fd, mode, offset, size);
    lock();
    const uint32_t object = number_of(fd);
    if (object != 0 && (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE)) != 0)
        die("an allocation that cannot be logged");
    const bool grows = object != 0 && (mode & FALLOC_FL_KEEP_SIZE) == 0 &&
                       fstat(fd, &status) == 0 && status.st_size < offset + size;
    const int rc = real(fd, mode, offset, size);
    const int error = errno;
    if (rc == 0 && object != 0 && (mode & FALLOC_FL_PUNCH_HOLE) != 0)
        append_plain(RECORD_ZERO, object, (uint64_t)offset, (uint64_t)size);
    else if (rc == 0 && grows)
        append_plain(RECORD_RESIZE, object, (uint64_t)(offset + size), 0);
    unlock();
    errno = error;
    return rc;
}

int fallocate64(int fd, int mode, off_t offset, off_t size) __attribute__((alias("fallocate")));

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    REAL(void *, "mmap64", void *, size_t, int, int, int, off_t);
    if (shared != NULL && fd >= 0 && (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0) {
        lock();
        if (number_of(fd) != 0)
            die("a writable mapping cannot be logged");
        unlock();
    }
    return real(address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));

/* ---- syncs ------------------------------------------------------------------------------------------- */

static int sync_logged(int fd, int (*real)(int))
{
    if (shared == NULL)
        return real(fd);
    lock();
    const uint32_t object = number_of(fd);
    const uint64_t number = object == 0 ? 0 : append_plain(RECORD_SYNC, object, 0, 0);
    unlock();
    if (object == 0)
        return real(fd);
    take_time();
    const int rc = real(fd);
    const int error = errno;
    if (rc == 0) {
        lock();
        append_plain(RECORD_SYNCED, object, number, 0);
        unlock();
    }
    errno = error;
    return rc;
}

int fsync(int fd)
{
    REAL(int, "fsync", int);
    return sync_logged(fd, real);
}

int fdatasync(int fd)
{
    REAL(int, "fdatasync", int);
    return sync_logged(fd, real);
}
