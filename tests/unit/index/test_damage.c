/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_damage.c - bits flipped in every kind of record and of page of data.mdb, at places that fixed
 * seeds choose and field by field; and files cut at every page. Whatever the damage: the store is
 * refused with the page named, or opens and every record is what it was, or is refused by itself
 * with table and key named. No pack is lost, and no living byte.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "index/pages.h"

enum { FILES = 400, RANDOM_FLIPS = 2000, CUTS = 40 };

static char dir[256], pristine[256];

static struct bytes {
    uint8_t *data;
    size_t size;
} file; /* data.mdb, as it was */

struct row {
    unsigned db;
    size_t key_size, value_size;
    uint8_t *key, *value;
};
static struct row *rows;
static size_t row_count;

static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* ---- a store with records of every kind and pages of every kind ---- */

static void set_xattr(struct index *index, uint64_t ino, const char *name, size_t size)
{
    struct index_txn *txn;
    uint8_t *const value = malloc(size);
    assert_non_null(value);
    fill(value, size, size);
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_xattr_set(txn, ino, name, value, size, 0), 0);
    index_end(txn);
    free(value);
}

static void make_rich(void)
{
    char name[64];
    uint64_t inos[FILES];
    struct index_txn *txn;
    struct index *index = open_store(dir, INDEX_OPEN_CREATE);
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "a file with a name of its own %u", i);
        inos[i] = make_file(index, name);
        if (i % 3 == 0)
            assert_int_equal(store_block(index, inos[i], i % 5, 300 + i, i, i % 2, NULL), 0);
        if (i % 50 == 0)
            set_xattr(index, inos[i], "user.large", 3000 + 97 * i);
        if (i % 7 == 0)
            set_xattr(index, inos[i], "user.small", 20);
        if (i % 100 == 99) /* pages of many commits */
            assert_int_equal(index_commit(index), 0);
    }
    for (unsigned i = 0; i < FILES; i += 4) {
        snprintf(name, sizeof name, "a file with a name of its own %u", i);
        assert_int_equal(drop_file(index, inos[i], name), 0);
    }
    assert_int_equal(index_commit(index), 0);
    close_store(index);
    /* That may have rewritten the file without free pages: a few come back. */
    index = open_store(dir, 0);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "later %u", i);
        set_xattr(index, make_file(index, name), "user.x", 9000);
        assert_int_equal(index_commit(index), 0);
    }
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    assert_int_equal(index_orphan_set(txn, inos[1], 7), 0);
    const struct index_pending pending = {.block = 2, .reason = "larger"};
    assert_int_equal(index_pending_put(txn, &pending), 0);
    index_end(txn);
    assert_int_equal(index_commit(index), 0);
    close_store(index);
}

static void load_file(void)
{
    const char *const path = in(pristine, "index/data.mdb");
    file.size = file_size(path);
    file.data = malloc(file.size);
    assert_non_null(file.data);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, file.data, file.size, 0), file.size);
    close(fd);
}

/* Calls SEE for every record, in order. */
static void each_record(struct index *index, void (*see)(size_t n, unsigned db, const MDB_val *key,
                                                         const MDB_val *value))
{
    struct index_txn *txn;
    size_t n = 0;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++) {
        const struct index_key first = {.size = 1};
        MDB_val key, value;
        int error = index_db_seek(txn, db, &first, &key, &value);
        for (; error == 0; error = index_db_next(txn, db, &key, &value))
            see(n++, db, &key, &value);
        assert_int_equal(error, -ENOENT);
    }
    assert_int_equal(n, row_count);
    index_end(txn);
}

static void note_row(size_t n, unsigned db, const MDB_val *key, const MDB_val *value)
{
    rows = reallocarray(rows, n + 1, sizeof *rows);
    assert_non_null(rows);
    struct row *const row = &rows[n];
    *row = (struct row){.db = db, .key_size = key->mv_size, .value_size = value->mv_size};
    row->key = malloc(key->mv_size);
    row->value = malloc(value->mv_size);
    assert_true(row->key != NULL && row->value != NULL && value->mv_size > 0);
    memcpy(row->key, key->mv_data, key->mv_size);
    memcpy(row->value, value->mv_data, value->mv_size);
    row_count = n + 1;
}

static unsigned damaged_rows;

static void expect_row(size_t n, unsigned db, const MDB_val *key, const MDB_val *value)
{
    assert_true(n < row_count);
    const struct row *const row = &rows[n];
    assert_int_equal(db, row->db);
    if (value->mv_size == 0) {
        damaged_rows++;
        return;
    }
    assert_int_equal(key->mv_size, row->key_size);
    assert_memory_equal(key->mv_data, row->key, row->key_size);
    assert_int_equal(value->mv_size, row->value_size);
    assert_memory_equal(value->mv_data, row->value, row->value_size);
}

static int setup(void **state)
{
    (void)state;
    scratch_make_fast(dir);
    scratch_make_fast(pristine);
    make_rich();
    copy_tree(dir, pristine);
    load_file();
    struct index *index = open_store(dir, INDEX_OPEN_READONLY);
    row_count = 0;
    struct index_txn *txn;
    assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
    for (unsigned db = 0; db < INDEX_DB_COUNT; db++) {
        if (index_db_entries(txn, db) == 0)
            fail_msg("no %s record", index_db_names[db]);
        row_count += index_db_entries(txn, db);
    }
    index_end(txn);
    each_record(index, note_row);
    close_store(index);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        free(rows[i].key);
        free(rows[i].value);
    }
    free(rows);
    free(file.data);
    rows = NULL;
    scratch_remove(dir);
    scratch_remove(pristine);
    return 0;
}

/* ---- what may come of damage ---- */

static unsigned refused, opened_same, opened_damaged;

/* Opens the store as it is now for reading, and sees that nothing in it is wrong. */
static void expect_refused_or_right(const char *what)
{
    struct index *index;
    const int error = try_open(dir, INDEX_OPEN_READONLY, &index);
    if (error != 0) {
        refused++;
        if (error != -EUCLEAN || (strstr(last_error, "data.mdb: page ") == NULL &&
                                  strstr(last_error, "the state record is damaged") == NULL))
            fail_msg("%s: %d %s", what, error, last_error);
        return;
    }
    damaged_rows = 0;
    each_record(index, expect_row);
    if (damaged_rows > 0)
        opened_damaged++;
    else
        opened_same++;
    close_store(index);
}

static void put_byte(size_t at, uint8_t byte)
{
    poke(in(dir, "index/data.mdb"), at, &byte, 1);
}

static void flip(size_t at, unsigned bit)
{
    char what[64];
    snprintf(what, sizeof what, "byte %zu bit %u", at, bit);
    put_byte(at, file.data[at] ^ (uint8_t)(1u << bit));
    expect_refused_or_right(what);
    put_byte(at, file.data[at]);
}

static void random_flips(void **state)
{
    (void)state;
    random_state = 0x5eed;
    refused = opened_same = opened_damaged = 0;
    for (unsigned i = 0; i < RANDOM_FLIPS; i++)
        flip(next_random(file.size), (unsigned)next_random(8));
    printf("%u flips: %u refused, %u with damaged records, %u without effect\n",
           (unsigned)RANDOM_FLIPS, refused, opened_damaged, opened_same);
    assert_true(refused > RANDOM_FLIPS / 50 && opened_damaged > RANDOM_FLIPS / 10);
}

/* ---- every field of a page of each kind ---- */

/* The header that counts. */
static unsigned later_header(void)
{
    uint64_t a, b;
    memcpy(&a, file.data + 144, 8);
    memcpy(&b, file.data + 4096 + 144, 8);
    return b > a;
}

static unsigned flags_of(size_t page)
{
    return file.data[page * 4096 + 10] | (unsigned)file.data[page * 4096 + 11] << 8;
}

/* Flips each bit of COUNT bytes at OFFSET of a page. */
static void flip_all(size_t page, size_t offset, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (unsigned bit = 0; bit < 8; bit++)
            flip(page * 4096 + offset + i, bit);
    }
}

static void every_bit_of_both_headers(void **state)
{
    (void)state;
    refused = opened_same = 0;
    flip_all(0, 0, 152);
    flip_all(1, 0, 152);
    /* Without effect: pads, the map size, and trees of the header that does not count. */
    assert_true(refused > 800);
}

/* The pages in use, by the walk that a check makes. */
struct used {
    size_t branch, leaf, overflow, free_list;
};

static struct used find_pages(void)
{
    struct used used = {0};
    struct index_tree free_tree;
    const unsigned later = later_header();
    index_tree_get(file.data + later * 4096 + 40, &free_tree);
    used.free_list = free_tree.root;
    for (size_t page = 2; page < file.size / 4096; page++) {
        /* One that is refused when its number is wrong is in use. */
        const unsigned kind = flags_of(page);
        size_t *const place = kind == INDEX_PAGE_BRANCH     ? &used.branch
                              : kind == INDEX_PAGE_LEAF     ? &used.leaf
                              : kind == INDEX_PAGE_OVERFLOW ? &used.overflow
                                                            : NULL;
        if (place == NULL || *place != 0 || page == used.free_list)
            continue;
        refused = 0;
        flip(page * 4096, 7);
        if (refused > 0)
            *place = page;
    }
    return used;
}

static void every_bit_of_a_page_of_each_kind(void **state)
{
    (void)state;
    const struct used used = find_pages();
    assert_true(used.branch > 0 && used.leaf > 0 && used.overflow > 0 && used.free_list > 1);
    const size_t kinds[] = {used.branch, used.leaf, used.overflow, used.free_list};
    for (size_t i = 0; i < 4; i++) {
        refused = 0;
        /* Number, flags, bounds; of an overflow page the length of its run. */
        flip_all(kinds[i], 0, 8);
        flip_all(kinds[i], 10, 2);
        assert_int_equal(refused, 80);
        flip_all(kinds[i], 12, 4);
        assert_true(refused >= 80 + (i == 2 ? 20 : 32));
        if (i == 2)
            continue;
        /* Places of nodes, and the first nodes themselves. */
        flip_all(kinds[i], 16, 12);
        const unsigned upper =
            file.data[kinds[i] * 4096 + 14] | (unsigned)file.data[kinds[i] * 4096 + 15] << 8;
        flip_all(kinds[i], upper, upper + 40 <= 4096 ? 40 : 4096 - upper);
    }
}

static void cut_files(void **state)
{
    (void)state;
    const char *const path = in(dir, "index/data.mdb");
    random_state = 77;
    for (unsigned i = 0; i < CUTS; i++) {
        const size_t size =
            i % 2 == 0 ? next_random(file.size / 4096) * 4096 : (size_t)next_random(file.size);
        struct index *index;
        assert_int_equal(truncate(path, (off_t)size), 0);
        assert_int_equal(try_open(dir, INDEX_OPEN_READONLY, &index), -EUCLEAN);
        assert_non_null(strstr(last_error, "data.mdb: "));
        assert_int_equal(try_open(dir, 0, &index), -EUCLEAN);
        poke(path, size, file.data + size, file.size - size);
    }
    expect_refused_or_right("restored");
}

/* Zeroed and swapped pages, and noise. */
static void whole_pages(void **state)
{
    (void)state;
    const char *const path = in(dir, "index/data.mdb");
    uint8_t noise[4096];
    const uint8_t zeros[4096] = {0};
    random_state = 4242;
    refused = 0;
    const size_t pages = file.size / 4096;
    for (size_t page = 0; page < pages; page++) {
        const size_t other = next_random(pages);
        fill(noise, sizeof noise, page);
        poke(path, page * 4096, zeros, 4096);
        expect_refused_or_right("zeros");
        poke(path, page * 4096, noise, 4096);
        expect_refused_or_right("noise");
        poke(path, page * 4096, file.data + other * 4096, 4096);
        expect_refused_or_right("another page");
        poke(path, page * 4096, file.data + page * 4096, 4096);
    }
    assert_true(refused > pages / 2);
}

/* ---- nothing is lost when a damaged store is used ---- */

/* Sizes of all packs, and what lies in them. */
static uint64_t packs_sum(void)
{
    uint64_t sum = 0;
    char packs[300];
    snprintf(packs, sizeof packs, "%s/packs", dir);
    DIR *const list = opendir(packs);
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        const char *const path = in(packs, entry->d_name);
        const size_t size = file_size(path);
        uint8_t *const data = malloc(size + 1);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(data != NULL && fd >= 0);
        assert_int_equal(pread(fd, data, size, 0), size);
        close(fd);
        sum += index_hash_of(data, size).low;
        free(data);
    }
    closedir(list);
    return sum;
}

/* Changes a value behind the seal of the N-th record of a table. */
static void damage_record(enum index_db db, uint64_t n, const uint8_t *byte)
{
    struct index *index = open_store(dir, INDEX_OPEN_NO_RECOVER);
    struct index_txn *txn;
    MDB_val key, value;
    MDB_cursor *cursor;
    assert_int_equal(index_begin(index, INDEX_WRITE, &txn), 0);
    assert_int_equal(mdb_cursor_open(txn->mdb, index->db[db], &cursor), 0);
    for (uint64_t i = 0; i <= n; i++)
        assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), 0);
    uint8_t copy[70000], name[512];
    const size_t size = key.mv_size;
    assert_true(value.mv_size <= sizeof copy && size <= sizeof name);
    memcpy(copy, value.mv_data, value.mv_size);
    memcpy(name, key.mv_data, size);
    /* Also what a decoder would take for good: the last byte before the seal. */
    copy[value.mv_size - INDEX_SEAL - 1] ^= *byte;
    key = (MDB_val){size, name};
    value.mv_data = copy;
    mdb_cursor_close(cursor);
    assert_int_equal(mdb_put(txn->mdb, index->db[db], &key, &value, 0), 0);
    index->changed = true;
    index_end(txn);
    assert_int_equal(index_commit(index), 0);
    close_store(index);
}

static void damaged_records_are_named_and_cost_nothing_else(void **state)
{
    (void)state;
    const uint8_t bit = 1;
    for (unsigned db = INDEX_DB_INODE; db < INDEX_DB_COUNT; db++) {
        char wanted[64];
        copy_tree(pristine, dir);
        damage_record(db, db == INDEX_DB_INODE ? 5 : 0, &bit);
        struct index *index = open_store(dir, INDEX_OPEN_READONLY);
        damaged_rows = 0;
        struct index_txn *txn;
        MDB_val key, value;
        assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
        const struct index_key first = {.size = 1};
        unsigned empty = 0;
        for (int error = index_db_seek(txn, db, &first, &key, &value); error == 0;
             error = index_db_next(txn, db, &key, &value)) {
            if (value.mv_size > 0)
                continue;
            empty++;
            assert_int_equal(index_malformed(txn, db, &key), -EUCLEAN);
        }
        assert_int_equal(empty, 1);
        snprintf(wanted, sizeof wanted, "index: damaged %s record, key ", index_db_names[db]);
        assert_non_null(strstr(log_last, wanted));
        index_end(txn);
        close_store(index);
    }
}

/* Records that packs are removed and bytes punched by: a writer that opens after a crash must not
 * believe a damaged one. */
static void no_pack_is_lost_by_a_damaged_record(void **state)
{
    (void)state;
    const enum index_db tables[] = {INDEX_DB_PACK, INDEX_DB_FREE};
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            const uint8_t mask = (uint8_t)(1u << bit);
            copy_tree(pristine, dir);
            struct index *index = open_store(dir, 0);
            make_file(index, "after");
            assert_int_equal(index_commit(index), 0);
            char crashed[256];
            scratch_make_fast(crashed);
            copy_tree(dir, crashed);
            close_store(index);
            copy_tree(crashed, dir);
            scratch_remove(crashed);
            damage_record(tables[i], 0, &mask);
            const uint64_t before = packs_sum();
            index = open_store(dir, 0);
            make_file(index, "more");
            assert_int_equal(index_commit(index), 0);
            assert_true(packs_sum() == before);
            close_store(index);
            index = open_store(dir, INDEX_OPEN_READONLY);
            struct index_txn *txn;
            struct index_block block = {.id = 0};
            uint8_t payload[4096];
            assert_int_equal(index_begin(index, INDEX_READ, &txn), 0);
            while (index_block_next(txn, block.id + 1, &block) == 0)
                assert_int_equal(index_pack_read(index, &block, payload), 0);
            index_end(txn);
            close_store(index);
        }
    }
    copy_tree(pristine, dir);
}

/* A header whose commit was lowered by two makes the commit before the last one look like the last:
 * a pack that the last commit made would be removed as unknown. */
static void an_older_commit_is_not_taken_for_the_last(void **state)
{
    (void)state;
    struct index *index;
    const unsigned later = later_header();
    uint64_t commit;
    memcpy(&commit, file.data + later * 4096 + 144, 8);
    commit -= 2;
    poke(in(dir, "index/data.mdb"), later * 4096 + 144, &commit, 8);
    const uint64_t before = packs_sum();
    assert_int_equal(try_open(dir, 0, &index), -EUCLEAN);
    assert_non_null(strstr(last_error, "but leads to commit"));
    assert_true(packs_sum() == before);
    poke(in(dir, "index/data.mdb"), 0, file.data, file.size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_flips),
        cmocka_unit_test(every_bit_of_both_headers),
        cmocka_unit_test(every_bit_of_a_page_of_each_kind),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(whole_pages),
        cmocka_unit_test(an_older_commit_is_not_taken_for_the_last),
        cmocka_unit_test(damaged_records_are_named_and_cost_nothing_else),
        cmocka_unit_test(no_pack_is_lost_by_a_damaged_record),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
