/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_packs.c - pass 5: every pack has its file and its record; every block lies inside a pack and
 * overlaps no other; live bytes are the sum of the records that blocks lie in; no dead range covers
 * one of them (its bytes would be punched). Fills places.
 *
 * Whether the bytes there are the block is for scrub to say. Garbage needs no record: a dead range
 * that is missing costs space until the pack is rewritten, and no check.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "verify.h"

static const char pass[] = "packs";

struct row {
    struct index_pack record; /* as recorded; zero live bytes when rebuilt */
    bool recorded;
    bool present;   /* the file is there with a header of this store */
    bool elsewhere; /* removed since our snapshot: its blocks have moved */
    uint64_t file_size;
    uint64_t live, end; /* found: bytes of records, end of the last */
};

struct rows {
    struct row *list; /* ascending ids */
    size_t count, room;
};

static struct row *find_row(const struct rows *rows, uint32_t id)
{
    size_t low = 0, high = rows->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rows->list[middle].record.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rows->count && rows->list[low].record.id == id ? &rows->list[low] : NULL;
}

static struct row *insert_row(struct rows *rows, const struct row *row)
{
    struct row *at = check_grow((void **)&rows->list, &rows->count, &rows->room, sizeof *at);
    if (at == NULL)
        return NULL;
    for (; at > rows->list && at[-1].record.id > row->record.id; at--)
        *at = at[-1];
    *at = *row;
    return at;
}

/* ---- files --------------------------------------------------------------------------------- */

/* Size of the pack's file, and its header. *problem: what is wrong with it, NULL when nothing. */
static int look_at_file(struct checker *c, uint32_t id, struct row *row, const char **problem)
{
    enum index_class class = row->record.class;
    const int error = index_pack_verify(c->index, id, !row->recorded, &class, &row->file_size,
                                        &row->present, problem);
    row->record.class = (uint8_t) class;
    return error;
}

static int write_header(struct checker *c, const struct row *row)
{
    struct index *const index = c->index;
    uint8_t bytes[INDEX_PACK_HEADER];
    char name[16];
    index_pack_header_put(bytes, row->record.id, row->record.class, index->uuid);
    index_pack_name(row->record.id, name);
    const int fd = index_io_open(index->io, index->packs_fd, name, O_WRONLY, 0);
    if (fd < 0)
        return fd;
    struct iovec part = {bytes, sizeof bytes};
    int error = index_io_write(index->io, fd, &part, 1, 0);
    if (error == 0 && index->io->fdatasync(fd) != 0)
        error = -errno;
    index->io->close(fd);
    return error;
}

/* Whether a pack that our snapshot names was removed meanwhile by the daemon at work. */
static int removed_meanwhile(struct checker *c, uint32_t id, bool *removed)
{
    struct index_txn *txn;
    struct index_key key;
    MDB_val value;
    *removed = false;
    if (!index_readonly(c->index))
        return 0;
    int error = index_begin(c->index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    index_key_one(&key, id);
    error = index_db_get(txn, INDEX_DB_PACK, &key, &value);
    *removed = error == -ENOENT;
    index_end(txn);
    return error == -ENOENT ? 0 : error;
}

static int check_file(struct checker *c, struct row *row)
{
    const uint32_t id = row->record.id;
    const char *problem;
    int error = look_at_file(c, id, row, &problem);
    if (error == 0 && !row->present)
        error = removed_meanwhile(c, id, &row->elsewhere);
    if (error != 0 || row->elsewhere)
        return error;
    if (!row->present) {
        check_problem(c, "missing-pack", CHECK_LOST, 0, 0, id, "pack %u: %s", id, problem);
    } else if (problem != NULL) {
        if (check_problem(c, "pack-header", CHECK_DERIVABLE, 0, 0, id, "pack %u: %s", id, problem))
            return write_header(c, row);
    }
    return 0;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static int load_rows(struct checker *c, struct rows *rows)
{
    struct check_walk walk = {.db = INDEX_DB_PACK};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct row row = {.recorded = true};
        error = check_step(c, pass, c->block_count);
        if (error != 0)
            return error;
        if (index_record_get_pack(&walk.found, &walk.value, &row.record) != 0)
            continue;
        error = check_file(c, &row);
        if (error == 0 && insert_row(rows, &row) == NULL)
            error = -ENOMEM;
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

/* The pack that a block names, which has no record: its file may be there. */
static int add_unrecorded(struct checker *c, struct rows *rows, uint32_t id, struct row **row)
{
    struct row fresh = {.record = {.id = id, .sealed = true}};
    const char *problem;
    const int error = look_at_file(c, id, &fresh, &problem);
    if (error != 0)
        return error;
    fresh.present = fresh.present && problem == NULL;
    fresh.record.size = fresh.file_size / INDEX_PACK_ALIGN * INDEX_PACK_ALIGN;
    *row = insert_row(rows, &fresh);
    return *row == NULL ? -ENOMEM : 0;
}

/* The pack in memory, which the rest of the session reads through. */
static struct index_pack_file *make_file(struct checker *c, const struct row *row)
{
    struct index_packs *const packs = &c->index->packs;
    pthread_mutex_lock(&packs->mutex);
    struct index_pack_file *const file = index_packs_add(packs, row->record.id);
    if (file != NULL) {
        file->class = row->record.class;
        file->sealed = true;
        file->tail = file->written = file->synced = file->allocated = row->record.size;
    }
    pthread_mutex_unlock(&packs->mutex);
    return file;
}

/* Puts a pack's record, on disk and in memory. */
static int put_row(struct checker *c, struct row *row)
{
    struct index_pack_file *file = index_packs_find(c->index, row->record.id);
    struct index_key key;
    row->record.live = row->live;
    if (file == NULL)
        file = make_file(c, row);
    if (file == NULL)
        return -ENOMEM;
    file->live = row->live;
    file->recorded = row->record;
    index_key_one(&key, row->record.id);
    index_record_pack(&c->txn->record, &row->record);
    return index_db_put_record(c->txn, INDEX_DB_PACK, &key, &c->txn->record);
}

static int check_row(struct checker *c, struct row *row)
{
    const uint32_t id = row->record.id;
    bool fix = false;
    c->live += row->live;
    c->last_pack = id > c->last_pack ? id : c->last_pack;
    if (row->elsewhere || (!row->present && !row->recorded))
        return 0;
    if (!row->recorded) {
        fix = check_problem(c, "missing-pack-record", CHECK_DERIVABLE, 0, 0, id,
                            "pack %u: %ju bytes of blocks lie in it, but it has no record", id,
                            (uintmax_t)row->live);
    } else {
        if (row->end > row->record.size) {
            fix = check_problem(c, "pack-size", CHECK_DERIVABLE, 0, 0, id,
                                "pack %u: size is %ju, but blocks lie in it up to %ju", id,
                                (uintmax_t)row->record.size, (uintmax_t)row->end);
            row->record.size = row->end;
        }
        if (row->live != row->record.live)
            fix = check_problem(c, "pack-live", CHECK_DERIVABLE, 0, 0, id,
                                "pack %u: %ju live bytes recorded, %ju found", id,
                                (uintmax_t)row->record.live, (uintmax_t)row->live) ||
                  fix;
    }
    return fix ? put_row(c, row) : 0;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static int add_place(struct checker *c, const struct index_block *block)
{
    struct check_place *const place =
        check_grow((void **)&c->places, &c->place_count, &c->place_room, sizeof *c->places);
    if (place == NULL)
        return -ENOMEM;
    *place = (struct check_place){.offset = block->at.offset,
                                  .block = block->id,
                                  .pack = block->at.pack,
                                  .payload_size = block->at.payload_size};
    return 0;
}

static int check_location(struct checker *c, struct rows *rows, const struct index_block *block)
{
    const struct index_location *const at = &block->at;
    const uint64_t span = index_record_span(at->payload_size);
    struct row *row = find_row(rows, at->pack);
    const int error = row == NULL ? add_unrecorded(c, rows, at->pack, &row) : 0;
    if (error != 0)
        return error;
    row->live += span; /* also when the place is wrong: the counter goes by what blocks say */
    if (row->elsewhere)
        return add_place(c, block); /* scrub looks where it is now */
    if (!row->present)
        return check_damage_add(c, block->id, at->pack, "missing-pack", "pack %u is missing",
                                at->pack);
    if (at->payload_size > INDEX_PAYLOAD_MAX)
        return check_damage_add(c, block->id, at->pack, "block-location",
                                "its payload of %u bytes is larger than any", at->payload_size);
    if (at->offset < INDEX_PACK_HEADER || at->offset > row->file_size ||
        INDEX_RECORD_HEADER + (uint64_t)at->payload_size > row->file_size - at->offset)
        return check_damage_add(c, block->id, at->pack, "block-location",
                                "offset %ju and payload of %u bytes are outside pack %u, which "
                                "has %ju bytes",
                                (uintmax_t)at->offset, at->payload_size, at->pack,
                                (uintmax_t)row->file_size);
    row->end = at->offset + span > row->end ? at->offset + span : row->end;
    return add_place(c, block);
}

static int check_locations(struct checker *c, struct rows *rows)
{
    struct check_walk walk = {.db = INDEX_DB_BLOCK};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct index_block block;
        error = check_step(c, pass, c->block_count);
        if (error != 0)
            return error;
        if (index_record_get_block(&walk.found, &walk.value, &block) == 0 &&
            check_block_find(c, block.id) != NULL)
            error = check_location(c, rows, &block);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

static int by_place(const void *left, const void *right)
{
    const struct check_place *const a = left, *const b = right;
    if (a->pack != b->pack)
        return a->pack < b->pack ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static uint64_t place_end(const struct check_place *place)
{
    return place->offset + index_record_span(place->payload_size);
}

static void check_overlaps(struct checker *c)
{
    for (size_t i = 1; i < c->place_count; i++) {
        const struct check_place *const a = &c->places[i - 1], *const b = &c->places[i];
        if (a->pack == b->pack && place_end(a) > b->offset)
            check_problem(c, "block-overlap", CHECK_LOST, 0, b->block, b->pack,
                          "blocks %ju and %ju overlap in pack %u at offset %ju; --scrub tells "
                          "which is damaged",
                          (uintmax_t)a->block, (uintmax_t)b->block, b->pack, (uintmax_t)b->offset);
    }
}

/* ---- dead ranges --------------------------------------------------------------------------- */

/* First place that ends behind OFFSET in PACK: places do not overlap, or only a damaged few. */
static const struct check_place *place_behind(const struct checker *c, uint32_t pack,
                                              uint64_t offset)
{
    size_t low = 0, high = c->place_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct check_place *const place = &c->places[middle];
        if (place->pack < pack || (place->pack == pack && place_end(place) <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->place_count && c->places[low].pack == pack ? &c->places[low] : NULL;
}

static int check_dead(struct checker *c, const struct rows *rows)
{
    struct check_walk walk = {.db = INDEX_DB_FREE};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        uint64_t pack, offset, size;
        error = check_step(c, pass, c->block_count);
        if (error != 0)
            return error;
        if (index_key_get_two(&walk.found, &pack, &offset) != 0 ||
            index_record_get_number(&walk.value, &size) != 0)
            continue;
        const struct row *const row = pack > UINT32_MAX ? NULL : find_row(rows, (uint32_t)pack);
        const char *why = NULL;
        const struct check_place *place = NULL;
        if (row == NULL) {
            why = "its pack does not exist";
        } else if (size == 0 || offset < INDEX_PACK_HEADER || offset > row->record.size ||
                   size > row->record.size - offset) {
            why = "it lies outside the pack";
        } else {
            place = place_behind(c, (uint32_t)pack, offset);
            if (place != NULL && place->offset < offset + size)
                why = "a block lies in it";
        }
        if (why != NULL &&
            check_problem(c, "dead-range", CHECK_DERIVABLE, 0, place != NULL ? place->block : 0,
                          (uint32_t)pack, "dead range of pack %ju, offset %ju, %ju bytes: %s",
                          (uintmax_t)pack, (uintmax_t)offset, (uintmax_t)size, why))
            error = check_delete(c, &walk);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

int check_packs(struct checker *c)
{
    struct rows rows = {0};
    int error = load_rows(c, &rows);
    if (error == 0)
        error = check_locations(c, &rows);
    if (error == 0) {
        if (c->place_count > 0)
            qsort(c->places, c->place_count, sizeof *c->places, by_place);
        check_overlaps(c);
        error = check_dead(c, &rows);
    }
    for (size_t i = 0; i < rows.count && error == 0; i++)
        error = check_row(c, &rows.list[i]);
    free(rows.list);
    return error;
}
