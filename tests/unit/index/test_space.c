/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_space.c - full hosts and full maps: what was promised fits, what does not fit is refused
 * before it is accepted, and deletions always work.
 */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static char dir[256];
static struct index *store;
static uint64_t file;

static void open_sized(uint64_t map_size, uint32_t pack_size, const struct index_io *io)
{
    const struct index_options options = {
        .flags = INDEX_OPEN_CREATE, .map_size = map_size, .pack_size = pack_size};
    store = open_with(dir, &options, io);
}

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    fault_reset();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_reset();
    if (store != NULL)
        close_store(store);
    store = NULL;
    scratch_remove(dir);
    return 0;
}

/* Appends a record without asking for room, as the owner of a promise does. */
static int append(enum index_class class, uint32_t size, struct index_block *block)
{
    uint8_t *const data = malloc(size);
    assert_non_null(data);
    fill(data, size, 5);
    *block = (struct index_block){
        .id = index_block_new(store), .plain_size = size, .hash = index_hash_of(data, size)};
    const int error = index_pack_append(store, class, block, data, size);
    free(data);
    return error;
}

static int put(const struct index_block *block, uint64_t number)
{
    struct index_txn *txn;
    const struct index_extent extent = {
        .number = number, .block = block->id, .length = block->plain_size};
    int error = index_begin(store, INDEX_WRITE, &txn);
    assert_int_equal(error, 0);
    error = index_block_add(txn, block, INDEX_HOT);
    if (error == 0)
        error = index_extent_set(txn, file, &extent, NULL);
    index_end(txn);
    return error;
}

static void what_was_promised_fits(void **state)
{
    (void)state;
    const uint64_t promise = 40 * index_record_span(100000);
    struct index_block block;
    open_sized(0, 0, &fault_io);
    file = make_file(store, "file");
    assert_int_equal(index_reserve(store, promise), 0);
    fault.host_full_after = 0; /* from now on the host has nothing */
    fault.host_free = 0;
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(append(INDEX_HOT, 100000, &block), 0);
        assert_int_equal(put(&block, i), 0);
    }
    assert_int_equal(index_commit(store), 0);
    index_release(store, promise);
    verify_store(store);
    /* What was allocated beyond the promise, in steps, is used up; then it is over. */
    int error = 0;
    for (unsigned i = 40; i < 400 && error == 0; i++)
        error = store_block(store, file, i, 100000, i, INDEX_HOT, NULL);
    assert_int_equal(error, -ENOSPC);
    assert_int_equal(index_reserve(store, 64u << 20), -ENOSPC);
    assert_int_equal(atomic_load(&store->promised), 0);
    assert_false(index_readonly(store));
    assert_int_equal(index_commit(store), 0);
    assert_int_equal(drop_file(store, file, "file"), 0);
    assert_int_equal(index_commit(store), 0);
    verify_store(store);
}

static void cold_records_use_hot_room_when_theirs_cannot_grow(void **state)
{
    (void)state;
    struct index_block hot, cold;
    open_sized(0, 0, &fault_io);
    file = make_file(store, "file");
    assert_int_equal(index_reserve(store, 200000), 0);
    assert_int_equal(append(INDEX_HOT, 50000, &hot), 0);
    assert_int_equal(put(&hot, 0), 0);
    fault.host_full_after = 0;
    assert_int_equal(append(INDEX_COLD, 50000, &cold), 0);
    assert_int_equal(cold.at.pack, hot.at.pack);
    assert_int_equal(put(&cold, 1), 0);
    verify_store(store);
}

static void a_full_pack_grows_when_no_other_can_be_made(void **state)
{
    (void)state;
    const uint64_t promise = 10 * index_record_span(50000);
    struct index_block block = {.at = {.pack = 0}};
    open_sized(0, 65536, &fault_io);
    file = make_file(store, "file");
    assert_int_equal(index_reserve(store, promise), 0);
    fault.host_full_after = 0;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(append(INDEX_HOT, 50000, &block), 0);
        assert_int_equal(put(&block, i), 0);
        assert_int_equal(block.at.pack, 1);
    }
    index_release(store, promise);
    assert_true(get_pack(store, 1).size > 400000);
    fault_reset(); /* and is left as soon as there is room */
    assert_int_equal(append(INDEX_HOT, 50000, &block), 0);
    assert_true(block.at.pack > 1);
    assert_int_equal(put(&block, 10), 0);
    verify_store(store);
}

static void quota_is_told_from_full(void **state)
{
    (void)state;
    open_sized(0, 0, &fault_io);
    fault.calls = 0;
    fault.fail_at = 1;
    fault.forever = true;
    fault.error = EDQUOT;
    assert_int_equal(index_reserve(store, 1u << 20), -EDQUOT);
}

static void hosts_without_fallocate(void **state)
{
    (void)state;
    fault.no_fallocate = true;
    open_sized(0, 0, &fault_io);
    file = make_file(store, "file");
    fault.host_free = 64u << 20;
    assert_int_equal(index_reserve(store, 10u << 20), 0);
    assert_int_equal(index_reserve(store, 64u << 20), -ENOSPC);
    assert_int_equal(index_reserve(store, 60u << 20), -ENOSPC); /* the first promise counts */
    assert_int_equal(index_reserve(store, 20u << 20), 0);
    index_release(store, 30u << 20);
    assert_int_equal(store_block(store, file, 0, 100000, 1, INDEX_HOT, NULL), 0);
    fault.host_free = 1u << 20;
    assert_int_equal(index_reserve(store, 1u << 20), -ENOSPC);
    fault.host_free = UINT64_MAX;
    assert_int_equal(store_block(store, file, 1, 100000, 2, INDEX_COLD, NULL), 0);
    assert_int_equal(index_commit(store), 0);
    verify_store(store);
}

static void releases_do_not_go_below_zero(void **state)
{
    (void)state;
    open_sized(0, 0, &fault_io);
    assert_int_equal(index_reserve(store, 1000), 0);
    index_release(store, 5000);
    assert_int_equal(atomic_load(&store->promised), 0);
    assert_int_equal(index_reserve(store, UINT64_MAX), -ENOSPC);
    assert_int_equal(atomic_load(&store->promised), 0);
}

static void reserving_is_cheap(void **state)
{
    (void)state;
    open_sized(0, 0, &fault_io);
    assert_int_equal(index_reserve(store, 1u << 20), 0);
    const uint64_t before = fault.calls;
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(index_reserve(store, 4096), 0);
        index_release(store, 4096);
        assert_int_equal(index_reserve(store, 0), 0);
    }
    assert_int_equal(fault.calls, before);
    index_release(store, 1u << 20);
}

/* Names until the map is full: refused beforehand, nothing half done, and deleting makes room. */
static void a_full_map(void **state)
{
    (void)state;
    char name[300];
    unsigned made = 0;
    int error;
    open_sized(2u << 20, 0, &index_io_system);
    memset(name, 'n', sizeof name);
    for (;; made++) {
        error = index_reserve(store, 0);
        if (error != 0)
            break;
        snprintf(name + 200, 40, "%u", made);
        make_file(store, name);
        index_release(store, 0);
        assert_true(made < 100000);
    }
    assert_int_equal(error, -ENOSPC);
    assert_true(made > 500);
    assert_false(index_readonly(store));
    assert_int_equal(index_commit(store), 0);
    /* Far faster than commits are: they must be waited for. */
    for (unsigned i = 0; i < made; i++) {
        snprintf(name + 200, 40, "%u", i);
        assert_int_equal(drop_file(store, 2 + i, name), 0);
    }
    assert_int_equal(index_commit(store), 0);
    assert_false(index_readonly(store));
    verify_store(store);
    make_file(store, "one"); /* two commits later the pages may be used again */
    assert_int_equal(index_commit(store), 0);
    assert_int_equal(index_reserve(store, 0), 0);
    close_store(store); /* which rewrites the file */
    open_sized(2u << 20, 0, &index_io_system);
    assert_int_equal(index_reserve(store, 0), 0);
    make_file(store, "again");
    verify_store(store);
}

/* The real thing: a small tmpfs, filled to the brim, several times over. */
static void a_full_host(void **state)
{
    (void)state;
    if (geteuid() != 0 || mount("tmpfs", dir, "tmpfs", 0, "size=24m") != 0) {
        print_message("skipped: cannot mount a tmpfs here\n");
        skip();
    }
    open_sized(0, 0, &index_io_system);
    for (unsigned round = 0; round < 3; round++) {
        file = make_file(store, "file");
        unsigned stored = 0;
        int error;
        while ((error = store_block(store, file, stored, 60000, stored, stored % 2, NULL)) == 0) {
            stored++;
            assert_true(stored < 1000);
        }
        assert_int_equal(error, -ENOSPC);
        assert_true(stored > 150);
        assert_int_equal(index_commit(store), 0);
        assert_false(index_readonly(store));
        verify_store(store);
        close_store(store); /* the margin for deletions survives that */
        open_sized(0, 0, &index_io_system);
        verify_store(store);
        assert_int_equal(drop_file(store, file, "file"), 0);
        assert_int_equal(index_commit(store), 0);
        close_store(store); /* gives back what was dropped */
        open_sized(0, 0, &index_io_system);
        verify_store(store);
    }
    close_store(store);
    store = NULL;
    assert_int_equal(umount2(dir, MNT_DETACH), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_promised_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(cold_records_use_hot_room_when_theirs_cannot_grow, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_full_pack_grows_when_no_other_can_be_made, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(quota_is_told_from_full, setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_without_fallocate, setup, teardown),
        cmocka_unit_test_setup_teardown(releases_do_not_go_below_zero, setup, teardown),
        cmocka_unit_test_setup_teardown(reserving_is_cheap, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_map, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_host, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
