/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_copies.c - copies of the index: when they are made and which are kept, that every record is
 * in them, and that any damage to one is noticed and costs no more than the chunks it is in.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/copy.h"

static char dir[256];

static int setup(void **state)
{
    (void)state;
    scratch_make_fast(dir);
    fault_reset();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_reset();
    scratch_remove(dir);
    return 0;
}

static unsigned count_copies(char newest[300])
{
    unsigned count = 0;
    newest[0] = '\0';
    DIR *const list = opendir(in(dir, INDEX_COPIES));
    if (list == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (strcmp(entry->d_name, newest) > 0)
            snprintf(newest, 300, "%s", entry->d_name);
    }
    closedir(list);
    return count;
}

static void session(unsigned files)
{
    struct index *index = open_store(dir, INDEX_OPEN_CREATE | INDEX_OPEN_COPIES);
    for (unsigned i = 0; i < files; i++) {
        char name[32];
        snprintf(name, sizeof name, "%ju", (uintmax_t)index->next_ino);
        const uint64_t ino = make_file(index, name);
        if (i % 3 == 0)
            assert_int_equal(store_block(index, ino, 0, 100, i, INDEX_HOT, NULL), 0);
    }
    close_store(index);
}

static void two_are_kept(void **state)
{
    (void)state;
    char first[300], second[300], newest[300];
    session(10);
    assert_int_equal(count_copies(first), 1);
    session(10);
    assert_int_equal(count_copies(second), 2);
    assert_true(strcmp(second, first) > 0);
    session(10);
    session(10);
    assert_int_equal(count_copies(newest), 2);
    assert_true(strcmp(newest, second) > 0);
    session(0); /* changes nothing */
    assert_int_equal(count_copies(second), 2);
    assert_string_equal(newest, second);
    struct stat status;
    char path[600];
    snprintf(path, sizeof path, INDEX_COPIES "/%s", newest);
    assert_int_equal(stat(in(dir, path), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(stat(in(dir, INDEX_COPIES), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

static void none_without_being_asked(void **state)
{
    (void)state;
    char newest[300];
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    make_file(index, "a");
    close_store(index);
    assert_int_equal(count_copies(newest), 0);
}

static void a_full_host_is_no_error(void **state)
{
    (void)state;
    char newest[300];
    const struct index_options options = {.flags = INDEX_OPEN_CREATE | INDEX_OPEN_COPIES};
    struct index *index = open_with(dir, &options, &fault_io);
    make_file(index, "a");
    assert_int_equal(index_commit(index), 0);
    fault.host_free = UINT64_C(32) << 20;
    close_store(index);
    assert_int_equal(count_copies(newest), 0);
    assert_string_equal(log_last, "no copy of the index: the host is nearly full");
}

/* ---- contents ---- */

struct seen {
    struct index *index;
    struct index_txn *txn;
    uint64_t counts[INDEX_DB_COUNT];
    unsigned damage;
};

/* Every record of a copy is one of the index. */
static int expect_record(void *arg, enum index_db db, const MDB_val *key, const MDB_val *value)
{
    struct seen *const seen = arg;
    struct index_key k = {.size = key->mv_size};
    MDB_val stored, plain = *value;
    memcpy(k.bytes, key->mv_data, key->mv_size);
    assert_true(index_unseal(db, key, &plain));
    assert_int_equal(index_db_get(seen->txn, db, &k, &stored), 0);
    assert_int_equal(plain.mv_size, stored.mv_size);
    /* The state record counts commits, and the end of the session began to count them anew. */
    if (db != INDEX_DB_META)
        assert_memory_equal(plain.mv_data, stored.mv_data, stored.mv_size);
    seen->counts[db]++;
    return 0;
}

static void note_damage(void *arg, const char *text)
{
    struct seen *const seen = arg;
    seen->damage++;
}

static int read_copy(struct seen *seen, const char *name, bool *whole)
{
    char path[600];
    snprintf(path, sizeof path, INDEX_COPIES "/%s", name);
    const int fd = open(in(dir, path), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    memset(seen->counts, 0, sizeof seen->counts);
    seen->damage = 0;
    const struct index_pages_visit visit = {
        .arg = seen, .record = expect_record, .damage = note_damage};
    const int error = index_copy_read(&index_io_system, fd, index_uuid(seen->index), &visit, whole);
    close(fd);
    return error;
}

static void damage_is_noticed_and_confined(void **state)
{
    (void)state;
    enum { RECORDS = 12000, FLIPS = 150 };
    char newest[300], path[600];
    session(RECORDS);
    assert_int_equal(count_copies(newest), 1);
    struct seen seen = {.index = open_store(dir, INDEX_OPEN_READONLY)};
    bool whole;
    assert_int_equal(index_begin(seen.index, INDEX_READ, &seen.txn), 0);
    assert_int_equal(read_copy(&seen, newest, &whole), 0);
    assert_true(whole && seen.damage == 0);
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++)
        assert_int_equal(seen.counts[db], db == INDEX_DB_HASH || db == INDEX_DB_FREE
                                              ? 0
                                              : index_db_entries(seen.txn, db));
    snprintf(path, sizeof path, INDEX_COPIES "/%s", newest);
    const char *const file = in(dir, path);
    const uint64_t size = file_size(file);
    uint8_t *const bytes = malloc(size);
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(bytes != NULL && fd >= 0);
    assert_int_equal(pread(fd, bytes, size, 0), size);
    close(fd);
    uint64_t kept = 0;
    for (unsigned i = 0; i < FLIPS; i++) {
        const uint64_t at = size * i / FLIPS + i % 7;
        const uint8_t changed = bytes[at] ^ (uint8_t)(1u << i % 8);
        poke(file, at, &changed, 1);
        const int error = read_copy(&seen, newest, &whole);
        assert_true(error == 0 || (error == -EUCLEAN && at < 64));
        assert_false(whole);
        assert_true(error != 0 || seen.damage > 0);
        kept += seen.counts[INDEX_DB_INODE] + seen.counts[INDEX_DB_DIRENT];
        poke(file, at, &bytes[at], 1);
    }
    assert_true(kept > (uint64_t)FLIPS * RECORDS); /* more than half of 2 * RECORDS a time */
    for (uint64_t cut = 0; cut < size; cut += size / 37 + 1) {
        assert_int_equal(truncate(file, (off_t)cut), 0);
        const int error = read_copy(&seen, newest, &whole);
        assert_true((error == 0 || cut < 64) && !whole);
        poke(file, cut, bytes + cut, size - cut);
    }
    free(bytes);
    index_end(seen.txn);
    close_store(seen.index);
}

/* A damaged index is not copied, and the copies before stay. */
static void damage_is_not_copied(void **state)
{
    (void)state;
    char before[300], after[300];
    session(30);
    assert_int_equal(count_copies(before), 1);
    struct index *index = open_store(dir, INDEX_OPEN_COPIES);
    struct index_txn *txn;
    MDB_val key, value;
    MDB_cursor *cursor;
    make_file(index, "another");
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    assert_int_equal(mdb_cursor_open(txn->mdb, index->db[INDEX_DB_DIRENT], &cursor), 0);
    assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_FIRST), 0);
    uint8_t copy[512];
    memcpy(copy, value.mv_data, value.mv_size);
    copy[3] ^= 1;
    value.mv_data = copy;
    assert_int_equal(mdb_cursor_put(cursor, &key, &value, MDB_CURRENT), 0);
    mdb_cursor_close(cursor);
    index_end(txn);
    assert_int_equal(index_commit(index), 0);
    close_store(index);
    assert_string_equal(log_last, "no copy of the index: a damaged dirent record");
    assert_int_equal(count_copies(after), 1);
    assert_string_equal(before, after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(none_without_being_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_host_is_no_error, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_noticed_and_confined, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_not_copied, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
