/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_packs.c - appending and reading records, damage in them, tails, sealing, removal, punching.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[256];
static struct index *store;
static uint64_t file;

static int setup_sized(uint32_t pack_size)
{
    const struct index_options options = {.flags = INDEX_OPEN_CREATE, .pack_size = pack_size};
    scratch_make(dir);
    fault_reset();
    store = open_with(dir, &options, &fault_io);
    file = make_file(store, "file");
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_sized(0);
}

static int setup_small_packs(void **state)
{
    (void)state;
    return setup_sized(65536);
}

static int teardown(void **state)
{
    (void)state;
    if (store != NULL)
        close_store(store);
    store = NULL;
    scratch_remove(dir);
    return 0;
}

static void reopen(void)
{
    close_store(store);
    store = open_store(dir, 0);
}

static const char *pack_path(uint32_t id)
{
    char name[32];
    snprintf(name, sizeof name, "packs/%08x.pack", id);
    return in(dir, name);
}

static bool pack_exists(uint32_t id)
{
    return access(pack_path(id), F_OK) == 0;
}

static void remove_extents(uint64_t first, uint64_t last)
{
    struct index_txn *txn;
    bool more;
    assert_int_equal(index_begin(store, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_extent_remove(txn, file, first, last, 1u << 20, NULL, &more), 0);
    index_end(txn);
}

static void names_of_packs(void **state)
{
    (void)state;
    uint32_t id;
    char name[16];
    index_pack_name(0xab12, name);
    assert_string_equal(name, "0000ab12.pack");
    assert_true(index_pack_parse_name(name, &id));
    assert_int_equal(id, 0xab12);
    assert_true(index_pack_parse_name("ffffffff.pack", &id));
    assert_false(index_pack_parse_name("00000000.pack", &id));
    assert_false(index_pack_parse_name("0000AB12.pack", &id));
    assert_false(index_pack_parse_name("0000ab12.pack.new", &id));
    assert_false(index_pack_parse_name("1.pack", &id));
    assert_false(index_pack_parse_name("..", &id));
}

static void every_size_reads_back(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 7, 8, 9, 4095, 4096, 65537, 131072};
    uint64_t ids[8];
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(store_block(store, file, i, sizes[i], i, i % 2, &ids[i]), 0);
    verify_store(store); /* reads them all */
    assert_int_equal(index_commit(store), 0);
    reopen();
    verify_store(store);
    for (unsigned i = 0; i < 8; i++) {
        const struct index_block block = get_block(store, ids[i]);
        assert_int_equal(block.at.offset % 8, 0);
        assert_int_equal(block.plain_size, sizes[i]);
    }
}

static void bad_appends_are_refused(void **state)
{
    (void)state;
    uint8_t data[10] = {0};
    struct index_block block = {.id = 1, .plain_size = 10};
    assert_int_equal(index_pack_append(store, INDEX_HOT, &block, data, 0), -EINVAL);
    assert_int_equal(index_pack_append(store, 2, &block, data, 10), -EINVAL);
    block.plain_size = 0;
    assert_int_equal(index_pack_append(store, INDEX_HOT, &block, data, 10), -EINVAL);
    block.plain_size = (4u << 20) + 1;
    assert_int_equal(index_pack_append(store, INDEX_HOT, &block, data, 10), -EINVAL);
}

static void damage_is_found_and_confined(void **state)
{
    (void)state;
    uint64_t ids[3];
    uint8_t data[3000], byte;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(store_block(store, file, i, 3000, i, INDEX_HOT, &ids[i]), 0);
    assert_int_equal(index_commit(store), 0);
    const struct index_block block = get_block(store, ids[1]);
    const char *const path = pack_path(block.at.pack);
    /* Any byte of header or payload. */
    for (uint64_t at = 0; at < INDEX_RECORD_HEADER + 3000u; at += at < 80 ? 1 : 271) {
        assert_int_equal(index_pack_pread(store, block.at.pack, &byte, 1, block.at.offset + at), 0);
        byte ^= 0x10;
        poke(path, block.at.offset + at, &byte, 1);
        assert_int_equal(index_pack_read(store, &block, data), -EIO);
        byte ^= 0x10;
        poke(path, block.at.offset + at, &byte, 1);
    }
    assert_int_equal(index_pack_read(store, &block, data), 0);
    struct index_block wrong = block; /* a good record, but not the one that was asked for */
    wrong.id++;
    assert_int_equal(index_pack_read(store, &wrong, data), -EIO);
    wrong = block;
    wrong.hash.high ^= 1;
    assert_int_equal(index_pack_read(store, &wrong, data), -EIO);
    wrong = block;
    wrong.codec ^= 1;
    assert_int_equal(index_pack_read(store, &wrong, data), -EIO);
    wrong = block;
    wrong.at.offset += 8;
    assert_int_equal(index_pack_read(store, &wrong, data), -EIO);
    wrong.at.offset = UINT64_MAX - 7;
    assert_int_equal(index_pack_read(store, &wrong, data), -EIO);
    wrong = block;
    wrong.at.pack += 50;
    assert_int_equal(index_pack_read(store, &wrong, data), -ESTALE);
    byte = 0;
    poke(path, block.at.offset, &byte, 1);
    const struct index_block before = get_block(store, ids[0]), after = get_block(store, ids[2]);
    assert_int_equal(index_pack_read(store, &before, data), 0);
    assert_int_equal(index_pack_read(store, &after, data), 0);
    fault.fail_at = fault.calls + 1; /* an error of the device */
    assert_int_equal(index_pack_read(store, &after, data), -EIO);
    fault_reset();
}

static void tail_is_cut_at_the_committed_size(void **state)
{
    (void)state;
    uint64_t kept, lost;
    char copy[256];
    assert_int_equal(store_block(store, file, 0, 5000, 1, INDEX_HOT, &kept), 0);
    assert_int_equal(index_commit(store), 0);
    const uint32_t pack = get_block(store, kept).at.pack;
    const uint64_t size = file_size(pack_path(pack));
    assert_int_equal(store_block(store, file, 1, 5000, 2, INDEX_HOT, &lost), 0);
    assert_true(file_size(pack_path(pack)) > size);
    scratch_make(copy);
    copy_tree(dir, copy);
    char other[300];
    snprintf(other, sizeof other, "%s/packs/00000099.pack", copy);
    fclose(fopen(other, "w")); /* a pack that no commit knows */
    struct index *crashed = open_store(copy, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(access(other, F_OK), 0); /* looked at, not repaired */
    close_store(crashed);
    char path[300];
    snprintf(path, sizeof path, "%s/packs/%08x.pack", copy, pack);
    assert_true(file_size(path) > size);
    crashed = open_store(copy, 0);
    assert_int_equal(file_size(path), size);
    assert_int_equal(access(other, F_OK), -1);
    verify_store(crashed);
    struct index_txn *txn;
    struct index_extent extent;
    assert_int_equal(index_begin(crashed, INDEX_READ, &txn), 0);
    assert_int_equal(index_extent_get(txn, file, 0, &extent), 0);
    assert_int_equal(index_extent_get(txn, file, 1, &extent), -ENOENT);
    index_end(txn);
    assert_int_equal(store_block(crashed, file, 1, 5000, 3, INDEX_HOT, NULL), 0);
    verify_store(crashed);
    close_store(crashed);
    crashed = open_store(copy, 0);
    verify_store(crashed);
    close_store(crashed);
    scratch_remove(copy);
}

static void full_packs_are_sealed_and_empty_ones_removed(void **state)
{
    (void)state;
    uint64_t id;
    uint8_t data[20000];
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(store_block(store, file, i, 20000, i, INDEX_HOT, &id), 0);
    assert_int_equal(index_commit(store), 0);
    const struct index_pack first = get_pack(store, 1), second = get_pack(store, 2);
    assert_true(first.sealed && second.sealed && first.size >= 65536 && first.size < 65536 * 2);
    assert_true(!get_pack(store, 3).sealed && get_pack(store, 3).class == INDEX_HOT);
    /* Nothing is preallocated in a sealed pack. */
    assert_true(file_blocks(pack_path(1)) * 512 <= first.size + 4096);
    struct index_txn *txn;
    struct index_extent extent;
    struct index_block block;
    assert_int_equal(index_begin(store, INDEX_READ, &txn), 0);
    assert_int_equal(index_extent_get(txn, file, 0, &extent), 0);
    assert_int_equal(index_block_get(txn, extent.block, &block), 0);
    index_end(txn);
    assert_int_equal(block.at.pack, 1);
    remove_extents(0, 3);
    assert_true(pack_exists(1)); /* until the commit is durable */
    assert_int_equal(index_pack_read(store, &block, data), 0);
    assert_int_equal(index_commit(store), 0);
    assert_false(pack_exists(1));
    assert_int_equal(index_pack_read(store, &block, data), -ESTALE);
    assert_true(pack_exists(2));
    verify_store(store);
    reopen();
    verify_store(store);
    struct index_pack pack;
    assert_int_equal(index_begin(store, INDEX_READ, &txn), 0);
    assert_int_equal(index_pack_next(txn, 0, &pack), 0);
    assert_int_equal(pack.id, 2);
    index_end(txn);
}

static void a_pack_waits_for_records_on_their_way(void **state)
{
    (void)state;
    uint8_t data[66000];
    fill(data, sizeof data, 7);
    struct index_block block = {.id = index_block_new(store),
                                .plain_size = sizeof data,
                                .hash = index_hash_of(data, sizeof data)};
    assert_int_equal(index_pack_append(store, INDEX_HOT, &block, data, sizeof data), 0);
    assert_int_equal(index_pack_seal(store, block.at.pack), 0);
    assert_int_equal(index_pack_seal(store, block.at.pack), -ENOENT);
    make_file(store, "other");
    assert_int_equal(index_commit(store), 0);
    assert_true(pack_exists(block.at.pack)); /* nothing live, but a record is not put yet */
    struct index_txn *txn;
    assert_int_equal(index_begin(store, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_block_add(txn, &block, INDEX_HOT), 0);
    const struct index_extent extent = {.block = block.id, .length = sizeof data};
    assert_int_equal(index_extent_set(txn, file, &extent, NULL), 0);
    index_end(txn);
    assert_int_equal(index_commit(store), 0);
    assert_true(pack_exists(block.at.pack));
    verify_store(store);
}

static void dead_records_are_punched(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64; i++) /* 3 KiB each: no page is one record's own */
        assert_int_equal(store_block(store, file, i, 3000, i, INDEX_HOT, NULL), 0);
    assert_int_equal(index_commit(store), 0);
    const uint32_t pack = 1;
    for (unsigned i = 0; i < 60; i += 2) /* first every other one, then those between */
        remove_extents(i, i);
    assert_int_equal(index_commit(store), 0);
    for (unsigned i = 1; i < 60; i += 2)
        remove_extents(i, i);
    assert_int_equal(index_commit(store), 0);
    struct index_txn *txn;
    assert_int_equal(index_begin(store, INDEX_READ, &txn), 0);
    assert_int_equal(index_db_entries(txn, INDEX_DB_FREE), 1); /* joined */
    index_end(txn);
    reopen(); /* punching is done at the latest at close */
    assert_true(file_size(pack_path(pack)) > 64 * 3000);
    const uint64_t held = file_blocks(pack_path(pack)) * 512;
    if (held > 5 * 4096 + 4 * 3080)
        fail_msg("%lu bytes held, about 16384 expected", (unsigned long)held);
    verify_store(store);
}

static void unpunched_ranges_are_punched_after_a_crash(void **state)
{
    (void)state;
    char copy[256], path[300];
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(store_block(store, file, i, 10000, i, INDEX_HOT, NULL), 0);
    assert_int_equal(index_commit(store), 0);
    remove_extents(0, 18);
    assert_int_equal(index_commit(store), 0);
    scratch_make(copy);
    copy_tree(dir, copy); /* reading holes as zeros and writing them: all bytes are there again */
    snprintf(path, sizeof path, "%s/packs/00000001.pack", copy);
    assert_true(file_blocks(path) * 512 >= 190000);
    struct index *crashed = open_store(copy, 0);
    verify_store(crashed);
    close_store(crashed);
    assert_true(file_blocks(path) * 512 <= 24576);
    scratch_remove(copy);
}

static void a_failed_append_leaves_no_trace(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(store_block(store, file, 0, 5000, 1, INDEX_HOT, &id), 0);
    const uint64_t tail = get_pack(store, 1).size;
    uint8_t data[5000];
    fill(data, sizeof data, 2);
    struct index_block block = {.id = index_block_new(store),
                                .plain_size = sizeof data,
                                .hash = index_hash_of(data, sizeof data)};
    fault.calls = 0;
    fault.fail_at = 1;
    fault.error = ENOSPC;
    assert_int_equal(index_pack_append(store, INDEX_HOT, &block, data, sizeof data), -ENOSPC);
    fault_reset();
    assert_int_equal(get_pack(store, 1).size, tail); /* its place is taken again */
    assert_false(index_readonly(store));
    assert_int_equal(store_block(store, file, 1, 5000, 3, INDEX_HOT, NULL), 0);
    verify_store(store);
    reopen();
    verify_store(store);
}

static void more_packs_than_descriptors(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) /* a pack each */
        assert_int_equal(store_block(store, file, i, 70000, i, INDEX_HOT, NULL), 0);
    assert_true(store->packs.count >= 99);
    verify_store(store);
    assert_int_equal(index_commit(store), 0);
    verify_store(store);
    assert_true(store->packs.open_fds <= 65);
    reopen();
    verify_store(store);
    assert_true(store->packs.open_fds <= 65);
}

#define THREADS 4u
#define EACH    50u

static void *append_many(void *arg)
{
    const unsigned number = *(const unsigned *)arg;
    for (unsigned i = 0; i < EACH; i++) {
        if (store_block(store, file, number * EACH + i, 1000 + 37 * i, number * 1000 + i, i % 2,
                        NULL) != 0)
            return arg;
    }
    return NULL;
}

static void parallel_appends(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    struct index_space space;
    assert_int_equal(index_space(store, &space), 0);
    assert_int_equal(space.blocks, THREADS * EACH);
    verify_store(store);
    reopen();
    verify_store(store);
}

/* The pack whose only record was promised to nobody is gone when the session ends. */
static void garbage_only_packs_go_at_close(void **state)
{
    (void)state;
    uint8_t data[100] = {1};
    struct index_block block = {.id = index_block_new(store),
                                .plain_size = sizeof data,
                                .hash = index_hash_of(data, sizeof data)};
    assert_int_equal(index_pack_append(store, INDEX_COLD, &block, data, sizeof data), 0);
    reopen();
    assert_false(pack_exists(block.at.pack));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_of_packs, setup, teardown),
        cmocka_unit_test_setup_teardown(every_size_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_appends_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_found_and_confined, setup, teardown),
        cmocka_unit_test_setup_teardown(tail_is_cut_at_the_committed_size, setup, teardown),
        cmocka_unit_test_setup_teardown(full_packs_are_sealed_and_empty_ones_removed,
                                        setup_small_packs, teardown),
        cmocka_unit_test_setup_teardown(a_pack_waits_for_records_on_their_way, setup_small_packs,
                                        teardown),
        cmocka_unit_test_setup_teardown(dead_records_are_punched, setup, teardown),
        cmocka_unit_test_setup_teardown(unpunched_ranges_are_punched_after_a_crash, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_failed_append_leaves_no_trace, setup, teardown),
        cmocka_unit_test_setup_teardown(more_packs_than_descriptors, setup_small_packs, teardown),
        cmocka_unit_test_setup_teardown(parallel_appends, setup_small_packs, teardown),
        cmocka_unit_test_setup_teardown(garbage_only_packs_go_at_close, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
