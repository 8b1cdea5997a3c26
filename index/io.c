/* SPDX-License-Identifier: BSD-2-Clause
 *
 * io.c - the real system calls behind struct index_io, and transfers that finish.
 *
 * A short write is continued, so that only a real error ends one; EINTR is retried. The temporary
 * file of index_io_replace is left behind by a crash and overwritten by the next call.
 */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int system_openat(int dir, const char *path, int flags, mode_t mode)
{
    return openat(dir, path, flags, mode);
}

const struct index_io index_io_system = {
    .openat = system_openat,
    .close = close,
    .pread = pread,
    .pwrite = pwrite,
    .pwritev = pwritev,
    .fsync = fsync,
    .fdatasync = fdatasync,
    .ftruncate = ftruncate,
    .fallocate = fallocate,
    .fstat = fstat,
    .fstatvfs = fstatvfs,
    .mkdirat = mkdirat,
    .linkat = linkat,
    .renameat = renameat,
    .unlinkat = unlinkat,
    .flock = flock,
    .fdopendir = fdopendir,
    .readdir = readdir,
    .closedir = closedir,
    .fadvise = posix_fadvise,
    .realpath = realpath,
    .env_open = mdb_env_open,
    .env_sync = mdb_env_sync,
    .txn_commit = mdb_txn_commit,
};

static int open_any(const struct index_io *io, int dir, const char *path, int flags, mode_t mode)
{
    int fd;
    do {
        fd = io->openat(dir, path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

int index_io_open(const struct index_io *io, int dir, const char *path, int flags, mode_t mode)
{
    if (dir == AT_FDCWD) /* the store itself, which the user named */
        return open_any(io, dir, path, flags, mode);
    /* Without O_NONBLOCK a FIFO would have us wait for its other end; files do not heed it. */
    const int fd = open_any(io, dir, path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
    struct stat status;
    int error = 0;
    if (fd < 0)
        return fd == -ENXIO ? -EUCLEAN : fd; /* a FIFO or socket */
    if (io->fstat(fd, &status) < 0)
        error = -errno;
    else if (S_ISDIR(status.st_mode) != ((flags & O_DIRECTORY) != 0))
        error = -EISDIR;
    else if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        error = -EUCLEAN;
    if (error == 0)
        return fd;
    io->close(fd);
    return error;
}

int index_io_list(const struct index_io *io, int fd, DIR **dir)
{
    const int own = index_io_open(io, fd, ".", O_RDONLY | O_DIRECTORY, 0);
    if (own < 0)
        return own;
    *dir = io->fdopendir(own);
    if (*dir == NULL) {
        const int error = -errno;
        io->close(own);
        return error;
    }
    return 0;
}

int index_io_next(const struct index_io *io, DIR *dir, const struct dirent **entry)
{
    errno = 0;
    *entry = io->readdir(dir);
    return *entry != NULL ? 1 : -errno;
}

ssize_t index_io_read(const struct index_io *io, int fd, void *data, size_t size, uint64_t offset)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t got = io->pread(fd, (char *)data + done, size - done, (off_t)(offset + done));
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int index_io_write(const struct index_io *io, int fd, struct iovec *parts, int count,
                   uint64_t offset)
{
    while (count > 0) {
        if (parts->iov_len == 0) {
            parts++;
            count--;
            continue;
        }
        const ssize_t put = io->pwritev(fd, parts, count, (off_t)offset);
        if (put < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (put == 0)
            return -EIO;
        offset += (uint64_t)put;
        size_t left = (size_t)put;
        while (left > 0) {
            const size_t step = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + step;
            parts->iov_len -= step;
            left -= step;
            if (parts->iov_len == 0 && count > 1) {
                parts++;
                count--;
            }
        }
        if (parts->iov_len == 0)
            count--;
    }
    return 0;
}

int index_io_sync_dir(const struct index_io *io, int dir)
{
    return io->fsync(dir) < 0 ? -errno : 0;
}

int index_io_replace(const struct index_io *io, int dir, const char *name, const void *data,
                     size_t size)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, "%s.new", name);
    int fd = index_io_open(io, dir, temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return fd;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    int error = index_io_write(io, fd, &part, 1, 0);
    if (error == 0 && io->fsync(fd) < 0)
        error = -errno;
    if (io->close(fd) < 0 && error == 0)
        error = -errno;
    if (error == 0 && io->renameat(dir, temporary, dir, name) < 0)
        error = -errno;
    if (error == 0)
        error = index_io_sync_dir(io, dir);
    else
        io->unlinkat(dir, temporary, 0);
    return error;
}

int index_io_load(const struct index_io *io, int dir, const char *name, size_t limit, char **data,
                  size_t *size)
{
    *data = NULL;
    int fd = index_io_open(io, dir, name, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    int error = 0;
    struct stat status;
    char *text = NULL;
    if (io->fstat(fd, &status) < 0) {
        error = -errno;
        goto out;
    }
    if (!S_ISREG(status.st_mode)) {
        error = -EISDIR;
        goto out;
    }
    if (status.st_size < 0 || (uint64_t)status.st_size > limit) {
        error = -EFBIG;
        goto out;
    }
    const size_t length = (size_t)status.st_size;
    text = malloc(length + 1);
    if (text == NULL) {
        error = -ENOMEM;
        goto out;
    }
    const ssize_t got = index_io_read(io, fd, text, length, 0);
    if (got < 0) {
        error = (int)got;
        goto out;
    }
    text[got] = '\0';
    *data = text;
    *size = (size_t)got;
    text = NULL;
out:
    free(text);
    io->close(fd);
    return error;
}
