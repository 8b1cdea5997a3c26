/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.c - writes and reads the records of the index. docs/format.md gives the layouts; change
 * both together, and the version byte with them.
 *
 * Most numbers are base-128 varints: the inode record of a copied file takes at most 48 bytes this way
 * (test_record.c) and 100 in fixed fields; inode and name of an empty file together cost 61 bytes of
 * index file after a close (test_commit.c).
 */
#include "record.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "bytes.h"

#define VERSION 1u /* of every record kind so far */

const char *const index_db_names[INDEX_DB_COUNT] = {
    [INDEX_DB_META] = "meta",       [INDEX_DB_INODE] = "inode",   [INDEX_DB_DIRENT] = "dirent",
    [INDEX_DB_XATTR] = "xattr",     [INDEX_DB_EXTENT] = "extent", [INDEX_DB_BLOCK] = "block",
    [INDEX_DB_HASH] = "hash",       [INDEX_DB_ORPHAN] = "orphan", [INDEX_DB_HOT] = "hot",
    [INDEX_DB_PENDING] = "pending", [INDEX_DB_PACK] = "pack",     [INDEX_DB_FREE] = "free",
};

/* ---- inode ---------------------------------------------------------------------------------- */

/* Bits of the byte that says which optional fields follow. */
enum {
    HAS_MTIME_NS = 1,
    HAS_ATIME_NS = 2,
    HAS_CTIME_NS = 4,
    HAS_BTIME_NS = 8,
    HAS_NLINK = 16, /* is not 1 */
    HAS_RDEV = 32,
    HAS_GENERATION = 64,
};

static uint64_t seconds(const struct timespec *time)
{
    return (uint64_t)(int64_t)time->tv_sec;
}

void index_record_inode(struct index_record *record, const struct index_inode *inode)
{
    assert(inode->mode <= UINT16_MAX && inode->flags <= UINT8_MAX);
    assert(inode->inline_size <= INDEX_SYMLINK_MAX);
    const struct timespec *const times[4] = {&inode->mtime, &inode->atime, &inode->ctime,
                                             &inode->btime};
    unsigned has = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (times[i]->tv_nsec != 0)
            has |= 1u << i;
    }
    has |= inode->nlink != 1 ? HAS_NLINK : 0;
    has |= inode->rdev != 0 ? HAS_RDEV : 0;
    has |= inode->generation != 0 ? HAS_GENERATION : 0;

    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_u8(&w, (uint8_t)inode->flags);
    index_write_u16(&w, (uint16_t)inode->mode);
    index_write_u8(&w, (uint8_t)has);
    index_write_varint(&w, inode->parent);
    index_write_varint(&w, inode->size);
    index_write_varint(&w, inode->stored);
    index_write_varint(&w, inode->uid);
    index_write_varint(&w, inode->gid);
    index_write_signed(&w, seconds(&inode->mtime));
    index_write_signed(&w, seconds(&inode->atime) - seconds(&inode->mtime));
    index_write_signed(&w, seconds(&inode->ctime));
    index_write_signed(&w, seconds(&inode->btime) - seconds(&inode->ctime));
    for (unsigned i = 0; i < 4; i++) {
        if (has & (1u << i))
            index_write_u32(&w, (uint32_t)times[i]->tv_nsec);
    }
    if (has & HAS_NLINK)
        index_write_varint(&w, inode->nlink);
    if (has & HAS_RDEV)
        index_write_varint(&w, inode->rdev);
    if (has & HAS_GENERATION)
        index_write_u32(&w, inode->generation);
    if (inode->flags & INDEX_INODE_INLINE)
        index_write_bytes(&w, inode->inline_data, inode->inline_size);
    record->size = (size_t)(w.at - record->bytes);
}

static void read_time(struct index_reader *r, bool has, uint64_t second, struct timespec *time)
{
    time->tv_sec = (time_t)(int64_t)second;
    time->tv_nsec = has ? (long)index_read_u32(r) : 0;
    if (time->tv_nsec > 999999999)
        r->bad = true;
}

int index_record_get_inode(const MDB_val *key, const MDB_val *value, struct index_inode *inode)
{
    memset(inode, 0, sizeof *inode);
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_key_get_one(key, &inode->ino) < 0 || index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    inode->flags = index_read_u8(&r);
    inode->mode = index_read_u16(&r);
    const unsigned has = index_read_u8(&r);
    inode->parent = index_read_varint(&r);
    inode->size = index_read_varint(&r);
    inode->stored = index_read_varint(&r);
    inode->uid = index_read_varint32(&r);
    inode->gid = index_read_varint32(&r);
    const uint64_t mtime = index_read_signed(&r);
    const uint64_t atime = mtime + index_read_signed(&r);
    const uint64_t ctime = index_read_signed(&r);
    const uint64_t btime = ctime + index_read_signed(&r);
    read_time(&r, has & HAS_MTIME_NS, mtime, &inode->mtime);
    read_time(&r, has & HAS_ATIME_NS, atime, &inode->atime);
    read_time(&r, has & HAS_CTIME_NS, ctime, &inode->ctime);
    read_time(&r, has & HAS_BTIME_NS, btime, &inode->btime);
    inode->nlink = has & HAS_NLINK ? index_read_varint32(&r) : 1;
    inode->rdev = has & HAS_RDEV ? index_read_varint32(&r) : 0;
    inode->generation = has & HAS_GENERATION ? index_read_u32(&r) : 0;
    const size_t rest = index_reader_left(&r);
    if (inode->flags & INDEX_INODE_INLINE) {
        inode->inline_size = (uint32_t)rest;
        inode->inline_data = r.at;
    }
    const size_t limit = !(inode->flags & INDEX_INODE_INLINE) ? 0
                         : S_ISLNK(inode->mode)               ? INDEX_SYMLINK_MAX
                                                              : INDEX_INLINE_MAX;
    if (r.bad || rest > limit || inode->ino == 0 || inode->size > INT64_MAX ||
        (inode->flags & ~(unsigned)INDEX_INODE_INLINE) != 0 || (has & 128u) != 0)
        return -EUCLEAN;
    return 0;
}

/* ---- dirent --------------------------------------------------------------------------------- */

void index_record_dirent(struct index_record *record, const struct index_dirent *entry)
{
    assert(entry->type <= 15 && entry->name_size > 0);
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, (uint8_t)(VERSION << 4 | entry->type));
    index_write_varint(&w, entry->ino);
    index_write_bytes(&w, entry->name, entry->name_size);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_dirent(const MDB_val *key, const MDB_val *value, uint64_t *dir,
                            struct index_dirent *entry)
{
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_key_get_dirent(key, dir, &entry->cookie) < 0)
        return -EUCLEAN;
    const uint8_t head = index_read_u8(&r);
    entry->type = head & 15u;
    entry->ino = index_read_varint(&r);
    const size_t size = index_reader_left(&r);
    if (r.bad || head >> 4 != VERSION || size == 0 || size > INDEX_NAME_MAX || entry->ino == 0 ||
        entry->cookie < 16 || memchr(r.at, 0, size) != NULL || memchr(r.at, '/', size) != NULL ||
        (size <= 2 && memcmp(r.at, "..", size) == 0)) /* the kernel's own names */
        return -EUCLEAN;
    entry->name_size = (uint8_t)size;
    memcpy(entry->name, r.at, size);
    entry->name[size] = '\0';
    return 0;
}

/* ---- extent --------------------------------------------------------------------------------- */

void index_record_extent(struct index_record *record, const struct index_extent *extent)
{
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_varint(&w, extent->block);
    index_write_varint(&w, extent->offset);
    index_write_varint(&w, extent->length);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_extent(const MDB_val *key, const MDB_val *value, uint64_t *ino,
                            struct index_extent *extent)
{
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_key_get_two(key, ino, &extent->number) < 0 || index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    extent->block = index_read_varint(&r);
    extent->offset = index_read_varint32(&r);
    extent->length = index_read_varint32(&r);
    if (!index_reader_done(&r) || extent->block == 0 || extent->length == 0 ||
        extent->offset > UINT32_MAX - extent->length || extent->number > INT64_MAX)
        return -EUCLEAN;
    return 0;
}

/* ---- block ---------------------------------------------------------------------------------- */

void index_record_block(struct index_record *record, const struct index_block *block)
{
    assert(block->at.offset % INDEX_PACK_ALIGN == 0);
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_u8(&w, block->codec);
    index_write_u8(&w, block->level);
    index_write_u16(&w, block->flags);
    index_write_u64(&w, block->hash.low);
    index_write_u64(&w, block->hash.high);
    index_write_varint(&w, block->at.pack);
    index_write_varint(&w, block->at.offset / INDEX_PACK_ALIGN);
    index_write_varint(&w, block->at.payload_size);
    index_write_varint(&w, block->plain_size);
    index_write_varint(&w, block->references);
    index_write_varint(&w, block->live);
    if (block->model != 0)
        index_write_u64(&w, block->model);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_block(const MDB_val *key, const MDB_val *value, struct index_block *block)
{
    memset(block, 0, sizeof *block);
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_key_get_one(key, &block->id) < 0 || index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    block->codec = index_read_u8(&r);
    block->level = index_read_u8(&r);
    block->flags = index_read_u16(&r);
    block->hash.low = index_read_u64(&r);
    block->hash.high = index_read_u64(&r);
    block->at.pack = index_read_varint32(&r);
    const uint64_t unit = index_read_varint(&r);
    block->at.payload_size = index_read_varint32(&r);
    block->plain_size = index_read_varint32(&r);
    block->references = index_read_varint32(&r);
    block->live = index_read_varint32(&r);
    if (index_reader_left(&r) > 0)
        block->model = index_read_u64(&r);
    if (!index_reader_done(&r) || unit > INT64_MAX / 16 || block->id == 0 ||
        block->plain_size == 0 || block->plain_size > INDEX_PLAIN_MAX ||
        block->at.payload_size > INDEX_PAYLOAD_MAX)
        return -EUCLEAN;
    block->at.offset = unit * INDEX_PACK_ALIGN;
    return 0;
}

/* ---- small ones ----------------------------------------------------------------------------- */

void index_record_number(struct index_record *record, uint64_t number)
{
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_varint(&w, number);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_number(const MDB_val *value, uint64_t *number)
{
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    *number = index_read_varint(&r);
    return index_reader_done(&r) ? 0 : -EUCLEAN;
}

void index_record_hot(struct index_record *record, const struct index_hot *hot)
{
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_varint(&w, hot->ino);
    index_write_varint(&w, hot->number);
    index_write_signed(&w, (uint64_t)hot->stored_at);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_hot(const MDB_val *key, const MDB_val *value, struct index_hot *hot)
{
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_key_get_one(key, &hot->block) < 0 || index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    hot->ino = index_read_varint(&r);
    hot->number = index_read_varint(&r);
    hot->stored_at = (int64_t)index_read_signed(&r);
    return index_reader_done(&r) ? 0 : -EUCLEAN;
}

void index_record_pending(struct index_record *record, const struct index_pending *pending)
{
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_u8(&w, pending->codec);
    index_write_u8(&w, pending->level);
    index_write_signed(&w, (uint64_t)(int64_t)pending->error);
    index_write_signed(&w, (uint64_t)pending->tried_at);
    index_write_bytes(&w, pending->reason, strnlen(pending->reason, sizeof pending->reason - 1));
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_pending(const MDB_val *key, const MDB_val *value,
                             struct index_pending *pending)
{
    memset(pending, 0, sizeof *pending);
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_key_get_one(key, &pending->block) < 0 || index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    pending->codec = index_read_u8(&r);
    pending->level = index_read_u8(&r);
    const int64_t error = (int64_t)index_read_signed(&r);
    pending->tried_at = (int64_t)index_read_signed(&r);
    const size_t size = index_reader_left(&r);
    if (r.bad || error < INT32_MIN || error > INT32_MAX || size >= sizeof pending->reason)
        return -EUCLEAN;
    pending->error = (int32_t)error;
    memcpy(pending->reason, r.at, size);
    return 0;
}

void index_record_pack(struct index_record *record, const struct index_pack *pack)
{
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_u8(&w, pack->class);
    index_write_u8(&w, pack->sealed);
    index_write_varint(&w, pack->size);
    index_write_varint(&w, pack->live);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_pack(const MDB_val *key, const MDB_val *value, struct index_pack *pack)
{
    uint64_t id;
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_key_get_one(key, &id) < 0 || id == 0 || id > UINT32_MAX ||
        index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    pack->id = (uint32_t)id;
    pack->class = index_read_u8(&r);
    const uint8_t sealed = index_read_u8(&r);
    pack->sealed = sealed == 1;
    pack->size = index_read_varint(&r);
    pack->live = index_read_varint(&r);
    if (!index_reader_done(&r) || pack->class > INDEX_COLD || sealed > 1 || pack->size > INT64_MAX)
        return -EUCLEAN;
    return 0;
}

int index_record_get_xattr(const MDB_val *value, const void **data, size_t *size)
{
    const uint8_t *const bytes = value->mv_data;
    if (value->mv_size < 1 || value->mv_size - 1 > INDEX_XATTR_SIZE_MAX ||
        bytes[0] != INDEX_XATTR_VERSION)
        return -EUCLEAN;
    *data = bytes + 1;
    *size = value->mv_size - 1;
    return 0;
}

void index_record_state(struct index_record *record, const struct index_state *state)
{
    const struct index_counters *const c = &state->counters;
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_u8(&w, state->clean);
    index_write_u32(&w, state->format);
    index_write_bytes(&w, state->uuid, sizeof state->uuid);
    index_write_u64(&w, state->next_ino);
    index_write_u64(&w, state->next_block);
    index_write_u32(&w, state->next_pack);
    index_write_u64(&w, state->commit);
    index_write_u64(&w, c->directories);
    index_write_u64(&w, c->symlinks);
    index_write_u64(&w, c->others);
    index_write_u64(&w, c->shared_blocks);
    index_write_u64(&w, c->logical);
    index_write_u64(&w, c->live);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_state(const MDB_val *value, struct index_state *state)
{
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    const uint8_t clean = index_read_u8(&r);
    state->clean = clean == 1;
    state->format = index_read_u32(&r);
    index_read_bytes(&r, state->uuid, sizeof state->uuid);
    state->next_ino = index_read_u64(&r);
    state->next_block = index_read_u64(&r);
    state->next_pack = index_read_u32(&r);
    state->commit = index_read_u64(&r);
    struct index_counters *const c = &state->counters;
    c->directories = index_read_u64(&r);
    c->symlinks = index_read_u64(&r);
    c->others = index_read_u64(&r);
    c->shared_blocks = index_read_u64(&r);
    c->logical = index_read_u64(&r);
    c->live = index_read_u64(&r);
    if (!index_reader_done(&r) || clean > 1 || state->next_ino == 0 || state->next_block == 0 ||
        state->next_pack == 0)
        return -EUCLEAN;
    return 0;
}

void index_record_scrub(struct index_record *record, const struct index_scrub *scrub)
{
    struct index_writer w = {.at = record->bytes};
    index_write_u8(&w, VERSION);
    index_write_u64(&w, (uint64_t)scrub->started_at);
    index_write_u64(&w, (uint64_t)scrub->finished_at);
    index_write_u64(&w, scrub->next_block);
    index_write_u64(&w, scrub->end_block);
    index_write_u64(&w, scrub->rounds);
    index_write_u64(&w, scrub->blocks);
    index_write_u64(&w, scrub->bytes);
    index_write_u64(&w, scrub->damaged);
    index_write_u64(&w, scrub->damaged_packs);
    index_write_u64(&w, scrub->last_blocks);
    index_write_u64(&w, scrub->last_bytes);
    index_write_u64(&w, scrub->last_damaged);
    index_write_u64(&w, scrub->last_damaged_packs);
    record->size = (size_t)(w.at - record->bytes);
}

int index_record_get_scrub(const MDB_val *value, struct index_scrub *scrub)
{
    struct index_reader r = index_reader(value->mv_data, value->mv_size);
    if (index_read_u8(&r) != VERSION)
        return -EUCLEAN;
    scrub->started_at = (int64_t)index_read_u64(&r);
    scrub->finished_at = (int64_t)index_read_u64(&r);
    scrub->next_block = index_read_u64(&r);
    scrub->end_block = index_read_u64(&r);
    scrub->rounds = index_read_u64(&r);
    scrub->blocks = index_read_u64(&r);
    scrub->bytes = index_read_u64(&r);
    scrub->damaged = index_read_u64(&r);
    scrub->damaged_packs = index_read_u64(&r);
    scrub->last_blocks = index_read_u64(&r);
    scrub->last_bytes = index_read_u64(&r);
    scrub->last_damaged = index_read_u64(&r);
    scrub->last_damaged_packs = index_read_u64(&r);
    if (!index_reader_done(&r) || scrub->started_at < 0 || scrub->finished_at < 0)
        return -EUCLEAN;
    return 0;
}
