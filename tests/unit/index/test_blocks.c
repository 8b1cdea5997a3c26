/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_blocks.c - blocks, extents, reference counts, dedup, compare-and-swap, the compactor's lists.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[256];
static struct index *store;
static uint64_t file;

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    store = open_store(dir, INDEX_OPEN_CREATE);
    file = make_file(store, "file");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    verify_store(store);
    close_store(store);
    store = open_store(dir, 0); /* and what was committed at the end is the same */
    verify_store(store);
    close_store(store);
    scratch_remove(dir);
    return 0;
}

static struct index_txn *begin(enum index_access access)
{
    struct index_txn *txn;
    assert_int_equal(index_begin(store, access, &txn), 0);
    return txn;
}

static int set(uint64_t ino, uint64_t number, uint64_t block, uint32_t offset, uint32_t length,
               struct index_inode *inode)
{
    struct index_txn *txn = begin(INDEX_WRITE);
    const struct index_extent extent = {
        .number = number, .block = block, .offset = offset, .length = length};
    const int error = index_extent_set(txn, ino, &extent, inode);
    index_end(txn);
    return error;
}

static int block_state(uint64_t id, struct index_block *block)
{
    struct index_txn *txn = begin(INDEX_READ);
    const int error = index_block_get(txn, id, block);
    index_end(txn);
    return error;
}

static int remove_range(uint64_t ino, uint64_t first, uint64_t last, unsigned max,
                        struct index_inode *inode, bool *more)
{
    struct index_txn *txn = begin(INDEX_WRITE);
    const int error = index_extent_remove(txn, ino, first, last, max, inode, more);
    index_end(txn);
    return error;
}

static void references_and_live(void **state)
{
    (void)state;
    uint64_t id;
    struct index_block block;
    bool more;
    assert_int_equal(store_block(store, file, 0, 1000, 1, INDEX_HOT, &id), 0);
    assert_int_equal(block_state(id, &block), 0);
    assert_true(block.references == 1 && block.live == 1000 && block.id == id);
    assert_true(block.owner_ino == 0 && block.owner_block == 0); /* kept in the pack only */
    assert_int_equal(set(file, 5, id, 0, 1000, NULL), 0);
    assert_int_equal(set(file, 6, id, 900, 100, NULL), 0);
    assert_int_equal(block_state(id, &block), 0);
    assert_true(block.references == 3 && block.live == 2100);
    assert_int_equal(set(file, 6, id, 900, 50, NULL), 0); /* replaced by itself */
    assert_int_equal(block_state(id, &block), 0);
    assert_true(block.references == 3 && block.live == 2050);
    assert_int_equal(remove_range(file, 0, 5, 100, NULL, &more), 0);
    assert_false(more);
    assert_int_equal(block_state(id, &block), 0);
    assert_true(block.references == 1 && block.live == 50);
    assert_int_equal(remove_range(file, 6, 6, 100, NULL, &more), 0);
    assert_int_equal(block_state(id, &block), -ENOENT);
    struct index_space space;
    assert_int_equal(index_space(store, &space), 0);
    assert_true(space.blocks == 0 && space.extents == 0 && space.hot_blocks == 0);
    assert_int_equal(space.live_bytes, 0);
}

static void extents(void **state)
{
    (void)state;
    struct index_extent extent;
    struct index_txn *txn;
    bool more;
    for (uint64_t n = 0; n < 300; n += 3)
        assert_int_equal(store_block(store, file, n, 50, n, INDEX_HOT, NULL), 0);
    txn = begin(INDEX_READ);
    assert_int_equal(index_extent_get(txn, file, 3, &extent), 0);
    assert_true(extent.number == 3 && extent.length == 50 && extent.offset == 0);
    assert_int_equal(index_extent_get(txn, file, 4, &extent), -ENOENT);
    assert_int_equal(index_extent_next(txn, file, 4, &extent), 0);
    assert_int_equal(extent.number, 6);
    assert_int_equal(index_extent_next(txn, file, 298, &extent), -ENOENT);
    assert_int_equal(index_extent_next(txn, file + 1, 0, &extent), -ENOENT);
    assert_int_equal(index_extent_next(txn, file - 1, 0, &extent), -ENOENT);
    index_end(txn);
    assert_int_equal(remove_range(file, 10, 200, 7, NULL, &more), 0);
    assert_true(more);
    txn = begin(INDEX_READ);
    assert_int_equal(index_extent_next(txn, file, 10, &extent), 0);
    assert_int_equal(extent.number, 12 + 7 * 3);
    assert_int_equal(index_extent_get(txn, file, 9, &extent), 0);
    index_end(txn);
    assert_int_equal(remove_range(file, 10, 200, 1000, NULL, &more), 0);
    assert_false(more);
    txn = begin(INDEX_READ);
    assert_int_equal(index_extent_next(txn, file, 10, &extent), 0);
    assert_int_equal(extent.number, 201);
    index_end(txn);
    assert_int_equal(remove_range(file, 5, 4, 10, NULL, &more), 0); /* nothing */
    assert_false(more);
}

static void bad_extents_are_refused(void **state)
{
    (void)state;
    uint64_t id;
    assert_int_equal(store_block(store, file, 0, 1000, 1, INDEX_HOT, &id), 0);
    assert_int_equal(set(file, 1, id + 100, 0, 10, NULL), -ENOENT);
    assert_int_equal(set(file, 1, id, 1, 1000, NULL), -EINVAL);
    assert_int_equal(set(file, 1, id, 2000, 1, NULL), -EINVAL);
    assert_int_equal(set(file, 1, id, 0, 0, NULL), -EINVAL);
    assert_int_equal(set(file, 1, 0, 0, 10, NULL), -EINVAL);
    assert_int_equal(set(0, 1, id, 0, 10, NULL), -EINVAL);
    assert_int_equal(set(file, 1, id, 0, 131073, NULL), -EINVAL);
    assert_int_equal(set(file, UINT64_MAX, id, 0, 10, NULL), -EINVAL);
    assert_int_equal(set(file, INT64_MAX / 131072 + 1, id, 0, 10, NULL), -EINVAL);
    assert_int_equal(get_block(store, id).references, 1);
    assert_false(index_readonly(store)); /* a refusal is no failure */
}

static void stored_bytes_follow(void **state)
{
    (void)state;
    uint64_t id;
    struct index_inode inode = {.stored = 0};
    bool more;
    assert_int_equal(store_block(store, file, 0, 1000, 1, INDEX_HOT, &id), 0);
    const struct index_block block = get_block(store, id);
    struct index_extent whole = {.length = 1000}, tenth = {.length = 100}, odd = {.length = 1};
    assert_int_equal(index_extent_stored(&block, &whole), 1080);
    assert_int_equal(index_extent_stored(&block, &tenth), 108);
    assert_int_equal(index_extent_stored(&block, &odd), 2); /* rounded up */
    assert_int_equal(set(file, 1, id, 0, 100, &inode), 0);
    assert_int_equal(inode.stored, 108);
    assert_int_equal(set(file, 2, id, 0, 1000, &inode), 0);
    assert_int_equal(inode.stored, 1188);
    assert_int_equal(set(file, 2, id, 0, 100, &inode), 0);
    assert_int_equal(inode.stored, 216);
    assert_int_equal(remove_range(file, 1, 1, 10, &inode, &more), 0);
    assert_int_equal(inode.stored, 108);
    inode.stored = 50; /* less than what goes: never below zero */
    assert_int_equal(remove_range(file, 2, 2, 10, &inode, &more), 0);
    assert_int_equal(inode.stored, 0);
    inode.stored = 5000; /* the last extent takes the rest along */
    assert_int_equal(remove_range(file, 0, UINT64_MAX, 10, &inode, &more), 0);
    assert_int_equal(inode.stored, 0);
}

static void a_block_may_move_between_extents(void **state)
{
    (void)state;
    uint64_t id;
    bool more;
    assert_int_equal(store_block(store, file, 0, 1000, 1, INDEX_HOT, &id), 0);
    struct index_txn *txn = begin(INDEX_WRITE);
    const struct index_extent extent = {.number = 7, .block = id, .length = 1000};
    assert_int_equal(index_extent_remove(txn, file, 0, 0, 1, NULL, &more), 0);
    assert_int_equal(index_extent_set(txn, file, &extent, NULL), 0);
    index_end(txn);
    assert_int_equal(get_block(store, id).references, 1);
}

static void unreferenced_blocks_are_dropped(void **state)
{
    (void)state;
    uint8_t data[500];
    fill(data, sizeof data, 9);
    struct index_block block = {.id = index_block_new(store),
                                .plain_size = sizeof data,
                                .hash = index_hash_of(data, sizeof data)};
    assert_int_equal(index_pack_append(store, INDEX_HOT, &block, data, sizeof data), 0);
    struct index_txn *txn = begin(INDEX_WRITE);
    struct index_block read;
    assert_int_equal(index_block_add(txn, &block, INDEX_HOT), 0);
    assert_int_equal(index_block_add(txn, &block, INDEX_HOT), -EEXIST);
    assert_int_equal(index_block_get(txn, block.id, &read), 0);
    index_end(txn);
    assert_int_equal(block_state(block.id, &read), -ENOENT);
    txn = begin(INDEX_READ);
    assert_int_equal(index_block_find(txn, block.hash, sizeof data, &read), -ENOENT);
    struct index_hot hot;
    assert_int_equal(index_hot_next(txn, 0, &hot), -ENOENT);
    index_end(txn);
    block.at.pack = 77; /* a pack that is not there */
    txn = begin(INDEX_WRITE);
    assert_int_equal(index_block_add(txn, &block, INDEX_HOT), -ESTALE);
    block.at.offset++;
    assert_int_equal(index_block_add(txn, &block, INDEX_HOT), -EINVAL);
    index_end(txn);
}

static void dedup(void **state)
{
    (void)state;
    uint64_t first, second;
    struct index_block found;
    bool more;
    uint8_t data[1000];
    fill(data, sizeof data, 1);
    struct index_hash hash = index_hash_of(data, sizeof data);
    assert_int_equal(store_block(store, file, 0, 1000, 1, INDEX_HOT, &first), 0);
    struct index_txn *txn = begin(INDEX_READ);
    assert_int_equal(index_block_find(txn, hash, 1000, &found), 0);
    assert_int_equal(found.id, first);
    assert_int_equal(index_block_find(txn, hash, 999, &found), -ENOENT);
    hash.high++;
    assert_int_equal(index_block_find(txn, hash, 1000, &found), -ENOENT);
    hash.high--;
    hash.low++;
    assert_int_equal(index_block_find(txn, hash, 1000, &found), -ENOENT);
    hash.low--;
    index_end(txn);
    /* The same bytes stored twice, because the first block did not read back: the second one is
     * found from now on, also when the first one goes. */
    assert_int_equal(store_block(store, file, 1, 1000, 1, INDEX_COLD, &second), 0);
    txn = begin(INDEX_READ);
    assert_int_equal(index_block_find(txn, hash, 1000, &found), 0);
    assert_int_equal(found.id, second);
    index_end(txn);
    assert_int_equal(remove_range(file, 0, 0, 1, NULL, &more), 0);
    txn = begin(INDEX_READ);
    assert_int_equal(index_block_get(txn, first, &found), -ENOENT);
    assert_int_equal(index_block_find(txn, hash, 1000, &found), 0);
    assert_int_equal(found.id, second);
    index_end(txn);
    assert_int_equal(remove_range(file, 1, 1, 1, NULL, &more), 0);
    txn = begin(INDEX_READ);
    assert_int_equal(index_block_find(txn, hash, 1000, &found), -ENOENT);
    index_end(txn);
}

static void shared_blocks(void **state)
{
    (void)state;
    uint64_t id;
    struct index_block found;
    struct index_space space;
    assert_int_equal(store_block(store, file, 0, 1000, 1, INDEX_HOT, &id), 0);
    const struct index_block block = get_block(store, id);
    struct index_txn *txn = begin(INDEX_WRITE);
    assert_int_equal(index_block_set_flags(txn, id, INDEX_BLOCK_SHARED), 0);
    assert_int_equal(index_block_find(txn, block.hash, 1000, &found), -ENOENT);
    index_end(txn);
    assert_int_equal(index_space(store, &space), 0);
    assert_int_equal(space.shared_blocks, 1);
    txn = begin(INDEX_WRITE);
    assert_int_equal(index_block_set_flags(txn, id, INDEX_BLOCK_INCOMPRESSIBLE), 0);
    assert_int_equal(index_block_find(txn, block.hash, 1000, &found), 0);
    assert_int_equal(found.flags, INDEX_BLOCK_INCOMPRESSIBLE);
    assert_int_equal(index_block_set_flags(txn, id + 1, 0), -ENOENT);
    index_end(txn);
    assert_int_equal(index_space(store, &space), 0);
    assert_int_equal(space.shared_blocks, 0);
}

/* Stores the block's bytes again as a cold record of codec 5. */
static struct index_block appended_again(uint64_t id, uint64_t seed)
{
    uint8_t data[1000];
    fill(data, sizeof data, seed);
    struct index_block changed = get_block(store, id);
    changed.codec = 5;
    changed.level = 6;
    assert_int_equal(index_pack_append(store, INDEX_COLD, &changed, data, 700), 0);
    return changed;
}

static int swap(const struct index_block *changed, const struct index_location *expected)
{
    struct index_txn *txn = begin(INDEX_WRITE);
    const int error = index_block_swap(txn, changed, expected);
    index_end(txn);
    return error;
}

static void compare_and_swap(void **state)
{
    (void)state;
    uint64_t id;
    struct index_hot hot;
    assert_int_equal(store_block(store, file, 0, 1000, 1, INDEX_HOT, &id), 0);
    assert_int_equal(set(file, 3, id, 10, 20, NULL), 0);
    const struct index_block before = get_block(store, id);
    const struct index_block changed = appended_again(id, 1);
    assert_true(changed.at.pack != before.at.pack);
    assert_int_equal(swap(&changed, &before.at), 0);
    const struct index_block after = get_block(store, id);
    assert_true(after.references == 2 && after.live == 1020);
    assert_true(after.codec == 5 && after.level == 6 && after.at.pack == changed.at.pack);
    assert_int_equal(after.at.payload_size, 700);
    struct index_txn *txn = begin(INDEX_READ);
    assert_int_equal(index_hot_next(txn, 0, &hot), -ENOENT);
    index_end(txn);
    assert_int_equal(get_pack(store, before.at.pack).live, 0);
    assert_int_equal(get_pack(store, after.at.pack).live, index_record_span(700));
    /* A second one that expects the old place loses, and its record is garbage. */
    const struct index_block late = appended_again(id, 1);
    assert_int_equal(swap(&late, &before.at), -ESTALE);
    assert_int_equal(get_block(store, id).at.offset, after.at.offset);
    assert_int_equal(get_pack(store, after.at.pack).live, index_record_span(700));
    struct index_block other = late; /* the contents may never change */
    other.hash.low++;
    assert_int_equal(swap(&other, &after.at), -EINVAL);
    other = late;
    other.plain_size--;
    assert_int_equal(swap(&other, &after.at), -EINVAL);
    other = late;
    other.id += 1000;
    assert_int_equal(swap(&other, &after.at), -ESTALE);
    assert_int_equal(swap(&after, &after.at), -EINVAL); /* onto itself */
}

static void live_saturates(void **state)
{
    (void)state;
    uint64_t id;
    bool more;
    assert_int_equal(store_block(store, file, 0, 131072, 1, INDEX_HOT, &id), 0);
    struct index_txn *txn = begin(INDEX_WRITE);
    for (uint64_t n = 1; n <= 32768; n++) {
        const struct index_extent extent = {.number = n, .block = id, .length = 131072};
        assert_int_equal(index_extent_set(txn, file, &extent, NULL), 0);
    }
    index_end(txn);
    struct index_block block = get_block(store, id);
    assert_true(block.references == 32769 && block.live == UINT32_MAX);
    assert_int_equal(remove_range(file, 1, UINT64_MAX, 100000, NULL, &more), 0);
    block = get_block(store, id);
    assert_true(block.references == 1 && block.live == UINT32_MAX); /* until recounted */
    assert_int_equal(remove_range(file, 0, 0, 1, NULL, &more), 0);
}

static void hot_list(void **state)
{
    (void)state;
    uint64_t ids[3];
    struct index_hot hot;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(store_block(store, file, i, 100, i, INDEX_HOT, &ids[i]), 0);
    assert_int_equal(store_block(store, file, 3, 100, 3, INDEX_COLD, NULL), 0);
    struct index_txn *txn = begin(INDEX_WRITE);
    assert_int_equal(index_hot_next(txn, 0, &hot), 0);
    assert_true(hot.block == ids[0] && hot.ino == file && hot.number == 0);
    assert_true(hot.stored_at > 1600000000);
    assert_int_equal(index_hot_next(txn, ids[0] + 1, &hot), 0);
    assert_int_equal(hot.block, ids[1]);
    assert_int_equal(index_hot_remove(txn, ids[1]), 0);
    assert_int_equal(index_hot_remove(txn, ids[1]), 0);
    assert_int_equal(index_hot_next(txn, ids[0] + 1, &hot), 0);
    assert_int_equal(hot.block, ids[2]);
    assert_int_equal(index_hot_next(txn, ids[2] + 1, &hot), -ENOENT);
    hot = (struct index_hot){.block = ids[1], .ino = 5, .number = 6, .stored_at = 7};
    assert_int_equal(index_hot_add(txn, &hot), 0);
    assert_int_equal(index_hot_next(txn, ids[1], &hot), 0);
    assert_true(hot.block == ids[1] && hot.ino == 5 && hot.number == 6 && hot.stored_at == 7);
    index_end(txn);
}

static void pending_list(void **state)
{
    (void)state;
    struct index_pending read;
    struct index_pending pending = {.block = 5,
                                    .error = EIO,
                                    .codec = 4,
                                    .level = 3,
                                    .tried_at = 1234567890,
                                    .reason = "did not decode"};
    struct index_txn *txn = begin(INDEX_WRITE);
    assert_int_equal(index_pending_get(txn, 5, &read), -ENOENT);
    assert_int_equal(index_pending_put(txn, &pending), 0);
    pending.block = 9;
    memset(pending.reason, 'r', sizeof pending.reason - 1);
    assert_int_equal(index_pending_put(txn, &pending), 0);
    assert_int_equal(index_pending_get(txn, 5, &read), 0);
    assert_true(read.error == EIO && read.codec == 4 && read.level == 3);
    assert_true(read.tried_at == 1234567890);
    assert_string_equal(read.reason, "did not decode");
    assert_int_equal(index_pending_next(txn, 6, &read), 0);
    assert_int_equal(read.block, 9);
    assert_int_equal(strlen(read.reason), sizeof read.reason - 1);
    assert_int_equal(index_pending_get(txn, 8, &read), -ENOENT);
    assert_int_equal(index_pending_remove(txn, 9), 0);
    assert_int_equal(index_pending_remove(txn, 9), 0);
    assert_int_equal(index_pending_next(txn, 6, &read), -ENOENT);
    index_end(txn);
}

static void block_numbers_are_never_reused(void **state)
{
    (void)state;
    char copy[256];
    uint64_t ids[3];
    assert_int_equal(store_block(store, file, 0, 100, 1, INDEX_HOT, &ids[0]), 0);
    assert_int_equal(index_commit(store), 0);
    assert_int_equal(store_block(store, file, 1, 100, 2, INDEX_HOT, &ids[1]), 0);
    const uint64_t lost = make_file(store, "lost");
    scratch_make(copy);
    copy_tree(dir, copy); /* as a crash leaves it */
    struct index *other = open_store(copy, 0);
    assert_true(index_block_new(other) > ids[1]);
    assert_true(make_file(other, "new") > lost);
    close_store(other);
    scratch_remove(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(references_and_live, setup, teardown),
        cmocka_unit_test_setup_teardown(extents, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_extents_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(stored_bytes_follow, setup, teardown),
        cmocka_unit_test_setup_teardown(a_block_may_move_between_extents, setup, teardown),
        cmocka_unit_test_setup_teardown(unreferenced_blocks_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(dedup, setup, teardown),
        cmocka_unit_test_setup_teardown(shared_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(compare_and_swap, setup, teardown),
        cmocka_unit_test_setup_teardown(live_saturates, setup, teardown),
        cmocka_unit_test_setup_teardown(hot_list, setup, teardown),
        cmocka_unit_test_setup_teardown(pending_list, setup, teardown),
        cmocka_unit_test_setup_teardown(block_numbers_are_never_reused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
