/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_fsck.c - sepfs-fsck as a command: its exit codes, what each of -n, -p and -y does to a store,
 * scrub and deep, JSON, and its refusals. The first argument is the command.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <dirent.h>

#include <cmocka.h>

#include "command.h"
#include "fixture.h"

static const char *fsck;
static char output[32768];

static void expect_output(const char *part)
{
    expect_part(output, part);
}

static void build(struct fixture *fixture, struct tree *tree)
{
    fixture_create(fixture);
    fixture_tree(fixture, tree);
    fixture_close(fixture);
}

/* A wrong link count: follows from the names. */
static void break_links(struct fixture *fixture, const struct tree *tree)
{
    struct index_txn *txn;
    struct index_inode inode;
    fixture_open(fixture, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_inode_get(txn, tree->one, &inode), 0);
    inode.nlink = 9;
    assert_int_equal(index_inode_put(txn, &inode), 0);
    index_end(txn);
    fixture_close(fixture);
}

/* A name for an inode that never was: repair removes it. */
static void add_ghost(struct fixture *fixture)
{
    struct index_txn *txn;
    fixture_open(fixture, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(index_begin(fixture->index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_dirent_add(txn, INDEX_ROOT_INO, "ghost", 999, DT_REG), 0);
    index_end(txn);
    fixture_close(fixture);
}

/* Flips a byte of the first block of /a/one. */
static struct index_block damage_block(struct fixture *fixture, const struct tree *tree)
{
    struct index_txn *txn;
    struct index_block block;
    fixture_open(fixture, INDEX_OPEN_READONLY);
    const uint64_t id = fixture_block(fixture, tree->one, 0);
    assert_int_equal(index_begin(fixture->index, INDEX_READ, &txn), 0);
    assert_int_equal(index_block_get(txn, id, &block), 0);
    index_end(txn);
    fixture_close(fixture);
    fixture_flip(fixture, block.at.pack, block.at.offset + INDEX_RECORD_HEADER);
    return block;
}

static void test_clean(void **state)
{
    struct fixture fixture;
    struct tree tree;
    static const char *const modes[] = {"",           "-n",        "-p",       "-y",
                                        "-n --scrub", "-n --deep", "-y --deep"};
    build(&fixture, &tree);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(command(output, sizeof output, "%s %s %s", fsck, fixture.path, modes[i]),
                         0);
        expect_output(": clean, 5 files, 3 directories, 6 blocks, ");
    }
    fixture_remove(&fixture);
}

static void test_derivable(void **state)
{
    struct fixture fixture;
    struct tree tree;
    build(&fixture, &tree);
    break_links(&fixture, &tree);
    /* -n, and no flag without a terminal, leave it */
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(
            command(output, sizeof output, "%s %s %s", fsck, i == 0 ? "-n" : "", fixture.path), 4);
        expect_output("link-count: inode 4: link count is 9, should be 2\n");
        expect_output("0 corrected, 1 left");
    }
    assert_int_equal(command(output, sizeof output, "%s -p %s", fsck, fixture.path), 1);
    expect_output("should be 2 (fixed)");
    expect_output("1 corrected, 0 left");
    assert_int_equal(command(output, sizeof output, "%s -p %s", fsck, fixture.path), 0);
    fixture_remove(&fixture);
}

static void test_underivable(void **state)
{
    struct fixture fixture;
    struct tree tree;
    build(&fixture, &tree);
    break_links(&fixture, &tree);
    add_ghost(&fixture);
    /* -p changes nothing at all */
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(command(output, sizeof output, "%s -p %s", fsck, fixture.path), 4);
        expect_output("1 problems need a decision");
        expect_output("0 corrected, 2 left");
    }
    assert_int_equal(command(output, sizeof output, "%s --yes %s", fsck, fixture.path), 1);
    expect_output("dangling-name: \"ghost\"");
    expect_output("2 corrected, 0 left");
    assert_int_equal(command(output, sizeof output, "%s -n --deep %s", fsck, fixture.path), 0);
    fixture_open(&fixture, 0);
    fixture_expect(&fixture, tree.one, 100, 4);
    fixture_remove(&fixture);
}

static void test_scrub(void **state)
{
    struct fixture fixture;
    struct tree tree;
    build(&fixture, &tree);
    damage_block(&fixture, &tree);
    assert_int_equal(command(output, sizeof output, "%s -n %s", fsck, fixture.path), 0);
    static const char *const modes[] = {"-n --scrub", "-n --deep", "-y --scrub", "-p --scrub"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(command(output, sizeof output, "%s %s %s", fsck, modes[i], fixture.path),
                         4);
        expect_output("record-checksum: ");
        expect_output("bytes 0 to 16383 are lost: block 1: checksum does not match (pack 1, ");
        expect_output("0 corrected, 1 left");
    }
    /* structure is repaired beside damage, and the damage stays counted */
    break_links(&fixture, &tree);
    assert_int_equal(command(output, sizeof output, "%s -y --scrub %s", fsck, fixture.path), 4);
    expect_output("1 corrected, 1 left");
    break_links(&fixture, &tree);
    assert_int_equal(command(output, sizeof output, "%s -p --scrub %s", fsck, fixture.path), 4);
    expect_output("1 corrected, 1 left");
    fixture_remove(&fixture);
}

/* A record that is whole, but is not what was written: only decoding shows it. */
static void test_deep(void **state)
{
    struct fixture fixture;
    struct tree tree;
    struct index_txn *txn;
    struct index_block block;
    build(&fixture, &tree);
    fixture_open(&fixture, 0);
    const uint64_t id = fixture_block(&fixture, tree.one, 2);
    assert_int_equal(index_begin(fixture.index, INDEX_READ, &txn), 0);
    assert_int_equal(index_block_get(txn, id, &block), 0);
    index_end(txn);
    const struct index_location before = block.at;
    uint8_t bytes[FIXTURE_BLOCK];
    fixture_bytes(12345, bytes); /* other bytes under the old hash, with a good checksum */
    assert_int_equal(index_pack_append(fixture.index, INDEX_COLD, &block, bytes, sizeof bytes), 0);
    assert_int_equal(index_begin(fixture.index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_block_swap(txn, &block, &before), 0);
    index_end(txn);
    fixture_close(&fixture);
    assert_int_equal(command(output, sizeof output, "%s -n --scrub %s", fsck, fixture.path), 0);
    assert_int_equal(command(output, sizeof output, "%s -n --deep %s", fsck, fixture.path), 4);
    expect_output("block-decode: ");
    expect_output("bytes 32768 to 49151 are lost: block 3: decodes with raw to other bytes");
    fixture_remove(&fixture);
}

static void test_json(void **state)
{
    struct fixture fixture;
    struct tree tree;
    build(&fixture, &tree);
    break_links(&fixture, &tree);
    assert_int_equal(command(output, sizeof output, "%s -n --json %s", fsck, fixture.path), 4);
    static const char *const parts[] = {"\"kind\": \"link-count\"",
                                        "\"state\": \"found\"",
                                        "\"derivable\": true",
                                        "\"inode\": 4",
                                        "\"corrected\": 0",
                                        "\"left\": 1",
                                        "\"blocks\": 6",
                                        "\"exit\": 4\n}\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        expect_output(parts[i]);
    assert_int_equal(command(output, sizeof output, "%s -y --json %s", fsck, fixture.path), 1);
    expect_output("\"state\": \"fixed\"");
    expect_output("\"exit\": 1\n}\n");
    fixture_remove(&fixture);
}

/* Beside a process that has the store open for writing: checked, never repaired. */
static void test_in_use(void **state)
{
    struct fixture fixture;
    struct tree tree;
    build(&fixture, &tree);
    break_links(&fixture, &tree);
    fixture_open(&fixture, 0);
    assert_int_equal(command(output, sizeof output, "%s -n --scrub %s", fsck, fixture.path), 4);
    expect_output("link-count");
    assert_int_equal(command(output, sizeof output, "%s -y %s", fsck, fixture.path), 8);
    expect_output("unmount it first, or check it with -n");
    assert_int_equal(command(output, sizeof output, "%s -p %s", fsck, fixture.path), 8);
    fixture_remove(&fixture);
}

static void test_refusals(void **state)
{
    static const struct command_case cases[] = {
        {"", 16, "sepfs-fsck: a store is needed\n"},
        {"/tmp /tmp", 16, "sepfs-fsck: only one store is accepted\n"},
        {"-n -y /tmp", 16, "sepfs-fsck: only one of -n, -p and -y may be given\n"},
        {"--progress=often /tmp", 16, "sepfs-fsck: --progress=often: auto, always or never"},
        {"--wrong /tmp", 16, "sepfs-fsck: option '--wrong' is unknown"},
        {"-n /nonexistent/store", 8, "sepfs-fsck: /nonexistent/store: No such file or directory\n"},
        {"-y /dev/null", 8, "sepfs-fsck: /dev/null: Not a directory\n"},
        {"-n /usr", 8, "sepfs-fsck: /usr: not"},
        {"--version", 0, "sepfs-fsck "},
        {"--help", 0, "Usage: sepfs-fsck STORE"},
    };
    expect_cases(fsck, cases, sizeof cases / sizeof cases[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),       cmocka_unit_test(test_derivable),
        cmocka_unit_test(test_underivable), cmocka_unit_test(test_scrub),
        cmocka_unit_test(test_deep),        cmocka_unit_test(test_json),
        cmocka_unit_test(test_in_use),      cmocka_unit_test(test_refusals),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: test_fsck SEPFS_FSCK\n");
        return 2;
    }
    fsck = argv[1];
    return cmocka_run_group_tests_name("fsck", tests, NULL, NULL);
}
