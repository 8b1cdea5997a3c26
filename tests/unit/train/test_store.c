/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_store.c - sepfs-train --store: a model goes into a store when it pays, and else does not.
 * Argument: the command sepfs-train.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "codec/train/random.h"
#include "tests/unit/check/command.h"
#include "tests/unit/check/fixture.h"

#define BLOCKS_OF_FILE 4u
#define PHRASE         100u /* bytes */
#define PHRASES        40u

static const char *train;
static char output[32768];

/* Phrases of random letters, the same forty in all blocks in another order: what a block can't know
 * and a model can. */
static void write_text(uint8_t *bytes, uint64_t which)
{
    uint64_t order = which, letters = 0;

    for (size_t at = 0; at < FIXTURE_BLOCK; at++) {
        if (at % PHRASE == 0)
            letters = train_random_below(&order, PHRASES);
        bytes[at] = at % PHRASE == PHRASE - 1 ? '\n' : (uint8_t)('a' + train_random(&letters) % 26);
    }
}

/* A file of text, stored raw. */
static void add_file(struct fixture *fixture, unsigned number)
{
    static uint8_t bytes[FIXTURE_BLOCK];
    struct index_block blocks[BLOCKS_OF_FILE];
    struct index_inode inode = {.mode = S_IFREG | 0644,
                                .parent = INDEX_ROOT_INO,
                                .nlink = 1,
                                .size = BLOCKS_OF_FILE * FIXTURE_BLOCK};
    struct index_txn *txn;
    char name[32];

    for (unsigned i = 0; i < BLOCKS_OF_FILE; i++) {
        write_text(bytes, number * BLOCKS_OF_FILE + i);
        blocks[i] = (struct index_block){.id = index_block_new(fixture->index),
                                         .plain_size = FIXTURE_BLOCK,
                                         .hash = index_hash_of(bytes, FIXTURE_BLOCK)};
        assert_int_equal(
            index_pack_append(fixture->index, INDEX_COLD, &blocks[i], bytes, FIXTURE_BLOCK), 0);
    }
    snprintf(name, sizeof name, "file-%u", number);
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    inode.ino = index_inode_new(txn);
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_dirent_add(txn, INDEX_ROOT_INO, name, inode.ino, DT_REG), 0);
    for (unsigned i = 0; i < BLOCKS_OF_FILE; i++) {
        const struct index_extent extent = {
            .number = i, .block = blocks[i].id, .length = FIXTURE_BLOCK};

        assert_int_equal(index_block_add(txn, &blocks[i], INDEX_COLD), 0);
        assert_int_equal(index_extent_set(txn, inode.ino, &extent, &inode), 0);
    }
    assert_int_equal(index_inode_put(txn, &inode), 0);
    index_end(txn);
}

static void build(struct fixture *fixture, unsigned files)
{
    fixture_create(fixture);
    for (unsigned k = 0; k < files; k++)
        add_file(fixture, k);
    fixture_close(fixture);
}

static int count_model(void *count, uint64_t hash)
{
    ++*(unsigned *)count;
    return 0;
}

static unsigned models_in(struct fixture *fixture)
{
    unsigned count = 0;

    fixture_open(fixture, 0);
    assert_int_equal(index_model_each(fixture->index, count_model, &count), 0);
    fixture_close(fixture);
    return count;
}

static void test_installed_when_it_pays(void **state)
{
    struct fixture fixture;

    build(&fixture, 70);
    if (command(output, sizeof output, "%s --no-net --store=%s", train, fixture.path) != 0)
        fail_msg("%s", output);
    expect_part(output, "installed: ");
    assert_int_equal(models_in(&fixture), 1);
    fixture_remove(&fixture);
}

static void test_left_out_when_it_does_not_pay(void **state)
{
    struct fixture fixture;

    build(&fixture, 10);
    assert_int_equal(command(output, sizeof output, "%s --no-net --store=%s", train, fixture.path),
                     3);
    expect_part(output, "does not pay for its size");
    assert_int_equal(models_in(&fixture), 0);
    fixture_remove(&fixture);
}

static void test_refusals(void **state)
{
    assert_int_equal(command(output, sizeof output, "%s --store=/nowhere/at/all", train), 1);
    expect_part(output, "/nowhere/at/all");
    assert_int_equal(command(output, sizeof output, "%s --store=/nowhere /tmp", train), 2);
    assert_int_equal(command(output, sizeof output, "%s --kind=public --store=/nowhere", train), 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_installed_when_it_pays),
        cmocka_unit_test(test_left_out_when_it_does_not_pay),
        cmocka_unit_test(test_refusals),
    };

    train = argc > 1 ? argv[1] : "sepfs-train";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
