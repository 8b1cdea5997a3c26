/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_killed.c - the process killed in the middle: what fsync acknowledged is there, a file that was
 * being appended to is a prefix of what was written, one that was being overwritten has old or new
 * blocks, and unlinked files go at the next start. The store is checked after every kill.
 */
#include "support.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 12
#define AREA   (24u * BLOCK) /* of the file that is overwritten */
#define WORD   8u

/* What the child tells the parent as it goes; shared memory. */
struct progress {
    _Atomic uint64_t appended, synced;        /* bytes of "log" */
    _Atomic uint64_t version, synced_version; /* of "area" */
    uint64_t log_ino, area_ino;
};

/* Byte AT of the log. */
static uint8_t log_byte(uint64_t at)
{
    return (uint8_t)((at * UINT64_C(0x9E3779B97F4A7C15)) >> 61) + 1;
}

static void append(struct mounted *m, struct fs_inode *log, struct progress *progress,
                   uint64_t size)
{
    uint8_t data[3 * BLOCK];
    uint64_t at = progress->appended;

    for (uint64_t i = 0; i < size; i++)
        data[i] = log_byte(at + i);
    write_all(m, log, data, size, at);
    progress->appended = at + size;
}

static void overwrite(struct mounted *m, struct fs_inode *area, struct progress *progress)
{
    uint64_t *words = malloc(AREA), version = progress->version + 1;

    assert_non_null(words);
    for (unsigned i = 0; i < AREA / WORD; i++)
        words[i] = version;
    progress->version = version; /* any block may have it from now on */
    write_all(m, area, words, AREA / 2, 0);
    write_all(m, area, (uint8_t *)words + AREA / 2, AREA / 2, AREA / 2);
    free(words);
}

/* Works until it is killed. */
static void child(struct mounted *m, struct progress *progress, uint64_t random)
{
    struct fs_inode *log, *area;
    uint64_t version = 0; /* that this child has written: the last one's may be lost */

    store_open(m);
    assert_int_equal(fs_inode_hold(&m->fs, progress->log_ino, &log), 0);
    assert_int_equal(fs_inode_hold(&m->fs, progress->area_ino, &area), 0);
    for (;;) {
        append(m, log, progress, 1 + random_next(&random) % (2 * BLOCK));
        if (random_next(&random) % 4 == 0) {
            overwrite(m, area, progress);
            version = progress->version;
        }
        switch (random_next(&random) % 16) {
        case 0: {
            uint64_t size = progress->appended;

            assert_int_equal(fs_file_sync(&m->fs, log), 0);
            progress->synced = size;
            break;
        }
        case 1:
            assert_int_equal(fs_file_sync(&m->fs, area), 0);
            if (version > 0)
                progress->synced_version = version;
            break;
        case 2:
            assert_int_equal(index_commit(m->index), 0); /* whatever is stored by now */
            break;
        default:
            break;
        }
    }
}

static void check_log(struct mounted *m, struct progress *progress)
{
    struct fs_inode *inode;
    uint64_t size = record_size(m, progress->log_ino);
    uint8_t *data = malloc(size > 0 ? size : 1);

    assert_non_null(data);
    assert_true(size >= progress->synced && size <= progress->appended);
    assert_int_equal(fs_inode_hold(&m->fs, progress->log_ino, &inode), 0);
    assert_int_equal(fs_file_read(&m->fs, inode, NULL, data, size, 0), size);
    for (uint64_t i = 0; i < size; i++)
        if (data[i] != log_byte(i))
            fail_msg("byte %llu of %llu is wrong", (unsigned long long)i, (unsigned long long)size);
    /* nothing is hidden behind the end */
    assert_int_equal(fs_file_truncate(&m->fs, inode, size + 4 * BLOCK), 0);
    expect_zeros(m, inode, 4 * BLOCK, size);
    assert_int_equal(fs_file_truncate(&m->fs, inode, size), 0);
    assert_int_equal(fs_file_sync(&m->fs, inode), 0);
    progress->appended = progress->synced = size;
    fs_inode_drop(&m->fs, inode);
    free(data);
}

static void check_area(struct mounted *m, struct progress *progress)
{
    uint64_t *words = malloc(AREA);
    struct fs_inode *inode;

    assert_non_null(words);
    assert_int_equal(fs_inode_hold(&m->fs, progress->area_ino, &inode), 0);
    assert_int_equal(fs_file_read(&m->fs, inode, NULL, words, AREA, 0), AREA);
    for (unsigned i = 0; i < AREA / WORD; i++) {
        assert_true(words[i] >= progress->synced_version && words[i] <= progress->version);
        if (i % (BLOCK / WORD) != 0)
            assert_int_equal(words[i], words[i - 1]); /* a block is old or new, not both */
    }
    fs_inode_drop(&m->fs, inode);
    free(words);
}

static void test_kill(void **state)
{
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct fs_inode *log, *area;
    struct mounted m;
    uint64_t random = 77;

    (void)state;
    assert_ptr_not_equal(progress, MAP_FAILED);
    scratch_make(&m);
    m.options.commit = 1;
    store_open(&m);
    log = file_create(&m, "log");
    area = file_create(&m, "area");
    progress->log_ino = log->ino;
    progress->area_ino = area->ino;
    overwrite(&m, area, progress);
    progress->synced_version = progress->version;
    fs_inode_drop(&m.fs, log);
    fs_inode_drop(&m.fs, area);
    store_close(&m);
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec pause = {.tv_nsec = 20000000 + (long)(random_next(&random) % 150000000)};
        uint64_t seed = random_next(&random);
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            child(&m, progress, seed);
        nanosleep(&pause, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        store_open(&m);
        check_area(&m, progress);
        check_log(&m, progress);
        store_close(&m);
    }
    print_message("log %llu bytes, area version %llu\n", (unsigned long long)progress->appended,
                  (unsigned long long)progress->version);
    assert_true(progress->appended > 0);
    scratch_remove(&m);
    munmap(progress, sizeof(*progress));
}

/* Killed with an unlinked file open, and in the middle of a truncation: the next start finishes. */
static void test_orphans(void **state)
{
    struct mounted m;
    struct fs_inode *inode;
    uint8_t *data = malloc(64 * BLOCK);
    uint64_t ino = 0;
    int status;
    pid_t pid;

    (void)state;
    assert_non_null(data);
    fill(data, 64 * BLOCK, 1);
    scratch_make(&m);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        store_open(&m);
        inode = file_create(&m, "a");
        write_all(&m, inode, data, 64 * BLOCK, 0);
        assert_int_equal(fs_file_sync(&m.fs, inode), 0);
        assert_int_equal(fs_inode_open(&m.fs, inode->ino, &inode), 0);
        file_unlink(&m, "a");
        assert_int_equal(index_commit(m.index), 0);
        assert_int_equal(space_get(&m).blocks, 64);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    store_open(&m);
    fs_reaper_wait(&m.fs);
    assert_int_equal(space_get(&m).blocks, 0);
    assert_int_equal(space_get(&m).inodes, 1);

    /* the mark that a truncation leaves between its transactions */
    inode = file_create(&m, "b");
    ino = inode->ino;
    write_all(&m, inode, data, 8 * BLOCK, 0);
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    fs_inode_drop(&m.fs, inode);
    {
        struct index_inode record;
        struct index_txn *txn;

        assert_int_equal(index_begin(m.index, INDEX_WRITE, &txn), 0);
        assert_int_equal(index_inode_get(txn, ino, &record), 0);
        record.size = 3 * BLOCK;
        assert_int_equal(index_inode_put(txn, &record), 0);
        assert_int_equal(index_orphan_set(txn, ino, 3), 0);
        index_end(txn);
    }
    assert_int_equal(fs_data_stop(&m.fs), 0);
    assert_int_equal(index_close(m.index), 0);
    store_open(&m);
    assert_int_equal(extent_get(&m, ino, 2).length, BLOCK);
    assert_int_equal(extent_get(&m, ino, 3).length, 0);
    assert_int_equal(space_get(&m).extents, 3);
    store_close(&m);
    scratch_remove(&m);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill), cmocka_unit_test(test_orphans)};

    return cmocka_run_group_tests_name("fs killed", tests, NULL, NULL);
}
