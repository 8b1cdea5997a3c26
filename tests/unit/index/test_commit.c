/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_commit.c - what a commit promises: all or nothing after a crash, at every commit; group
 * commit from several threads; large transactions commit by themselves; recovery of orphans.
 *
 * A crash is a copy of the store's files, opened elsewhere: what a killed process leaves.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[256], copy[256];
static struct index *store;

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    scratch_make(copy);
    fault_reset();
    const struct index_options options = {.flags = INDEX_OPEN_CREATE, .pack_size = 65536};
    store = open_with(dir, &options, &fault_io);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (store != NULL)
        close_store(store);
    scratch_remove(dir);
    scratch_remove(copy);
    return 0;
}

/* The store as a crash at this moment leaves it. */
static struct index *crash(void)
{
    scratch_remove(copy);
    copy_tree(dir, copy);
    return open_store(copy, 0);
}

static bool exists(struct index *index, const char *name)
{
    struct index_txn *txn;
    struct index_dirent entry;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    const int error = index_dirent_lookup(txn, INDEX_ROOT_INO, name, &entry);
    index_end(txn);
    assert_true(error == 0 || error == -ENOENT);
    return error == 0;
}

static void uncommitted_work_is_seen_and_lost(void **state)
{
    (void)state;
    assert_int_equal(index_commit(store), 0); /* nothing to do */
    assert_false(index_dirty(store));
    assert_true(index_dirty_age(store) == 0);
    make_file(store, "first");
    assert_true(index_dirty(store));
    assert_true(index_dirty_age(store) > 0 && index_dirty_age(store) < 60);
    assert_true(exists(store, "first"));
    struct index *crashed = crash();
    assert_false(exists(crashed, "first"));
    verify_store(crashed);
    close_store(crashed);
    assert_int_equal(index_commit(store), 0);
    assert_false(index_dirty(store));
    make_file(store, "second");
    crashed = crash();
    assert_true(exists(crashed, "first"));
    assert_false(exists(crashed, "second"));
    verify_store(crashed);
    close_store(crashed);
}

/* A history of random operations with commits and crashes between them: each crash shows exactly
 * the names of the last commit, and every byte of them. */
static void crashes_show_the_last_commit(void **state)
{
    (void)state;
    uint64_t inos[200] = {0};
    bool now[200] = {false}, committed[200] = {false};
    char name[32];
    uint64_t random = 12345;
    for (unsigned round = 0; round < 600; round++) {
        uint8_t bytes[4];
        fill(bytes, sizeof bytes, random++);
        const unsigned i = bytes[0] % 200;
        snprintf(name, sizeof name, "f%u", i);
        if (!now[i]) {
            inos[i] = make_file(store, name);
            for (unsigned n = 0; n < bytes[1] % 4u; n++)
                assert_int_equal(store_block(store, inos[i], n, 1000u + bytes[2] * 40u,
                                             round * 7 + n, bytes[3] % 2, NULL),
                                 0);
        } else {
            assert_int_equal(drop_file(store, inos[i], name), 0);
        }
        now[i] = !now[i];
        if (bytes[3] < 40) {
            assert_int_equal(index_commit(store), 0);
            memcpy(committed, now, sizeof now);
        }
        if (round % 30 != 29)
            continue;
        struct index *const crashed = crash();
        for (unsigned k = 0; k < 200; k++) {
            snprintf(name, sizeof name, "f%u", k);
            assert_int_equal(exists(crashed, name), committed[k]);
        }
        verify_store(crashed);
        assert_int_equal(
            store_block(crashed, make_file(crashed, "after"), 0, 999, round, INDEX_HOT, NULL), 0);
        close_store(crashed);
        struct index *const again = open_store(copy, 0);
        assert_true(exists(again, "after"));
        verify_store(again);
        close_store(again);
    }
    verify_store(store);
}

static void recovery_finishes_orphans(void **state)
{
    (void)state;
    struct index_txn *txn;
    struct index_inode inode;
    struct index_extent extent;
    uint64_t ino, from;
    const uint64_t unlinked = make_file(store, "unlinked"), cut = make_file(store, "cut");
    for (unsigned n = 0; n < 10; n++) {
        assert_int_equal(store_block(store, unlinked, n, 500, n, INDEX_HOT, NULL), 0);
        assert_int_equal(store_block(store, cut, n, 500, 100 + n, INDEX_HOT, NULL), 0);
    }
    assert_int_equal(index_begin(store, INDEX_WRITE, &txn), 0);
    for (unsigned n = 10; n < 3000; n++) { /* more than one step of recovery */
        assert_int_equal(index_extent_get(txn, unlinked, n % 10, &extent), 0);
        extent.number = n;
        assert_int_equal(index_extent_set(txn, unlinked, &extent, NULL), 0);
    }
    assert_int_equal(index_dirent_remove(txn, INDEX_ROOT_INO, "unlinked"), 0);
    assert_int_equal(index_inode_get(txn, unlinked, &inode), 0);
    inode.nlink = 0;
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_xattr_set(txn, unlinked, "user.a", "1", 1, 0), 0);
    assert_int_equal(index_orphan_set(txn, unlinked, 0), 0);
    assert_int_equal(index_inode_get(txn, cut, &inode), 0);
    inode.size = 4 * (uint64_t)store->block_size;
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_orphan_set(txn, cut, 4), 0);
    assert_int_equal(index_orphan_set(txn, 9999, 0), 0); /* its inode is gone already */
    index_end(txn);
    assert_int_equal(index_commit(store), 0);
    scratch_remove(copy);
    copy_tree(dir, copy);
    struct index *crashed = open_store(copy, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(index_begin(crashed, INDEX_READ, &txn), 0);
    assert_int_equal(index_orphan_next(txn, 0, &ino, &from), 0);
    index_end(txn);
    close_store(crashed);
    crashed = open_store(copy, 0);
    assert_int_equal(index_begin(crashed, INDEX_READ, &txn), 0);
    assert_int_equal(index_orphan_next(txn, 0, &ino, &from), -ENOENT);
    assert_int_equal(index_inode_get(txn, unlinked, &inode), -ENOENT);
    assert_false(index_xattr_any(txn, unlinked));
    assert_int_equal(index_extent_next(txn, unlinked, 0, &extent), -ENOENT);
    assert_int_equal(index_inode_get(txn, cut, &inode), 0);
    assert_int_equal(index_extent_get(txn, cut, 3, &extent), 0);
    assert_int_equal(index_extent_next(txn, cut, 4, &extent), -ENOENT);
    index_end(txn);
    struct index_space space;
    assert_int_equal(index_space(crashed, &space), 0);
    assert_int_equal(space.blocks, 4);
    verify_store(crashed);
    close_store(crashed);
}

/* ---- threads ---- */

#define THREADS 6u
#define EACH    30u

struct worker {
    pthread_t thread;
    unsigned number;
    int error;
};

static void *create_and_commit(void *arg)
{
    struct worker *const worker = arg;
    for (unsigned i = 0; i < EACH && worker->error == 0; i++) {
        char name[32];
        struct index_txn *txn;
        struct index_inode root;
        snprintf(name, sizeof name, "t%u-%u", worker->number, i);
        const uint64_t ino = make_file(store, name);
        worker->error = store_block(store, ino, 0, 2000, ino, INDEX_HOT, NULL);
        if (worker->error == 0)
            worker->error = index_begin(store, INDEX_READ, &txn);
        if (worker->error == 0) {
            worker->error = index_inode_get(txn, INDEX_ROOT_INO, &root);
            index_end(txn);
        }
        if (worker->error == 0)
            worker->error = index_commit(store);
    }
    return NULL;
}

static void group_commit(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, create_and_commit, &workers[i]),
                         0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].error, 0);
    }
    /* Threads that wait together are served together. */
    printf("%u commits asked for, %lu made\n", THREADS * EACH, (unsigned long)store->commits_done);
    assert_true(store->commits_done <= THREADS * EACH);
    struct index *const crashed = crash();
    struct index_space space;
    assert_int_equal(index_space(crashed, &space), 0);
    assert_int_equal(space.inodes, 1 + THREADS * EACH);
    assert_int_equal(space.blocks, THREADS * EACH);
    verify_store(crashed);
    close_store(crashed);
}

struct racer {
    pthread_t thread;
    atomic_bool stop;
    int error;
};

/* Reads names and blocks all the time, whatever the others do. */
static void *read_all_the_time(void *arg)
{
    struct racer *const racer = arg;
    uint8_t data[4096];
    while (!atomic_load(&racer->stop) && racer->error == 0) {
        struct index_txn *txn;
        struct index_block block;
        struct index_space space;
        racer->error = index_begin(store, INDEX_READ, &txn);
        if (racer->error != 0)
            break;
        const int found = index_block_next(txn, 0, &block);
        index_end(txn);
        if (found == 0) {
            const int error = index_pack_read(store, &block, data);
            if (error == -EIO || error == -ESTALE) { /* right only if the block has gone */
                racer->error = index_begin(store, INDEX_READ, &txn);
                if (racer->error != 0)
                    break;
                struct index_block again;
                if (index_block_get(txn, block.id, &again) == 0)
                    racer->error = error;
                index_end(txn);
            } else {
                racer->error = error;
            }
        }
        if (racer->error == 0)
            racer->error = index_space(store, &space);
    }
    return NULL;
}

static void readers_beside_a_writer(void **state)
{
    (void)state;
    struct racer racers[2] = {{.error = 0}, {.error = 0}};
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&racers[i].thread, NULL, read_all_the_time, &racers[i]), 0);
    for (unsigned i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "n%u", i);
        const uint64_t ino = make_file(store, name);
        assert_int_equal(store_block(store, ino, 0, 4096, i, INDEX_HOT, NULL), 0);
        if (i % 3 == 0)
            assert_int_equal(index_commit(store), 0);
        assert_int_equal(drop_file(store, ino, name), 0);
        if (i % 5 == 0)
            assert_int_equal(index_commit(store), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&racers[i].stop, true);
        pthread_join(racers[i].thread, NULL);
        assert_int_equal(racers[i].error, 0);
    }
    verify_store(store);
}

/* ---- size ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void large_transactions_commit_by_themselves(void **state)
{
    (void)state;
    const unsigned count = 100000;
    const double start = seconds();
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%u", i);
        assert_int_equal(index_reserve(store, 0), 0);
        make_file(store, name);
        index_release(store, 0);
        assert_true(atomic_load(&store->operations) <= 2 * INDEX_TXN_PAGES + 16);
    }
    const double took = seconds() - start;
    printf("%u creates: %.0f/s, %lu commits\n", count, count / took,
           (unsigned long)store->commits_done);
    assert_true(store->commits_done >= 5);
    struct index *const crashed = crash(); /* most of it is there */
    struct index_space space;
    assert_int_equal(index_space(crashed, &space), 0);
    assert_true(space.inodes > count / 2);
    close_store(crashed);
    struct index_txn *txn;
    struct index_inode inode;
    const double reading = seconds();
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(index_begin(store, INDEX_READ, &txn), 0);
        assert_int_equal(index_inode_get(txn, 2 + i, &inode), 0);
        index_end(txn);
    }
    printf("%u reads: %.0f/s\n", count, count / (seconds() - reading));
    close_store(store);
    printf("index of %u files: %.1f bytes a file\n", count,
           (double)file_size(in(dir, "index/data.mdb")) / count);
    store = open_store(dir, 0);
    assert_int_equal(index_space(store, &space), 0);
    assert_int_equal(space.inodes, count + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(uncommitted_work_is_seen_and_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(crashes_show_the_last_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(recovery_finishes_orphans, setup, teardown),
        cmocka_unit_test_setup_teardown(group_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_beside_a_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(large_transactions_commit_by_themselves, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
