/* SPDX-License-Identifier: BSD-2-Clause
 *
 * salvage_packs.c - what the packs say: every record whose checksum matches, and the files that such
 * blocks belong to when the index does not know it.
 *
 * A block that the index knows is looked for where it should be, and wherever else its record is
 * found intact (compaction may have moved it since a copy was made). One that the index does not know
 * is believed only where the index has a gap: elsewhere it is a block that was dropped. Blocks of one
 * place in one file: the later id is the later content. A block goes to the file that its record
 * names if the extent there is missing because of a gap, or leads to a block that is nowhere intact;
 * otherwise to a file of its own, which the check puts into /lost+found.
 *
 * Packs are only read. Memory: 120 bytes a record, 8 bytes an extent.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"
#include "salvage.h"

#define WINDOW (16u << 20) /* bytes of a pack in memory; holds the largest record */
/* Block ids are handed out before they are stored: so many below the highest that a copy knows may
 * have been on their way when it was made. */
#define IN_FLIGHT  4096u
#define NUMBER_MAX ((uint64_t)INT64_MAX)

/* ---- scanning ------------------------------------------------------------------------------ */

struct window {
    int fd;
    uint64_t start, size; /* what DATA holds of the file */
    bool end;
    uint8_t *data;
};

/* Makes NEED bytes at OFFSET present, or all there are to the end of the file. */
static int fill_window(struct salvage *s, struct window *w, uint64_t offset, uint64_t need)
{
    if (offset >= w->start && offset + need <= w->start + w->size)
        return 0;
    if (w->end && offset >= w->start)
        return 0;
    const ssize_t got = index_io_read(s->place->io, w->fd, w->data, WINDOW, offset);
    if (got < 0)
        return (int)got;
    w->start = offset;
    w->size = (uint64_t)got;
    w->end = got < (ssize_t)WINDOW;
    return 0;
}

static int add_found(struct salvage *s, const struct index_block *block)
{
    if (s->found_count == s->found_room) {
        const size_t room = s->found_room == 0 ? 1024 : s->found_room * 2;
        struct salvage_found *const found = reallocarray(s->found, room, sizeof *found);
        if (found == NULL)
            return -ENOMEM;
        s->found = found;
        s->found_room = room;
    }
    s->found[s->found_count++] = (struct salvage_found){.block = *block};
    s->result->blocks_found++;
    return 0;
}

/* The record at OFFSET, if there is an intact one; *span: its bytes. */
static int look_at(struct salvage *s, struct window *w, uint32_t pack, uint64_t offset,
                   uint64_t *span)
{
    struct index_block block = {0};
    const uint8_t *at = w->data + (offset - w->start);
    *span = 0;
    if (w->start + w->size - offset < INDEX_RECORD_HEADER ||
        index_record_header_get(at, &block) != 0)
        return 0;
    const uint64_t size = INDEX_RECORD_HEADER + (uint64_t)block.at.payload_size;
    const int error = fill_window(s, w, offset, size);
    if (error != 0)
        return error;
    at = w->data + (offset - w->start);
    if (w->start + w->size - offset < size ||
        !index_record_intact(at, at + INDEX_RECORD_HEADER, block.at.payload_size) ||
        block.plain_size > s->place->block_size)
        return 0;
    block.at.pack = pack;
    block.at.offset = offset;
    *span = index_record_span(block.at.payload_size);
    return add_found(s, &block);
}

static int scan_records(struct salvage *s, struct window *w, uint32_t pack, uint64_t *end)
{
    uint64_t offset = INDEX_PACK_HEADER;
    int error = 0;
    while (error == 0) {
        uint64_t span;
        error = fill_window(s, w, offset, INDEX_RECORD_HEADER);
        if (error != 0 || offset + 4 > w->start + w->size)
            break;
        if (index_load_u32(w->data + (offset - w->start)) != INDEX_RECORD_MAGIC) {
            offset += INDEX_PACK_ALIGN;
            continue;
        }
        error = look_at(s, w, pack, offset, &span);
        if (span > 0)
            *end = offset + span;
        offset += span > 0 ? span : INDEX_PACK_ALIGN;
        if (error == 0)
            error = salvage_stopped(s);
    }
    return error;
}

/* The pack's record: what the index says of it, or what its header does. Sealed, as is every pack
 * but the two that are appended to: those are begun anew. */
static int put_pack(struct salvage *s, uint32_t id, enum index_class class, uint64_t end)
{
    struct index_key key;
    struct index_record record;
    MDB_val value;
    struct index_pack pack = {.id = id, .class = (uint8_t) class, .size = end};
    index_key_one(&key, id);
    if (salvage_get(s, INDEX_DB_PACK, &key, &value) == 0) {
        const MDB_val k = {.mv_size = key.size, .mv_data = key.bytes};
        struct index_pack old;
        if (index_record_get_pack(&k, &value, &old) == 0) {
            pack = old;
            pack.size = old.size > end ? old.size : end;
        }
    }
    pack.sealed = true;
    index_record_pack(&record, &pack);
    return salvage_put(s, INDEX_DB_PACK, &key, &record, false);
}

static int scan_pack(struct salvage *s, const char *name, uint32_t id, uint8_t *data)
{
    const struct index_io *const io = s->place->io;
    uint8_t uuid[16];
    uint32_t number;
    enum index_class class = INDEX_HOT;
    uint64_t end = INDEX_PACK_HEADER;
    struct window w = {.data = data};
    w.fd = index_io_open(io, s->place->packs_fd, name, O_RDONLY, 0);
    if (w.fd < 0)
        return w.fd;
    int error = fill_window(s, &w, 0, INDEX_PACK_HEADER);
    if (error == 0 && w.size >= INDEX_PACK_HEADER) {
        if (index_pack_header_get(data, &number, &class, uuid) != 0 || number != id)
            salvage_say(s, "pack-header", INDEX_PROBLEM_FOUND, 0, 0, id,
                        "pack %u: the header is damaged", id);
        else if (memcmp(uuid, s->place->uuid, sizeof uuid) != 0)
            error = 1; /* another store's: its blocks are none of ours */
        if (error == 0)
            error = scan_records(s, &w, id, &end);
        if (error == 0)
            error = put_pack(s, id, class, end);
    }
    io->close(w.fd);
    if (error > 0) {
        salvage_say(s, "pack-header", INDEX_PROBLEM_FOUND, 0, 0, id,
                    "pack %u: belongs to another store; left alone", id);
        return 0;
    }
    if (error == -EIO) {
        salvage_say(s, "pack-unreadable", INDEX_PROBLEM_FOUND, 0, 0, id, "pack %u: cannot be read",
                    id);
        return 0;
    }
    return error;
}

static int by_id(const void *left, const void *right)
{
    const struct index_block *const a = &((const struct salvage_found *)left)->block;
    const struct index_block *const b = &((const struct salvage_found *)right)->block;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->at.pack < b->at.pack ? -1 : a->at.pack > b->at.pack;
}

int salvage_scan(struct salvage *s)
{
    DIR *dir;
    const struct dirent *entry;
    uint64_t packs = 0;
    uint8_t *const data = malloc(WINDOW);
    if (data == NULL)
        return -ENOMEM;
    int error = index_io_list(s->place->io, s->place->packs_fd, &dir);
    int got = 0;
    while (error == 0 && (got = index_io_next(s->place->io, dir, &entry)) > 0) {
        uint32_t id;
        if (!index_pack_parse_name(entry->d_name, &id))
            continue;
        if (s->options->progress != NULL)
            s->options->progress(s->options->arg, "packs", packs++, 0);
        error = scan_pack(s, entry->d_name, id, data);
    }
    if (error == 0 && got < 0)
        error = got;
    if (dir != NULL)
        s->place->io->closedir(dir);
    free(data);
    if (s->found_count > 0)
        qsort(s->found, s->found_count, sizeof *s->found, by_id);
    return error;
}

/* First record found of a block, or NULL. */
static struct salvage_found *find(const struct salvage *s, uint64_t id)
{
    size_t low = 0, high = s->found_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->found[middle].block.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->found_count && s->found[low].block.id == id ? &s->found[low] : NULL;
}

/* ---- places of known blocks ---------------------------------------------------------------- */

static int put_block(struct salvage *s, const struct index_block *block)
{
    struct index_key key;
    struct index_record record;
    index_key_one(&key, block->id);
    index_record_block(&record, block);
    return salvage_put(s, INDEX_DB_BLOCK, &key, &record, false);
}

/* The record of a known block that is intact: where the index says, or the latest elsewhere. */
static int place_block(struct salvage *s, const struct index_block *known)
{
    struct salvage_found *best = NULL;
    for (struct salvage_found *f = find(s, known->id);
         f != NULL && f < s->found + s->found_count && f->block.id == known->id; f++) {
        f->used = true;
        if (f->block.hash.low != known->hash.low || f->block.hash.high != known->hash.high)
            continue;
        best = f;
        if (f->block.at.pack == known->at.pack && f->block.at.offset == known->at.offset)
            return 0;
    }
    if (best == NULL)
        return 0; /* the check says so */
    struct index_block moved = best->block;
    moved.references = known->references;
    moved.live = known->live;
    moved.flags = known->flags;
    return put_block(s, &moved);
}

/* The next record of a table with a key above the last one; survives changes. */
static int next(struct salvage *s, enum index_db db, struct index_key *at, MDB_val *key,
                MDB_val *value)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(s->txn, s->db[db], &cursor);
    if (rc != 0)
        return index_mdb_error(rc);
    *key = (MDB_val){.mv_size = at->size, .mv_data = at->bytes};
    rc = mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
    mdb_cursor_close(cursor);
    if (rc != 0)
        return index_mdb_error(rc);
    index_unseal(db, key, value);
    if (key->mv_size >= sizeof at->bytes)
        return -EUCLEAN;
    at->size = key->mv_size + 1;
    memcpy(at->bytes, key->mv_data, key->mv_size);
    at->bytes[key->mv_size] = 0;
    return 0;
}

static int place_all(struct salvage *s)
{
    struct index_key at = {.size = 1};
    MDB_val key, value;
    int error;
    while ((error = next(s, INDEX_DB_BLOCK, &at, &key, &value)) == 0) {
        struct index_block block;
        if (index_record_get_block(&key, &value, &block) != 0)
            continue;
        error = place_block(s, &block);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

/* ---- files --------------------------------------------------------------------------------- */

static int get_inode(struct salvage *s, uint64_t ino, struct index_inode *inode)
{
    struct index_key key;
    MDB_val value;
    index_key_one(&key, ino);
    const int error = salvage_get(s, INDEX_DB_INODE, &key, &value);
    const MDB_val k = {.mv_size = key.size, .mv_data = key.bytes};
    return error != 0 ? error : index_record_get_inode(&k, &value, inode);
}

static int put_inode(struct salvage *s, const struct index_inode *inode)
{
    struct index_key key;
    struct index_record record;
    index_key_one(&key, inode->ino);
    index_record_inode(&record, inode);
    return salvage_put(s, INDEX_DB_INODE, &key, &record, false);
}

static int make_inode(struct salvage *s, uint64_t ino)
{
    struct index_inode inode = {.ino = ino,
                                .parent = INDEX_ROOT_INO,
                                .mode = S_IFREG | 0600,
                                .uid = geteuid(),
                                .gid = getegid(),
                                .nlink = 1};
    clock_gettime(CLOCK_REALTIME, &inode.mtime);
    inode.atime = inode.ctime = inode.btime = inode.mtime;
    if (ino >= s->state.next_ino)
        s->state.next_ino = ino + 1;
    return put_inode(s, &inode);
}

/* The file reaches END, whatever an older record of it says. */
static int reach(struct salvage *s, uint64_t ino, uint64_t end)
{
    struct index_inode inode;
    int error = get_inode(s, ino, &inode);
    if (error == -ENOENT) {
        error = make_inode(s, ino);
        if (error == 0)
            error = get_inode(s, ino, &inode);
    }
    if (error != 0 || inode.size >= end || end > NUMBER_MAX || !S_ISREG(inode.mode))
        return error == -EUCLEAN ? 0 : error;
    inode.size = end;
    if (inode.flags & INDEX_INODE_INLINE) { /* a file that has extents is not inline */
        inode.flags = 0;
        inode.inline_size = 0;
        inode.inline_data = NULL;
    }
    return put_inode(s, &inode);
}

static uint64_t extent_end(const struct salvage *s, const struct index_extent *extent)
{
    return extent->number > NUMBER_MAX / s->place->block_size - 1
               ? 0
               : extent->number * s->place->block_size + extent->length;
}

/* Which blocks are referred to; where inodes are lost, or old, files with extents and their sizes. */
static int walk_extents(struct salvage *s)
{
    const bool repair = salvage_any_gap(s, INDEX_DB_INODE);
    struct index_key at = {.size = 1};
    MDB_val key, value;
    int error;
    while ((error = next(s, INDEX_DB_EXTENT, &at, &key, &value)) == 0) {
        struct index_extent extent;
        uint64_t ino;
        if (index_record_get_extent(&key, &value, &ino, &extent) != 0)
            continue;
        if (s->referred_count == s->referred_room) {
            const size_t room = s->referred_room == 0 ? 1024 : s->referred_room * 2;
            uint64_t *const ids = reallocarray(s->referred, room, sizeof *ids);
            if (ids == NULL)
                return -ENOMEM;
            s->referred = ids;
            s->referred_room = room;
        }
        s->referred[s->referred_count++] = extent.block;
        const MDB_val inode_key = {.mv_size = (size_t)at.bytes[0] + 1, .mv_data = at.bytes};
        if (repair && salvage_in_gap(s, INDEX_DB_INODE, &inode_key))
            error = reach(s, ino, extent_end(s, &extent));
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

static int by_number(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static bool is_referred(const struct salvage *s, uint64_t id)
{
    return s->referred_count > 0 &&
           bsearch(&id, s->referred, s->referred_count, sizeof *s->referred, by_number) != NULL;
}

/* ---- blocks without a file ----------------------------------------------------------------- */

/* A file for blocks of OWNER that have no place there; 0 for OWNER: for one block. */
static int side_file(struct salvage *s, uint64_t owner, uint64_t *ino)
{
    for (size_t i = 0; owner != 0 && i < s->side_count; i++) {
        if (s->sides[i].owner == owner) {
            *ino = s->sides[i].ino;
            return 0;
        }
    }
    if (s->side_count == s->side_room) {
        const size_t room = s->side_room == 0 ? 64 : s->side_room * 2;
        struct salvage_side *const sides = reallocarray(s->sides, room, sizeof *sides);
        if (sides == NULL)
            return -ENOMEM;
        s->sides = sides;
        s->side_room = room;
    }
    *ino = s->state.next_ino;
    s->sides[s->side_count++] = (struct salvage_side){owner, *ino};
    return make_inode(s, *ino);
}

static int put_extent(struct salvage *s, uint64_t ino, uint64_t number,
                      const struct index_block *block)
{
    const struct index_extent extent = {
        .number = number, .block = block->id, .length = block->plain_size};
    struct index_key key;
    struct index_record record;
    index_key_two(&key, ino, number);
    index_record_extent(&record, &extent);
    const int error = salvage_put(s, INDEX_DB_EXTENT, &key, &record, false);
    return error != 0 ? error : reach(s, ino, extent_end(s, &extent));
}

/* Whether the block may take its place in the file that its record names. */
static int fits(struct salvage *s, const struct index_block *block, bool *fit)
{
    struct index_inode inode;
    struct index_key key;
    MDB_val value;
    *fit = false;
    if (block->owner_ino == 0 || block->owner_ino > NUMBER_MAX ||
        block->owner_block > NUMBER_MAX / s->place->block_size - 1 ||
        (block->flags & INDEX_BLOCK_SHARED))
        return 0;
    index_key_two(&key, block->owner_ino, block->owner_block);
    const MDB_val k = {.mv_size = key.size, .mv_data = key.bytes};
    int error = get_inode(s, block->owner_ino, &inode);
    if (error == -ENOENT) {
        const MDB_val inode_key = {.mv_size = (size_t)key.bytes[0] + 1, .mv_data = key.bytes};
        if (!s->stale && !salvage_in_gap(s, INDEX_DB_INODE, &inode_key))
            return 0; /* the file was removed */
        error = make_inode(s, block->owner_ino);
    } else if (error == 0 && (!S_ISREG(inode.mode) || (inode.flags & INDEX_INODE_INLINE))) {
        return 0;
    }
    if (error != 0)
        return error == -EUCLEAN ? 0 : error;
    error = salvage_get(s, INDEX_DB_EXTENT, &key, &value);
    if (error == -ENOENT) {
        *fit = s->stale || salvage_in_gap(s, INDEX_DB_EXTENT, &k);
        return 0;
    }
    struct index_extent extent;
    uint64_t ino;
    if (error == 0 && index_record_get_extent(&k, &value, &ino, &extent) == 0)
        *fit = find(s, extent.block) == NULL && extent.block < block->id;
    return error;
}

static int attach(struct salvage *s, struct salvage_found *found)
{
    const struct index_block *const block = &found->block;
    bool fit;
    uint64_t ino = block->owner_ino, number = block->owner_block;
    int error = fits(s, block, &fit);
    if (error == 0 && !fit) {
        const bool alone = ino == 0 || ino > NUMBER_MAX || (block->flags & INDEX_BLOCK_SHARED) ||
                           number > NUMBER_MAX / s->place->block_size - 1;
        error = side_file(s, alone ? 0 : ino, &ino);
        if (alone)
            number = 0;
        struct index_key key;
        MDB_val value;
        index_key_two(&key, ino, number);
        if (error == 0 && salvage_get(s, INDEX_DB_EXTENT, &key, &value) == 0)
            return 0; /* older than the one that is there */
        if (error == 0)
            salvage_say(s, "block-without-file", INDEX_PROBLEM_FIXED, ino, block->id,
                        block->at.pack,
                        "block %ju, stored as block number %ju of inode %ju: kept in inode %ju",
                        (uintmax_t)block->id, (uintmax_t)block->owner_block,
                        (uintmax_t)block->owner_ino, (uintmax_t)ino);
    }
    if (error == 0 && !found->used)
        error = put_block(s, block);
    if (error == 0)
        error = put_extent(s, ino, number, block);
    s->result->blocks_attached += error == 0;
    return error;
}

/* Whether a block that the index does not know may be one that it lost. */
static bool credible(const struct salvage *s, uint64_t id)
{
    struct index_key key;
    index_key_one(&key, id);
    const MDB_val k = {.mv_size = key.size, .mv_data = key.bytes};
    if (s->stale && id > s->index_blocks)
        return true;
    return salvage_in_gap(s, INDEX_DB_BLOCK, &k) &&
           (s->copy_blocks == 0 || id > UINT64_MAX - IN_FLIGHT || id + IN_FLIGHT > s->copy_blocks);
}

/* A pack without file has no record: what should lie in it is missed block by block. */
static int forget_packs(struct salvage *s)
{
    struct index_key at = {.size = 1};
    MDB_val key, value;
    int error;
    while ((error = next(s, INDEX_DB_PACK, &at, &key, &value)) == 0) {
        uint64_t id = 0;
        char name[16];
        if (index_key_get_one(&key, &id) != 0 || id > UINT32_MAX)
            continue;
        index_pack_name((uint32_t)id, name);
        const int fd = index_io_open(s->place->io, s->place->packs_fd, name, O_RDONLY, 0);
        if (fd >= 0)
            s->place->io->close(fd);
        if (fd != -ENOENT)
            continue;
        error = index_mdb_error(mdb_del(s->txn, s->db[INDEX_DB_PACK], &key, NULL));
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

int salvage_attach(struct salvage *s)
{
    const bool extents = salvage_any_gap(s, INDEX_DB_EXTENT);
    int error = forget_packs(s);
    if (error == 0)
        error = place_all(s);
    if (error == 0)
        error = walk_extents(s);
    if (s->referred_count > 0)
        qsort(s->referred, s->referred_count, sizeof *s->referred, by_number);
    /* Numbers of new files lie beyond every number that was in use. */
    for (size_t i = 0; i < s->found_count; i++) {
        const uint64_t owner = s->found[i].block.owner_ino;
        if (owner >= s->state.next_ino && owner < NUMBER_MAX)
            s->state.next_ino = owner + 1;
    }
    struct index_key at = {.size = 1};
    MDB_val key, value;
    while (error == 0 && (error = next(s, INDEX_DB_INODE, &at, &key, &value)) == 0) {
        uint64_t ino;
        if (index_key_get_one(&key, &ino) == 0 && ino >= s->state.next_ino && ino < NUMBER_MAX)
            s->state.next_ino = ino + 1;
    }
    error = error == -ENOENT ? 0 : error;
    for (size_t i = s->found_count; i-- > 0 && error == 0;) {
        struct salvage_found *const found = &s->found[i];
        const uint64_t id = found->block.id;
        if (i + 1 < s->found_count && s->found[i + 1].block.id == id)
            continue; /* the same block again */
        if (found->used ? extents && !is_referred(s, id) : credible(s, id))
            error = attach(s, found);
        if (error == 0)
            error = salvage_stopped(s);
    }
    return error;
}
