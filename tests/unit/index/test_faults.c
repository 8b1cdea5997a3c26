/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_faults.c - the n-th system call fails, for all n, in a scripted life of a store: our own
 * calls through struct index_io, LMDB's by taking the place of the C library's functions in this
 * program. Afterwards the store opens without repair, everything acknowledged is there with its
 * contents, and all records agree.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- LMDB's system calls ---- */

static bool lmdb_faults; /* count and fail those below */

ssize_t lmdb_pwrite(int fd, const void *data, size_t size, off_t offset) __asm__("pwrite");
ssize_t lmdb_writev(int fd, const struct iovec *parts, int count) __asm__("writev");
int lmdb_fdatasync(int fd) __asm__("fdatasync");

ssize_t lmdb_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (lmdb_faults && fault_hit())
        return -1;
    return syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t lmdb_writev(int fd, const struct iovec *parts, int count)
{
    if (lmdb_faults && fault_hit())
        return -1;
    return syscall(SYS_writev, fd, parts, count);
}

int lmdb_fdatasync(int fd)
{
    if (lmdb_faults && fault_hit())
        return -1;
    return (int)syscall(SYS_fdatasync, fd);
}

/* ---- the script ---- */

#define FILES  8u
#define BLOCKS 3u

enum presence { ABSENT, PRESENT, EITHER };

struct life {
    enum presence files[FILES];
    uint64_t inos[FILES];
    bool created; /* index_open succeeded once */
};

static char dir[256];

static int setup(void **state)
{
    (void)state;
    scratch_make_fast(dir);
    fault_reset();
    lmdb_faults = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_reset();
    lmdb_faults = false;
    scratch_remove(dir);
    return 0;
}

static const char *name_of(unsigned i)
{
    static char name[16];
    snprintf(name, sizeof name, "file%u", i);
    return name;
}

/* Creates file I with its blocks; contents follow from I. */
static int create(struct index *index, struct life *life, unsigned i)
{
    struct index_txn *txn;
    life->files[i] = EITHER;
    int error = index_begin(index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    const struct index_inode inode = {
        .ino = index_inode_new(txn), .parent = INDEX_ROOT_INO, .mode = S_IFREG | 0600, .nlink = 1};
    life->inos[i] = inode.ino;
    error = index_inode_put(txn, &inode);
    if (error == 0)
        error = index_dirent_add(txn, INDEX_ROOT_INO, name_of(i), inode.ino, DT_REG);
    index_end(txn);
    for (unsigned n = 0; n < BLOCKS && error == 0; n++)
        error = store_block(index, inode.ino, n, 9000, i * 10 + n, n % 2, NULL);
    return error;
}

/* Stores the first block of a file anew, as a pass of the compactor does. */
static int move_block(struct index *index, const struct life *life, unsigned i)
{
    struct index_txn *txn;
    struct index_extent extent;
    struct index_block block;
    uint8_t data[9000];
    int error = index_begin(index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    error = index_extent_get(txn, life->inos[i], 0, &extent);
    if (error == 0)
        error = index_block_get(txn, extent.block, &block);
    index_end(txn);
    if (error == 0)
        error = index_pack_read(index, &block, data);
    const struct index_location before = block.at;
    if (error == 0)
        error = index_pack_append(index, INDEX_COLD, &block, data, sizeof data);
    if (error == 0)
        error = index_begin(index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    error = index_block_swap(txn, &block, &before);
    index_end(txn);
    return error;
}

static int commit(struct index *index, struct life *life, const enum presence *now)
{
    const int error = index_commit(index);
    for (unsigned i = 0; i < FILES && error == 0; i++)
        life->files[i] = now[i];
    return error;
}

static int work(struct index *index, struct life *life)
{
    enum presence now[FILES] = {ABSENT};
    int error = 0;
    for (unsigned i = 0; i < FILES && error == 0; i++) {
        error = create(index, life, i);
        now[i] = PRESENT;
        if (error == 0 && i % 3 == 2)
            error = commit(index, life, now);
    }
    if (error == 0)
        error = index_conf_set(index, "cold_after", "7d");
    for (unsigned i = 0; i < 3 && error == 0; i++)
        error = move_block(index, life, i);
    if (error == 0)
        error = commit(index, life, now);
    for (unsigned i = 0; i < 5 && error == 0; i++) {
        life->files[i] = EITHER;
        now[i] = ABSENT;
        error = drop_file(index, life->inos[i], name_of(i));
    }
    return error == 0 ? commit(index, life, now) : error;
}

/* The whole script. Stops at the first error, as a caller would, and closes. */
static int live(struct life *life, const struct index_io *io)
{
    const struct index_options options = {.flags = INDEX_OPEN_CREATE, .pack_size = 65536};
    struct index *index;
    memset(life, 0, sizeof *life);
    int error = index_open_with(dir, &options, io, &index, last_error, sizeof last_error);
    if (error != 0)
        return error;
    life->created = true;
    error = work(index, life);
    const int closed = index_close(index);
    return error != 0 ? error : closed;
}

static void check_file(struct index *index, const struct life *life, unsigned i)
{
    struct index_txn *txn;
    struct index_dirent entry;
    struct index_inode inode;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    const int error = index_dirent_lookup(txn, INDEX_ROOT_INO, name_of(i), &entry);
    assert_true(error == 0 || error == -ENOENT);
    if (life->files[i] != EITHER)
        assert_int_equal(error == 0, life->files[i] == PRESENT);
    if (life->files[i] == PRESENT) {
        assert_int_equal(index_inode_get(txn, entry.ino, &inode), 0);
        for (unsigned n = 0; n < BLOCKS; n++) {
            struct index_extent extent;
            struct index_block block;
            uint8_t data[9000], expected[9000];
            assert_int_equal(index_extent_get(txn, entry.ino, n, &extent), 0);
            assert_int_equal(index_block_get(txn, extent.block, &block), 0);
            assert_int_equal(block.plain_size, sizeof data);
            fill(expected, sizeof expected, i * 10 + n);
            assert_int_equal(index_pack_read(index, &block, data), 0);
            assert_memory_equal(data, expected, sizeof data);
        }
    }
    index_end(txn);
}

static struct index *open_again(unsigned flags)
{
    const struct index_options options = {.flags = flags};
    return open_with(dir, &options, &fault_io);
}

static void check_after(const struct life *life)
{
    struct index *index = open_again(life->created ? 0 : INDEX_OPEN_CREATE);
    for (unsigned i = 0; i < FILES; i++)
        check_file(index, life, i);
    verify_store(index);
    const uint64_t ino = make_file(index, "afterwards"); /* and it goes on */
    assert_int_equal(store_block(index, ino, 0, 5000, 1, INDEX_HOT, NULL), 0);
    close_store(index);
    index = open_again(0);
    verify_store(index);
    close_store(index);
}

/* Runs the script with the N-th call failing, until it has fewer calls than that. */
static void fail_every_call(bool of_lmdb, int error, bool forever)
{
    struct life life;
    unsigned failed = 0, survived = 0;
    for (uint64_t n = 1;; n++) {
        scratch_remove(dir);
        fault_reset();
        fault.fail_at = n;
        fault.forever = forever;
        fault.error = error;
        fault.host_free = 64u << 20; /* small steps: a memory file system clears what it allots */
        fault.spare_table = of_lmdb;
        lmdb_faults = of_lmdb;
        const int result = live(&life, &fault_io);
        const bool reached = fault.calls >= n;
        fault_reset();
        fault.host_free = 64u << 20;
        lmdb_faults = false;
        failed += result != 0;
        survived += result == 0;
        check_after(&life);
        if (!reached) {
            assert_int_equal(result, 0);
            printf("%u calls: %u failed the script, %u did not\n", (unsigned)n - 1, failed,
                   survived - 1);
            break;
        }
    }
    assert_true(failed > 10);
}

static void each_call_fails_once(void **state)
{
    (void)state;
    fail_every_call(false, EIO, false);
}

static void all_calls_fail_from_one_on(void **state)
{
    (void)state;
    fail_every_call(false, ENOSPC, true);
}

static void each_call_of_lmdb_fails_once(void **state)
{
    (void)state;
    fail_every_call(true, EIO, false);
}

static void all_calls_of_lmdb_fail_from_one_on(void **state)
{
    (void)state;
    fail_every_call(true, ENOSPC, true);
}

/* What a failed commit means for those who use the store meanwhile. */
static void a_failed_commit_degrades_to_read_only(void **state)
{
    (void)state;
    struct index_txn *txn;
    struct index_dirent entry;
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    make_file(index, "kept");
    assert_int_equal(index_commit(index), 0);
    make_file(index, "lost");
    lmdb_faults = true;
    fault.fail_at = 1;
    fault.calls = 0;
    assert_int_equal(index_commit(index), -EIO);
    lmdb_faults = false;
    assert_true(index_readonly(index));
    assert_true(log_lines > 0 && strstr(log_last, "no further writes") != NULL);
    const unsigned lines = log_lines;
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), -EROFS);
    assert_int_equal(index_reserve(index, 1), -EROFS);
    assert_int_equal(index_commit(index), -EIO);
    uint8_t data[8] = {0};
    struct index_block block = {.id = 1, .plain_size = 8};
    assert_int_equal(index_pack_append(index, INDEX_HOT, &block, data, 8), -EROFS);
    assert_int_equal(log_lines, lines); /* said once */
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    assert_int_equal(index_dirent_lookup(txn, INDEX_ROOT_INO, "kept", &entry), 0);
    assert_int_equal(index_dirent_lookup(txn, INDEX_ROOT_INO, "lost", &entry), -ENOENT);
    index_end(txn);
    assert_int_equal(index_close(index), -EIO);
    index = open_store(dir, 0);
    verify_store(index);
    make_file(index, "lost");
    close_store(index);
}

static void a_failed_sync_of_a_pack_loses_no_commit(void **state)
{
    (void)state;
    const struct index_options options = {.flags = INDEX_OPEN_CREATE};
    struct index_txn *txn;
    struct index *index = open_with(dir, &options, &fault_io);
    const uint64_t ino = make_file(index, "file");
    assert_int_equal(store_block(index, ino, 0, 1000, 1, INDEX_HOT, NULL), 0);
    assert_int_equal(index_commit(index), 0);
    assert_int_equal(store_block(index, ino, 1, 1000, 2, INDEX_HOT, NULL), 0);
    fault.calls = 0;
    fault.fail_at = 1; /* fdatasync of the pack */
    assert_int_equal(index_commit(index), -EIO);
    fault_reset();
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), -EROFS);
    assert_int_equal(index_close(index), -EIO);
    index = open_store(dir, 0);
    struct index_extent extent;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    assert_int_equal(index_extent_get(txn, ino, 0, &extent), 0);
    assert_int_equal(index_extent_get(txn, ino, 1, &extent), -ENOENT);
    index_end(txn);
    verify_store(index);
    close_store(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failed_commit_degrades_to_read_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_sync_of_a_pack_loses_no_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(each_call_fails_once, setup, teardown),
        cmocka_unit_test_setup_teardown(all_calls_fail_from_one_on, setup, teardown),
        cmocka_unit_test_setup_teardown(each_call_of_lmdb_fails_once, setup, teardown),
        cmocka_unit_test_setup_teardown(all_calls_of_lmdb_fail_from_one_on, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
