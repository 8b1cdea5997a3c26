/* SPDX-License-Identifier: BSD-2-Clause
 *
 * io.h - every system call that index/ makes on a store, in one table. The tests put their own
 * table in its place to fail, tear or record the n-th call; the rest of index/ never calls the
 * system directly; tools/check-shim holds that. LMDB makes its own calls on index/data.mdb (open,
 * pwrite, writev, fdatasync); what makes it do so is in the table too, and tests/fault stands in
 * front of the C library for the calls themselves.
 *
 * Functions behave like the calls they are named after: -1 and errno on failure, LMDB's an error of
 * LMDB. Helpers below them
 * finish short transfers and turn errno into a negative return value.
 */
#ifndef INDEX_IO_H
#define INDEX_IO_H

#include <dirent.h>
#include <lmdb.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>

struct index_io {
    int (*openat)(int dir, const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*pread)(int fd, void *data, size_t size, off_t offset);
    ssize_t (*pwrite)(int fd, const void *data, size_t size, off_t offset);
    ssize_t (*pwritev)(int fd, const struct iovec *parts, int count, off_t offset);
    int (*fsync)(int fd);
    int (*fdatasync)(int fd);
    int (*ftruncate)(int fd, off_t size);
    int (*fallocate)(int fd, int mode, off_t offset, off_t size);
    int (*fstat)(int fd, struct stat *status);
    int (*fstatvfs)(int fd, struct statvfs *status);
    int (*mkdirat)(int dir, const char *path, mode_t mode);
    int (*linkat)(int from_dir, const char *from, int to_dir, const char *to, int flags);
    int (*renameat)(int from_dir, const char *from, int to_dir, const char *to);
    int (*unlinkat)(int dir, const char *path, int flags);
    int (*flock)(int fd, int operation);
    DIR *(*fdopendir)(int fd);
    struct dirent *(*readdir)(DIR *dir);
    int (*closedir)(DIR *dir);
    int (*fadvise)(int fd, off_t offset, off_t size, int advice); /* returns a positive errno */
    char *(*realpath)(const char *path, char *resolved);
    int (*env_open)(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode);
    int (*env_sync)(MDB_env *env, int force);
    int (*txn_commit)(MDB_txn *txn);
};

/* The real calls. */
extern const struct index_io index_io_system;

/* Opens with O_CLOEXEC. Returns a descriptor or a negative errno. What lies in a store (DIR is not
 * AT_FDCWD) must be a regular file or, with O_DIRECTORY, a directory: a symbolic link is refused with
 * -ELOOP (with O_DIRECTORY -ENOTDIR), a directory with -EISDIR, anything else with -EUCLEAN, and none
 * of them is followed, waited for or changed. */
int index_io_open(const struct index_io *io, int dir, const char *path, int flags, mode_t mode);

/* Opens the directory behind descriptor FD for reading its names; FD itself stays as it is. The caller
 * closes *dir. 0 or a negative errno. */
int index_io_list(const struct index_io *io, int fd, DIR **dir);

/* Next name: 1, 0 at the end, or a negative errno. *entry is good until the next call. */
int index_io_next(const struct index_io *io, DIR *dir, const struct dirent **entry);

/* Reads up to SIZE bytes at OFFSET, fewer only at the end of the file. Returns the number read or a
 * negative errno. */
ssize_t index_io_read(const struct index_io *io, int fd, void *data, size_t size, uint64_t offset);

/* Writes all COUNT parts at OFFSET; changes PARTS. 0 or a negative errno. */
int index_io_write(const struct index_io *io, int fd, struct iovec *parts, int count,
                   uint64_t offset);

/* Writes DATA to a new file NAME in DIR, durably and atomically: a temporary file NAME.new, synced,
 * renamed over NAME, and the directory synced. 0 or a negative errno. */
int index_io_replace(const struct index_io *io, int dir, const char *name, const void *data,
                     size_t size);

/* Reads a whole file of at most LIMIT bytes into a fresh buffer with a NUL behind it. -EFBIG. */
int index_io_load(const struct index_io *io, int dir, const char *name, size_t limit, char **data,
                  size_t *size);

/* fsync of a directory by descriptor. */
int index_io_sync_dir(const struct index_io *io, int dir);

#endif
