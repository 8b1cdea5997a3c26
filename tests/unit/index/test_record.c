/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_record.c - every record and key comes back as it was written; keys order as their numbers;
 * cut, extended and arbitrary bytes are refused or read without leaving the slice.
 */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/bytes.h"

static const uint64_t numbers[] = {
    0,         1,         2,     127,   128,      255,        256,
    16383,     16384,     65535, 65536, 1u << 24, UINT32_MAX, UINT64_C(1) << 32,
    INT64_MAX, UINT64_MAX};
#define NUMBERS (sizeof numbers / sizeof numbers[0])

static MDB_val key_of(const struct index_key *key)
{
    return (MDB_val){.mv_size = key->size, .mv_data = (void *)(uintptr_t)key->bytes};
}

static MDB_val value_of(const struct index_record *record)
{
    return (MDB_val){.mv_size = record->size, .mv_data = (void *)(uintptr_t)record->bytes};
}

static int order(const struct index_key *a, const struct index_key *b)
{
    const size_t size = a->size < b->size ? a->size : b->size;
    const int order = memcmp(a->bytes, b->bytes, size);
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static void keys_order_as_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < NUMBERS; i++) {
        for (size_t j = 0; j < NUMBERS; j++) {
            struct index_key a, b, c, d;
            index_key_one(&a, numbers[i]);
            index_key_one(&b, numbers[j]);
            index_key_two(&c, numbers[i], numbers[j]);
            index_key_two(&d, numbers[j], numbers[i]);
            assert_int_equal((order(&a, &b) > 0) - (order(&a, &b) < 0), (i > j) - (i < j));
            assert_int_equal((order(&c, &d) > 0) - (order(&c, &d) < 0), (i > j) - (i < j));
            uint64_t first, second;
            MDB_val v = key_of(&c);
            assert_int_equal(index_key_get_two(&v, &first, &second), 0);
            assert_true(first == numbers[i] && second == numbers[j]);
            v = key_of(&a);
            assert_int_equal(index_key_get_one(&v, &first), 0);
            assert_true(first == numbers[i]);
        }
    }
}

static void bad_keys_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[12];
        size_t size;
    } bad[] = {
        {{0}, 0},                             /* nothing */
        {{1}, 1},                             /* cut */
        {{9, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 10}, /* longer than a number */
        {{2, 0, 1}, 3},                       /* leading zero */
        {{1, 1, 1}, 3},                       /* left over */
    };
    uint64_t first, second;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const MDB_val v = {.mv_size = bad[i].size, .mv_data = (void *)(uintptr_t)bad[i].bytes};
        assert_int_equal(index_key_get_one(&v, &first), -EUCLEAN);
        assert_int_equal(index_key_get_two(&v, &first, &second), -EUCLEAN);
        assert_int_equal(index_key_get_dirent(&v, &first, &second), -EUCLEAN);
    }
}

static struct index_inode sample_inode(void)
{
    return (struct index_inode){.ino = 77,
                                .parent = 1,
                                .size = INT64_MAX,
                                .stored = 12345,
                                .mode = S_IFLNK | 0777,
                                .uid = 1000,
                                .gid = UINT32_MAX,
                                .nlink = 3,
                                .rdev = 0x801,
                                .generation = 0xdeadbeef,
                                .flags = INDEX_INODE_INLINE,
                                .atime = {.tv_sec = -5, .tv_nsec = 999999999},
                                .mtime = {.tv_sec = INT64_MAX, .tv_nsec = 1},
                                .ctime = {.tv_sec = INT64_MIN, .tv_nsec = 0},
                                .btime = {.tv_sec = 1700000000, .tv_nsec = 500},
                                .inline_size = 5,
                                .inline_data = "hello"};
}

static void inode_round_trip(void **state)
{
    (void)state;
    const struct index_inode a = sample_inode();
    struct index_inode b;
    struct index_record record;
    struct index_key key;
    index_key_one(&key, a.ino);
    index_record_inode(&record, &a);
    const MDB_val k = key_of(&key);
    MDB_val v = value_of(&record);
    assert_int_equal(index_record_get_inode(&k, &v, &b), 0);
    assert_true(a.ino == b.ino && a.parent == b.parent && a.size == b.size);
    assert_true(a.stored == b.stored && a.mode == b.mode && a.uid == b.uid && a.gid == b.gid);
    assert_true(a.nlink == b.nlink && a.rdev == b.rdev && a.generation == b.generation);
    assert_memory_equal(&a.atime, &b.atime, sizeof a.atime);
    assert_memory_equal(&a.mtime, &b.mtime, sizeof a.mtime);
    assert_memory_equal(&a.ctime, &b.ctime, sizeof a.ctime);
    assert_memory_equal(&a.btime, &b.btime, sizeof a.btime);
    assert_int_equal(b.inline_size, 5);
    assert_memory_equal(b.inline_data, "hello", 5);
    record.bytes[0]++; /* a newer version */
    assert_int_equal(index_record_get_inode(&k, &v, &b), -EUCLEAN);
}

/* A plain file right after cp -a: what every byte of the index budget is about. */
static void usual_inode_is_small(void **state)
{
    (void)state;
    struct index_inode inode = {.ino = 5000,
                                .parent = 400,
                                .size = 7000,
                                .stored = 2500,
                                .mode = S_IFREG | 0644,
                                .uid = 1000,
                                .gid = 1000,
                                .nlink = 1};
    inode.mtime = (struct timespec){.tv_sec = 1600000000, .tv_nsec = 123456789};
    inode.atime = inode.ctime = inode.btime = inode.mtime;
    struct index_record record;
    index_record_inode(&record, &inode);
    assert_true(record.size <= 48);
}

typedef int (*reader_fn)(const MDB_val *key, const MDB_val *value);

static int read_inode(const MDB_val *key, const MDB_val *value)
{
    struct index_inode inode;
    return index_record_get_inode(key, value, &inode);
}

static int read_dirent(const MDB_val *key, const MDB_val *value)
{
    uint64_t dir;
    struct index_dirent entry;
    return index_record_get_dirent(key, value, &dir, &entry);
}

static int read_extent(const MDB_val *key, const MDB_val *value)
{
    uint64_t ino;
    struct index_extent extent;
    return index_record_get_extent(key, value, &ino, &extent);
}

static int read_block(const MDB_val *key, const MDB_val *value)
{
    struct index_block block;
    return index_record_get_block(key, value, &block);
}

static int read_hot(const MDB_val *key, const MDB_val *value)
{
    struct index_hot hot;
    return index_record_get_hot(key, value, &hot);
}

static int read_pending(const MDB_val *key, const MDB_val *value)
{
    struct index_pending pending;
    return index_record_get_pending(key, value, &pending);
}

static int read_pack(const MDB_val *key, const MDB_val *value)
{
    struct index_pack pack;
    return index_record_get_pack(key, value, &pack);
}

static int read_number(const MDB_val *key, const MDB_val *value)
{
    uint64_t number;
    (void)key;
    return index_record_get_number(value, &number);
}

static int read_state(const MDB_val *key, const MDB_val *value)
{
    struct index_state read;
    (void)key;
    return index_record_get_state(value, &read);
}

static int read_scrub(const MDB_val *key, const MDB_val *value)
{
    struct index_scrub read;
    (void)key;
    return index_record_get_scrub(value, &read);
}

struct sample {
    const char *name;
    reader_fn read;
    struct index_key key;
    struct index_record record;
    bool open_ended; /* its last field takes the rest, so a longer record may be valid */
};

/* One valid record of each kind. Returns how many. */
static size_t make_samples(struct sample *s)
{
    size_t n = 0;
    const struct index_inode inode = sample_inode();
    const struct index_dirent entry = {
        .ino = 9, .cookie = 32, .type = 8, .name_size = 3, .name = "abc"};
    const struct index_extent extent = {.number = 3, .block = 300, .offset = 7, .length = 70000};
    const struct index_block block = {.id = 300,
                                      .at = {.pack = 2, .payload_size = 1000, .offset = 4096},
                                      .plain_size = 131072,
                                      .references = 2,
                                      .live = 262144,
                                      .codec = 3,
                                      .level = 19,
                                      .flags = 1,
                                      .model = 42,
                                      .hash = {1, 2}};
    const struct index_hot hot = {.block = 4, .ino = 5, .number = 6, .stored_at = -7};
    const struct index_pending pending = {.block = 4,
                                          .error = 5,
                                          .codec = 1,
                                          .level = 2,
                                          .tried_at = 1700000000,
                                          .reason = "too large"};
    const struct index_pack pack = {.id = 3, .class = 1, .sealed = true, .size = 1000, .live = 500};
    const struct index_state state = {.next_ino = 2,
                                      .next_block = 3,
                                      .next_pack = 4,
                                      .clean = true,
                                      .commit = 5,
                                      .counters = {.logical = 99}};
    const struct index_scrub scrub = {
        .started_at = 1, .finished_at = 2, .next_block = 3, .rounds = 4, .last_damaged_packs = 5};

    s[n] = (struct sample){.name = "inode", .read = read_inode, .open_ended = true};
    index_key_one(&s[n].key, inode.ino);
    index_record_inode(&s[n++].record, &inode);
    s[n] = (struct sample){.name = "dirent", .read = read_dirent, .open_ended = true};
    index_key_dirent(&s[n].key, 1, entry.cookie);
    index_record_dirent(&s[n++].record, &entry);
    s[n] = (struct sample){.name = "extent", .read = read_extent};
    index_key_two(&s[n].key, 9, extent.number);
    index_record_extent(&s[n++].record, &extent);
    s[n] = (struct sample){.name = "block", .read = read_block};
    index_key_one(&s[n].key, block.id);
    index_record_block(&s[n++].record, &block);
    s[n] = (struct sample){.name = "hot", .read = read_hot};
    index_key_one(&s[n].key, hot.block);
    index_record_hot(&s[n++].record, &hot);
    s[n] = (struct sample){.name = "pending", .read = read_pending, .open_ended = true};
    index_key_one(&s[n].key, pending.block);
    index_record_pending(&s[n++].record, &pending);
    s[n] = (struct sample){.name = "pack", .read = read_pack};
    index_key_one(&s[n].key, pack.id);
    index_record_pack(&s[n++].record, &pack);
    s[n] = (struct sample){.name = "number", .read = read_number};
    index_record_number(&s[n++].record, 123456);
    s[n] = (struct sample){.name = "state", .read = read_state};
    index_record_state(&s[n++].record, &state);
    s[n] = (struct sample){.name = "scrub", .read = read_scrub};
    index_record_scrub(&s[n++].record, &scrub);
    return n;
}

/* The value in a block of exactly its size, so that a sanitizer sees a step beyond. */
static int read_exact(const struct sample *s, size_t size)
{
    uint8_t *const bytes = malloc(size > 0 ? size : 1);
    assert_non_null(bytes);
    memcpy(bytes, s->record.bytes, size);
    const MDB_val k = key_of(&s->key), v = {.mv_size = size, .mv_data = bytes};
    const int result = s->read(&k, &v);
    free(bytes);
    return result;
}

static void cut_and_extended_records_are_refused(void **state)
{
    (void)state;
    static struct sample samples[16];
    const size_t n = make_samples(samples);
    for (size_t i = 0; i < n; i++) {
        struct sample *const s = &samples[i];
        assert_int_equal(read_exact(s, s->record.size), 0);
        /* Cut within its fixed part. An open-ended record may lose its last field only, and the
         * model of a block is the one field that may be absent. */
        for (size_t size = 0; size < s->record.size; size++) {
            const int result = read_exact(s, size);
            const bool may =
                s->open_ended || (strcmp(s->name, "block") == 0 && size == s->record.size - 8);
            assert_true(result == -EUCLEAN || (may && result == 0));
            if (size < 3)
                assert_int_equal(result, -EUCLEAN);
        }
        s->record.bytes[s->record.size] = 1;
        if (!s->open_ended)
            assert_int_equal(read_exact(s, s->record.size + 1), -EUCLEAN);
        s->record.bytes[0] ^= 0xf0;
        assert_int_equal(read_exact(s, s->record.size), -EUCLEAN);
    }
}

static void arbitrary_bytes_stay_inside(void **state)
{
    (void)state;
    static struct sample samples[16];
    const size_t n = make_samples(samples);
    uint8_t noise[128];
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct sample *const s = &samples[seed % n];
        const struct index_record kept = s->record;
        fill(noise, sizeof noise, seed);
        /* Half: a valid record with a few bytes changed; half: noise behind a valid version. */
        if (seed & 1) {
            for (unsigned i = 0; i < 3; i++)
                s->record.bytes[noise[i] % s->record.size] = noise[10 + i];
        } else {
            memcpy(s->record.bytes + 1, noise, s->record.size - 1);
        }
        const int result = read_exact(s, s->record.size);
        assert_true(result == 0 || result == -EUCLEAN);
        s->record = kept;
    }
}

/* Prints bytes as hexadecimal digits. */
static void hex(const void *data, size_t size, char *text)
{
    const uint8_t *const bytes = data;
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

/* The format: what is written today is what stores hold. A change here needs a new version byte,
 * and docs/format.md changed with it. */
static void golden_records(void **state)
{
    (void)state;
    static const char *const golden[][3] = {
        {"inode", "014d",
         "0101ffa17b01ffffffffffffffff7fb960e807ffffffff0ffeffffffffffffffff01f8ffffffffffffffff01f"
         "fffffffffffffffff01ffbbe0aaf3ffffffff0101000000ffc99a3bf4010000038110efbeadde68656c6c6f"},
        {"dirent", "0101000000000020", "1809616263"},
        {"extent", "01090103", "01ac0207f0a204"},
        {"block", "02012c",
         "010313010001000000000000000200000000000000028004e807808008028080102a00000000000000"},
        {"hot", "0104", "0105060d"},
        {"pending", "0104", "0101020a80c49fd50c746f6f206c61726765"},
        {"pack", "0103", "010101e807f403"},
        {"number", "", "01c0c407"},
        {"state", "",
         "0101000000000000000000000000000000000000000002000000000000000300000000000000040000000500"
         "0000000000000000000000000000000000000000000000000000000000000000000000000000630000000000"
         "00000000000000000000"},
        {"scrub", "",
         "0101000000000000000200000000000000030000000000000000000000000000000400000000000000000000"
         "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "0000000000000000000500000000000000"},
    };
    static struct sample samples[16];
    char text[512];
    const size_t n = make_samples(samples);
    assert_int_equal(n, sizeof golden / sizeof golden[0]);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(samples[i].name, golden[i][0]);
        text[0] = '\0';
        hex(samples[i].key.bytes, samples[i].key.size, text);
        assert_string_equal(text, golden[i][1]);
        hex(samples[i].record.bytes, samples[i].record.size, text);
        assert_string_equal(text, golden[i][2]);
    }
}

static void limits_of_fields_are_checked(void **state)
{
    (void)state;
    struct index_key key;
    struct index_record record;
    struct index_block block = {.id = 1,
                                .at = {.pack = 1, .payload_size = 10, .offset = 64},
                                .plain_size = INDEX_PLAIN_MAX + 1};
    index_key_one(&key, 1);
    MDB_val k = key_of(&key);
    index_record_block(&record, &block);
    MDB_val v = value_of(&record);
    assert_int_equal(read_block(&k, &v), -EUCLEAN);
    block.plain_size = 100;
    block.at.payload_size = INDEX_PAYLOAD_MAX + 1;
    index_record_block(&record, &block);
    v = value_of(&record);
    assert_int_equal(read_block(&k, &v), -EUCLEAN);
    const struct index_extent wraps = {.number = 1, .block = 1, .offset = UINT32_MAX, .length = 2};
    index_key_two(&key, 1, 1);
    k = key_of(&key);
    index_record_extent(&record, &wraps);
    v = value_of(&record);
    assert_int_equal(read_extent(&k, &v), -EUCLEAN);
    struct index_dirent slash = {.ino = 1, .cookie = 32, .type = 8, .name_size = 3, .name = "a/b"};
    index_key_dirent(&key, 1, 32);
    k = key_of(&key);
    index_record_dirent(&record, &slash);
    v = value_of(&record);
    assert_int_equal(read_dirent(&k, &v), -EUCLEAN);
}

static void record_header_round_trip(void **state)
{
    (void)state;
    uint8_t header[INDEX_RECORD_HEADER];
    const char payload[] = "payload";
    const struct index_block a = {.id = 5,
                                  .at = {.payload_size = sizeof payload},
                                  .plain_size = 4096,
                                  .codec = 2,
                                  .level = 3,
                                  .flags = 1,
                                  .model = 6,
                                  .owner_ino = 7,
                                  .owner_block = 8,
                                  .hash = {9, 10}};
    struct index_block b = {.id = 0};
    index_record_header_put(header, &a, payload);
    assert_int_equal(index_record_header_get(header, &b), 0);
    assert_true(a.id == b.id && a.at.payload_size == b.at.payload_size);
    assert_true(a.plain_size == b.plain_size && a.codec == b.codec && a.level == b.level);
    assert_true(a.flags == b.flags && a.model == b.model && a.owner_ino == b.owner_ino);
    assert_true(a.owner_block == b.owner_block && a.hash.low == 9 && a.hash.high == 10);
    assert_true(index_record_intact(header, payload, sizeof payload));
    for (size_t i = 0; i < sizeof header; i++) { /* any changed byte is noticed */
        header[i] ^= 1;
        assert_true(index_record_header_get(header, &b) != 0 ||
                    !index_record_intact(header, payload, sizeof payload));
        header[i] ^= 1;
    }
    assert_false(index_record_intact(header, "Payload", sizeof payload));
}

static void golden_pack_bytes(void **state)
{
    (void)state;
    static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const struct index_block block = {.id = 5,
                                      .at = {.payload_size = 7},
                                      .plain_size = 4096,
                                      .codec = 2,
                                      .level = 3,
                                      .flags = 1,
                                      .model = 6,
                                      .owner_ino = 7,
                                      .owner_block = 8,
                                      .hash = {9, 10}};
    uint8_t bytes[INDEX_RECORD_HEADER];
    char text[2 * INDEX_RECORD_HEADER + 1];
    index_record_header_put(bytes, &block, "payload");
    hex(bytes, sizeof bytes, text);
    assert_string_equal(
        text, "536550720102030001000000070000000010000000000000050000000000000007000000000000000800"
              "000000000000060000000000000009000000000000000a00000000000000128f56cedd2c0b51");
    index_pack_header_put(bytes, 0x1234, INDEX_COLD, uuid);
    hex(bytes, INDEX_PACK_HEADER, text);
    assert_string_equal(text, "ff7065737061636b01010000341200000102030405060708090a0b0c0d0e0f100000"
                              "000000000000000000000000000000000000000000000d5edb40a1497ae4");
    const struct index_hash hash = index_hash_of("payload", 7);
    assert_true(hash.low == 0x9613f8bbf13ce4e5u && hash.high == 0xf3d6e72eb800dea9u);
}

static void pack_header_round_trip(void **state)
{
    (void)state;
    uint8_t header[INDEX_PACK_HEADER], uuid[16], read[16];
    uint32_t id;
    enum index_class class;
    fill(uuid, sizeof uuid, 1);
    index_pack_header_put(header, 0x12345678, INDEX_COLD, uuid);
    assert_int_equal(index_pack_header_get(header, &id, &class, read), 0);
    assert_true(id == 0x12345678 && class == INDEX_COLD && memcmp(uuid, read, 16) == 0);
    for (size_t i = 0; i < sizeof header; i++) {
        header[i] ^= 4;
        assert_int_equal(index_pack_header_get(header, &id, &class, read), -EUCLEAN);
        header[i] ^= 4;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_order_as_numbers),
        cmocka_unit_test(bad_keys_are_refused),
        cmocka_unit_test(inode_round_trip),
        cmocka_unit_test(usual_inode_is_small),
        cmocka_unit_test(cut_and_extended_records_are_refused),
        cmocka_unit_test(arbitrary_bytes_stay_inside),
        cmocka_unit_test(golden_records),
        cmocka_unit_test(limits_of_fields_are_checked),
        cmocka_unit_test(record_header_round_trip),
        cmocka_unit_test(golden_pack_bytes),
        cmocka_unit_test(pack_header_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
