/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_policy.c - user.sepfs.policy: its grammar, what is in force for a file, and inheritance. The
 * two index calls that policy.c makes are answered from one attribute slot for each inode.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fs/core.h"
#include "fs/policy.h"

#define INODES 4u

struct index_txn {
    char value[INODES][512];
    size_t size[INODES]; /* 0: no attribute */
};

int index_xattr_get(struct index_txn *txn, uint64_t ino, const char *name, const void **value,
                    size_t *size)
{
    assert_string_equal(name, FS_POLICY_XATTR);
    if (txn->size[ino] == 0)
        return -ENODATA;
    *value = txn->value[ino];
    *size = txn->size[ino];
    return 0;
}

int index_xattr_set(struct index_txn *txn, uint64_t ino, const char *name, const void *value,
                    size_t size, int flags)
{
    assert_string_equal(name, FS_POLICY_XATTR);
    assert_int_equal(flags, 0);
    memmove(txn->value[ino], value, size);
    txn->size[ino] = size;
    return 0;
}

static void set(struct index_txn *txn, uint64_t ino, const char *text)
{
    (void)index_xattr_set(txn, ino, FS_POLICY_XATTR, text, strlen(text), 0);
}

static void test_grammar(void **state)
{
    struct fs_policy policy = {.hot = {SEP_CODEC_ZSTD, 3}, .cold = {SEP_CODEC_SEP, 5}};
    char error[256];

    (void)state;
    assert_int_equal(fs_policy_parse("cold=never", &policy, error, sizeof error), 0);
    assert_true(policy.cold_never);
    assert_int_equal(policy.cold.codec, SEP_CODEC_SEP);
    assert_int_equal(fs_policy_parse("cold=now,hot=lz4", &policy, error, sizeof error), 0);
    assert_true(policy.cold_now);
    assert_false(policy.cold_never);
    assert_int_equal(policy.hot.codec, SEP_CODEC_LZ4);
    assert_int_equal(fs_policy_parse("cold=zstd:19,cold=now", &policy, error, sizeof error), 0);
    assert_int_equal(policy.cold.codec, SEP_CODEC_ZSTD);
    assert_int_equal(policy.cold.level, 19);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {
        "",          "cold",         "cold=",     "cold=maybe", "warm=lz4",         "hot=sep",
        "hot=never", "cold=zstd:99", "cold=now,", ",cold=now",  "cold=now hot=lz4", "cold==now"};
    const struct fs_policy before = {.hot = {SEP_CODEC_ZSTD, 3}, .cold = {SEP_CODEC_SEP, 5}};
    char error[256], text[400];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fs_policy policy = before;

        error[0] = '\0';
        assert_int_equal(fs_policy_parse(bad[i], &policy, error, sizeof error), -EINVAL);
        assert_string_not_equal(error, "");
        assert_memory_equal(&policy, &before, sizeof policy);
    }
    /* a good beginning does not count when the end is bad */
    struct fs_policy policy = before;
    assert_int_equal(fs_policy_parse("hot=lz4,cold=x", &policy, error, sizeof error), -EINVAL);
    assert_string_equal(error, "policy 'cold=x': expected cold=never, cold=now, cold=METHOD or "
                               "hot=METHOD (not sep)");
    assert_memory_equal(&policy, &before, sizeof policy);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(fs_policy_parse(text, &policy, error, sizeof error), -EINVAL);
}

static void test_in_force(void **state)
{
    struct index_txn txn = {.size = {0}};
    struct fs fs = {.options = {.hot = {SEP_CODEC_LZ4, 1}, .cold = {SEP_CODEC_SEP, 5}}};
    struct fs_policy policy;

    (void)state;
    set(&txn, 1, "cold=never");
    set(&txn, 2, "hot=zstd:7,later=better"); /* of a newer program: ignored whole */
    assert_int_equal(fs_policy_get(&fs, &txn, 0, &policy), 0);
    assert_int_equal(policy.hot.codec, SEP_CODEC_LZ4);
    assert_int_equal(policy.cold.codec, SEP_CODEC_SEP);
    assert_false(policy.cold_never || policy.cold_now);
    assert_int_equal(fs_policy_get(&fs, &txn, 1, &policy), 0);
    assert_true(policy.cold_never);
    assert_int_equal(fs_policy_get(&fs, &txn, 2, &policy), 0);
    assert_int_equal(policy.hot.codec, SEP_CODEC_LZ4);
    memset(txn.value[3], 'a', sizeof txn.value[3]);
    txn.size[3] = sizeof txn.value[3];
    assert_int_equal(fs_policy_get(&fs, &txn, 3, &policy), 0);
    assert_false(policy.cold_never || policy.cold_now);
}

static void test_inheritance(void **state)
{
    struct index_txn txn = {.size = {0}};

    (void)state;
    assert_int_equal(fs_policy_inherit(&txn, 0, 1), 0);
    assert_int_equal(txn.size[1], 0);
    set(&txn, 0, "cold=now");
    assert_int_equal(fs_policy_inherit(&txn, 0, 1), 0);
    assert_int_equal(txn.size[1], 8);
    assert_memory_equal(txn.value[1], "cold=now", 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_in_force),
        cmocka_unit_test(test_inheritance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
