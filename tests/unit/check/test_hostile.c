/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_hostile.c - stores with random damage in many records at once: bytes changed, records removed
 * or put under another's key. A check ends and says what it finds; repairs, repeated as sepfs-fsck
 * repeats them, end in a store in which nothing repairable is left, and which opens and collects
 * garbage. Run under ASan and UBSan it shows that no record leads outside its bytes. The seeds are
 * fixed: a failure names one, and it fails again.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

enum { SEEDS = 100, ROUNDS = 4 };

static uint64_t state_of_random;

static uint64_t next_random(uint64_t below)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return state_of_random % below;
}

struct copy {
    size_t key_size, value_size;
    uint8_t key[512], value[4352];
};

/* The N-th record of a table. */
static bool record_at(struct index_txn *txn, enum index_db db, uint64_t n, struct copy *copy)
{
    struct index_key key = {.size = 1};
    MDB_val found, value;
    int error = index_db_seek(txn, db, &key, &found, &value);
    while (error == 0 && n-- > 0)
        error = index_db_next(txn, db, &found, &value);
    if (error != 0 || found.mv_size > sizeof copy->key || value.mv_size > sizeof copy->value)
        return false;
    copy->key_size = found.mv_size;
    copy->value_size = value.mv_size;
    memcpy(copy->key, found.mv_data, found.mv_size);
    memcpy(copy->value, value.mv_data, value.mv_size);
    return true;
}

static void put_raw(struct index_txn *txn, enum index_db db, const struct copy *copy)
{
    struct index_key key = {.size = copy->key_size};
    if (copy->key_size > sizeof key.bytes || copy->key_size == 0)
        return;
    memcpy(key.bytes, copy->key, copy->key_size);
    assert_int_equal(index_db_put(txn, db, &key, copy->value, copy->value_size), 0);
}

/* One record of a random table changed in a random way. */
static void damage(struct index_txn *txn)
{
    const enum index_db db = 1 + (enum index_db)next_random(INDEX_DB_COUNT - 1);
    const uint64_t entries = index_db_entries(txn, db);
    struct copy copy;
    if (entries == 0 || !record_at(txn, db, next_random(entries), &copy))
        return;
    const MDB_val key = {copy.key_size, copy.key};
    switch (next_random(5)) {
    case 0: /* a byte of the value */
        if (copy.value_size > 0)
            copy.value[next_random(copy.value_size)] = (uint8_t)next_random(256);
        put_raw(txn, db, &copy);
        break;
    case 1: /* the end of the value */
        copy.value_size = next_random(copy.value_size + 1);
        put_raw(txn, db, &copy);
        break;
    case 2: /* a byte of the key */
        assert_int_equal(index_db_delete_raw(txn, db, &key), 0);
        copy.key[next_random(copy.key_size)] = (uint8_t)next_random(256);
        put_raw(txn, db, &copy);
        break;
    case 3:
        assert_int_equal(index_db_delete_raw(txn, db, &key), 0);
        break;
    default: { /* the value of another record */
        struct copy other;
        if (record_at(txn, db, next_random(entries), &other)) {
            memcpy(other.key, copy.key, copy.key_size);
            other.key_size = copy.key_size;
            put_raw(txn, db, &other);
        }
    }
    }
}

/* Not every store opens: its state record and tables are not damaged here, so all of these do. */
static void run_seed(uint64_t seed)
{
    struct fixture fixture = {0};
    struct tree tree;
    struct index_txn *txn;
    struct problems problems;
    char text[sizeof problems.text];
    state_of_random = seed * UINT64_C(0x9e3779b97f4a7c15) + 12345;
    fixture_create(&fixture);
    fixture_tree(&fixture, &tree);
    fixture_close(&fixture);
    fixture_open(&fixture, INDEX_OPEN_NO_RECOVER);
    assert_int_equal(index_begin(fixture.index, INDEX_WRITE, &txn), 0);
    for (uint64_t i = 0, count = 1 + next_random(12); i < count; i++)
        damage(txn);
    index_end(txn);
    fixture_close(&fixture);

    fixture_open(&fixture, INDEX_OPEN_READONLY);
    assert_int_equal(fixture_check(&fixture, false, true, &problems), 0);
    strcpy(text, problems.text);
    fixture_close(&fixture);
    for (unsigned round = 0; round < ROUNDS; round++) {
        fixture_open(&fixture, INDEX_OPEN_NO_RECOVER);
        const int error = fixture_check(&fixture, true, true, &problems);
        if (error != 0)
            fail_msg("seed %ju: repair: %s\n%s", (uintmax_t)seed, strerror(-error), text);
        fixture_close(&fixture);
        if (problems.fixed == 0)
            break;
    }
    if (problems.fixed + problems.found > 0)
        fail_msg("seed %ju: still repairing\n%s", (uintmax_t)seed, problems.text);
    fixture_open(&fixture, 0);
    struct index_gc_result result;
    assert_int_equal(index_gc(fixture.index, 90, NULL, &result), 0);
    fixture_close(&fixture);
    fixture_open(&fixture, INDEX_OPEN_READONLY);
    assert_int_equal(fixture_check(&fixture, false, true, &problems), 0);
    /* A block that points to another's place is lost; when the other moves, its old place is a dead
     * range that the lost one seems to lie in. */
    if (problems.found > 0 && problems.lost == 0)
        fail_msg("seed %ju: after a mount and a collection:\n%s", (uintmax_t)seed, problems.text);
    fixture_remove(&fixture);
}

static void test_random_damage(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed);
}

/* One seed, to look into a failure. */
static uint64_t wanted;

static void test_one(void **state)
{
    run_seed(wanted);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(test_random_damage)};
    const struct CMUnitTest one[] = {cmocka_unit_test(test_one)};
    if (argc > 1) {
        wanted = strtoull(argv[1], NULL, 10);
        return cmocka_run_group_tests_name("hostile", one, NULL, NULL);
    }
    return cmocka_run_group_tests_name("hostile", all, NULL, NULL);
}
