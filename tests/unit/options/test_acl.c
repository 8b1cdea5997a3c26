/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_acl.c - access control lists: what is well-formed, and how list and mode follow each other.
 * The index calls that acl.c makes are answered from one slot for each attribute of each inode.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/acl.h"

enum { DIRECTORY, FILE_INODE, INODES };

struct index_txn {
    struct {
        uint8_t value[512];
        size_t size; /* 0: no attribute */
    } slot[INODES][2];
};

static unsigned which(const char *name)
{
    assert_true(strcmp(name, FS_ACL_ACCESS) == 0 || strcmp(name, FS_ACL_DEFAULT) == 0);
    return strcmp(name, FS_ACL_DEFAULT) == 0;
}

int index_xattr_get(struct index_txn *txn, uint64_t ino, const char *name, const void **value,
                    size_t *size)
{
    if (txn->slot[ino][which(name)].size == 0)
        return -ENODATA;
    *value = txn->slot[ino][which(name)].value;
    *size = txn->slot[ino][which(name)].size;
    return 0;
}

int index_xattr_set(struct index_txn *txn, uint64_t ino, const char *name, const void *value,
                    size_t size, int flags)
{
    (void)flags;
    assert_in_range(size, 1, sizeof txn->slot[0][0].value);
    memcpy(txn->slot[ino][which(name)].value, value, size);
    txn->slot[ino][which(name)].size = size;
    return 0;
}

/* Lists in bytes: version 2, then tag, permissions, id. Tags: 1 owner, 2 user, 4 group, 8 named
 * group, 16 mask, 32 others. */
#define HEAD                 2, 0, 0, 0
#define ENTRY(tag, perm)     tag, 0, perm, 0, 0xff, 0xff, 0xff, 0xff
#define NAMED(tag, perm, id) tag, 0, perm, 0, id, 0, 0, 0

static const uint8_t minimal[] = {HEAD, ENTRY(1, 6), ENTRY(4, 4), ENTRY(32, 0)};
static const uint8_t extended[] = {HEAD,        ENTRY(1, 7),    NAMED(2, 7, 100), NAMED(2, 4, 101),
                                   ENTRY(4, 5), NAMED(8, 6, 7), ENTRY(16, 7),     ENTRY(32, 1)};

static void test_well_formed(void **state)
{
    static const uint8_t no_mask[] = {HEAD, ENTRY(1, 7), NAMED(2, 7, 9), ENTRY(4, 5), ENTRY(32, 0)};
    static const uint8_t no_other[] = {HEAD, ENTRY(1, 7), ENTRY(4, 5)};
    static const uint8_t unsorted[] = {HEAD, ENTRY(4, 5), ENTRY(1, 7), ENTRY(32, 0)};
    static const uint8_t twice[] = {HEAD, ENTRY(1, 7), ENTRY(1, 7), ENTRY(4, 5), ENTRY(32, 0)};
    static const uint8_t same_id[] = {HEAD,        ENTRY(1, 7),  NAMED(2, 7, 9), NAMED(2, 6, 9),
                                      ENTRY(4, 5), ENTRY(16, 7), ENTRY(32, 0)};
    static const uint8_t bad_bits[] = {HEAD, ENTRY(1, 8), ENTRY(4, 4), ENTRY(32, 0)};
    static const uint8_t bad_tag[] = {HEAD, ENTRY(1, 7), ENTRY(4, 4), ENTRY(32, 0), ENTRY(64, 0)};
    static const uint8_t bad_version[] = {3, 0, 0, 0, ENTRY(1, 6), ENTRY(4, 4), ENTRY(32, 0)};

    (void)state;
    assert_true(fs_acl_valid(minimal, sizeof minimal));
    assert_true(fs_acl_valid(extended, sizeof extended));
    assert_false(fs_acl_valid(minimal, sizeof minimal - 1));
    assert_false(fs_acl_valid(minimal, 4));
    assert_false(fs_acl_valid(minimal, 0));
    assert_false(fs_acl_valid(no_mask, sizeof no_mask));
    assert_false(fs_acl_valid(no_other, sizeof no_other));
    assert_false(fs_acl_valid(unsorted, sizeof unsorted));
    assert_false(fs_acl_valid(twice, sizeof twice));
    assert_false(fs_acl_valid(same_id, sizeof same_id));
    assert_false(fs_acl_valid(bad_bits, sizeof bad_bits));
    assert_false(fs_acl_valid(bad_tag, sizeof bad_tag));
    assert_false(fs_acl_valid(bad_version, sizeof bad_version));
}

static void test_to_mode(void **state)
{
    uint32_t mode = S_IFREG | S_ISUID | 0777;
    bool keep = true;

    (void)state;
    assert_int_equal(fs_acl_to_mode(minimal, sizeof minimal, &mode, &keep), 0);
    assert_int_equal(mode, S_IFREG | S_ISUID | 0640);
    assert_false(keep); /* the mode says it all */
    assert_int_equal(fs_acl_to_mode(extended, sizeof extended, &mode, &keep), 0);
    assert_int_equal(mode, S_IFREG | S_ISUID | 0771); /* group bits: the mask */
    assert_true(keep);
    assert_int_equal(fs_acl_to_mode(extended, 11, &mode, &keep), -EINVAL);
}

static void test_chmod(void **state)
{
    struct index_txn txn = {.slot = {{{{0}, 0}}}};
    const struct index_inode attr = {.ino = FILE_INODE, .mode = S_IFREG | 0640};
    const uint8_t after[] = {HEAD,        ENTRY(1, 6),    NAMED(2, 7, 100), NAMED(2, 4, 101),
                             ENTRY(4, 5), NAMED(8, 6, 7), ENTRY(16, 4),     ENTRY(32, 0)};

    (void)state;
    assert_int_equal(fs_acl_chmod(&txn, &attr), 0);
    assert_int_equal(txn.slot[FILE_INODE][0].size, 0);
    (void)index_xattr_set(&txn, FILE_INODE, FS_ACL_ACCESS, extended, sizeof extended, 0);
    assert_int_equal(fs_acl_chmod(&txn, &attr), 0);
    assert_memory_equal(txn.slot[FILE_INODE][0].value, after, sizeof after);
}

static void test_create(void **state)
{
    struct index_txn txn = {.slot = {{{{0}, 0}}}};
    struct index_inode file = {.ino = FILE_INODE, .mode = S_IFREG | 0666};
    struct index_inode directory = {.ino = FILE_INODE, .mode = S_IFDIR | 0777};
    const uint8_t inherited[] = {HEAD,        ENTRY(1, 6),    NAMED(2, 7, 100), NAMED(2, 4, 101),
                                 ENTRY(4, 5), NAMED(8, 6, 7), ENTRY(16, 6),     ENTRY(32, 0)};

    (void)state;
    /* no default list: the umask */
    assert_int_equal(fs_acl_create(&txn, DIRECTORY, &file, 027), 0);
    assert_int_equal(file.mode, S_IFREG | 0640);
    assert_int_equal(txn.slot[FILE_INODE][0].size, 0);
    /* a default list: no umask, at most what was asked for */
    (void)index_xattr_set(&txn, DIRECTORY, FS_ACL_DEFAULT, extended, sizeof extended, 0);
    file.mode = S_IFREG | 0666;
    assert_int_equal(fs_acl_create(&txn, DIRECTORY, &file, 077), 0);
    assert_int_equal(file.mode, S_IFREG | 0660);
    assert_int_equal(txn.slot[FILE_INODE][0].size, sizeof inherited);
    assert_memory_equal(txn.slot[FILE_INODE][0].value, inherited, sizeof inherited);
    assert_int_equal(txn.slot[FILE_INODE][1].size, 0);
    /* a directory hands it on */
    assert_int_equal(fs_acl_create(&txn, DIRECTORY, &directory, 077), 0);
    assert_int_equal(directory.mode, S_IFDIR | 0771);
    assert_int_equal(txn.slot[FILE_INODE][1].size, sizeof extended);
    assert_memory_equal(txn.slot[FILE_INODE][1].value, extended, sizeof extended);
    /* a default list that says no more than a mode */
    (void)index_xattr_set(&txn, DIRECTORY, FS_ACL_DEFAULT, minimal, sizeof minimal, 0);
    txn.slot[FILE_INODE][0].size = 0;
    file.mode = S_IFREG | 0666;
    assert_int_equal(fs_acl_create(&txn, DIRECTORY, &file, 0), 0);
    assert_int_equal(file.mode, S_IFREG | 0640);
    assert_int_equal(txn.slot[FILE_INODE][0].size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_to_mode),
        cmocka_unit_test(test_chmod),
        cmocka_unit_test(test_create),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
