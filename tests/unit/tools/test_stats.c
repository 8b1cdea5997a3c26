/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_stats.c - sepfs-stats as a command: the right figures for a store that is known to the byte,
 * in text, JSON and Prometheus form; files and directories on a mount; refusals. Arguments: the
 * commands sepfs-stats, sepfs and sepfs-umount.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/check/command.h"
#include "tests/unit/check/fixture.h"

static const char *stats, *sepfs, *unmount;
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

/* fixture_tree: 6 blocks of 16 KiB, of them one used twice; 4, 2 and 1 of 6 blocks in three files;
 * 11 bytes inline. Five blocks are hot. A record is its payload and 80 bytes. */
static void test_json(void **state)
{
    struct fixture fixture;
    struct tree tree;
    static const char *const parts[] = {
        "\"version\": 1,",
        "\"type\": \"store\"",
        "\"mounted\": false",
        "\"block_size\": 16384,",
        "\"files\": 4,",
        "\"directories\": 3,",
        "\"symlinks\": 1,",
        "\"logical_bytes\": 196619,", /* 12 blocks and 11 bytes */
        "\"mapped_bytes\": 114688,",  /* 7 blocks */
        "\"hole_bytes\": 81920,",     /* 5 blocks */
        "\"inline_files\": 1,",
        "\"inline_bytes\": 11,",
        "\"blocks\": 6,",
        "\"extents\": 7,",
        "\"block_plain_bytes\": 98304,",
        "\"block_stored_bytes\": 98784,",
        "\"live_bytes\": 98784,",
        "\"shared_blocks\": 1,",
        "\"dedup_plain_bytes\": 16384,",
        "\"dedup_stored_bytes\": 16464,",
        "\"dead_plain_bytes\": 0,",
        "\"garbage_bytes\": 0,",
        "\"hot_blocks\": 5,",
        "\"hot_plain_bytes\": 81920,",
        "\"cold_blocks\": 1,",
        "\"cold_stored_bytes\": 16464,",
        "\"declined_blocks\": 1,",
        "\"failed_blocks\": 0,",
        "\"codec\": \"raw\",",
        "\"model\": null,",
        "\"rounds\": 0,",
        "\"under_way\": false,",
        "\"daemon\": {},",
        "\"error\": null",
    };
    build(&fixture, &tree);
    assert_int_equal(command(output, sizeof output, "%s --json %s", stats, fixture.path), 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        expect_output(parts[i]);
    fixture_remove(&fixture);
}

static void test_text(void **state)
{
    struct fixture fixture;
    struct tree tree;
    build(&fixture, &tree);
    assert_int_equal(command(output, sizeof output, "%s %s", stats, fixture.path), 0);
    expect_output(": store, not mounted\n");
    expect_output("logical          192 KiB  in 4 files, 3 directories, 1 symlinks\n");
    expect_output("holes           80.0 KiB  never stored: zeros\n");
    expect_output("hot             80.0 KiB  plain in 5 blocks, stored in 80.4 KiB\n");
    expect_output("blocks                 0  incompressible; 1 did not get smaller, 0 failed");
    expect_output("raw          -                           6    96.0 KiB    96.5 KiB     1.00\n");
    fixture_remove(&fixture);
}

/* Garbage, and a block whose compaction failed, are shown with their reasons. */
static void test_garbage(void **state)
{
    struct fixture fixture;
    struct tree tree;
    struct index_txn *txn;
    build(&fixture, &tree);
    fixture_open(&fixture, 0);
    fixture_delete(&fixture, tree.a, "sparse");
    const uint64_t id = fixture_block(&fixture, tree.two, 0);
    const struct index_pending pending = {
        .block = id, .error = 5, .codec = 3, .level = 5, .reason = "no memory"};
    assert_int_equal(index_begin(fixture.index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_pending_put(txn, &pending), 0);
    index_end(txn);
    fixture_close(&fixture);
    assert_int_equal(command(output, sizeof output, "%s --json %s", stats, fixture.path), 0);
    expect_output("\"declined_blocks\": 0,");
    expect_output("\"failed_blocks\": 1,");
    expect_output("\"method\": \"sep:5\",");
    expect_output("\"reason\": \"no memory\"");
    fixture_remove(&fixture);
}

static void test_prometheus(void **state)
{
    struct fixture one, two;
    struct tree tree;
    char line[256];
    build(&one, &tree);
    build(&two, &tree);
    assert_int_equal(
        command(output, sizeof output, "%s --prometheus %s %s", stats, one.path, two.path), 0);
    const char *const head = "# TYPE sepfs_logical_bytes gauge\n";
    expect_output(head);
    assert_null(strstr(strstr(output, head) + 1, head)); /* once for both stores */
    snprintf(line, sizeof line, "sepfs_logical_bytes{store=\"%s\"} 196619\n", two.path);
    expect_output(line);
    snprintf(line, sizeof line, "sepfs_method_blocks{store=\"%s\",method=\"raw\",model=\"\"} 6\n",
             one.path);
    expect_output(line);
    fixture_remove(&one);
    fixture_remove(&two);
}

static void test_refusals(void **state)
{
    static const struct command_case cases[] = {
        {"", 2, "sepfs-stats: a store, a mount point, or files on one are needed\n"},
        {"--json --prometheus /tmp", 2, "sepfs-stats: only one of --json and --prometheus"},
        {"-r --prometheus /tmp", 2, "sepfs-stats: -r does not go with --prometheus\n"},
        {"--html=x /tmp", 2, "sepfs-stats: option '--html=x' is unknown"},
        {"/nonexistent/path", 1, "sepfs-stats: /nonexistent/path: No such file or directory\n"},
        {"/usr", 1, "sepfs-stats: /usr: not"},
        {"--help", 0, "Usage: sepfs-stats PATH..."},
    };
    expect_cases(stats, cases, sizeof cases / sizeof cases[0]);
}

/* ---- on a mount ---------------------------------------------------------------------------- */

static void check_mounted(const char *mountpoint, const char *store)
{
    char line[256];
    assert_int_equal(command(output, sizeof output, "%s --json %s", stats, mountpoint), 0);
    snprintf(line, sizeof line, "\"store\": \"%s\"", store);
    expect_output(line);
    expect_output("\"mounted\": true");
    expect_output("\"logical_bytes\": 196619,");
    expect_output("\"decodes\": ");
    assert_int_equal(command(output, sizeof output, "%s %s", stats, store), 0);
    expect_output("daemon, since it was mounted");
    /* a directory counts with what is below it */
    assert_int_equal(command(output, sizeof output, "%s --json -r %s/a", stats, mountpoint), 0);
    expect_output("\"type\": \"tree\"");
    expect_output("\"files\": 3,");
    expect_output("\"directories\": 2,");
    expect_output("\"logical_bytes\": 196608,");
    expect_output("\"hole_bytes\": 81920,");
    snprintf(line, sizeof line, "\"path\": \"%s/a/b/two\",", mountpoint);
    expect_output(line);
    assert_int_equal(command(output, sizeof output, "%s %s/a/b/two", stats, mountpoint), 0);
    expect_output("   32.0 KiB    32.2 KiB     1.00   -0.5%");
    expect_output("raw 100%");
    assert_int_equal(command(output, sizeof output, "%s --json %s", stats, mountpoint), 0);
    /* two names of one file count once; dirty data is written back first */
    assert_int_equal(command(output, sizeof output,
                             "dd if=/proc/self/exe of=%s/new bs=20000 count=1", mountpoint),
                     0);
    assert_int_equal(command(output, sizeof output, "ln %s/new %s/newer", mountpoint, mountpoint),
                     0);
    assert_int_equal(command(output, sizeof output, "%s --json %s", stats, mountpoint), 0);
    expect_output("\"logical_bytes\": 216619,");
    expect_output("\"files\": 5,");
}

static struct {
    struct fixture fixture;
    char mountpoint[32];
    bool mounted;
} mount;

/* Also after a failure. */
static int leave_mount(void **state)
{
    if (mount.mounted && command(output, sizeof output, "%s %s", unmount, mount.mountpoint) != 0)
        return -1;
    if (mount.mountpoint[0] != '\0')
        rmdir(mount.mountpoint);
    if (mount.fixture.path[0] != '\0')
        fixture_remove(&mount.fixture);
    return 0;
}

static void test_mounted(void **state)
{
    struct tree tree;
    const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0) {
        print_message("no /dev/fuse that may be opened here\n");
        skip();
    }
    close(fuse);
    build(&mount.fixture, &tree);
    strcpy(mount.mountpoint, "/tmp/sepfs-stats-XXXXXX");
    assert_non_null(mkdtemp(mount.mountpoint));
    if (command(output, sizeof output, "%s %s %s -o compact=off", sepfs, mount.fixture.path,
                mount.mountpoint) != 0) {
        print_message("cannot mount here: %s", output);
        skip();
    }
    mount.mounted = true;
    check_mounted(mount.mountpoint, mount.fixture.path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),     cmocka_unit_test(test_text),
        cmocka_unit_test(test_garbage),  cmocka_unit_test(test_prometheus),
        cmocka_unit_test(test_refusals), cmocka_unit_test_teardown(test_mounted, leave_mount),
    };
    if (argc != 4) {
        fprintf(stderr, "usage: test_stats SEPFS_STATS SEPFS SEPFS_UMOUNT\n");
        return 2;
    }
    stats = argv[1];
    sepfs = argv[2];
    unmount = argv[3];
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
