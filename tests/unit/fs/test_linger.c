/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_linger.c - unlinked inodes that the kernel still refers to stay whole until it forgets them;
 * and the set of numbers that this needs, against a plain table.
 */
#include <errno.h>

#include "fs/inoset.h"
#include "support.h"

#define NUMBERS 5000u

static void test_set(void **state)
{
    struct fs_inoset set = {0};
    static bool in[NUMBERS];
    size_t count = 0;
    uint64_t random = 1;

    (void)state;
    assert_false(fs_inoset_has(&set, 1));
    assert_false(fs_inoset_remove(&set, 1));
    assert_int_equal(fs_inoset_pop(&set), 0);
    for (unsigned i = 0; i < 400000; i++) {
        /* grows to nearly all numbers, then shrinks to few, and again */
        const bool filling = i / 50000 % 2 == 0;
        uint64_t ino;

        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ino = 1 + (random >> 33) % (NUMBERS - 1);
        if ((random >> 20) % 10 < (filling ? 8 : 2)) {
            assert_true(fs_inoset_add(&set, ino));
            count += !in[ino];
            in[ino] = true;
        } else {
            assert_int_equal(fs_inoset_remove(&set, ino), in[ino]);
            count -= in[ino];
            in[ino] = false;
        }
        assert_int_equal(set.count, count);
        if (i % 10000 == 0) {
            for (uint64_t n = 1; n < NUMBERS; n++)
                assert_int_equal(fs_inoset_has(&set, n), in[n]);
        }
    }
    for (uint64_t ino; (ino = fs_inoset_pop(&set)) != 0; count--) {
        assert_true(in[ino]);
        in[ino] = false;
    }
    assert_int_equal(count, 0);
    fs_inoset_free(&set);
}

/* A file of one and a half blocks; not held, and lingering. */
static uint64_t make_lingering(struct mounted *m, const char *name, uint8_t *data)
{
    struct fs_inode *inode = file_create(m, name);
    const uint64_t ino = inode->ino;

    fill(data, BLOCK + BLOCK / 2, (unsigned)ino);
    write_all(m, inode, data, BLOCK + BLOCK / 2, 0);
    assert_int_equal(fs_file_sync(&m->fs, inode), 0);
    fs_inode_drop(&m->fs, inode);
    fs_inode_linger(&m->fs, ino);
    file_unlink(m, name);
    fs_reaper_wait(&m->fs);
    return ino;
}

static void expect_gone(struct mounted *m, uint64_t ino)
{
    struct fs_inode *inode;

    fs_reaper_wait(&m->fs);
    assert_int_equal(fs_inode_hold(&m->fs, ino, &inode), -ENOENT);
}

static void test_until_forgotten(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode;
    uint8_t data[BLOCK + BLOCK / 2];
    const uint64_t ino = make_lingering(m, "a", data);

    for (unsigned i = 0; i < 3; i++) { /* opened and closed again: it stays */
        assert_int_equal(fs_inode_open(&m->fs, ino, &inode), 0);
        expect(m, inode, data, sizeof(data), 0);
        fs_inode_close(&m->fs, inode);
        fs_reaper_wait(&m->fs);
    }
    fs_inode_forgotten(&m->fs, ino + 1); /* another one: no effect */
    fs_reaper_wait(&m->fs);
    assert_int_equal(fs_inode_hold(&m->fs, ino, &inode), 0);
    fs_inode_drop(&m->fs, inode);
    fs_inode_forgotten(&m->fs, ino);
    expect_gone(m, ino);
    assert_int_equal(space_get(m).blocks, 0);
}

/* The kernel's FORGET may overtake its RELEASE. */
static void test_forgotten_while_open(void **state)
{
    struct mounted *m = *state;
    struct fs_inode *inode;
    uint8_t data[BLOCK + BLOCK / 2];
    const uint64_t ino = make_lingering(m, "b", data);

    assert_int_equal(fs_inode_open(&m->fs, ino, &inode), 0);
    fs_inode_forgotten(&m->fs, ino);
    fs_reaper_wait(&m->fs);
    expect(m, inode, data, sizeof(data), 0);
    write_all(m, inode, data, 100, 0); /* dirty at the last close */
    fs_inode_close(&m->fs, inode);
    expect_gone(m, ino);
    assert_int_equal(space_get(m).blocks, 0);
}

static void test_forget_all(void **state)
{
    struct mounted *m = *state;
    uint8_t data[BLOCK + BLOCK / 2];
    const uint64_t one = make_lingering(m, "c", data), two = make_lingering(m, "d", data);

    fs_inode_forget_all(&m->fs);
    expect_gone(m, one);
    expect_gone(m, two);
    assert_int_equal(space_get(m).blocks, 0);
}

static int set_up(void **state)
{
    static struct mounted mounted;

    scratch_make(&mounted);
    store_open(&mounted);
    *state = &mounted;
    return 0;
}

static int tear_down(void **state)
{
    store_close(*state);
    scratch_remove(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test_setup_teardown(test_until_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forgotten_while_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forget_all, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("fs linger", tests, NULL, NULL);
}
