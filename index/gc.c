/* SPDX-License-Identifier: BSD-2-Clause
 *
 * gc.c - index_gc: gives the space of dead records back by copying the living ones out of packs that
 * hold few, after which the packs go.
 *
 * Steps: (1) seal the open packs that are mostly garbage, and choose the packs whose live share is
 * below the limit; (2) one walk over the block table finds which blocks lie in them: dead ranges
 * may be punched and headers damaged, so the packs themselves cannot tell; (3) pack by pack, in the
 * order of offsets, each record is read, held to its checksum, appended to another pack and swapped
 * in if the block still lies where it was read; (4) a commit: the packs that became empty are
 * removed with it, after it is durable. Dead ranges of packs that stay are punched by the index
 * thread after each commit as they arise.
 *
 * A record that is damaged stays where it is, and its pack with it: it is never copied as good.
 * Blocks that compaction has not settled stay on the hot list and go to hot packs; all others go to
 * cold packs, so that what is deleted together and moves often does not lie among what stays.
 *
 * Memory: 24 bytes a living block of the chosen packs, and one record.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "verify.h"

enum { BATCH = 1024 }; /* records looked at in one transaction */

#define COMMIT_BYTES                                                                               \
    (UINT64_C(64) << 20) /* moved between commits: what a full host must have free */

struct piece { /* a living block of a chosen pack */
    uint64_t block, offset;
    uint32_t pack;
};

struct gc {
    struct index *index;
    const volatile bool *stop;
    struct index_gc_result *result;
    uint32_t *packs; /* chosen, ascending */
    size_t pack_count;
    struct piece *pieces; /* ascending pack and offset */
    size_t piece_count, piece_room;
    uint8_t *buffer;
    size_t buffer_size;
    uint64_t uncommitted; /* bytes moved since the last commit */
    uint64_t damaged;
};

static bool stopped(const struct gc *gc)
{
    return gc->stop != NULL && *gc->stop;
}

/* ---- choosing ------------------------------------------------------------------------------ */

struct candidate {
    uint32_t id;
    bool chosen, open;
};

/* The I-th pack; false behind the last. */
static bool look_at(struct index *index, size_t i, unsigned min_live_percent,
                    struct candidate *candidate)
{
    struct index_packs *const packs = &index->packs;
    *candidate = (struct candidate){0};
    pthread_mutex_lock(&index->mutex); /* guards live */
    pthread_mutex_lock(&packs->mutex);
    const struct index_pack_file *const file = i < packs->count ? packs->list[i] : NULL;
    if (file != NULL && !file->removed && file->tail > INDEX_PACK_HEADER) {
        const uint64_t used = file->tail - INDEX_PACK_HEADER;
        candidate->id = file->id;
        candidate->open = !file->sealed;
        candidate->chosen = (double)file->live * 100 < (double)used * min_live_percent;
    }
    pthread_mutex_unlock(&packs->mutex);
    pthread_mutex_unlock(&index->mutex);
    return file != NULL;
}

static int choose(struct gc *gc, unsigned min_live_percent)
{
    struct candidate candidate;
    for (size_t i = 0; look_at(gc->index, i, min_live_percent, &candidate); i++) {
        if (!candidate.chosen)
            continue;
        if (candidate.open) {
            const int error = index_pack_seal(gc->index, candidate.id);
            if (error != 0 && error != -ENOENT)
                return error;
        }
        uint32_t *const packs = reallocarray(gc->packs, gc->pack_count + 1, sizeof *packs);
        if (packs == NULL)
            return -ENOMEM;
        gc->packs = packs;
        packs[gc->pack_count++] = candidate.id;
    }
    return 0;
}

static bool is_chosen(const struct gc *gc, uint32_t pack)
{
    size_t low = 0, high = gc->pack_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (gc->packs[middle] < pack)
            low = middle + 1;
        else
            high = middle;
    }
    return low < gc->pack_count && gc->packs[low] == pack;
}

/* ---- finding what lives in them ------------------------------------------------------------ */

static int add_piece(struct gc *gc, const struct index_block *block)
{
    if (gc->piece_count == gc->piece_room) {
        const size_t room = gc->piece_room == 0 ? 1024 : gc->piece_room * 2;
        struct piece *const pieces = reallocarray(gc->pieces, room, sizeof *pieces);
        if (pieces == NULL)
            return -ENOMEM;
        gc->pieces = pieces;
        gc->piece_room = room;
    }
    gc->pieces[gc->piece_count++] = (struct piece){block->id, block->at.offset, block->at.pack};
    return 0;
}

static int by_place(const void *left, const void *right)
{
    const struct piece *const a = left, *const b = right;
    if (a->pack != b->pack)
        return a->pack < b->pack ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* A malformed block record ends the collection: whose bytes are garbage is then not known. */
static int find_pieces(struct gc *gc)
{
    int error = 0;
    for (uint64_t from = 0; error == 0;) {
        struct index_txn *txn;
        error = stopped(gc) ? -ECANCELED : index_begin(gc->index, INDEX_READ, &txn);
        if (error != 0)
            break;
        for (unsigned i = 0; i < BATCH && error == 0; i++) {
            struct index_block block;
            error = index_block_next(txn, from, &block);
            if (error != 0)
                break;
            from = block.id + 1;
            if (is_chosen(gc, block.at.pack))
                error = add_piece(gc, &block);
        }
        index_end(txn);
    }
    if (error == -ENOENT)
        error = 0;
    if (error == 0 && gc->piece_count > 0)
        qsort(gc->pieces, gc->piece_count, sizeof *gc->pieces, by_place);
    return error;
}

/* ---- moving -------------------------------------------------------------------------------- */

/* The block and its entry on the hot list (hot->block 0: not on it). -ENOENT: gone, or moved away
 * from where it was found. */
static int look_up(struct gc *gc, const struct piece *piece, struct index_block *block,
                   struct index_hot *hot)
{
    struct index_txn *txn;
    int error = index_begin(gc->index, INDEX_READ, &txn);
    if (error != 0)
        return error;
    error = index_block_get(txn, piece->block, block);
    if (error == 0 && (block->at.pack != piece->pack || block->at.offset != piece->offset))
        error = -ENOENT;
    if (error == 0) {
        error = index_hot_next(txn, piece->block, hot);
        if (error == -ENOENT || (error == 0 && hot->block != piece->block)) {
            hot->block = 0;
            error = 0;
        }
    }
    index_end(txn);
    return error;
}

static int need_buffer(struct gc *gc, size_t size)
{
    if (size <= gc->buffer_size)
        return 0;
    uint8_t *const buffer = realloc(gc->buffer, size);
    if (buffer == NULL)
        return -ENOMEM;
    gc->buffer = buffer;
    gc->buffer_size = size;
    return 0;
}

/* Reads and verifies. 1: damaged, or gone meanwhile, and to be left alone. */
static int read_record(struct gc *gc, const struct index_block *block, struct index_block *written)
{
    const char *kind = "";
    char reason[128] = "";
    if (block->at.payload_size > INDEX_PAYLOAD_MAX)
        return 1;
    int error = need_buffer(gc, INDEX_RECORD_HEADER + (size_t)block->at.payload_size);
    if (error == 0)
        error = index_record_verify(gc->index, block, gc->buffer, written, &kind, reason,
                                    sizeof reason);
    if (error == -ESTALE)
        return 1;
    if (error == -EIO) {
        gc->damaged++;
        index_log(gc->index, LOG_ERR,
                  "block %" PRIu64 " in pack %" PRIu32 " at offset %" PRIu64
                  ": %s; left where it is",
                  block->id, block->at.pack, block->at.offset, reason);
        return 1;
    }
    return error;
}

/* Points the block to its copy unless it moved. Stays on the hot list if it is on it by now. */
static int swap_in(struct gc *gc, const struct index_block *copy, const struct index_block *old)
{
    struct index_txn *txn;
    struct index_hot hot;
    struct index_pending pending;
    int error = index_begin(gc->index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    const bool was_hot = index_hot_next(txn, copy->id, &hot) == 0 && hot.block == copy->id;
    const bool was_pending = index_pending_get(txn, copy->id, &pending) == 0;
    struct index_block now;
    struct index_block changed = *copy;
    error = index_block_get(txn, copy->id, &now);
    if (error == 0)
        changed.flags = now.flags; /* may have been set while the record was copied */
    if (error == 0 || error == -ENOENT)
        error = index_block_swap(txn, &changed, &old->at);
    if (error == 0 && was_hot)
        error = index_hot_add(txn, &hot);
    if (error == 0 && was_pending)
        error = index_pending_put(txn, &pending);
    index_end(txn);
    return error;
}

static int commit(struct gc *gc)
{
    gc->uncommitted = 0;
    return index_commit(gc->index);
}

/* Commits even when no record changed: packs that were sealed here and hold nothing go with it. */
static int commit_seals(struct gc *gc)
{
    struct index_txn *txn;
    int error = index_begin(gc->index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    error = index_state_store(txn, false);
    index_end(txn);
    return error != 0 ? error : commit(gc);
}

static int move(struct gc *gc, const struct piece *piece)
{
    struct index_block block, copy;
    struct index_hot hot;
    int error = look_up(gc, piece, &block, &hot);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    error = read_record(gc, &block, &copy);
    if (error != 0)
        return error > 0 ? 0 : error;
    const uint64_t span = index_record_span(block.at.payload_size);
    copy.level = block.level;
    copy.flags = block.flags;
    error = index_reserve(gc->index, span);
    if (error != 0)
        return error;
    error = index_pack_append(gc->index, hot.block != 0 ? INDEX_HOT : INDEX_COLD, &copy,
                              gc->buffer + INDEX_RECORD_HEADER, block.at.payload_size);
    if (error == 0)
        error = swap_in(gc, &copy, &block);
    index_release(gc->index, span);
    if (error == -ESTALE) /* it was written or compacted meanwhile: that wins */
        return 0;
    if (error != 0)
        return error;
    gc->result->records_moved++;
    gc->result->bytes_moved += span;
    gc->uncommitted += span;
    return gc->uncommitted >= COMMIT_BYTES ? commit(gc) : 0;
}

static int move_all(struct gc *gc)
{
    int error = 0;
    for (size_t i = 0; i < gc->piece_count && error == 0; i++)
        error = stopped(gc) ? -ECANCELED : move(gc, &gc->pieces[i]);
    return error;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Packs that are gone by now, of those that were chosen; their bytes are what was freed, less what
 * their living records took elsewhere. */
static void count_removed(struct gc *gc)
{
    struct index *const index = gc->index;
    uint64_t bytes = 0;
    for (size_t i = 0; i < gc->pack_count; i++) {
        struct index_pack_file *const file = index_packs_find(index, gc->packs[i]);
        if (file == NULL)
            continue;
        pthread_mutex_lock(&index->packs.mutex);
        if (file->removed) {
            gc->result->packs_removed++;
            bytes += file->tail;
        }
        pthread_mutex_unlock(&index->packs.mutex);
    }
    gc->result->bytes_freed = bytes > gc->result->bytes_moved ? bytes - gc->result->bytes_moved : 0;
}

int index_gc(struct index *index, unsigned min_live_percent, const volatile bool *stop,
             struct index_gc_result *result)
{
    struct gc gc = {.index = index, .stop = stop, .result = result};
    *result = (struct index_gc_result){0};
    if (index_readonly(index))
        return -EROFS;
    /* What was dropped so far must be durable before its space counts as garbage. */
    int error = index_commit(index);
    if (error == 0)
        error = choose(&gc, min_live_percent);
    if (error == 0 && gc.pack_count > 0)
        error = find_pieces(&gc);
    if (error == 0)
        error = move_all(&gc);
    if (error == -ECANCELED)
        error = 0;
    if (gc.pack_count > 0) {
        const int committed = commit_seals(&gc); /* also after an error: what was moved is good */
        if (error == 0)
            error = committed;
        count_removed(&gc);
        index_packs_trim(index, false);
    }
    free(gc.packs);
    free(gc.pieces);
    free(gc.buffer);
    return error;
}
