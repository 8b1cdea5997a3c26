/* SPDX-License-Identifier: BSD-2-Clause
 *
 * check_blocks.c - pass 6: references and live bytes of every block are those that pass 4 counted;
 * a block without references is removed; the model that a block needs is in the store; hash records,
 * hot list and pending list name blocks that exist and fit them.
 */
#include "check.h"

#include <errno.h>

static const char pass[] = "blocks";

/* A block that dedup can find must be found under its hash, or another one with that hash. */
static int check_hash(struct checker *c, const struct index_block *block)
{
    struct index_key key;
    MDB_val value;
    if (block->flags & INDEX_BLOCK_SHARED)
        return 0;
    index_key_hash(&key, block->hash);
    int error = index_db_get(c->txn, INDEX_DB_HASH, &key, &value);
    if (error != -ENOENT)
        return error;
    if (!check_problem(c, "missing-hash", CHECK_DERIVABLE, 0, block->id, 0,
                       "block %ju has no hash record: dedup does not find it",
                       (uintmax_t)block->id))
        return 0;
    index_record_number(&c->txn->record, block->id);
    return index_db_put_record(c->txn, INDEX_DB_HASH, &key, &c->txn->record);
}

static int check_counts(struct checker *c, struct index_block *block, const struct check_block *row)
{
    /* a counter that reached its limit no longer tells anything */
    const bool live_wrong = block->live != row->live && block->live != UINT32_MAX;
    bool fix = false;
    if (row->references == 0) {
        if (!check_problem(c, "unreferenced-block", CHECK_DERIVABLE, 0, block->id, block->at.pack,
                           "block %ju: no extent refers to it", (uintmax_t)block->id))
            return 0;
        block->references = block->live = 0;
        const uint64_t span = index_record_span(block->at.payload_size);
        c->live -= span < c->live ? span : c->live;
        const int error = index_block_put(c->txn, block);
        return error != 0 ? error : index_txn_note_unused(c->txn, block->id);
    }
    if (block->references != row->references)
        fix = check_problem(c, "block-references", CHECK_DERIVABLE, 0, block->id, block->at.pack,
                            "block %ju: %u references recorded, %u found", (uintmax_t)block->id,
                            block->references, row->references);
    if (live_wrong)
        fix = check_problem(c, "block-live", CHECK_DERIVABLE, 0, block->id, block->at.pack,
                            "block %ju: %u live bytes recorded, %u found", (uintmax_t)block->id,
                            block->live, row->live) ||
              fix;
    if (!fix)
        return 0;
    block->references = row->references;
    block->live = row->live;
    return index_block_put(c->txn, block);
}

static int list_model(void *arg, uint64_t hash)
{
    struct checker *const c = arg;
    uint64_t *const model =
        check_grow((void **)&c->models, &c->model_count, &c->model_room, sizeof *c->models);
    if (model == NULL)
        return -ENOMEM;
    *model = hash;
    return 0;
}

/* A block whose model is not in the store can't be decoded. */
static int check_model(struct checker *c, const struct index_block *block)
{
    if (block->model == 0)
        return 0;
    if (!c->models_listed) {
        const int error = index_model_each(c->index, list_model, c);
        if (error != 0)
            return error;
        c->models_listed = true;
    }
    for (size_t i = 0; i < c->model_count; i++) {
        if (c->models[i] == block->model)
            return 0;
    }
    return check_damage_add(c, block->id, block->at.pack, "missing-model",
                            "needs model %016jx, which is not in the store",
                            (uintmax_t)block->model);
}

static int check_records_of_blocks(struct checker *c)
{
    struct check_walk walk = {.db = INDEX_DB_BLOCK, .shared = c->options->repair};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct index_block block;
        error = check_step(c, pass, c->block_count);
        if (error != 0)
            return error;
        if (index_record_get_block(&walk.found, &walk.value, &block) != 0)
            continue;
        const struct check_block *const row = check_block_find(c, block.id);
        if (row == NULL)
            continue; /* malformed: pass 1 has said so */
        error = check_counts(c, &block, row);
        if (error == 0 && row->references > 0)
            error = check_hash(c, &block);
        if (error == 0 && row->references > 0)
            error = check_model(c, &block);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

static int check_hashes(struct checker *c)
{
    struct check_walk walk = {.db = INDEX_DB_HASH};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        struct index_block block;
        uint64_t low, id;
        error = check_step(c, pass, c->block_count);
        if (error != 0)
            return error;
        if (index_key_get_hash(&walk.found, &low) != 0 ||
            index_record_get_number(&walk.value, &id) != 0)
            continue;
        const char *why = "does not exist";
        if (check_block_find(c, id) != NULL) {
            error = index_block_get(c->txn, id, &block);
            if (error != 0)
                return error;
            why = block.hash.low != low              ? "has another hash"
                  : block.flags & INDEX_BLOCK_SHARED ? "is not found by its hash"
                                                     : NULL;
        }
        if (why != NULL && check_problem(c, "wrong-hash", CHECK_DERIVABLE, 0, id, 0,
                                         "hash record %016jx is for block %ju, which %s",
                                         (uintmax_t)low, (uintmax_t)id, why))
            error = check_delete(c, &walk);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

/* INDEX_DB_HOT and INDEX_DB_PENDING: keyed by block. */
static int check_list(struct checker *c, enum index_db db, const char *kind)
{
    struct check_walk walk = {.db = db};
    int error;
    while ((error = check_next(c, &walk)) == 0) {
        uint64_t id;
        error = check_step(c, pass, c->block_count);
        if (error != 0)
            return error;
        if (index_key_get_one(&walk.found, &id) != 0 || check_block_find(c, id) != NULL)
            continue;
        if (check_problem(c, kind, CHECK_DERIVABLE, 0, id, 0,
                          "%s record for block %ju, which does not exist", index_db_names[db],
                          (uintmax_t)id))
            error = check_delete(c, &walk);
        if (error != 0)
            return error;
    }
    return error == -ENOENT ? 0 : error;
}

int check_blocks(struct checker *c)
{
    /* Wrong hash records first: a block whose place one of them takes gets its own afterwards. */
    int error = check_hashes(c);
    if (error == 0)
        error = check_records_of_blocks(c);
    if (error == 0)
        error = check_list(c, INDEX_DB_HOT, "dangling-hot");
    return error != 0 ? error : check_list(c, INDEX_DB_PENDING, "dangling-pending");
}
