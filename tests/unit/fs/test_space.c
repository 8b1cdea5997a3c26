/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_space.c - full disks and failing ones. A full one is told at write(), and all that was
 * accepted before can be stored; a failing one leaves the data in memory, is told once by fsync, and
 * is tried again.
 */
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static void test_full_disk(void **state)
{
    struct mounted m;
    struct fs_inode *inode, *other;
    uint8_t *data = malloc(BLOCK);
    uint64_t blocks = 0, ino;
    ssize_t wrote;

    (void)state;
    assert_non_null(data);
    scratch_make(&m);
    if (mount("tmpfs", m.path, "tmpfs", 0, "size=24m") != 0) {
        print_message("skipped: mounting a tmpfs needs root (%s)\n", strerror(errno));
        scratch_remove(&m);
        free(data);
        skip();
    }
    store_open(&m);
    inode = file_create(&m, "a");
    ino = inode->ino;
    for (;;) {
        fill_noise(data, BLOCK, blocks);
        wrote = fs_file_write(&m.fs, inode, data, BLOCK, blocks * BLOCK, false);
        if (wrote != BLOCK)
            break;
        blocks++;
        assert_true(blocks < (24u << 20) / BLOCK);
    }
    assert_int_equal(wrote, -ENOSPC);
    print_message("full after %llu blocks\n", (unsigned long long)blocks);
    assert_true(blocks * BLOCK > (18u << 20)); /* most of what there is could be used */
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    assert_int_equal(m.fs.counters.write_errors, 0);
    assert_int_equal(record_size(&m, ino), blocks * BLOCK);
    fs_inode_drop(&m.fs, inode);
    store_reopen(&m);
    assert_int_equal(fs_inode_hold(&m.fs, ino, &inode), 0);
    for (uint64_t i = 0; i < blocks; i++) {
        fill_noise(data, BLOCK, i);
        expect(&m, inode, data, BLOCK, i * BLOCK);
    }
    /* deleting works on a full disk, and makes room again */
    fs_inode_drop(&m.fs, inode);
    file_unlink(&m, "a");
    fs_reaper_wait(&m.fs);
    assert_int_equal(index_commit(m.index), 0);
    assert_int_equal(index_gc(m.index, 50, NULL, &(struct index_gc_result){0}), 0);
    other = file_create(&m, "b");
    for (uint64_t i = 0; i < 50; i++) {
        fill_noise(data, BLOCK, 1000 + i);
        write_all(&m, other, data, BLOCK, i * BLOCK);
    }
    assert_int_equal(fs_file_sync(&m.fs, other), 0);
    fs_inode_drop(&m.fs, other);
    store_close(&m);
    assert_int_equal(umount2(m.path, MNT_DETACH), 0);
    scratch_remove(&m);
    free(data);
}

/* Sharing blocks needs no pack space, but the index grows: a full host ends the copy, nothing else. */
static void test_copy_on_a_full_disk(void **state)
{
    struct mounted m;
    struct fs_inode *a, *b, *noise;
    uint8_t data[BLOCK];
    uint64_t blocks = 1, more;
    ssize_t done;

    (void)state;
    scratch_make(&m);
    if (mount("tmpfs", m.path, "tmpfs", 0, "size=24m") != 0) {
        print_message("skipped: mounting a tmpfs needs root (%s)\n", strerror(errno));
        scratch_remove(&m);
        skip();
    }
    store_open(&m);
    a = file_create(&m, "a");
    b = file_create(&m, "b");
    noise = file_create(&m, "noise");
    fill(data, BLOCK, 1);
    write_all(&m, a, data, BLOCK, 0);
    for (; blocks < 1u << 17; blocks *= 2)
        assert_int_equal(fs_file_copy(&m.fs, a, 0, a, blocks * BLOCK, blocks * BLOCK),
                         blocks * BLOCK);
    assert_int_equal(fs_file_sync(&m.fs, a), 0);
    for (more = 0;; more++) {
        fill_noise(data, BLOCK, more);
        done = fs_file_write(&m.fs, noise, data, BLOCK, more * BLOCK, false);
        if (done != BLOCK)
            break;
    }
    assert_int_equal(done, -ENOSPC);
    assert_int_equal(fs_file_sync(&m.fs, noise), 0);
    done = fs_file_copy(&m.fs, a, 0, b, 0, blocks * BLOCK);
    assert_true(done == -ENOSPC || (done >= 0 && (uint64_t)done < blocks * BLOCK));
    assert_false(index_readonly(m.index));
    assert_int_equal(fs_file_sync(&m.fs, b), 0);
    fs_inode_drop(&m.fs, a);
    fs_inode_drop(&m.fs, b);
    fs_inode_drop(&m.fs, noise);
    store_close(&m);
    assert_int_equal(umount2(m.path, MNT_DETACH), 0);
    scratch_remove(&m);
}

static void test_failing_disk(void **state)
{
    struct mounted m;
    struct fs_inode *inode, *other;
    uint8_t data[4 * BLOCK], more[BLOCK];
    uint64_t ino;

    (void)state;
    scratch_make(&m);
    store_open(&m);
    inode = file_create(&m, "a");
    ino = inode->ino;
    other = file_create(&m, "b");
    fill(data, sizeof(data), 1);
    write_all(&m, other, data, BLOCK, 0); /* makes the pack */
    assert_int_equal(fs_file_sync(&m.fs, other), 0);
    fs_inode_drop(&m.fs, other);
    fill(data, sizeof(data), 2);
    hold_pack_writes = true; /* a full block goes to a worker at once */
    write_all(&m, inode, data, sizeof(data), 0);
    fail_pack_writes = EIO;
    hold_pack_writes = false;
    assert_int_equal(fs_file_sync(&m.fs, inode), -EIO);
    assert_true(m.fs.counters.write_errors > 0);
    assert_int_equal(record_size(&m, ino), 0);
    expect(&m, inode, data, sizeof(data), 0); /* still there, and can be changed */
    fill(data + 10, 100, 3);
    write_all(&m, inode, data + 10, 100, 10);
    assert_int_equal(fs_file_sync(&m.fs, inode), -EIO); /* still failing */
    fail_pack_writes = 0;
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    assert_int_equal(record_size(&m, ino), sizeof(data));

    /* an error that only the background met is told by the next close or fsync, once */
    fill(more, BLOCK, 4);
    hold_pack_writes = true;
    write_all(&m, inode, more, BLOCK, 4 * BLOCK);
    fail_pack_writes = ENOSPC;
    hold_pack_writes = false;
    assert_int_equal(fs_writeback_all(&m.fs), -ENOSPC);
    fail_pack_writes = 0;
    assert_int_equal(fs_writeback_all(&m.fs), 0);
    assert_int_equal(fs_file_flush(&m.fs, inode), -ENOSPC);
    assert_int_equal(fs_file_flush(&m.fs, inode), 0);
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    fs_inode_drop(&m.fs, inode);
    store_reopen(&m);
    assert_int_equal(fs_inode_hold(&m.fs, ino, &inode), 0);
    expect(&m, inode, data, sizeof(data), 0);
    expect(&m, inode, more, BLOCK, 4 * BLOCK);
    fs_inode_drop(&m.fs, inode);
    store_close(&m);
    scratch_remove(&m);
}

/* With memory full of what can't be written, writers get the error instead of waiting for ever. */
static void test_failing_and_full_memory(void **state)
{
    struct mounted m;
    struct fs_inode *inode;
    uint8_t data[BLOCK];
    uint64_t ino, done = 1;
    ssize_t wrote;

    (void)state;
    scratch_make(&m);
    store_open(&m);
    inode = file_create(&m, "a");
    ino = inode->ino;
    fill(data, BLOCK, 0);
    write_all(&m, inode, data, BLOCK, 0);
    assert_int_equal(fs_file_sync(&m.fs, inode), 0);
    fail_pack_writes = EIO;
    do {
        fill(data, BLOCK, done);
        wrote = fs_file_write(&m.fs, inode, data, BLOCK, done * BLOCK, false);
        done += wrote == BLOCK;
        assert_true(done < 64);
    } while (wrote == BLOCK);
    assert_int_equal(wrote, -EIO);
    assert_true(done > 1);
    fail_pack_writes = 0;
    assert_int_equal(fs_file_write_back(&m.fs, inode), 0);
    write_all(&m, inode, data, 1, done * BLOCK);
    fs_inode_drop(&m.fs, inode);
    store_reopen(&m);
    assert_int_equal(fs_inode_hold(&m.fs, ino, &inode), 0);
    for (uint64_t i = 0; i < done; i++) {
        fill(data, BLOCK, i);
        expect(&m, inode, data, BLOCK, i * BLOCK);
    }
    /* what can't be written at the end is an error of the stop, and the store is good */
    fill(data, BLOCK, 100);
    write_all(&m, inode, data, BLOCK - 1, 100 * BLOCK); /* not complete: stays in memory */
    fs_inode_drop(&m.fs, inode);
    fail_pack_writes = EIO;
    assert_int_equal(fs_data_stop(&m.fs), -EIO);
    fail_pack_writes = 0;
    assert_int_equal(index_close(m.index), 0);
    store_open(&m);
    assert_int_equal(record_size(&m, ino), done * BLOCK + 1);
    store_close(&m);
    scratch_remove(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_disk), cmocka_unit_test(test_copy_on_a_full_disk),
        cmocka_unit_test(test_failing_disk), cmocka_unit_test(test_failing_and_full_memory)};

    return cmocka_run_group_tests_name("fs space", tests, NULL, NULL);
}
