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
#include <sys/stat.h>
#include <unistd.h>

#include "index/internal.h"

_Atomic int fail_pack_writes;
atomic_bool hold_pack_writes;
_Atomic unsigned held_pack_writes;

static ssize_t failing_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    int error;

    held_pack_writes++;
    while (hold_pack_writes)
        usleep(1000);
    held_pack_writes--;

    error = fail_pack_writes;
    if (error == 0)
        return index_io_system.pwritev(fd, parts, count, offset);
    errno = error;
    return -1;
}

static ssize_t failing_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    int error = fail_pack_writes;

    if (error == 0)
        return index_io_system.pwrite(fd, data, size, offset);
    errno = error;
    return -1;
}

static struct index_io failing_io;

void scratch_make(struct mounted *m)
{
    memset(m, 0, sizeof(*m));
    snprintf(m->path, sizeof(m->path), "%s/sepfs-data-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(m->path));
    snprintf(m->store, sizeof(m->store), "%s/store", m->path);
    fs_options_init(&m->options);
    m->options.threads = 2;
    m->options.dirty = 256u << 10;
    m->options.cache = 256u << 10;
    m->options.commit = 3600;
    m->options.compact = FS_COMPACT_OFF;
    fail_pack_writes = 0;
    hold_pack_writes = false;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

void scratch_remove(struct mounted *m)
{
    nftw(m->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void print_log(void *arg, int priority, const char *line)
{
    (void)arg;
    (void)priority;
    fprintf(stderr, "index: %s\n", line);
}

void store_open(struct mounted *m)
{
    struct index_options options = {.flags = INDEX_OPEN_CREATE,
                                    .map_size = (uint64_t)1 << 30,
                                    .pack_size = 8u << 20,
                                    .log = print_log};
    char error[256] = "";
    int result;

    failing_io = index_io_system;
    failing_io.pwritev = failing_pwritev;
    failing_io.pwrite = failing_pwrite;
    if (access(m->store, F_OK) != 0)
        options.block_size = BLOCK;
    result = index_open_with(m->store, &options, &failing_io, &m->index, error, sizeof(error));
    if (result != 0)
        fail_msg("index_open: %s (%d)", error, result);
    assert_int_equal(fs_data_start(&m->fs, m->index, &m->options), 0);
}

struct found {
    const char *expected;
    unsigned problems;
};

static void on_problem(void *arg, const struct index_problem *problem)
{
    struct found *found = arg;

    if (found->expected != NULL && strcmp(found->expected, problem->kind) == 0)
        return;
    fprintf(stderr, "problem %s: %s\n", problem->kind, problem->text);
    found->problems++;
}

static void check_store(struct mounted *m)
{
    struct found found = {.expected = m->expected_problem};
    struct index_check check = {.scrub = true, .problem = on_problem, .arg = &found};

    assert_int_equal(index_check(m->index, &check), 0);
    assert_int_equal(found.problems, 0);
}

void store_close(struct mounted *m)
{
    assert_int_equal(fs_data_stop(&m->fs), 0);
    check_store(m);
    assert_int_equal(index_close(m->index), 0);
    m->index = NULL;
}

void store_reopen(struct mounted *m)
{
    store_close(m);
    store_open(m);
}

struct fs_inode *file_create(struct mounted *m, const char *name)
{
    struct index_inode record = {
        .parent = INDEX_ROOT_INO, .mode = S_IFREG | 0644, .nlink = 1, .generation = 1};
    struct fs_inode *inode;
    struct index_txn *txn;

    clock_gettime(CLOCK_REALTIME, &record.mtime);
    record.atime = record.ctime = record.btime = record.mtime;
    assert_int_equal(index_reserve(m->index, 0), 0);
    assert_int_equal(index_begin(m->index, INDEX_WRITE, &txn), 0);
    record.ino = index_inode_new(txn);
    assert_int_equal(index_inode_put(txn, &record), 0);
    assert_int_equal(index_dirent_add(txn, INDEX_ROOT_INO, name, record.ino, DT_REG), 0);
    index_end(txn);
    assert_int_equal(fs_inode_hold(&m->fs, record.ino, &inode), 0);
    return inode;
}

void file_unlink(struct mounted *m, const char *name)
{
    struct index_dirent entry;
    struct index_inode attr;
    struct index_txn *txn;

    assert_int_equal(index_begin(m->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_dirent_lookup(txn, INDEX_ROOT_INO, name, &entry), 0);
    assert_int_equal(index_dirent_remove(txn, INDEX_ROOT_INO, name), 0);
    assert_int_equal(fs_attr_get(&m->fs, txn, entry.ino, &attr), 0);
    attr.nlink = 0;
    assert_int_equal(fs_inode_unlinked(&m->fs, txn, &attr), 0);
    index_end(txn);
}

void record_get(struct mounted *m, uint64_t ino, struct index_inode *record)
{
    struct index_txn *txn;

    assert_int_equal(index_begin(m->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_inode_get(txn, ino, record), 0);
    index_end(txn);
    record->inline_data = NULL;
}

uint64_t record_size(struct mounted *m, uint64_t ino)
{
    struct index_inode record;

    record_get(m, ino, &record);
    return record.size;
}

struct index_extent extent_get(struct mounted *m, uint64_t ino, uint64_t number)
{
    struct index_extent extent;
    struct index_txn *txn;
    int error;

    assert_int_equal(index_begin(m->index, INDEX_READ, &txn), 0);
    error = index_extent_get(txn, ino, number, &extent);
    index_end(txn);
    if (error == -ENOENT)
        memset(&extent, 0, sizeof(extent));
    else
        assert_int_equal(error, 0);
    return extent;
}

struct index_space space_get(struct mounted *m)
{
    struct index_space space;

    assert_int_equal(index_space(m->index, &space), 0);
    return space;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

void fill(uint8_t *data, size_t size, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1, bits = 0;

    for (size_t i = 0; i < size; i++) {
        if (i % 16 == 0)
            bits = random_next(&state);
        data[i] = (uint8_t)('a' + ((bits >> (4 * (i % 16))) & 15));
    }
}

void fill_noise(uint8_t *data, size_t size, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;

    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(random_next(&state) >> 56);
}

void write_all(struct mounted *m, struct fs_inode *inode, const void *data, size_t size,
               uint64_t offset)
{
    assert_int_equal(fs_file_write(&m->fs, inode, data, size, offset, false), size);
}

void expect(struct mounted *m, struct fs_inode *inode, const void *data, size_t size,
            uint64_t offset)
{
    uint8_t *found = malloc(size);

    assert_non_null(found);
    assert_int_equal(fs_file_read(&m->fs, inode, NULL, found, size, offset), size);
    for (size_t i = 0; i < size; i++)
        if (found[i] != ((const uint8_t *)data)[i])
            fail_msg("inode %llu: byte %llu is %u, not %u", (unsigned long long)inode->ino,
                     (unsigned long long)(offset + i), found[i], ((const uint8_t *)data)[i]);
    free(found);
}

void expect_zeros(struct mounted *m, struct fs_inode *inode, size_t size, uint64_t offset)
{
    uint8_t *zeros = calloc(1, size);

    assert_non_null(zeros);
    expect(m, inode, zeros, size, offset);
    free(zeros);
}

void damage_block(struct mounted *m, uint64_t id)
{
    struct index_block block;
    struct index_txn *txn;
    char path[512];
    uint8_t byte;
    int fd;

    assert_int_equal(index_begin(m->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_block_get(txn, id, &block), 0);
    index_end(txn);
    snprintf(path, sizeof(path), "%s/packs/%08x.pack", m->store, block.at.pack);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)(block.at.offset + INDEX_RECORD_HEADER + 5)), 1);
    byte ^= 0x20;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(block.at.offset + INDEX_RECORD_HEADER + 5)), 1);
    close(fd);
}
