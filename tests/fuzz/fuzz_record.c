/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz_record.c - keys and records of the index (index/key.c, index/record.c).
 *
 * Input: byte 0 the kind, byte 1 the key's size, the key, then the value. Property: what is accepted
 * and written again reads back as the same, and as the same bytes when it is written once more; and
 * it is within the limits that the rest of index/ relies on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "index/record.h"

/* What the writer made, as the reader takes it. */
static MDB_val value_of(const struct index_record *record)
{
    return (MDB_val){.mv_size = record->size, .mv_data = (void *)(uintptr_t)record->bytes};
}

static MDB_val key_of(const struct index_key *key)
{
    return (MDB_val){.mv_size = key->size, .mv_data = (void *)(uintptr_t)key->bytes};
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static void same_record(const struct index_record *a, const struct index_record *b)
{
    FUZZ_CHECK(a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0);
}

static void inode(const MDB_val *key, const MDB_val *value)
{
    struct index_inode x, y;
    struct index_record once, twice;
    MDB_val slice;

    if (index_record_get_inode(key, value, &x) != 0)
        return;
    FUZZ_CHECK(x.ino != 0 && x.size <= INT64_MAX && x.mode <= UINT16_MAX);
    FUZZ_CHECK(x.inline_size <= (S_ISLNK(x.mode) ? INDEX_SYMLINK_MAX : INDEX_INLINE_MAX));
    FUZZ_CHECK(x.mtime.tv_nsec < 1000000000 && x.btime.tv_nsec < 1000000000);
    index_record_inode(&once, &x);
    slice = value_of(&once);
    FUZZ_CHECK(index_record_get_inode(key, &slice, &y) == 0);
    FUZZ_CHECK(x.ino == y.ino && x.parent == y.parent && x.size == y.size && x.stored == y.stored);
    FUZZ_CHECK(x.mode == y.mode && x.uid == y.uid && x.gid == y.gid && x.nlink == y.nlink);
    FUZZ_CHECK(x.rdev == y.rdev && x.generation == y.generation && x.flags == y.flags);
    FUZZ_CHECK(same_time(&x.atime, &y.atime) && same_time(&x.mtime, &y.mtime));
    FUZZ_CHECK(same_time(&x.ctime, &y.ctime) && same_time(&x.btime, &y.btime));
    FUZZ_CHECK(x.inline_size == y.inline_size);
    if (x.inline_size > 0)
        FUZZ_CHECK(memcmp(x.inline_data, y.inline_data, x.inline_size) == 0);
    index_record_inode(&twice, &y);
    same_record(&once, &twice);
}

static void dirent(const MDB_val *key, const MDB_val *value)
{
    struct index_dirent x, y;
    struct index_record record;
    struct index_key again;
    uint64_t dir, other;
    MDB_val slice;

    if (index_record_get_dirent(key, value, &dir, &x) != 0)
        return;
    FUZZ_CHECK(x.ino != 0 && x.cookie >= 16 && x.cookie < INT64_MAX);
    FUZZ_CHECK(x.name_size == strlen(x.name) && x.name_size > 0);
    FUZZ_CHECK(strchr(x.name, '/') == NULL && strcmp(x.name, ".") != 0 &&
               strcmp(x.name, "..") != 0);
    index_record_dirent(&record, &x);
    index_key_dirent(&again, dir, x.cookie);
    slice = value_of(&record);
    const MDB_val again_value = key_of(&again);
    FUZZ_CHECK(index_record_get_dirent(&again_value, &slice, &other, &y) == 0);
    FUZZ_CHECK(dir == other && x.ino == y.ino && x.cookie == y.cookie && x.type == y.type);
    FUZZ_CHECK(strcmp(x.name, y.name) == 0);
}

static void extent(const MDB_val *key, const MDB_val *value)
{
    struct index_extent x, y;
    struct index_record record;
    uint64_t ino, other;
    MDB_val slice;

    if (index_record_get_extent(key, value, &ino, &x) != 0)
        return;
    FUZZ_CHECK(x.length > 0 && (uint64_t)x.offset + x.length <= UINT32_MAX && x.block != 0);
    index_record_extent(&record, &x);
    slice = value_of(&record);
    FUZZ_CHECK(index_record_get_extent(key, &slice, &other, &y) == 0);
    FUZZ_CHECK(ino == other && memcmp(&x, &y, sizeof x) == 0);
}

static void block(const MDB_val *key, const MDB_val *value)
{
    struct index_block x, y;
    struct index_record once, twice;
    MDB_val slice;

    if (index_record_get_block(key, value, &x) != 0)
        return;
    FUZZ_CHECK(x.plain_size > 0 && x.plain_size <= INDEX_PLAIN_MAX);
    FUZZ_CHECK(x.at.payload_size <= INDEX_PAYLOAD_MAX && x.at.offset % INDEX_PACK_ALIGN == 0);
    FUZZ_CHECK(x.at.offset <= INT64_MAX - INDEX_RECORD_HEADER - INDEX_PAYLOAD_MAX);
    index_record_block(&once, &x);
    slice = value_of(&once);
    FUZZ_CHECK(index_record_get_block(key, &slice, &y) == 0);
    FUZZ_CHECK(memcmp(&x, &y, sizeof x) == 0); /* both were zeroed first */
    index_record_block(&twice, &y);
    same_record(&once, &twice);
}

static void small(unsigned kind, const MDB_val *key, const MDB_val *value)
{
    struct index_record record;
    struct index_hot hot, hot2;
    struct index_pending pending, pending2;
    struct index_pack pack, pack2;
    MDB_val slice;

    if (kind == 0 && index_record_get_hot(key, value, &hot) == 0) {
        index_record_hot(&record, &hot);
        slice = value_of(&record);
        FUZZ_CHECK(index_record_get_hot(key, &slice, &hot2) == 0);
        FUZZ_CHECK(memcmp(&hot, &hot2, sizeof hot) == 0);
    }
    if (kind == 1 && index_record_get_pending(key, value, &pending) == 0) {
        index_record_pending(&record, &pending);
        slice = value_of(&record);
        FUZZ_CHECK(index_record_get_pending(key, &slice, &pending2) == 0);
        FUZZ_CHECK(pending.block == pending2.block && pending.error == pending2.error &&
                   pending.tried_at == pending2.tried_at && pending.codec == pending2.codec &&
                   strcmp(pending.reason, pending2.reason) == 0);
    }
    if (kind == 2 && index_record_get_pack(key, value, &pack) == 0) {
        FUZZ_CHECK(pack.id != 0 && pack.size <= INT64_MAX && pack.class <= INDEX_COLD);
        index_record_pack(&record, &pack);
        slice = value_of(&record);
        FUZZ_CHECK(index_record_get_pack(key, &slice, &pack2) == 0);
        FUZZ_CHECK(pack.id == pack2.id && pack.size == pack2.size && pack.live == pack2.live &&
                   pack.sealed == pack2.sealed && pack.class == pack2.class);
    }
}

static void plain(const MDB_val *value)
{
    struct index_record once;
    struct index_state state;
    uint64_t number, other;
    const void *data;
    size_t size;
    MDB_val slice;

    if (index_record_get_number(value, &number) == 0) {
        index_record_number(&once, number);
        slice = value_of(&once);
        FUZZ_CHECK(index_record_get_number(&slice, &other) == 0 && number == other);
    }
    if (index_record_get_state(value, &state) == 0) {
        index_record_state(&once, &state);
        FUZZ_CHECK(once.size == value->mv_size &&
                   memcmp(once.bytes, value->mv_data, once.size) == 0);
    }
    if (index_record_get_xattr(value, &data, &size) == 0) {
        FUZZ_CHECK(size + 1 == value->mv_size && size <= INDEX_XATTR_SIZE_MAX);
    }
}

/* Every key that is accepted is the one that its numbers make: two keys of one meaning would be two
 * records of one thing. */
static void keys(const MDB_val *key)
{
    struct index_key again;
    char name[INDEX_NAME_MAX + 1];
    uint64_t one, two;
    MDB_val slice;

#define SAME(made)                                                                                 \
    do {                                                                                           \
        made;                                                                                      \
        slice = key_of(&again);                                                                    \
        FUZZ_CHECK(slice.mv_size == key->mv_size &&                                                \
                   memcmp(slice.mv_data, key->mv_data, slice.mv_size) == 0);                       \
    } while (0)
    if (index_key_get_one(key, &one) == 0)
        SAME(index_key_one(&again, one));
    if (index_key_get_two(key, &one, &two) == 0)
        SAME(index_key_two(&again, one, two));
    if (index_key_get_dirent(key, &one, &two) == 0)
        SAME(index_key_dirent(&again, one, two));
    if (index_key_get_xattr(key, &one, name) == 0)
        SAME(index_key_xattr(&again, one, name));
    if (index_key_get_hash(key, &one) == 0)
        SAME(index_key_hash(&again, (struct index_hash){.low = one}));
#undef SAME
}

/* Keys compare as their numbers: the shorter number is the smaller one. */
static void order(struct fuzz_input *input)
{
    const uint64_t a = (uint64_t)fuzz_u32(input) << 32 | fuzz_u32(input);
    const uint64_t b = (uint64_t)fuzz_u32(input) << 32 | fuzz_u32(input);
    struct index_key x, y;

    index_key_one(&x, a);
    index_key_one(&y, b);
    const size_t common = x.size < y.size ? x.size : y.size;
    int compared = memcmp(x.bytes, y.bytes, common);

    if (compared == 0)
        compared = x.size < y.size ? -1 : x.size > y.size;
    FUZZ_CHECK((compared < 0) == (a < b) && (compared == 0) == (a == b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const unsigned kind = fuzz_u8(&input) % 8;
    size_t key_size, value_size;
    uint8_t *const key_bytes = fuzz_take(&input, fuzz_u8(&input), &key_size);
    uint8_t *const value_bytes = fuzz_take(&input, input.left, &value_size);
    const MDB_val key = {.mv_size = key_size, .mv_data = key_bytes};
    const MDB_val value = {.mv_size = value_size, .mv_data = value_bytes};

    keys(&key);
    switch (kind) {
    case 0:
        inode(&key, &value);
        break;
    case 1:
        dirent(&key, &value);
        break;
    case 2:
        extent(&key, &value);
        break;
    case 3:
        block(&key, &value);
        break;
    case 7:
        input = (struct fuzz_input){value_bytes, value_size};
        order(&input);
        plain(&value);
        break;
    default:
        small(kind - 4, &key, &value);
    }
    free(value_bytes);
    free(key_bytes);
    return 0;
}
