/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_order.c - what fsync waits for and what one transaction holds, when something comes between:
 * a truncation while a block is written, an error in the middle of a batch, a malformed hash record.
 */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "index/internal.h"

struct syncer {
    struct mounted *m;
    struct fs_inode *inode;
    atomic_bool returned;
    int error;
};

static void *sync_file(void *arg)
{
    struct syncer *syncer = arg;

    syncer->error = fs_file_sync(&syncer->m->fs, syncer->inode);
    syncer->returned = true;
    return NULL;
}

/* What was written before the fsync and is still part of the file is stored when it returns. */
static void test_fsync_and_truncate(void **state)
{
    struct mounted m;
    struct syncer syncer = {.m = &m};
    uint8_t data[BLOCK];
    pthread_t thread;
    uint64_t ino;

    (void)state;
    scratch_make(&m);
    store_open(&m);
    syncer.inode = file_create(&m, "a");
    ino = syncer.inode->ino;
    fill(data, sizeof(data), 0);
    write_all(&m, syncer.inode, data, sizeof(data), 0); /* makes the pack */
    assert_int_equal(fs_file_sync(&m.fs, syncer.inode), 0);
    fill(data, sizeof(data), 1);
    hold_pack_writes = true;
    write_all(&m, syncer.inode, data, sizeof(data), 0); /* complete: a worker begins with it */
    while (held_pack_writes == 0)
        usleep(1000);
    assert_int_equal(pthread_create(&thread, NULL, sync_file, &syncer), 0);
    usleep(100000);
    assert_false(syncer.returned);
    assert_int_equal(fs_file_truncate(&m.fs, syncer.inode, BLOCK / 2), 0);
    usleep(200000);
    assert_false(syncer.returned);
    hold_pack_writes = false;
    pthread_join(thread, NULL);
    assert_int_equal(syncer.error, 0);
    assert_int_equal(extent_get(&m, ino, 0).length, BLOCK / 2);
    assert_int_equal(record_size(&m, ino), BLOCK / 2);
    expect(&m, syncer.inode, data, BLOCK / 2, 0);
    fs_inode_drop(&m.fs, syncer.inode);
    store_close(&m);
    scratch_remove(&m);
}

/* Sets the references of the block behind a file's first extent, as a damaged index might. */
static void set_references(struct mounted *m, uint64_t ino, uint32_t references)
{
    struct index_txn *txn;
    struct index_extent extent;
    struct index_block block;

    assert_int_equal(index_begin(m->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_extent_get(txn, ino, 0, &extent), 0);
    assert_int_equal(index_block_get(txn, extent.block, &block), 0);
    block.references = references;
    assert_int_equal(index_block_put(txn, &block), 0);
    index_end(txn);
}

/* The blocks before the one that fails are stored, with the size that covers them. */
static void test_error_within_a_batch(void **state)
{
    struct mounted m;
    struct fs_inode *known, *inode;
    uint8_t data[BLOCK], more[BLOCK];

    (void)state;
    scratch_make(&m);
    store_open(&m);
    known = file_create(&m, "known");
    inode = file_create(&m, "a");
    fill(data, sizeof(data), 1);
    fill(more, sizeof(more), 2);
    write_all(&m, known, more, BLOCK, 0);
    assert_int_equal(fs_file_sync(&m.fs, known), 0);
    set_references(&m, known->ino, UINT32_MAX); /* one more is refused */
    write_all(&m, inode, data, BLOCK - 1, 0);   /* not complete: waits in memory */
    write_all(&m, inode, more, BLOCK, BLOCK);   /* complete, and waits for it */
    while (m.fs.counters.write_errors == 0)
        usleep(1000);
    assert_int_equal(extent_get(&m, inode->ino, 0).length, BLOCK - 1);
    assert_true(record_size(&m, inode->ino) >= BLOCK - 1);
    assert_int_equal(fs_file_sync(&m.fs, inode), -EMLINK);
    assert_int_equal(extent_get(&m, inode->ino, 0).length, BLOCK - 1);
    assert_int_equal(extent_get(&m, inode->ino, 1).length, 0);
    assert_int_equal(record_size(&m, inode->ino), BLOCK);
    set_references(&m, known->ino, 1);
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    assert_int_equal(record_size(&m, inode->ino), 2 * BLOCK);
    expect(&m, inode, more, BLOCK, BLOCK);
    fs_inode_drop(&m.fs, known);
    fs_inode_drop(&m.fs, inode);
    store_close(&m);
    scratch_remove(&m);
}

/* A malformed hash record costs deduplication, not the data that has this hash. */
static void test_malformed_hash_record(void **state)
{
    struct mounted m;
    struct fs_inode *inode;
    struct index_txn *txn;
    struct index_key key;
    uint8_t data[BLOCK];

    (void)state;
    scratch_make(&m);
    store_open(&m);
    inode = file_create(&m, "a");
    fill(data, sizeof(data), 1);
    index_key_hash(&key, index_hash_of(data, sizeof(data)));
    assert_int_equal(index_begin(m.index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_db_put(txn, INDEX_DB_HASH, &key, "?", 1), 0);
    index_end(txn);
    write_all(&m, inode, data, BLOCK, 0);
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    expect(&m, inode, data, BLOCK, 0);
    fs_inode_drop(&m.fs, inode);
    store_close(&m); /* which finds nothing wrong any more */
    scratch_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fsync_and_truncate),
                                       cmocka_unit_test(test_error_within_a_batch),
                                       cmocka_unit_test(test_malformed_hash_record)};

    return cmocka_run_group_tests_name("fs order", tests, NULL, NULL);
}
