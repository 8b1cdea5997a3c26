/* SPDX-License-Identifier: BSD-2-Clause
 *
 * block.c - block records: where a block's bytes are and who refers to them.
 *
 * references and live follow the extents (extent.c). A block found at zero references is noted and
 * looked at again in index_end, so that an extent may be moved by removing and setting it. Dropping
 * a block takes all that hangs on it: hash, hot and pending records, and its bytes become a dead
 * range. The hash table maps the low half of a hash to one block, the one added last; an older block
 * with the same half is only not found for dedup.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

uint64_t index_block_new(struct index *index)
{
    return atomic_fetch_add(&index->next_block, 1);
}

int index_txn_note_unused(struct index_txn *txn, uint64_t block)
{
    struct index_ids *const ids = &txn->unused;
    if (ids->count == ids->capacity) {
        const size_t capacity = ids->capacity == 0 ? 64 : 2 * ids->capacity;
        uint64_t *list = realloc(ids->list, capacity * sizeof *list);
        if (list == NULL)
            return index_fail(txn, -ENOMEM, "unused blocks");
        ids->list = list;
        ids->capacity = capacity;
    }
    ids->list[ids->count++] = block;
    return 0;
}

int index_block_get(struct index_txn *txn, uint64_t id, struct index_block *block)
{
    struct index_key key;
    MDB_val value;
    index_key_one(&key, id);
    const int error = index_db_get(txn, INDEX_DB_BLOCK, &key, &value);
    if (error != 0)
        return error;
    const MDB_val k = {.mv_size = key.size, .mv_data = key.bytes};
    if (index_record_get_block(&k, &value, block) < 0)
        return index_malformed(txn, INDEX_DB_BLOCK, &k);
    return 0;
}

int index_block_put(struct index_txn *txn, const struct index_block *block)
{
    struct index_key key;
    index_key_one(&key, block->id);
    index_record_block(&txn->record, block);
    return index_db_put_record(txn, INDEX_DB_BLOCK, &key, &txn->record);
}

/* ---- hash -------------------------------------------------------------------------------------- */

/* Id that the hash table gives for HASH. */
static int hash_get(struct index_txn *txn, struct index_hash hash, uint64_t *id)
{
    struct index_key key;
    MDB_val value;
    index_key_hash(&key, hash);
    const int error = index_db_get(txn, INDEX_DB_HASH, &key, &value);
    if (error != 0)
        return error;
    if (index_record_get_number(&value, id) < 0)
        return index_malformed(txn, INDEX_DB_HASH,
                               &(MDB_val){.mv_size = key.size, .mv_data = key.bytes});
    return 0;
}

/* The newest block takes the place of an older one: it is added only after that one was found not to
 * read back. */
static int hash_add(struct index_txn *txn, const struct index_block *block)
{
    struct index_key key;
    index_key_hash(&key, block->hash);
    index_record_number(&txn->record, block->id);
    return index_db_put_record(txn, INDEX_DB_HASH, &key, &txn->record);
}

static int hash_remove(struct index_txn *txn, const struct index_block *block)
{
    uint64_t id;
    const int error = hash_get(txn, block->hash, &id);
    if (error == -ENOENT || error == -EUCLEAN || (error == 0 && id != block->id))
        return 0;
    if (error != 0)
        return error;
    struct index_key key;
    index_key_hash(&key, block->hash);
    return index_db_delete(txn, INDEX_DB_HASH, &key);
}

int index_block_find(struct index_txn *txn, struct index_hash hash, uint32_t plain_size,
                     struct index_block *block)
{
    uint64_t id;
    int error = hash_get(txn, hash, &id);
    if (error == 0)
        error = index_block_get(txn, id, block);
    if (error != 0)
        return error;
    if (block->hash.low != hash.low || block->hash.high != hash.high ||
        block->plain_size != plain_size || (block->flags & INDEX_BLOCK_SHARED))
        return -ENOENT;
    return 0;
}

/* ---- life of a block --------------------------------------------------------------------------- */

static bool valid(const struct index_block *block)
{
    return block->id != 0 && block->plain_size != 0 && block->plain_size <= INDEX_PLAIN_MAX &&
           block->at.payload_size != 0 && block->at.payload_size <= INDEX_PAYLOAD_MAX &&
           block->at.offset >= INDEX_PACK_HEADER && block->at.offset <= INT64_MAX / 2 &&
           block->at.offset % INDEX_PACK_ALIGN == 0;
}

/* What depends on the SHARED flag: a shared block is counted, and not found by hash. */
static int enter(struct index_txn *txn, const struct index_block *block)
{
    if (!(block->flags & INDEX_BLOCK_SHARED))
        return hash_add(txn, block);
    txn->index->counters.shared_blocks++;
    return 0;
}

static int leave(struct index_txn *txn, const struct index_block *block)
{
    if (!(block->flags & INDEX_BLOCK_SHARED))
        return hash_remove(txn, block);
    if (txn->index->counters.shared_blocks > 0)
        txn->index->counters.shared_blocks--;
    return 0;
}

int index_block_add(struct index_txn *txn, const struct index_block *block, enum index_class class)
{
    struct index_block added = *block, old;
    if (!valid(block))
        return -EINVAL;
    int error = index_block_get(txn, block->id, &old);
    if (error == 0)
        return -EEXIST;
    if (error != -ENOENT)
        return error;
    error = index_free_take(txn, &block->at);
    if (error != 0)
        return error;
    added.references = 0;
    added.live = 0;
    error = index_block_put(txn, &added);
    if (error == 0)
        error = enter(txn, &added);
    if (error == 0 && class == INDEX_HOT) {
        const struct index_hot hot = {.block = block->id,
                                      .ino = block->owner_ino,
                                      .number = block->owner_block,
                                      .stored_at = time(NULL)};
        error = index_hot_add(txn, &hot);
    }
    if (error == 0)
        error = index_txn_note_unused(txn, block->id);
    return error;
}

static int drop(struct index_txn *txn, const struct index_block *block)
{
    struct index_key key;
    index_key_one(&key, block->id);
    int error = index_db_delete(txn, INDEX_DB_BLOCK, &key);
    if (error == 0)
        error = leave(txn, block);
    if (error == 0)
        error = index_hot_remove(txn, block->id);
    if (error == 0)
        error = index_pending_remove(txn, block->id);
    if (error == 0)
        error = index_free_add(txn, &block->at);
    return error;
}

int index_blocks_drop_unused(struct index_txn *txn)
{
    int error = 0;
    for (size_t i = 0; i < txn->unused.count && error == 0; i++) {
        struct index_block block;
        error = index_block_get(txn, txn->unused.list[i], &block);
        if (error == 0 && block.references == 0)
            error = drop(txn, &block);
        if (error == -ENOENT || error == -EUCLEAN)
            error = 0; /* dropped before, or for fsck to judge */
    }
    txn->unused.count = 0;
    return error;
}

int index_block_next(struct index_txn *txn, uint64_t from, struct index_block *block)
{
    struct index_key key;
    MDB_val found, value;
    index_key_one(&key, from);
    const int error = index_db_seek(txn, INDEX_DB_BLOCK, &key, &found, &value);
    if (error == 0 && index_record_get_block(&found, &value, block) < 0)
        return index_malformed(txn, INDEX_DB_BLOCK, &found);
    return error;
}

/* ---- changes ----------------------------------------------------------------------------------- */

static bool same_place(const struct index_location *a, const struct index_location *b)
{
    return a->pack == b->pack && a->offset == b->offset && a->payload_size == b->payload_size;
}

/* Puts CHANGED over OLD, with what the flags imply. */
static int change(struct index_txn *txn, const struct index_block *old,
                  const struct index_block *changed)
{
    int error = 0;
    const bool flips = ((old->flags ^ changed->flags) & INDEX_BLOCK_SHARED) != 0;
    if (flips)
        error = leave(txn, old);
    if (error == 0)
        error = index_block_put(txn, changed);
    if (error == 0 && flips)
        error = enter(txn, changed);
    return error;
}

int index_block_swap(struct index_txn *txn, const struct index_block *changed,
                     const struct index_location *expected)
{
    struct index_block old;
    if (!valid(changed))
        return -EINVAL;
    int error = index_block_get(txn, changed->id, &old);
    if (error != 0 && error != -ENOENT)
        return error;
    if (error == -ENOENT || !same_place(&old.at, expected)) {
        struct index_pack_file *const pack = index_packs_find(txn->index, changed->at.pack);
        if (pack != NULL)
            pack->records_put++; /* settled: it never will be referred to */
        error = index_free_garbage(txn, &changed->at);
        return error != 0 ? error : -ESTALE;
    }
    if (changed->plain_size != old.plain_size || changed->hash.low != old.hash.low ||
        changed->hash.high != old.hash.high || same_place(&changed->at, expected))
        return -EINVAL;
    error = index_free_take(txn, &changed->at);
    if (error != 0)
        return error;
    struct index_block put = *changed;
    put.references = old.references;
    put.live = old.live;
    error = change(txn, &old, &put);
    if (error == 0)
        error = index_free_add(txn, &old.at);
    if (error == 0)
        error = index_hot_remove(txn, old.id);
    return error;
}

int index_block_set_flags(struct index_txn *txn, uint64_t id, uint16_t flags)
{
    struct index_block old;
    const int error = index_block_get(txn, id, &old);
    if (error != 0 || old.flags == flags)
        return error;
    struct index_block put = old;
    put.flags = flags;
    return change(txn, &old, &put);
}
