/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_gc.c - garbage collection: what is dead goes, what lives is kept whole and where it belongs,
 * a racing change wins, a damaged record is not copied, and a second run finds nothing to do.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

static struct index_space space(struct fixture *fixture)
{
    struct index_space result;
    assert_int_equal(index_space(fixture->index, &result), 0);
    return result;
}

static struct index_gc_result collect(struct fixture *fixture, unsigned percent)
{
    struct index_gc_result result;
    assert_int_equal(index_gc(fixture->index, percent, NULL, &result), 0);
    return result;
}

static void expect_clean(struct fixture *fixture)
{
    struct problems problems;
    assert_int_equal(fixture_check(fixture, false, true, &problems), 0);
    assert_string_equal(problems.text, "");
}

static struct index_block block_of(struct fixture *fixture, uint64_t ino, uint64_t number)
{
    struct index_txn *txn;
    struct index_block block;
    const uint64_t id = fixture_block(fixture, ino, number);
    assert_int_equal(index_begin(fixture->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_block_get(txn, id, &block), 0);
    index_end(txn);
    return block;
}

static enum index_class class_of(struct fixture *fixture, uint32_t id)
{
    struct index_txn *txn;
    struct index_pack pack;
    assert_int_equal(index_begin(fixture->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_pack_next(txn, id, &pack), 0);
    index_end(txn);
    assert_int_equal(pack.id, id);
    return pack.class;
}

static bool is_hot(struct fixture *fixture, uint64_t id)
{
    struct index_txn *txn;
    struct index_hot hot;
    assert_int_equal(index_begin(fixture->index, INDEX_READ, &txn), 0);
    const bool found = index_hot_next(txn, id, &hot) == 0 && hot.block == id;
    index_end(txn);
    return found;
}

/* Twelve files of three blocks, four blocks a pack; all files but every fourth deleted. Of the packs
 * that hold a living file, a quarter is dead. */
struct files {
    uint64_t kept[3];
};

static void make_files(struct fixture *fixture, struct files *files)
{
    char name[16];
    fixture_create(fixture);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "file%u", i);
        const uint64_t ino =
            fixture_file(fixture, INDEX_ROOT_INO, name, 1000 * (i + 1), 3, INDEX_HOT);
        if (i % 4 == 0)
            files->kept[i / 4] = ino;
    }
    assert_int_equal(index_commit(fixture->index), 0);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "file%u", i);
        if (i % 4 != 0)
            fixture_delete(fixture, INDEX_ROOT_INO, name);
    }
    assert_int_equal(index_commit(fixture->index), 0);
}

static void expect_files(struct fixture *fixture, const struct files *files)
{
    for (unsigned i = 0; i < 3; i++)
        fixture_expect(fixture, files->kept[i], 4000 * i + 1000, 3);
}

static void test_reclaims(void **state)
{
    struct fixture fixture;
    struct files files;
    make_files(&fixture, &files);
    const struct index_space before = space(&fixture);
    const struct index_gc_result result = collect(&fixture, 90);
    const struct index_space after = space(&fixture);
    assert_int_equal(result.packs_removed, 4); /* and the open one, all dead */
    assert_int_equal(result.records_moved, 9);
    assert_int_equal(result.bytes_moved,
                     result.records_moved * (FIXTURE_BLOCK + INDEX_RECORD_HEADER));
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_true(after.pack_bytes < before.pack_bytes);
    assert_true(result.bytes_freed > 0);
    /* everything left in packs lives, but for headers and what is under the limit */
    assert_true(after.live_bytes * 10 >= after.pack_bytes * 9);
    expect_files(&fixture, &files);
    expect_clean(&fixture);
    const struct index_gc_result again = collect(&fixture, 90);
    assert_int_equal(again.packs_removed, 0);
    assert_int_equal(again.records_moved, 0);
    assert_int_equal(again.bytes_freed, 0);
    /* and it is on disk so */
    fixture_close(&fixture);
    fixture_open(&fixture, 0);
    expect_files(&fixture, &files);
    expect_clean(&fixture);
    fixture_remove(&fixture);
}

static void test_leaves_full_packs(void **state)
{
    struct fixture fixture;
    struct tree tree;
    fixture_create(&fixture);
    fixture_tree(&fixture, &tree);
    const struct index_space before = space(&fixture);
    const struct index_gc_result result = collect(&fixture, 90);
    assert_int_equal(result.packs_removed + result.records_moved + result.bytes_freed, 0);
    assert_int_equal(space(&fixture).pack_bytes, before.pack_bytes);
    fixture_remove(&fixture);
}

/* An open pack whose blocks were all deleted goes away, too. */
static void test_empty_open_pack(void **state)
{
    struct fixture fixture;
    fixture_create(&fixture);
    fixture_file(&fixture, INDEX_ROOT_INO, "only", 1, 2, INDEX_HOT);
    assert_int_equal(index_commit(fixture.index), 0);
    fixture_delete(&fixture, INDEX_ROOT_INO, "only");
    const struct index_gc_result result = collect(&fixture, 60);
    assert_int_equal(result.packs_removed, 1);
    assert_int_equal(result.records_moved, 0);
    assert_int_equal(space(&fixture).pack_bytes, 0);
    expect_clean(&fixture);
    fixture_remove(&fixture);
}

/* Blocks on the hot list stay on it and go to hot packs; settled ones go to cold packs. */
static void test_classes(void **state)
{
    struct fixture fixture;
    struct index_txn *txn;
    fixture_create(&fixture);
    const uint64_t hot = fixture_file(&fixture, INDEX_ROOT_INO, "hot", 10, 1, INDEX_HOT);
    const uint64_t settled = fixture_file(&fixture, INDEX_ROOT_INO, "settled", 20, 1, INDEX_HOT);
    fixture_file(&fixture, INDEX_ROOT_INO, "dead", 30, 2, INDEX_HOT);
    fixture_delete(&fixture, INDEX_ROOT_INO, "dead");
    const struct index_block hot_before = block_of(&fixture, hot, 0);
    const struct index_block settled_before = block_of(&fixture, settled, 0);
    const struct index_pending pending = {.block = hot_before.id, .error = 5, .reason = "why"};
    assert_int_equal(index_begin(fixture.index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_hot_remove(txn, settled_before.id), 0);
    assert_int_equal(index_block_set_flags(txn, settled_before.id, INDEX_BLOCK_INCOMPRESSIBLE), 0);
    assert_int_equal(index_pending_put(txn, &pending), 0);
    index_end(txn);
    assert_int_equal(collect(&fixture, 90).records_moved, 2);
    const struct index_block hot_after = block_of(&fixture, hot, 0);
    const struct index_block settled_after = block_of(&fixture, settled, 0);
    assert_int_not_equal(hot_after.at.pack, hot_before.at.pack);
    assert_int_equal(class_of(&fixture, hot_after.at.pack), INDEX_HOT);
    assert_int_equal(class_of(&fixture, settled_after.at.pack), INDEX_COLD);
    assert_true(is_hot(&fixture, hot_after.id));
    assert_false(is_hot(&fixture, settled_after.id));
    assert_int_equal(settled_after.flags, INDEX_BLOCK_INCOMPRESSIBLE);
    assert_int_equal(settled_after.references, 1);
    assert_int_equal(settled_after.live, FIXTURE_BLOCK);
    struct index_pending kept;
    assert_int_equal(index_begin(fixture.index, INDEX_READ, &txn), 0);
    assert_int_equal(index_pending_get(txn, hot_after.id, &kept), 0);
    assert_string_equal(kept.reason, "why");
    index_end(txn);
    fixture_expect(&fixture, hot, 10, 1);
    fixture_expect(&fixture, settled, 20, 1);
    expect_clean(&fixture);
    fixture_remove(&fixture);
}

static void test_damaged_record_stays(void **state)
{
    struct fixture fixture;
    struct files files;
    struct problems problems;
    uint8_t bytes[FIXTURE_BLOCK];
    make_files(&fixture, &files);
    const struct index_block damaged = block_of(&fixture, files.kept[1], 2);
    fixture_flip(&fixture, damaged.at.pack, damaged.at.offset + INDEX_RECORD_HEADER + 5);
    for (unsigned run = 0; run < 2; run++) {
        const struct index_gc_result result = collect(&fixture, 90);
        assert_true(run > 0 || result.packs_removed == 3);
        assert_true(run == 0 || result.records_moved == 0);
        const struct index_block now = block_of(&fixture, files.kept[1], 2);
        assert_memory_equal(&now.at, &damaged.at, sizeof now.at);
        assert_int_equal(fixture_read(&fixture, damaged.id, bytes), -EIO);
    }
    fixture_expect(&fixture, files.kept[0], 1000, 3);
    fixture_expect(&fixture, files.kept[1], 5000, 2);
    fixture_expect(&fixture, files.kept[2], 9000, 3);
    assert_int_equal(fixture_check(&fixture, false, true, &problems), 0);
    assert_string_equal(problems.kinds, "record-checksum");
    assert_int_equal(problems.lost, 1);
    assert_non_null(strstr(problems.text, "/file4: bytes 32768 to 49151 are lost"));
    fixture_remove(&fixture);
}

static void test_stops(void **state)
{
    struct fixture fixture;
    struct files files;
    struct index_gc_result result;
    const volatile bool stop = true;
    make_files(&fixture, &files);
    assert_int_equal(index_gc(fixture.index, 90, &stop, &result), 0);
    assert_int_equal(result.records_moved, 0);
    expect_files(&fixture, &files);
    expect_clean(&fixture);
    fixture_remove(&fixture);
}

static void test_readonly(void **state)
{
    struct fixture fixture;
    struct index_gc_result result;
    fixture_create(&fixture);
    fixture_close(&fixture);
    fixture_open(&fixture, INDEX_OPEN_READONLY);
    assert_int_equal(index_gc(fixture.index, 90, NULL, &result), -EROFS);
    fixture_remove(&fixture);
}

/* ---- a change while a record is being copied ----------------------------------------------- */

/* Runs at the n-th read of a pack, in the middle of gc. */
static struct {
    struct fixture *fixture;
    void (*act)(struct fixture *fixture, uint64_t ino);
    uint64_t ino;
    unsigned countdown;
} race;

static ssize_t racing_pread(int fd, void *data, size_t size, off_t offset)
{
    const ssize_t got = index_io_system.pread(fd, data, size, offset);
    if (race.countdown > 0 && --race.countdown == 0)
        race.act(race.fixture, race.ino);
    return got;
}

/* Stores the block anew, as a write or the compactor would. */
static void act_swap(struct fixture *fixture, uint64_t ino)
{
    struct index_txn *txn;
    struct index_block block = block_of(fixture, ino, 0);
    const struct index_location before = block.at;
    fixture_append(fixture, &block, 1000, INDEX_COLD);
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_block_swap(txn, &block, &before), 0);
    index_end(txn);
}

static void act_delete(struct fixture *fixture, uint64_t ino)
{
    fixture_delete(fixture, INDEX_ROOT_INO, "file0");
}

static void run_race(void (*act)(struct fixture *, uint64_t), struct fixture *fixture,
                     struct files *files)
{
    static struct index_io io;
    struct index_gc_result result;
    char error[256];
    make_files(fixture, files);
    fixture_close(fixture);
    io = index_io_system;
    io.pread = racing_pread;
    race.countdown = 0;
    const struct index_options options = {.map_size = UINT64_C(64) << 20, .pack_size = 64 << 10};
    assert_int_equal(
        index_open_with(fixture->path, &options, &io, &fixture->index, error, sizeof error), 0);
    race.fixture = fixture;
    race.act = act;
    race.ino = files->kept[0];
    race.countdown = 1; /* the first record read is the first block of the first file */
    assert_int_equal(index_gc(fixture->index, 90, NULL, &result), 0);
    assert_int_equal(race.countdown, 0);
}

static void test_race_swap(void **state)
{
    struct fixture fixture;
    struct files files;
    run_race(act_swap, &fixture, &files);
    const struct index_block block = block_of(&fixture, files.kept[0], 0);
    assert_int_equal(class_of(&fixture, block.at.pack), INDEX_COLD); /* the racing form */
    expect_files(&fixture, &files);
    expect_clean(&fixture);
    fixture_remove(&fixture);
}

static void test_race_delete(void **state)
{
    struct fixture fixture;
    struct files files;
    run_race(act_delete, &fixture, &files);
    fixture_expect(&fixture, files.kept[1], 5000, 3);
    fixture_expect(&fixture, files.kept[2], 9000, 3);
    expect_clean(&fixture);
    /* the copy that was too late is garbage now, and goes with the next run */
    collect(&fixture, 100);
    const struct index_space after = space(&fixture);
    assert_int_equal(after.blocks, 6);
    expect_clean(&fixture);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reclaims),        cmocka_unit_test(test_leaves_full_packs),
        cmocka_unit_test(test_classes),         cmocka_unit_test(test_damaged_record_stays),
        cmocka_unit_test(test_empty_open_pack), cmocka_unit_test(test_stops),
        cmocka_unit_test(test_readonly),        cmocka_unit_test(test_race_swap),
        cmocka_unit_test(test_race_delete),
    };
    return cmocka_run_group_tests_name("gc", tests, NULL, NULL);
}
