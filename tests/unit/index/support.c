/* SPDX-License-Identifier: BSD-2-Clause
 *
 * support.c - see support.h.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

char last_error[512];
unsigned log_lines;
char log_last[512];
struct fault fault;

/* ---- scratch directories ---- */

void scratch_make(char *path)
{
    const char *const base = getenv("TMPDIR");
    snprintf(path, 256, "%s/sepfs-index-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

void scratch_make_fast(char *path)
{
    snprintf(path, 256, "/dev/shm/sepfs-index-XXXXXX");
    if (mkdtemp(path) == NULL)
        scratch_make(path);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void scratch_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *in(const char *path, const char *name)
{
    static char buffers[8][512];
    static unsigned next;
    char *const buffer = buffers[next++ % 8];
    snprintf(buffer, sizeof buffers[0], "%s/%s", path, name);
    return buffer;
}

static void copy_file(const char *from, const char *to)
{
    static uint8_t data[1 << 16];
    const int source = open(from, O_RDONLY), target = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(source >= 0 && target >= 0);
    ssize_t got;
    while ((got = read(source, data, sizeof data)) > 0)
        assert_int_equal(write(target, data, (size_t)got), got);
    assert_int_equal(got, 0);
    close(source);
    close(target);
}

void copy_tree(const char *from, const char *to)
{
    DIR *const dir = opendir(from);
    assert_non_null(dir);
    assert_true(mkdir(to, 0700) == 0 || errno == EEXIST);
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char source[512], target[512];
        struct stat status;
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(target, sizeof target, "%s/%s", to, entry->d_name);
        assert_int_equal(lstat(source, &status), 0);
        if (S_ISDIR(status.st_mode))
            copy_tree(source, target);
        else if (strcmp(entry->d_name, "lock.mdb") != 0)
            copy_file(source, target);
    }
    closedir(dir);
}

void poke(const char *file, uint64_t offset, const void *data, size_t size)
{
    const int fd = open(file, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, size, (off_t)offset), (ssize_t)size);
    close(fd);
}

uint64_t file_size(const char *file)
{
    struct stat status;
    assert_int_equal(stat(file, &status), 0);
    return (uint64_t)status.st_size;
}

uint64_t file_blocks(const char *file)
{
    struct stat status;
    assert_int_equal(stat(file, &status), 0);
    return (uint64_t)status.st_blocks;
}

/* ---- stores ---- */

static void log_line(void *arg, int priority, const char *line)
{
    (void)arg;
    (void)priority;
    log_lines++;
    snprintf(log_last, sizeof log_last, "%s", line);
}

int try_open(const char *path, unsigned flags, struct index **index)
{
    const struct index_options options = {.flags = flags, .log = log_line};
    log_lines = 0;
    return index_open(path, &options, index, last_error, sizeof last_error);
}

struct index *open_store(const char *path, unsigned flags)
{
    struct index *index;
    const int error = try_open(path, flags, &index);
    if (error != 0)
        fail_msg("open: %d %s", error, last_error);
    return index;
}

struct index *open_with(const char *path, const struct index_options *options,
                        const struct index_io *io)
{
    struct index *index;
    struct index_options with_log = *options;
    with_log.log = log_line;
    log_lines = 0;
    const int error = index_open_with(path, &with_log, io, &index, last_error, sizeof last_error);
    if (error != 0)
        fail_msg("open: %d %s", error, last_error);
    return index;
}

void close_store(struct index *index)
{
    assert_int_equal(index_close(index), 0);
}

/* ---- contents ---- */

void fill(uint8_t *data, size_t size, uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        data[i] = (uint8_t)(x >> 32);
    }
}

uint64_t make_file(struct index *index, const char *name)
{
    struct index_txn *txn;
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    const struct index_inode inode = {
        .ino = index_inode_new(txn), .parent = INDEX_ROOT_INO, .mode = S_IFREG | 0644, .nlink = 1};
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_dirent_add(txn, INDEX_ROOT_INO, name, inode.ino, DT_REG), 0);
    index_end(txn);
    return inode.ino;
}

static int set_extent(struct index *index, uint64_t ino, uint64_t number,
                      const struct index_block *block, enum index_class class)
{
    struct index_txn *txn;
    struct index_inode inode;
    int error = index_begin(index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    error = index_block_add(txn, block, class);
    if (error == 0)
        error = index_inode_get(txn, ino, &inode);
    const struct index_extent extent = {
        .number = number, .block = block->id, .length = block->plain_size};
    if (error == 0)
        error = index_extent_set(txn, ino, &extent, &inode);
    const uint64_t end = number * index->block_size + block->plain_size;
    if (error == 0) {
        inode.size = end > inode.size ? end : inode.size;
        error = index_inode_put(txn, &inode);
    }
    index_end(txn);
    return error;
}

int store_block(struct index *index, uint64_t ino, uint64_t number, uint32_t plain, uint64_t seed,
                enum index_class class, uint64_t *id)
{
    uint8_t *const data = malloc(plain);
    assert_non_null(data);
    fill(data, plain, seed);
    struct index_block block = {.id = index_block_new(index),
                                .plain_size = plain,
                                .owner_ino = ino,
                                .owner_block = number,
                                .hash = index_hash_of(data, plain)};
    const uint64_t need = index_record_span(plain);
    int error = index_reserve(index, need);
    if (error == 0) {
        error = index_pack_append(index, class, &block, data, plain);
        if (error == 0)
            error = set_extent(index, ino, number, &block, class);
        index_release(index, need);
    }
    free(data);
    if (id != NULL)
        *id = block.id;
    return error;
}

int drop_file(struct index *index, uint64_t ino, const char *name)
{
    struct index_txn *txn;
    bool more = false;
    int error = index_begin(index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    error = index_dirent_remove(txn, INDEX_ROOT_INO, name);
    if (error == 0)
        error = index_extent_remove(txn, ino, 0, UINT64_MAX, 1u << 20, NULL, &more);
    if (error == 0)
        error = index_inode_delete(txn, ino);
    assert_false(error == 0 && more);
    index_end(txn);
    return error;
}

struct index_block get_block(struct index *index, uint64_t id)
{
    struct index_txn *txn;
    struct index_block block;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    assert_int_equal(index_block_get(txn, id, &block), 0);
    index_end(txn);
    return block;
}

struct index_pack get_pack(struct index *index, uint32_t id)
{
    struct index_txn *txn;
    struct index_pack pack;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    assert_int_equal(index_pack_next(txn, id, &pack), 0);
    assert_int_equal(pack.id, id);
    index_end(txn);
    return pack;
}

/* ---- verification ---- */

/* Recounts one block's references and live bytes over all extents, and reads it back. */
static void verify_block(struct index *index, struct index_txn *txn,
                         const struct index_block *block)
{
    MDB_val found, value;
    struct index_key key;
    uint32_t references = 0;
    uint64_t live = 0, ino;
    index_key_one(&key, 0);
    int error = index_db_seek(txn, INDEX_DB_EXTENT, &key, &found, &value);
    for (; error == 0; error = index_db_next(txn, INDEX_DB_EXTENT, &found, &value)) {
        struct index_extent extent;
        assert_int_equal(index_record_get_extent(&found, &value, &ino, &extent), 0);
        if (extent.block != block->id)
            continue;
        references++;
        live += extent.length;
        assert_true((uint64_t)extent.offset + extent.length <= block->plain_size);
    }
    assert_int_equal(error, -ENOENT);
    assert_true(references > 0);
    assert_int_equal(block->references, references);
    assert_int_equal(block->live, live > UINT32_MAX ? UINT32_MAX : live);
    uint8_t *const data = malloc(block->at.payload_size);
    assert_non_null(data);
    assert_int_equal(index_pack_read(index, block, data), 0);
    if (block->codec == 0) { /* stored raw by these tests */
        const struct index_hash hash = index_hash_of(data, block->plain_size);
        assert_true(hash.low == block->hash.low && hash.high == block->hash.high);
    }
    free(data);
}

static uint64_t verify_blocks(struct index *index, struct index_txn *txn, uint64_t *shared)
{
    uint64_t live = 0;
    struct index_block block = {.id = 0};
    int error;
    while ((error = index_block_next(txn, block.id + 1, &block)) == 0) {
        verify_block(index, txn, &block);
        live += index_record_span(block.at.payload_size);
        *shared += (block.flags & INDEX_BLOCK_SHARED) != 0;
    }
    assert_int_equal(error, -ENOENT);
    return live;
}

static uint64_t verify_packs(struct index_txn *txn)
{
    uint64_t total = 0;
    struct index_pack pack = {.id = 0};
    int error;
    while ((error = index_pack_next(txn, pack.id + 1, &pack)) == 0) {
        uint64_t live = 0;
        struct index_block block = {.id = 0};
        while (index_block_next(txn, block.id + 1, &block) == 0) {
            if (block.at.pack != pack.id)
                continue;
            live += index_record_span(block.at.payload_size);
            assert_true(block.at.offset + index_record_span(block.at.payload_size) <= pack.size);
        }
        assert_int_equal(pack.live, live);
        total += live;
    }
    assert_int_equal(error, -ENOENT);
    return total;
}

static void verify_inodes(struct index_txn *txn, struct index_counters *counters)
{
    struct index_inode inode = {.ino = 0};
    int error;
    while ((error = index_inode_next(txn, inode.ino + 1, &inode)) == 0) {
        if (S_ISREG(inode.mode))
            counters->logical += inode.size;
        else if (S_ISDIR(inode.mode))
            counters->directories++;
        else if (S_ISLNK(inode.mode))
            counters->symlinks++;
        else
            counters->others++;
        struct index_dirent entry = {.cookie = 0};
        while ((error = index_dirent_next(txn, inode.ino, entry.cookie + 1, &entry)) == 0) {
            struct index_inode child;
            assert_int_equal(index_inode_get(txn, entry.ino, &child), 0);
        }
        assert_int_equal(error, -ENOENT);
    }
    assert_int_equal(error, -ENOENT);
}

void verify_store(struct index *index)
{
    struct index_space space;
    struct index_txn *txn;
    struct index_counters counters = {.directories = 0};
    assert_int_equal(index_space(index, &space), 0);
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    verify_inodes(txn, &counters);
    const uint64_t live = verify_blocks(index, txn, &counters.shared_blocks);
    assert_int_equal(verify_packs(txn), live);
    index_end(txn);
    assert_int_equal(space.live_bytes, live);
    assert_int_equal(space.logical, counters.logical);
    assert_int_equal(space.directories, counters.directories);
    assert_int_equal(space.symlinks, counters.symlinks);
    assert_int_equal(space.others, counters.others);
    assert_int_equal(space.shared_blocks, counters.shared_blocks);
}

/* ---- faults ---- */

void fault_reset(void)
{
    fault.fail_at = 0;
    fault.calls = 0;
    fault.forever = fault.spare_table = fault.no_fallocate = false;
    fault.error = EIO;
    fault.host_full_after = fault.host_free = UINT64_MAX;
}

bool fault_hit(void)
{
    const uint64_t call = ++fault.calls, fail_at = fault.fail_at;
    if (fail_at == 0 || call < fail_at || (call > fail_at && !fault.forever))
        return false;
    errno = fault.error;
    return true;
}

static bool table_hit(void)
{
    return !fault.spare_table && fault_hit();
}

static int fault_openat(int dir, const char *path, int flags, mode_t mode)
{
    return table_hit() ? -1 : openat(dir, path, flags, mode);
}

static ssize_t fault_pread(int fd, void *data, size_t size, off_t offset)
{
    return table_hit() ? -1 : pread(fd, data, size, offset);
}

static ssize_t fault_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return table_hit() ? -1 : pwrite(fd, data, size, offset);
}

/* A write that fails has written half of its first part, as a full disk does it. */
static ssize_t fault_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    if (!table_hit())
        return pwritev(fd, parts, count, offset);
    const int error = errno;
    const ssize_t half = pwrite(fd, parts->iov_base, parts->iov_len / 2, offset);
    (void)half;
    errno = error;
    return -1;
}

static int fault_fsync(int fd)
{
    return table_hit() ? -1 : fsync(fd);
}

static int fault_fdatasync(int fd)
{
    return table_hit() ? -1 : fdatasync(fd);
}

static int fault_ftruncate(int fd, off_t size)
{
    return table_hit() ? -1 : ftruncate(fd, size);
}

static int fault_fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (table_hit())
        return -1;
    if (fault.no_fallocate) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (!(mode & FALLOC_FL_PUNCH_HOLE) && fault.host_full_after != UINT64_MAX) {
        if ((uint64_t)size > fault.host_full_after) {
            errno = ENOSPC;
            return -1;
        }
        fault.host_full_after -= (uint64_t)size;
    }
    return fallocate(fd, mode, offset, size);
}

static int fault_fstat(int fd, struct stat *status)
{
    return table_hit() ? -1 : fstat(fd, status);
}

static int fault_fstatvfs(int fd, struct statvfs *status)
{
    if (table_hit() || fstatvfs(fd, status) < 0)
        return -1;
    if (fault.host_free != UINT64_MAX)
        status->f_bavail = status->f_bfree = fault.host_free / status->f_frsize;
    return 0;
}

static int fault_mkdirat(int dir, const char *path, mode_t mode)
{
    return table_hit() ? -1 : mkdirat(dir, path, mode);
}

static int fault_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return table_hit() ? -1 : renameat(from_dir, from, to_dir, to);
}

static int fault_unlinkat(int dir, const char *path, int flags)
{
    return table_hit() ? -1 : unlinkat(dir, path, flags);
}

static int fault_flock(int fd, int operation)
{
    return table_hit() ? -1 : flock(fd, operation);
}

static DIR *fault_fdopendir(int fd)
{
    return table_hit() ? NULL : fdopendir(fd);
}

static struct dirent *fault_readdir(DIR *dir)
{
    return table_hit() ? NULL : readdir(dir);
}

static char *fault_realpath(const char *path, char *resolved)
{
    return table_hit() ? NULL : realpath(path, resolved);
}

static int fault_env_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode)
{
    return table_hit() ? errno : mdb_env_open(env, path, flags, mode);
}

static int fault_env_sync(MDB_env *env, int force)
{
    return table_hit() ? errno : mdb_env_sync(env, force);
}

/* A commit that fails is an abort. */
static int fault_txn_commit(MDB_txn *txn)
{
    if (!table_hit())
        return mdb_txn_commit(txn);
    const int error = errno;
    mdb_txn_abort(txn);
    return error;
}

const struct index_io fault_io = {
    .openat = fault_openat,
    .close = close,
    .pread = fault_pread,
    .pwrite = fault_pwrite,
    .pwritev = fault_pwritev,
    .fsync = fault_fsync,
    .fdatasync = fault_fdatasync,
    .ftruncate = fault_ftruncate,
    .fallocate = fault_fallocate,
    .fstat = fault_fstat,
    .fstatvfs = fault_fstatvfs,
    .mkdirat = fault_mkdirat,
    .renameat = fault_renameat,
    .unlinkat = fault_unlinkat,
    .flock = fault_flock,
    .fdopendir = fault_fdopendir,
    .readdir = fault_readdir,
    .closedir = closedir,
    .fadvise = posix_fadvise,
    .realpath = fault_realpath,
    .env_open = fault_env_open,
    .env_sync = fault_env_sync,
    .txn_commit = fault_txn_commit,
};
