/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_names.c - inodes, names, readdir offsets, paths, extended attributes.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <xxhash.h>

static char dir[256];
static struct index *store;
static struct index_txn *txn;

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    store = open_store(dir, INDEX_OPEN_CREATE);
    return index_begin(store, INDEX_WRITE, &txn);
}

static int teardown(void **state)
{
    (void)state;
    index_end(txn);
    close_store(store);
    scratch_remove(dir);
    return 0;
}

static struct index_inode new_inode(uint32_t mode)
{
    const struct index_inode inode = {
        .ino = index_inode_new(txn), .parent = 1, .mode = mode, .nlink = 1};
    assert_int_equal(index_inode_put(txn, &inode), 0);
    return inode;
}

static void inodes(void **state)
{
    (void)state;
    struct index_inode a = new_inode(S_IFREG | 0600), b = new_inode(S_IFDIR | 0700), read;
    assert_true(b.ino == a.ino + 1);
    a.size = 5;
    a.flags = INDEX_INODE_INLINE;
    a.inline_size = 5;
    a.inline_data = "01234";
    assert_int_equal(index_inode_put(txn, &a), 0);
    assert_int_equal(index_inode_get(txn, a.ino, &read), 0);
    assert_int_equal(read.inline_size, 5);
    assert_memory_equal(read.inline_data, "01234", 5);
    read.mtime.tv_sec = 9; /* put back with the pointer into its own record */
    assert_int_equal(index_inode_put(txn, &read), 0);
    assert_int_equal(index_inode_get(txn, a.ino, &read), 0);
    assert_memory_equal(read.inline_data, "01234", 5);
    assert_int_equal(index_inode_next(txn, 2, &read), 0);
    assert_int_equal(read.ino, a.ino);
    assert_int_equal(index_inode_next(txn, a.ino + 1, &read), 0);
    assert_int_equal(read.ino, b.ino);
    assert_int_equal(index_inode_next(txn, b.ino + 1, &read), -ENOENT);
    assert_int_equal(index_inode_delete(txn, a.ino), 0);
    assert_int_equal(index_inode_delete(txn, a.ino), -ENOENT);
    assert_int_equal(index_inode_get(txn, a.ino, &read), -ENOENT);
    assert_true(index_inode_new(txn) > b.ino);
}

static void inode_limits(void **state)
{
    (void)state;
    static char target[INDEX_SYMLINK_MAX + 2];
    memset(target, 't', sizeof target - 1);
    struct index_inode inode = new_inode(S_IFLNK | 0777), read;
    inode.flags = INDEX_INODE_INLINE;
    inode.inline_data = target;
    inode.inline_size = INDEX_SYMLINK_MAX;
    assert_int_equal(index_inode_put(txn, &inode), 0);
    assert_int_equal(index_inode_get(txn, inode.ino, &read), 0);
    assert_int_equal(read.inline_size, INDEX_SYMLINK_MAX);
    assert_memory_equal(read.inline_data, target, INDEX_SYMLINK_MAX);
    inode.inline_size++;
    assert_int_equal(index_inode_put(txn, &inode), -EINVAL);
    inode.mode = S_IFREG | 0600;
    inode.inline_size = INDEX_INLINE_MAX + 1;
    assert_int_equal(index_inode_put(txn, &inode), -EINVAL);
    inode.inline_size = 0;
    inode.flags = 0;
    inode.mtime.tv_nsec = 1000000000;
    assert_int_equal(index_inode_put(txn, &inode), -EINVAL);
    inode.mtime.tv_nsec = 0;
    inode.size = (uint64_t)INT64_MAX + 1;
    assert_int_equal(index_inode_put(txn, &inode), -EINVAL);
    inode.size = 0;
    inode.ino = 0;
    assert_int_equal(index_inode_put(txn, &inode), -EINVAL);
}

static void orphans(void **state)
{
    (void)state;
    uint64_t ino, from;
    assert_int_equal(index_orphan_next(txn, 0, &ino, &from), -ENOENT);
    assert_int_equal(index_orphan_set(txn, 7, 3), 0);
    assert_int_equal(index_orphan_set(txn, 9, 0), 0);
    assert_int_equal(index_orphan_set(txn, 7, 4), 0);
    assert_int_equal(index_orphan_next(txn, 0, &ino, &from), 0);
    assert_true(ino == 7 && from == 4);
    assert_int_equal(index_orphan_next(txn, 8, &ino, &from), 0);
    assert_true(ino == 9 && from == 0);
    assert_int_equal(index_orphan_clear(txn, 7), 0);
    assert_int_equal(index_orphan_clear(txn, 7), 0);
    assert_int_equal(index_orphan_clear(txn, 9), 0);
    assert_int_equal(index_orphan_next(txn, 0, &ino, &from), -ENOENT);
}

static void names(void **state)
{
    (void)state;
    struct index_dirent entry;
    const uint64_t folder = new_inode(S_IFDIR | 0700).ino, file = new_inode(S_IFREG | 0600).ino;
    char longest[INDEX_NAME_MAX + 2];
    memset(longest, 'n', sizeof longest - 1);
    longest[INDEX_NAME_MAX + 1] = '\0';
    assert_true(index_dir_empty(txn, folder));
    assert_int_equal(index_dirent_lookup(txn, folder, "a", &entry), -ENOENT);
    assert_int_equal(index_dirent_add(txn, folder, "a", file, DT_REG), 0);
    assert_int_equal(index_dirent_add(txn, folder, "a", file, DT_REG), -EEXIST);
    assert_false(index_dir_empty(txn, folder));
    assert_int_equal(index_dirent_lookup(txn, folder, "a", &entry), 0);
    assert_true(entry.ino == file && entry.type == DT_REG && entry.name_size == 1);
    assert_string_equal(entry.name, "a");
    assert_true(entry.cookie >= 16 && entry.cookie < UINT64_C(1) << 63);
    const uint64_t cookie = entry.cookie;
    assert_int_equal(index_dirent_replace(txn, folder, "a", folder, DT_DIR), 0);
    assert_int_equal(index_dirent_lookup(txn, folder, "a", &entry), 0);
    assert_true(entry.ino == folder && entry.type == DT_DIR && entry.cookie == cookie);
    assert_int_equal(index_dirent_replace(txn, folder, "b", file, DT_REG), -ENOENT);
    assert_int_equal(index_dirent_add(txn, folder, longest, file, DT_REG), -ENAMETOOLONG);
    assert_int_equal(index_dirent_lookup(txn, folder, longest, &entry), -ENAMETOOLONG);
    longest[INDEX_NAME_MAX] = '\0';
    assert_int_equal(index_dirent_add(txn, folder, longest, file, DT_REG), 0);
    assert_int_equal(index_dirent_lookup(txn, folder, longest, &entry), 0);
    assert_string_equal(entry.name, longest);
    assert_int_equal(index_dirent_add(txn, folder, "", file, DT_REG), -EINVAL);
    assert_int_equal(index_dirent_add(txn, folder, ".", file, DT_REG), -EINVAL);
    assert_int_equal(index_dirent_add(txn, folder, "..", file, DT_REG), -EINVAL);
    assert_int_equal(index_dirent_add(txn, folder, "a/b", file, DT_REG), -EINVAL);
    assert_int_equal(index_dirent_add(txn, folder, "\xff\xfe \n", file, DT_REG), 0);
    assert_int_equal(index_dirent_remove(txn, folder, "a"), 0);
    assert_int_equal(index_dirent_remove(txn, folder, "a"), -ENOENT);
    /* Other directories are not touched. */
    assert_true(index_dir_empty(txn, folder + 1));
    assert_true(index_dir_empty(txn, folder - 1));
}

/* Names that share a slot range: found by trying names until their hashes agree. With 44 bits of
 * hash none are found by trying, so the test writes the records of other names into the slots. */
static void collisions(void **state)
{
    (void)state;
    const uint64_t folder = new_inode(S_IFDIR | 0700).ino;
    struct index_dirent entry, other;
    assert_int_equal(index_dirent_add(txn, folder, "target", 100, DT_REG), 0);
    assert_int_equal(index_dirent_lookup(txn, folder, "target", &entry), 0);
    const uint64_t first = entry.cookie;
    assert_int_equal(first % 16, 0);
    assert_int_equal(index_dirent_remove(txn, folder, "target"), 0);
    for (unsigned i = 0; i < 16; i++) {
        struct index_key key;
        struct index_record record;
        other = (struct index_dirent){.ino = 200 + i, .type = DT_REG, .cookie = first + i};
        other.name_size = (uint8_t)snprintf(other.name, sizeof other.name, "other-%u", i);
        index_key_dirent(&key, folder, first + i);
        index_record_dirent(&record, &other);
        /* One slot is left at every turn: behind those taken, then between them. */
        assert_int_equal(index_dirent_add(txn, folder, "target", 100, DT_REG), 0);
        assert_int_equal(index_dirent_lookup(txn, folder, "target", &entry), 0);
        assert_int_equal(entry.ino, 100);
        assert_int_equal(entry.cookie, first + i);
        assert_int_equal(index_dirent_add(txn, folder, "target", 1, DT_REG), -EEXIST);
        assert_int_equal(index_dirent_remove(txn, folder, "target"), 0);
        assert_int_equal(index_db_put_record(txn, INDEX_DB_DIRENT, &key, &record), 0);
    }
    assert_int_equal(index_dirent_add(txn, folder, "target", 100, DT_REG), -ENOSPC);
    assert_int_equal(index_dirent_lookup(txn, folder, "target", &entry), -ENOENT);
    struct index_key hole;
    index_key_dirent(&hole, folder, first + 5);
    assert_int_equal(index_db_delete(txn, INDEX_DB_DIRENT, &hole), 0);
    assert_int_equal(index_dirent_add(txn, folder, "target", 100, DT_REG), 0);
    assert_int_equal(index_dirent_lookup(txn, folder, "target", &entry), 0);
    assert_int_equal(entry.cookie, first + 5);
    index_key_dirent(&hole, folder, first); /* and is found with a gap before it */
    assert_int_equal(index_db_delete(txn, INDEX_DB_DIRENT, &hole), 0);
    assert_int_equal(index_dirent_lookup(txn, folder, "target", &entry), 0);
    assert_int_equal(entry.cookie, first + 5);
    assert_int_equal(index_dirent_add(txn, folder, "target", 1, DT_REG), -EEXIST);
}

#define MANY 100000u

static void many_names(void **state)
{
    (void)state;
    const uint64_t folder = new_inode(S_IFDIR | 0700).ino;
    char name[32];
    uint8_t *const seen = calloc(MANY, 1);
    assert_non_null(seen);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "name-%u", i);
        assert_int_equal(index_dirent_add(txn, folder, name, 1000 + i, DT_REG), 0);
    }
    struct index_dirent entry = {.cookie = 0};
    uint64_t last = 0;
    unsigned count = 0;
    while (index_dirent_next(txn, folder, last + 1, &entry) == 0) {
        assert_true(entry.cookie > last);
        last = entry.cookie;
        const uint64_t i = entry.ino - 1000;
        assert_true(i < MANY && !seen[i]);
        seen[i] = 1;
        count++;
    }
    assert_int_equal(count, MANY);
    for (unsigned i = 0; i < MANY; i += 97) {
        snprintf(name, sizeof name, "name-%u", i);
        assert_int_equal(index_dirent_lookup(txn, folder, name, &entry), 0);
        assert_int_equal(entry.ino, 1000 + i);
    }
    free(seen);
}

/* A reader that goes on at each cookie sees every entry that stays exactly once, whatever comes and
 * goes around it. */
static void readdir_is_stable(void **state)
{
    (void)state;
    const uint64_t folder = new_inode(S_IFDIR | 0700).ino;
    uint8_t seen[1000] = {0};
    char name[32];
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(index_dirent_add(txn, folder, name, i + 1, DT_REG), 0);
    }
    struct index_dirent entry;
    uint64_t at = 0;
    for (unsigned step = 0; index_dirent_next(txn, folder, at, &entry) == 0; step++) {
        at = entry.cookie + 1;
        if (entry.ino <= 1000) {
            assert_int_equal(seen[entry.ino - 1], 0);
            seen[entry.ino - 1] = 1;
        }
        if (step < 1000) { /* of the second thousand, one goes and a new one comes */
            snprintf(name, sizeof name, "n%u", 1000 + step);
            index_dirent_remove(txn, folder, name);
            snprintf(name, sizeof name, "new%u", step);
            assert_int_equal(index_dirent_add(txn, folder, name, 5000 + step, DT_REG), 0);
        }
    }
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(index_dirent_next(txn, folder, UINT64_MAX, &entry), -ENOENT);
}

static void paths(void **state)
{
    (void)state;
    char text[64];
    struct index_inode a = new_inode(S_IFDIR | 0700), b = new_inode(S_IFDIR | 0700),
                       c = new_inode(S_IFREG | 0600);
    assert_int_equal(index_dirent_add(txn, 1, "top", a.ino, DT_DIR), 0);
    assert_int_equal(index_dirent_add(txn, a.ino, "middle", b.ino, DT_DIR), 0);
    assert_int_equal(index_dirent_add(txn, b.ino, "leaf", c.ino, DT_REG), 0);
    b.parent = a.ino;
    c.parent = b.ino;
    assert_int_equal(index_inode_put(txn, &b), 0);
    assert_int_equal(index_inode_put(txn, &c), 0);
    assert_string_equal(index_inode_path(txn, 1, text, sizeof text), "/");
    assert_string_equal(index_inode_path(txn, c.ino, text, sizeof text), "/top/middle/leaf");
    assert_string_equal(index_inode_path(txn, 999, text, sizeof text), "inode 999");
    assert_string_equal(index_inode_path(txn, c.ino, text, 10), "inode 4");
    a.parent = b.ino; /* a loop, as damage makes it */
    assert_int_equal(index_inode_put(txn, &a), 0);
    assert_int_equal(index_dirent_add(txn, b.ino, "up", a.ino, DT_DIR), 0);
    assert_string_equal(index_inode_path(txn, c.ino, text, sizeof text), "inode 4");
}

static void xattrs(void **state)
{
    (void)state;
    const void *value;
    size_t size;
    char name[INDEX_NAME_MAX + 1], longest[INDEX_NAME_MAX + 2];
    static uint8_t big[INDEX_XATTR_SIZE_MAX + 1];
    const uint64_t ino = new_inode(S_IFREG | 0600).ino;
    memset(longest, 'x', sizeof longest - 1);
    longest[INDEX_NAME_MAX + 1] = '\0';
    fill(big, sizeof big, 3);
    assert_false(index_xattr_any(txn, ino));
    assert_int_equal(index_xattr_get(txn, ino, "user.a", &value, &size), -ENODATA);
    assert_int_equal(index_xattr_set(txn, ino, "user.a", "1", 1, XATTR_REPLACE), -ENODATA);
    assert_int_equal(index_xattr_set(txn, ino, "user.a", "1", 1, XATTR_CREATE), 0);
    assert_int_equal(index_xattr_set(txn, ino, "user.a", "2", 1, XATTR_CREATE), -EEXIST);
    assert_int_equal(index_xattr_set(txn, ino, "user.a", "33", 2, XATTR_REPLACE), 0);
    assert_int_equal(index_xattr_set(txn, ino, "user.a", "x", 1, 64), -EINVAL);
    assert_int_equal(index_xattr_set(txn, ino, "user.c", NULL, 0, 0), 0);
    assert_int_equal(index_xattr_set(txn, ino, "user.b", big, INDEX_XATTR_SIZE_MAX, 0), 0);
    assert_int_equal(index_xattr_set(txn, ino, "user.b", big, sizeof big, 0), -E2BIG);
    assert_int_equal(index_xattr_set(txn, ino, longest, "1", 1, 0), -ERANGE);
    assert_int_equal(index_xattr_set(txn, ino, "", "1", 1, 0), -ERANGE);
    assert_int_equal(index_xattr_set(txn, ino + 1, "user.z", "1", 1, 0), 0);
    assert_int_equal(index_xattr_get(txn, ino, "user.a", &value, &size), 0);
    assert_int_equal(size, 2);
    assert_memory_equal(value, "33", 2);
    assert_int_equal(index_xattr_get(txn, ino, "user.b", &value, &size), 0);
    assert_int_equal(size, INDEX_XATTR_SIZE_MAX);
    assert_memory_equal(value, big, size);
    assert_int_equal(index_xattr_get(txn, ino, "user.c", &value, &size), 0);
    assert_int_equal(size, 0);
    assert_true(index_xattr_any(txn, ino));
    assert_int_equal(index_xattr_next(txn, ino, "", name), 0);
    assert_string_equal(name, "user.a");
    assert_int_equal(index_xattr_next(txn, ino, "user.a", name), 0);
    assert_string_equal(name, "user.b");
    assert_int_equal(index_xattr_next(txn, ino, "user.b", name), 0);
    assert_string_equal(name, "user.c");
    assert_int_equal(index_xattr_next(txn, ino, "user.c", name), -ENOENT);
    assert_int_equal(index_xattr_remove(txn, ino, "user.c"), 0);
    assert_int_equal(index_xattr_remove(txn, ino, "user.c"), -ENODATA);
    assert_int_equal(index_inode_delete(txn, ino), 0);
    assert_false(index_xattr_any(txn, ino));
    assert_true(index_xattr_any(txn, ino + 1));
}

static void malformed_records_are_named(void **state)
{
    (void)state;
    struct index_key key;
    struct index_inode inode = new_inode(S_IFREG | 0600);
    index_key_one(&key, inode.ino);
    assert_int_equal(index_db_put(txn, INDEX_DB_INODE, &key, "\x09zzz", 4), 0);
    assert_int_equal(index_inode_get(txn, inode.ino, &inode), -EUCLEAN);
    assert_string_equal(log_last, "index: damaged inode record, key 0102");
    assert_false(index_readonly(store)); /* the rest goes on */
    assert_int_equal(index_inode_delete(txn, 2), 0);
    assert_int_equal(index_inode_get(txn, 2, &inode), -ENOENT);
}

static void counters_follow(void **state)
{
    (void)state;
    struct index_inode file = new_inode(S_IFREG | 0600);
    file.size = 1000;
    assert_int_equal(index_inode_put(txn, &file), 0);
    file.size = 300;
    assert_int_equal(index_inode_put(txn, &file), 0);
    new_inode(S_IFDIR | 0700);
    new_inode(S_IFLNK | 0777);
    new_inode(S_IFIFO | 0600);
    const struct index_inode gone = new_inode(S_IFSOCK | 0600);
    assert_int_equal(index_inode_delete(txn, gone.ino), 0);
    index_end(txn);
    struct index_space space;
    for (unsigned round = 0; round < 2; round++) { /* as counted, as stored */
        assert_int_equal(index_space(store, &space), 0);
        assert_int_equal(space.inodes, 5);
        assert_int_equal(space.directories, 2);
        assert_int_equal(space.symlinks, 1);
        assert_int_equal(space.others, 1);
        assert_int_equal(space.logical, 300);
        assert_true(space.host_free > 0 && space.host_total > space.host_free);
        assert_true(space.index_bytes > 0);
        assert_int_equal(index_commit(store), 0);
    }
    assert_int_equal(index_begin(store, INDEX_WRITE, &txn), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inodes, setup, teardown),
        cmocka_unit_test_setup_teardown(inode_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(orphans, setup, teardown),
        cmocka_unit_test_setup_teardown(names, setup, teardown),
        cmocka_unit_test_setup_teardown(collisions, setup, teardown),
        cmocka_unit_test_setup_teardown(many_names, setup, teardown),
        cmocka_unit_test_setup_teardown(readdir_is_stable, setup, teardown),
        cmocka_unit_test_setup_teardown(paths, setup, teardown),
        cmocka_unit_test_setup_teardown(xattrs, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_records_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(counters_follow, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
