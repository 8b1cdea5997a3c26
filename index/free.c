/* SPDX-License-Identifier: BSD-2-Clause
 *
 * free.c - live bytes of packs, and the dead ranges in them.
 *
 * INDEX_DB_FREE holds every dead range of the packs that exist, joined where ranges touch. So
 * a page of the host that several small dead records share is given back when the last of them
 * dies. The bytes are punched after the commit that made them dead is durable; what a crash keeps
 * from being punched is punched after the next opening (struct index_state, clean).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>

#include "internal.h"

#define HOST_PAGE UINT64_C(4096) /* bytes that a host file system gives back at a time */

int index_free_take(struct index_txn *txn, const struct index_location *at)
{
    struct index_pack_file *const pack = index_packs_find(txn->index, at->pack);
    if (pack == NULL || pack->removed)
        return -ESTALE;
    const uint64_t span = index_record_span(at->payload_size);
    pack->live += span;
    pack->records_put++;
    txn->index->counters.live += span;
    return 0;
}

/* Reads a range and its pack; -ENOENT when it lies in another pack. */
static int parse(struct index_txn *txn, const MDB_val *found, const MDB_val *value, uint64_t pack,
                 uint64_t *start, uint64_t *end)
{
    uint64_t in, length;
    if (index_key_get_two(found, &in, start) < 0 || index_record_get_number(value, &length) < 0 ||
        *start > INT64_MAX || length > (uint64_t)INT64_MAX)
        return index_malformed(txn, INDEX_DB_FREE, found);
    *end = *start + length;
    return in == pack ? 0 : -ENOENT;
}

/* Joins *start..*end with the ranges that touch it, removing the one behind it. */
static int join(struct index_txn *txn, uint32_t pack, uint64_t *start, uint64_t *end)
{
    struct index_key key;
    MDB_val found, value;
    uint64_t other_start = 0, other_end = 0;
    index_key_two(&key, pack, *start);
    int error = index_db_seek(txn, INDEX_DB_FREE, &key, &found, &value);
    if (error == 0)
        error = parse(txn, &found, &value, pack, &other_start, &other_end);
    if (error == 0 && other_start <= *end) {
        struct index_key behind;
        index_key_two(&behind, pack, other_start);
        *end = other_end > *end ? other_end : *end;
        error = index_db_delete(txn, INDEX_DB_FREE, &behind);
    }
    if (error != 0 && error != -ENOENT && error != -EUCLEAN)
        return error;
    error = index_db_before(txn, INDEX_DB_FREE, &key, &found, &value);
    if (error == 0)
        error = parse(txn, &found, &value, pack, &other_start, &other_end);
    if (error == 0 && other_end >= *start) {
        *start = other_start;
        *end = other_end > *end ? other_end : *end;
    }
    return error == -ENOENT || error == -EUCLEAN ? 0 : error;
}

/* Notes a range for punching. Without memory it stays unpunched until an unclean opening. */
static void note(struct index_punches *punches, uint32_t pack, uint64_t start, uint64_t end)
{
    if (punches->count == punches->capacity) {
        const size_t capacity = punches->capacity == 0 ? 256 : 2 * punches->capacity;
        struct index_punch *list = realloc(punches->list, capacity * sizeof *list);
        if (list == NULL)
            return;
        punches->list = list;
        punches->capacity = capacity;
    }
    punches->list[punches->count++] =
        (struct index_punch){.pack = pack, .start = start, .end = end};
}

int index_free_garbage(struct index_txn *txn, const struct index_location *at)
{
    struct index *const index = txn->index;
    struct index_pack_file *const pack = index_packs_find(index, at->pack);
    if (pack == NULL || pack->removed || at->offset > INT64_MAX / 2)
        return 0;
    const uint64_t from = at->offset, to = at->offset + index_record_span(at->payload_size);
    uint64_t start = from, end = to;
    int error = join(txn, at->pack, &start, &end);
    if (error != 0)
        return error;
    struct index_key key;
    index_key_two(&key, at->pack, start);
    index_record_number(&txn->record, end - start);
    error = index_db_put_record(txn, INDEX_DB_FREE, &key, &txn->record);
    if (error != 0)
        return error;
    /* Of the joined range only the pages that this record completes. */
    if (from > start + HOST_PAGE)
        start = from - HOST_PAGE;
    if (end > to + HOST_PAGE)
        end = to + HOST_PAGE;
    note(&index->punches, at->pack, start, end);
    return 0;
}

int index_free_add(struct index_txn *txn, const struct index_location *at)
{
    struct index *const index = txn->index;
    const uint64_t span = index_record_span(at->payload_size);
    struct index_pack_file *const pack = index_packs_find(index, at->pack);
    if (pack != NULL) {
        pack->live -= span < pack->live ? span : pack->live;
        struct index_counters *const c = &index->counters;
        c->live -= span < c->live ? span : c->live;
    }
    return index_free_garbage(txn, at);
}

int index_free_forget(struct index_txn *txn, uint32_t pack)
{
    struct index_key key;
    index_key_two(&key, pack, 0);
    for (;;) {
        MDB_val found, value;
        uint64_t in, start;
        int error = index_db_seek(txn, INDEX_DB_FREE, &key, &found, &value);
        if (error == -ENOENT)
            return 0;
        if (error != 0)
            return error;
        if (index_key_get_two(&found, &in, &start) < 0) {
            index_malformed(txn, INDEX_DB_FREE, &found);
            return 0;
        }
        if (in != pack)
            return 0;
        struct index_key range;
        index_key_two(&range, in, start);
        error = index_db_delete(txn, INDEX_DB_FREE, &range);
        if (error != 0)
            return error;
    }
}

int index_free_requeue(struct index_txn *txn)
{
    struct index_key key;
    MDB_val found, value;
    index_key_one(&key, 0);
    int error = index_db_seek(txn, INDEX_DB_FREE, &key, &found, &value);
    while (error == 0) {
        uint64_t pack = 0, start = 0, end = 0;
        if (index_key_get_two(&found, &pack, &start) == 0 && pack <= UINT32_MAX &&
            parse(txn, &found, &value, pack, &start, &end) == 0)
            note(&txn->index->punchable, (uint32_t)pack, start, end);
        error = index_db_next(txn, INDEX_DB_FREE, &found, &value);
    }
    return error == -ENOENT ? 0 : error;
}

/* ---- punching ---------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const struct index_punch *const a = left, *const b = right;
    if (a->pack != b->pack)
        return a->pack < b->pack ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

void index_punches_merge(struct index_punches *punches)
{
    if (punches->count == 0)
        return;
    qsort(punches->list, punches->count, sizeof *punches->list, compare);
    size_t kept = 0;
    for (size_t i = 1; i < punches->count; i++) {
        struct index_punch *const last = &punches->list[kept];
        const struct index_punch *const next = &punches->list[i];
        if (next->pack == last->pack && next->start <= last->end)
            last->end = next->end > last->end ? next->end : last->end;
        else
            punches->list[++kept] = *next;
    }
    punches->count = kept + 1;
}

void index_punch_range(struct index *index, const struct index_punch *punch)
{
    const uint64_t start = (punch->start + HOST_PAGE - 1) & ~(HOST_PAGE - 1);
    const uint64_t end = punch->end & ~(HOST_PAGE - 1);
    struct index_pack_file *pack;
    int fd;
    if (start >= end || index_pack_acquire(index, punch->pack, &pack, &fd) != 0)
        return;
    /* A host that cannot punch keeps the bytes until the pack is rewritten. */
    index->io->fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
                         (off_t)(end - start));
    index_pack_release(index, pack);
}
