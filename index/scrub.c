/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scrub.c - checking records while the store is in use, a few blocks at a time, and the record that
 * says how far that is.
 *
 * Blocks are visited in the order of their ids: that needs no memory, a position is one number, and
 * a block that is moved meanwhile is still met once. New blocks have higher ids and belong to the next
 * round, so a round ends however much is written. Packs are filled in about the same order, so reading is mostly sequential.
 *
 * What is read is to come from the medium, not from the host's memory, and must not push out of that
 * what others use: the host is told to forget the pages before they are read and after.
 *
 * Nothing but the position is ever written. A damaged record stays what it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

#define BATCH_BYTES (UINT64_C(4) << 20) /* of records in one batch, unless one alone is larger */

/* ---- the position ---------------------------------------------------------------------------- */

int index_scrub_get(struct index_txn *txn, struct index_scrub *scrub)
{
    struct index_key key;
    MDB_val value;
    *scrub = (struct index_scrub){0};
    index_key_text(&key, "scrub");
    const int error = index_db_get(txn, INDEX_DB_META, &key, &value);
    if (error == -ENOENT)
        return 0;
    if (error == 0 && index_record_get_scrub(&value, scrub) < 0) {
        *scrub = (struct index_scrub){0};
        return index_malformed(txn, INDEX_DB_META,
                               &(MDB_val){.mv_size = key.size, .mv_data = key.bytes});
    }
    return error;
}

int index_scrub_put(struct index_txn *txn, const struct index_scrub *scrub)
{
    struct index_key key;
    index_key_text(&key, "scrub");
    index_record_scrub(&txn->record, scrub);
    return index_db_put_record(txn, INDEX_DB_META, &key, &txn->record);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static void add(struct index_scrub_batch *batch, const struct index_block *block)
{
    batch->records[batch->count++] = (struct index_scrub_record){.block = *block, .fd = -1};
    batch->bytes += INDEX_RECORD_HEADER + (uint64_t)block->at.payload_size;
}

/* A record that does not decode is counted as damaged under its key. */
static void add_malformed(struct index_scrub_batch *batch, uint64_t id)
{
    struct index_scrub_record *const record = &batch->records[batch->count++];
    *record = (struct index_scrub_record){.block.id = id, .fd = -1, .kind = "malformed-record"};
    snprintf(record->reason, sizeof record->reason, "its record in the index is malformed");
}

static int look_up(struct index *index, uint64_t from, uint64_t end,
                   struct index_scrub_batch *batch)
{
    struct index_txn *txn;
    struct index_key key;
    MDB_val found, value;
    int error = index_begin(index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    index_key_one(&key, from);
    error = index_db_seek(txn, INDEX_DB_BLOCK, &key, &found, &value);
    while (error == 0 && batch->count < INDEX_SCRUB_BATCH && batch->bytes < BATCH_BYTES) {
        struct index_block block;
        uint64_t id;
        if (index_key_get_one(&found, &id) == 0) {
            if (id >= end)
                break;
            if (index_record_get_block(&found, &value, &block) != 0 ||
                block.at.payload_size > INDEX_PAYLOAD_MAX || block.at.offset > INT64_MAX / 2)
                add_malformed(batch, id);
            else
                add(batch, &block);
            batch->next = id + 1;
        }
        error = index_db_next(txn, INDEX_DB_BLOCK, &found, &value);
    }
    index_end(txn);
    return error == -ENOENT || error == 0 ? (batch->count == 0 ? -ENOENT : 0) : error;
}

static void release(struct index *index, struct index_scrub_batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++) {
        if (batch->records[i].fd >= 0)
            index_pack_release(index, batch->records[i].pack);
        batch->records[i].fd = -1;
    }
}

static int reserve(struct index_scrub_batch *batch)
{
    size_t most = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        const size_t size = INDEX_RECORD_HEADER + (size_t)batch->records[i].block.at.payload_size;
        most = size > most ? size : most;
    }
    if (most <= batch->room)
        return 0;
    uint8_t *const grown = realloc(batch->buffer, most);
    if (grown == NULL)
        return -ENOMEM;
    batch->buffer = grown;
    batch->room = most;
    return 0;
}

uint64_t index_scrub_end(struct index *index)
{
    return atomic_load(&index->next_block);
}

int index_scrub_take(struct index *index, uint64_t from, uint64_t end,
                     struct index_scrub_batch *batch)
{
    batch->count = 0;
    batch->bytes = 0;
    batch->next = from;
    int error = look_up(index, from, end, batch);
    if (error == 0)
        error = reserve(batch);
    for (unsigned i = 0; i < batch->count && error == 0; i++) {
        struct index_scrub_record *const record = &batch->records[i];
        if (record->kind != NULL)
            continue;
        record->error =
            index_pack_acquire(index, record->block.at.pack, &record->pack, &record->fd);
        if (record->error != 0)
            record->fd = -1;
        if (record->error == -ENOMEM || record->error == -EMFILE || record->error == -ENFILE)
            error = record->error;
    }
    if (error != 0) {
        release(index, batch);
        batch->count = 0;
    }
    return error;
}

/* ---- reading --------------------------------------------------------------------------------- */

void index_scrub_read(struct index *index, struct index_scrub_batch *batch, const atomic_bool *stop)
{
    for (unsigned i = 0; i < batch->count; i++) {
        struct index_scrub_record *const record = &batch->records[i];
        const struct index_location *const at = &record->block.at;
        const size_t size = INDEX_RECORD_HEADER + (size_t)at->payload_size;
        if (atomic_load(stop)) {
            batch->next = record->block.id; /* the rest is for the next batch */
            for (; i < batch->count; i++)
                batch->records[i].gone = true;
            return;
        }
        if (record->fd < 0)
            continue;
        (void)index->io->fadvise(record->fd, (off_t)at->offset, (off_t)size, POSIX_FADV_DONTNEED);
        const ssize_t got = index_io_read(index->io, record->fd, batch->buffer, size, at->offset);
        record->error = index_record_judge(&record->block, batch->buffer, got, NULL, &record->kind,
                                           record->reason, sizeof record->reason);
        (void)index->io->fadvise(record->fd, (off_t)at->offset, (off_t)size, POSIX_FADV_DONTNEED);
    }
}

/* ---- judging --------------------------------------------------------------------------------- */

/* A file that holds the block, if the hot list or WRITTEN, the header in the pack, names one. */
static uint64_t find_owner(struct index *index, const struct index_scrub_record *record,
                           const struct index_block *written)
{
    struct index_txn *txn;
    struct index_hot hot = {0};
    struct index_extent extent;
    uint64_t owner = 0;
    if (index_begin(index, INDEX_READ, &txn) != 0)
        return 0;
    const uint64_t id = record->block.id;
    const bool listed = index_hot_next(txn, id, &hot) == 0 && hot.block == id;
    if (listed && index_extent_get(txn, hot.ino, hot.number, &extent) == 0 && extent.block == id)
        owner = hot.ino;
    else if (written->owner_ino != 0 &&
             index_extent_get(txn, written->owner_ino, written->owner_block, &extent) == 0 &&
             extent.block == id)
        owner = written->owner_ino;
    index_end(txn);
    return owner;
}

/* Looks again, by the way that follows a block which moves. */
static int again(struct index *index, struct index_scrub_batch *batch,
                 struct index_scrub_record *record)
{
    struct index_block written = {0};
    const uint64_t id = record->block.id;
    record->kind = NULL;
    const int error =
        index_block_verify(index, id, &record->block, NULL, &batch->buffer, &batch->room,
                           &record->kind, record->reason, sizeof record->reason);
    if (error == -EIO) {
        /* Only a hint, which the index is asked about: the header's checksum need not match. */
        if (batch->room >= INDEX_RECORD_HEADER)
            (void)index_record_header_get(batch->buffer, &written);
        record->owner = find_owner(index, record, &written);
        return 0;
    }
    record->kind = NULL;
    record->gone = error > 0;
    return error > 0 ? 0 : error;
}

int index_scrub_settle(struct index *index, struct index_scrub_batch *batch)
{
    int error = 0;
    unsigned kept = 0;
    release(index, batch);
    for (unsigned i = 0; i < batch->count && error == 0; i++) {
        struct index_scrub_record *const record = &batch->records[i];
        if (!record->gone && record->error != 0)
            error = again(index, batch, record);
        if (!record->gone)
            batch->records[kept++] = *record;
        else
            batch->bytes -= INDEX_RECORD_HEADER + (uint64_t)record->block.at.payload_size;
    }
    batch->count = kept;
    return error;
}

void index_scrub_free(struct index_scrub_batch *batch)
{
    free(batch->buffer);
    batch->buffer = NULL;
    batch->room = 0;
}

/* ---- headers of packs ------------------------------------------------------------------------ */

static int next_pack(struct index *index, uint32_t from, struct index_pack *pack)
{
    struct index_txn *txn;
    int error = index_begin(index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    error = index_pack_next(txn, from, pack);
    index_end(txn);
    return error;
}

int index_scrub_header(struct index *index, uint32_t from, uint32_t *id, const char **problem)
{
    struct index_pack pack, now;
    int error;
    for (; (error = next_pack(index, from, &pack)) == 0; from = pack.id + 1) {
        enum index_class class = pack.class;
        uint64_t file_size;
        bool present;
        error = index_pack_verify(index, pack.id, false, &class, &file_size, &present, problem);
        if (error != 0)
            return error;
        /* A pack may be removed between the two looks. */
        if (*problem != NULL && next_pack(index, pack.id, &now) == 0 && now.id == pack.id) {
            *id = pack.id;
            return 0;
        }
        if (pack.id == UINT32_MAX)
            return -ENOENT;
    }
    return error;
}
