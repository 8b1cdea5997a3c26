/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_salvage.c - the index of a store is damaged or removed in one way, rebuilt, and everything is
 * compared with what was there: names, sizes, attributes and contents, file by file. What must be
 * lost is named, and read as EIO.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "index/copy.h"
#include "index/pages.h"

enum { DIRS = 3, PER_DIR = 40, BLOCKS = 2 };

struct file {
    char name[32];
    uint64_t dir, ino, seed;
};

static struct fixture fixture;
static struct file files[DIRS * PER_DIR];
static char found_text[65536];
static unsigned found_lost;

static void on_problem(void *arg, const struct index_problem *problem)
{
    const size_t used = strlen(found_text);
    found_lost += problem->state == INDEX_PROBLEM_LOST;
    snprintf(found_text + used, sizeof found_text - used, "%s: %s\n", problem->kind, problem->text);
}

static void make_store(bool copies)
{
    memset(&fixture, 0, sizeof fixture);
    fixture_create(&fixture);
    fixture_close(&fixture);
    fixture_open(&fixture, copies ? INDEX_OPEN_COPIES : 0);
    for (unsigned d = 0; d < DIRS; d++) {
        char name[32];
        snprintf(name, sizeof name, "directory %u", d);
        const uint64_t dir = fixture_directory(&fixture, INDEX_ROOT_INO, name);
        for (unsigned i = 0; i < PER_DIR; i++) {
            struct file *const file = &files[d * PER_DIR + i];
            *file = (struct file){.dir = dir, .seed = 1000 + 10 * (d * PER_DIR + i)};
            snprintf(file->name, sizeof file->name, "file %u", i);
            file->ino = fixture_file(&fixture, dir, file->name, file->seed, BLOCKS,
                                     i % 2 ? INDEX_HOT : INDEX_COLD);
        }
    }
    fixture_symlink(&fixture, INDEX_ROOT_INO, "link", "directory 1/file 1");
    fixture_inline(&fixture, INDEX_ROOT_INO, "small", "a few bytes");
    /* Dropped blocks whose bytes are still there must not come back. */
    fixture_file(&fixture, INDEX_ROOT_INO, "dropped", 900000, 1, INDEX_HOT);
    assert_int_equal(index_commit(fixture.index), 0);
    fixture_delete(&fixture, INDEX_ROOT_INO, "dropped");
    fixture_close(&fixture);
}

static void in_store(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", fixture.path, name);
}

static int salvage(struct index_salvage_result *result)
{
    char error[512] = "";
    const struct index_salvage options = {.problem = on_problem, .threads = 2};
    found_text[0] = '\0';
    found_lost = 0;
    const int outcome = index_salvage(fixture.path, &options, result, error, sizeof error);
    if (outcome != 0)
        fail_msg("salvage: %s\n%s", error, found_text);
    return outcome;
}

/* Opens the store, which a check must find clean but for what is lost. */
static void expect_clean(unsigned lost)
{
    struct problems problems;
    fixture_open(&fixture, 0); /* a mount: recovers, punches, drops packs */
    fixture_close(&fixture);
    fixture_open(&fixture, INDEX_OPEN_READONLY);
    assert_int_equal(fixture_check(&fixture, false, true, &problems), 0);
    if (problems.found > 0 || problems.lost != lost)
        fail_msg("after the salvage: %u found, %u lost\n%s", problems.found, problems.lost,
                 problems.text);
}

static uint64_t lookup(uint64_t dir, const char *name, struct index_inode *inode)
{
    struct index_txn *txn;
    struct index_dirent entry = {0};
    assert_int_equal(index_begin(fixture.index, INDEX_READ, &txn), 0);
    const int error = index_dirent_lookup(txn, dir, name, &entry);
    if (error == 0)
        assert_int_equal(index_inode_get(txn, entry.ino, inode), 0);
    index_end(txn);
    return error == 0 ? entry.ino : 0;
}

/* All files under their names, byte for byte, but for COUNT of them from SKIP on. */
static void expect_files(unsigned skip, unsigned count)
{
    struct index_inode inode;
    for (unsigned i = 0; i < DIRS * PER_DIR; i++) {
        if (i >= skip && i < skip + count)
            continue;
        const uint64_t ino = lookup(files[i].dir, files[i].name, &inode);
        if (ino != files[i].ino)
            fail_msg("%s: inode %ju, not %ju\n%s", files[i].name, (uintmax_t)ino,
                     (uintmax_t)files[i].ino, found_text);
        assert_int_equal(inode.size, BLOCKS * FIXTURE_BLOCK);
        assert_int_equal(inode.mode, S_IFREG | 0644);
        fixture_expect(&fixture, ino, files[i].seed, BLOCKS);
    }
    assert_true(lookup(INDEX_ROOT_INO, "dropped", &inode) == 0);
    assert_true(lookup(INDEX_ROOT_INO, "small", &inode) != 0);
    assert_int_equal(inode.inline_size, 11);
    assert_true(lookup(INDEX_ROOT_INO, "link", &inode) != 0 && S_ISLNK(inode.mode));
}

/* No block that was dropped came back. */
static void expect_nothing_else(void)
{
    struct index_space space;
    assert_int_equal(index_space(fixture.index, &space), 0);
    assert_int_equal(space.blocks, DIRS * PER_DIR * BLOCKS);
}

/* Every file's content below /lost+found, whatever its name; each found once. */
static void expect_contents_in_lost_found(unsigned missing)
{
    struct index_inode inode;
    const uint64_t dir = lookup(INDEX_ROOT_INO, "lost+found", &inode);
    unsigned whole = 0;
    assert_true(dir != 0);
    for (unsigned i = 0; i < DIRS * PER_DIR; i++) {
        char name[32];
        snprintf(name, sizeof name, "#%ju", (uintmax_t)files[i].ino);
        const uint64_t ino = lookup(dir, name, &inode);
        if (ino == 0)
            continue;
        assert_int_equal(inode.size, BLOCKS * FIXTURE_BLOCK);
        fixture_expect(&fixture, ino, files[i].seed, BLOCKS);
        whole++;
    }
    assert_int_equal(whole + missing, DIRS * PER_DIR);
}

static void expect_aside(const struct index_salvage_result *result)
{
    char path[256];
    struct stat status;
    snprintf(path, sizeof path, "%s/index/%s", fixture.path, result->set_aside);
    assert_true(result->set_aside[0] != '\0' && stat(path, &status) == 0);
    in_store(path, sizeof path, "index-salvage");
    assert_int_equal(access(path, F_OK), -1);
}

/* ---- damage -------------------------------------------------------------------------------- */

static void zero_page(uint64_t page)
{
    static const uint8_t zeros[4096];
    char path[256];
    in_store(path, sizeof path, "index/data.mdb");
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, (off_t)(page * 4096)), sizeof zeros);
    close(fd);
}

/* Pages of data.mdb. */
static uint64_t page_count(void)
{
    char path[256];
    struct stat status;
    in_store(path, sizeof path, "index/data.mdb");
    assert_int_equal(stat(path, &status), 0);
    return (uint64_t)status.st_size / 4096;
}

static bool opens(void)
{
    char error[512];
    const struct index_options options = {.flags = INDEX_OPEN_READONLY,
                                          .map_size = UINT64_C(64) << 20};
    struct index *index;
    if (index_open(fixture.path, &options, &index, error, sizeof error) != 0)
        return false;
    index_close(index);
    return true;
}

static void delete_index(void)
{
    char path[256];
    in_store(path, sizeof path, "index/data.mdb");
    assert_int_equal(unlink(path), 0);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void a_good_index_stays_as_it_is(void **state)
{
    struct index_salvage_result result;
    make_store(false);
    salvage(&result);
    assert_int_equal(found_lost, 0);
    assert_int_equal(result.blocks_attached, 0);
    expect_aside(&result);
    expect_clean(0);
    expect_files(0, 0);
    expect_nothing_else();
    fixture_remove(&fixture);
}

static void a_deleted_index_comes_from_the_copy(void **state)
{
    struct index_salvage_result result;
    make_store(true);
    delete_index();
    assert_false(opens());
    salvage(&result);
    assert_int_equal(result.from_index, 0);
    assert_true(result.from_copy > DIRS * PER_DIR * 4 && result.copy[0] != '\0');
    assert_int_equal(found_lost, 0);
    expect_clean(0);
    expect_files(0, 0);
    fixture_remove(&fixture);
}

/* Each page in turn: with a copy nothing is lost, whatever it held. */
static void any_zeroed_page_comes_from_the_copy(void **state)
{
    struct index_salvage_result result;
    unsigned rebuilt = 0;
    make_store(true);
    char command[512], spare[128];
    snprintf(spare, sizeof spare, "%s.spare", fixture.path);
    snprintf(command, sizeof command, "cp -a %s %s", fixture.path, spare);
    assert_int_equal(system(command), 0);
    const uint64_t pages = page_count();
    for (uint64_t page = 0; page < pages; page += 1 + page / 5) {
        zero_page(page);
        if (!opens()) {
            rebuilt++;
            salvage(&result);
            if (found_lost > 0)
                fail_msg("page %ju: %s", (uintmax_t)page, found_text);
            expect_aside(&result);
            expect_clean(0);
            expect_files(0, 0);
            if (page > 1) /* without a header it is not known which commit was the last */
                expect_nothing_else();
            fixture_close(&fixture);
        }
        snprintf(command, sizeof command, "rm -r %s && cp -a %s %s", fixture.path, spare,
                 fixture.path);
        assert_int_equal(system(command), 0);
    }
    assert_true(rebuilt > 5);
    snprintf(command, sizeof command, "rm -r %s", spare);
    assert_int_equal(system(command), 0);
    fixture_remove(&fixture);
}

static void a_cut_index_comes_from_the_copy(void **state)
{
    struct index_salvage_result result;
    char path[256];
    make_store(true);
    in_store(path, sizeof path, "index/data.mdb");
    assert_int_equal(truncate(path, (off_t)(page_count() / 2 * 4096 + 100)), 0);
    assert_false(opens());
    salvage(&result);
    assert_int_equal(found_lost, 0);
    expect_clean(0);
    expect_files(0, 0);
    fixture_remove(&fixture);
}

/* Files made after the copy have no names, but all their blocks; those before have both. */
static void what_is_newer_than_the_copy_goes_to_lost_found(void **state)
{
    struct index_salvage_result result;
    struct index_inode inode;
    make_store(true);
    fixture_open(&fixture, 0);
    const uint64_t ino = fixture_file(&fixture, INDEX_ROOT_INO, "newer", 700000, 3, INDEX_HOT);
    fixture_close(&fixture);
    delete_index();
    salvage(&result);
    assert_int_equal(result.blocks_attached, 3);
    expect_clean(0);
    const uint64_t dir = lookup(INDEX_ROOT_INO, "lost+found", &inode);
    char name[32];
    snprintf(name, sizeof name, "#%ju", (uintmax_t)ino);
    assert_true(dir != 0 && lookup(dir, name, &inode) == ino);
    fixture_expect(&fixture, ino, 700000, 3);
    for (unsigned i = 0; i < DIRS * PER_DIR; i++)
        fixture_expect(&fixture, lookup(files[i].dir, files[i].name, &inode), files[i].seed,
                       BLOCKS);
    fixture_remove(&fixture);
}

/* Nothing but packs: every block of every file, at its place. */
static void packs_alone_give_all_contents(void **state)
{
    struct index_salvage_result result;
    make_store(false);
    delete_index();
    salvage(&result);
    assert_int_equal(result.from_index + result.from_copy, 0);
    expect_clean(0);
    expect_contents_in_lost_found(0);
    fixture_remove(&fixture);
}

/* The block at NUMBER of a file. */
static struct index_block block_of(const struct file *file, uint64_t number)
{
    struct index_txn *txn;
    struct index_block block;
    fixture_open(&fixture, INDEX_OPEN_READONLY);
    const uint64_t id = fixture_block(&fixture, file->ino, number);
    assert_int_equal(index_begin(fixture.index, INDEX_READ, &txn), 0);
    assert_int_equal(index_block_get(txn, id, &block), 0);
    index_end(txn);
    fixture_close(&fixture);
    return block;
}

/* A damaged record in a pack besides: its file names it, and reads give EIO there only. */
static void a_damaged_block_is_named_and_gives_eio(void **state)
{
    struct index_salvage_result result;
    struct index_inode inode;
    uint8_t bytes[FIXTURE_BLOCK];
    make_store(true);
    const struct index_block block = block_of(&files[7], 1);
    fixture_flip(&fixture, block.at.pack, block.at.offset + 500);
    delete_index();
    salvage(&result);
    assert_int_equal(found_lost, 1);
    assert_non_null(strstr(found_text, "/directory 0/file 7: bytes 16384 to 32767 are lost"));
    expect_clean(1);
    expect_files(7, 1);
    const uint64_t ino = lookup(files[7].dir, files[7].name, &inode);
    assert_int_equal(fixture_read(&fixture, fixture_block(&fixture, ino, 0), bytes), 0);
    assert_int_equal(fixture_read(&fixture, fixture_block(&fixture, ino, 1), bytes), -EIO);
    fixture_remove(&fixture);
}

static void a_deleted_pack_costs_its_blocks_only(void **state)
{
    struct index_salvage_result result;
    struct index_inode inode;
    uint8_t bytes[FIXTURE_BLOCK];
    char path[256], name[16];
    make_store(true);
    const struct index_block block = block_of(&files[20], 0);
    index_pack_name(block.at.pack, name);
    snprintf(path, sizeof path, "%s/packs/%s", fixture.path, name);
    assert_int_equal(unlink(path), 0);
    delete_index();
    salvage(&result);
    assert_true(found_lost > 0);
    fixture_open(&fixture, INDEX_OPEN_READONLY);
    unsigned gone = 0;
    for (unsigned i = 0; i < DIRS * PER_DIR; i++) {
        const uint64_t ino = lookup(files[i].dir, files[i].name, &inode);
        assert_true(ino == files[i].ino);
        for (unsigned b = 0; b < BLOCKS; b++) {
            struct index_txn *txn;
            struct index_block at;
            uint8_t want[FIXTURE_BLOCK];
            const uint64_t id = fixture_block(&fixture, ino, b);
            assert_int_equal(index_begin(fixture.index, INDEX_READ, &txn), 0);
            assert_int_equal(index_block_get(txn, id, &at), 0);
            index_end(txn);
            const int error = fixture_read(&fixture, id, bytes);
            if (at.at.pack == block.at.pack) {
                gone++;
                assert_true(error == -ESTALE || error == -EIO);
                continue;
            }
            assert_int_equal(error, 0);
            fixture_bytes(files[i].seed + b, want);
            assert_memory_equal(bytes, want, sizeof want);
        }
    }
    assert_true(gone >= 1 && gone <= 4);
    fixture_remove(&fixture);
}

/* No copy, and a page of the index is gone: the rest keeps its names, and every block is found. */
static void a_zeroed_page_without_a_copy_loses_no_block(void **state)
{
    struct index_salvage_result result;
    char command[512], spare[128];
    unsigned rebuilt = 0;
    make_store(false);
    snprintf(spare, sizeof spare, "%s.spare", fixture.path);
    snprintf(command, sizeof command, "cp -a %s %s", fixture.path, spare);
    assert_int_equal(system(command), 0);
    const uint64_t pages = page_count();
    for (uint64_t page = 2; page < pages; page += 1 + page / 5) {
        zero_page(page);
        if (!opens()) {
            rebuilt++;
            salvage(&result);
            expect_clean(0);
            for (unsigned i = 0; i < DIRS * PER_DIR; i++)
                fixture_expect(&fixture, files[i].ino, files[i].seed, BLOCKS);
            fixture_close(&fixture);
        }
        snprintf(command, sizeof command, "rm -r %s && cp -a %s %s", fixture.path, spare,
                 fixture.path);
        assert_int_equal(system(command), 0);
    }
    assert_true(rebuilt > 5);
    snprintf(command, sizeof command, "rm -r %s", spare);
    assert_int_equal(system(command), 0);
    fixture_remove(&fixture);
}

static void a_mounted_store_is_refused(void **state)
{
    char error[512];
    struct index_salvage_result result;
    const struct index_salvage options = {.problem = on_problem};
    make_store(false);
    fixture_open(&fixture, 0);
    assert_int_equal(index_salvage(fixture.path, &options, &result, error, sizeof error), -EBUSY);
    assert_non_null(strstr(error, "store is mounted by process"));
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_index_stays_as_it_is),
        cmocka_unit_test(a_deleted_index_comes_from_the_copy),
        cmocka_unit_test(any_zeroed_page_comes_from_the_copy),
        cmocka_unit_test(a_cut_index_comes_from_the_copy),
        cmocka_unit_test(what_is_newer_than_the_copy_goes_to_lost_found),
        cmocka_unit_test(packs_alone_give_all_contents),
        cmocka_unit_test(a_damaged_block_is_named_and_gives_eio),
        cmocka_unit_test(a_deleted_pack_costs_its_blocks_only),
        cmocka_unit_test(a_zeroed_page_without_a_copy_loses_no_block),
        cmocka_unit_test(a_mounted_store_is_refused),
    };
    return cmocka_run_group_tests_name("salvage", tests, NULL, NULL);
}
