/* SPDX-License-Identifier: BSD-2-Clause
 *
 * compact_plan.c - choosing the work of a pass.
 *
 * Work comes from two places. The hot list names every block that no pass has settled, oldest
 * first: passes of the timer and requests for what is old in the whole store walk it and nothing
 * else, so that a store without young data costs one look. Requests that name a method, a subtree,
 * or all, walk files and their extents, because blocks that left the hot list long ago may be
 * wanted in another form.
 *
 * A plan holds a position, not a transaction: each step works in a short one of its own, and what it
 * yields is a snapshot that the later steps check again.
 * Blocks un-compacted by request are not on the hot list and stay as they are until a request names
 * a method or all. What is chosen, and what not, is compact_choose.c.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "compact_choose.h"

/* Records looked at in one transaction: about a millisecond. */
#define VISITS_MAX 1024u
/* ---- the hot list -------------------------------------------------------------------------- */

static void settle(struct compact_step *step, uint64_t block)
{
    step->settled[step->settled_count++] = block;
}

/* The extent that the entry's hint names, when it still refers to the block. Otherwise the block as
 * a whole, of an unknown file. */
static int hot_extent(struct compact_step *step, const struct index_hot *hot,
                      const struct index_block *block, struct index_extent *extent)
{
    const int error = index_extent_get(step->txn, hot->ino, hot->number, extent);

    if (error == 0 && extent->block == hot->block)
        return 0;
    *extent = (struct index_extent){
        .number = hot->number, .block = hot->block, .length = block->plain_size};
    step->plan->file.ino = 0;
    return error == -ENOENT ? 0 : error;
}

/* 1: go on, 0: all that follow are younger, negative errno. */
static int visit_hot(struct compact_step *step, const struct index_hot *hot)
{
    struct compact_plan *plan = step->plan;
    struct index_block block;
    struct index_extent extent;
    struct sep_method method;
    const unsigned before = step->count;
    int error = index_block_get(step->txn, hot->block, &block);

    if (error == -ENOENT || error == -EUCLEAN) { /* the latter is damage: see visit_extent */
        settle(step, hot->block);
        return 1;
    }
    if (error == 0)
        error = compact_load_file(plan, step->txn, hot->ino);
    if (error != 0)
        return error;
    if (!plan->file.regular)
        plan->file.policy =
            (struct fs_policy){.hot = plan->fs->options.hot, .cold = plan->fs->options.cold};
    if (!compact_cold(plan, hot->stored_at))
        return !plan->cold_now && hot->stored_at + (int64_t)plan->age > plan->now ? 0 : 1;
    if (plan->file.policy.cold_never && !plan->request->has_method) {
        settle(step, hot->block);
        return 1;
    }
    if (!compact_method(plan, &method))
        return 1;
    error = hot_extent(step, hot, &block, &extent);
    if (error != 0)
        return error;
    compact_consider(step, &extent, &block, method);
    /* Others may refer to it: only a walk over the files finds them all. */
    if (step->count > before && (block.references > 1 || plan->file.ino == 0))
        step->items[before].piece = false;
    if (step->count == before)
        settle(step, hot->block);
    return 1;
}

static int step_hot(struct compact_step *step)
{
    struct compact_plan *plan = step->plan;
    struct index_hot hot;
    int more = 1;

    while (more > 0 && step->count < COMPACT_CHUNK && step->settled_count < COMPACT_CHUNK &&
           step->visits++ < VISITS_MAX) {
        const int error = index_hot_next(step->txn, plan->block, &hot);

        if (error != 0)
            return error == -ENOENT ? 0 : error;
        plan->block = hot.block + 1;
        more = visit_hot(step, &hot);
    }
    return more;
}

int compact_plan_due(struct fs *fs, uint64_t *block, int64_t *due, bool *cold_now)
{
    const struct fs_compact_request none = {0};
    struct compact_plan plan;
    int64_t newest = INT64_MIN;
    int error = compact_plan_begin(&plan, fs, &none, COMPACT_TIMER);

    while (error == 0) {
        struct index_txn *txn;
        struct index_hot hot;

        error = index_begin(fs->index, INDEX_READ, &txn);
        if (error != 0)
            break;
        for (unsigned i = 0; error == 0 && i < VISITS_MAX; i++) {
            error = index_hot_next(txn, *block, &hot);
            if (error == 0)
                error = compact_load_file(&plan, txn, hot.ino);
            if (error != 0)
                break;
            *block = hot.block + 1;
            /* Promoted blocks are younger than their ids: all entries must be looked at. */
            *cold_now |= hot.stored_at < newest;
            newest = hot.stored_at > newest ? hot.stored_at : newest;
            if (compact_cold(&plan, hot.stored_at))
                plan.due = plan.now;
            *cold_now |= plan.file.policy.cold_now;
        }
        index_end(txn);
        plan.file.ino = 0;
    }
    *due = plan.due;
    compact_plan_end(&plan);
    return error == -ENOENT ? 0 : error;
}

/* ---- files --------------------------------------------------------------------------------- */

/* Seconds since the epoch at which the block was stored: as the hot list says, else the file's last
 * change. *hot: it is on the list. */
static int64_t stored_at(struct compact_step *step, uint64_t block, bool *hot)
{
    struct index_hot entry;

    *hot = index_hot_next(step->txn, block, &entry) == 0 && entry.block == block;
    return *hot ? entry.stored_at : step->plan->file.written_at;
}

static int visit_extent(struct compact_step *step, const struct index_extent *extent,
                        struct sep_method method)
{
    struct compact_plan *plan = step->plan;
    const unsigned before = step->count;
    struct index_block block;
    bool hot;
    const int error = index_block_get(step->txn, extent->block, &block);

    /* A block without a record, or with a malformed one, is damage that reading and fsck report. */
    if (error != 0)
        return error == -ENOENT || error == -EUCLEAN ? 0 : error;
    if (!compact_cold(plan, stored_at(step, extent->block, &hot)))
        return 0;
    if (hot || plan->request->all || plan->request->has_method || plan->kind == COMPACT_REPACK)
        compact_consider(step, extent, &block, method);
    if (hot && step->count == before && plan->kind == COMPACT_ASKED && !plan->request->has_method)
        settle(step, extent->block);
    return 0;
}

/* Goes on in plan->file. 1: done with the file, 0: the step is full, negative errno. */
static int step_extents(struct compact_step *step)
{
    struct compact_plan *plan = step->plan;
    struct sep_method method;
    int error = compact_load_file(plan, step->txn, plan->file.ino);

    if (error != 0)
        return error;
    if (!plan->file.regular || !compact_method(plan, &method))
        return 1;
    while (step->count < COMPACT_CHUNK && step->settled_count < COMPACT_CHUNK &&
           step->visits++ < VISITS_MAX) {
        struct index_extent extent;

        error = index_extent_next(step->txn, plan->file.ino, plan->number, &extent);
        if (error != 0)
            return error == -ENOENT ? 1 : error;
        plan->number = extent.number + 1;
        error = visit_extent(step, &extent, method);
        if (error != 0)
            return error;
        if (extent.number == UINT64_MAX)
            return 1;
    }
    return 0;
}

static int push(struct compact_plan *plan, uint64_t dir)
{
    if (plan->depth == plan->capacity) {
        const unsigned capacity = plan->capacity * 2 + 16;
        struct compact_level *grown = reallocarray(plan->levels, capacity, sizeof *grown);

        if (grown == NULL)
            return -ENOMEM;
        plan->levels = grown;
        plan->capacity = capacity;
    }
    plan->levels[plan->depth++] = (struct compact_level){.dir = dir};
    return 0;
}

/* Finds the next inode to look into: 1 and *ino, 0 at the end, negative errno. */
static int next_ino(struct compact_step *step, uint64_t *ino)
{
    struct compact_plan *plan = step->plan;
    struct index_inode attr;
    int error;

    switch (plan->source) {
    case COMPACT_FILE:
        *ino = plan->ino;
        plan->ino = 0;
        return *ino != 0;
    case COMPACT_STORE:
        error = index_inode_next(step->txn, plan->ino, &attr);
        if (error != 0)
            return error == -ENOENT ? 0 : error;
        *ino = attr.ino;
        plan->ino = attr.ino + 1;
        return 1;
    default:
        break;
    }
    while (plan->depth > 0) {
        struct compact_level *level = &plan->levels[plan->depth - 1];
        struct index_dirent entry;

        error = index_dirent_next(step->txn, level->dir, level->cookie, &entry);
        if (error == -ENOENT) {
            plan->depth--;
            continue;
        }
        if (error != 0)
            return error;
        level->cookie = entry.cookie + 1;
        *ino = entry.ino;
        if (entry.type != DT_DIR)
            return 1;
        error = push(plan, entry.ino);
        if (error != 0)
            return error;
        step->visits++;
    }
    return 0;
}

static int step_files(struct compact_step *step)
{
    struct compact_plan *plan = step->plan;

    while (step->count < COMPACT_CHUNK && step->visits++ < VISITS_MAX) {
        uint64_t ino = plan->file.ino;
        int result;

        if (!plan->inside) {
            result = next_ino(step, &ino);
            if (result <= 0)
                return result;
            plan->file.ino = 0;
            plan->number = 0;
            plan->inside = true;
        }
        result = compact_load_file(plan, step->txn, ino);
        if (result == 0)
            result = step_extents(step);
        if (result < 0)
            return result;
        plan->inside = result == 0;
    }
    return 1;
}

/* ---- steps --------------------------------------------------------------------------------- */

static int take_off_hot_list(struct fs *fs, const uint64_t *blocks, unsigned count)
{
    struct index_txn *txn;
    int error;

    if (count == 0)
        return 0;
    error = index_begin(fs->index, INDEX_WRITE, &txn);
    if (error != 0)
        return error;
    for (unsigned i = 0; i < count && error == 0; i++)
        error = index_hot_remove(txn, blocks[i]);
    index_end(txn);
    return error;
}

int compact_plan_next(struct compact_plan *plan, struct compact_item *items, unsigned *count)
{
    struct compact_step step = {.plan = plan, .items = items};
    int result = index_begin(plan->fs->index, INDEX_READ, &step.txn);

    *count = 0;
    if (result != 0)
        return result;
    if (plan->source == COMPACT_HOT_LIST)
        plan->file.ino = 0; /* may have changed since the last step */
    result = plan->source == COMPACT_HOT_LIST ? step_hot(&step) : step_files(&step);
    index_end(step.txn);
    *count = step.count;
    if (result >= 0) {
        const int error = take_off_hot_list(plan->fs, step.settled, step.settled_count);

        if (error != 0)
            return error;
    }
    return result;
}

/* A regular file is walked alone, a directory with what is below it. */
static enum compact_source source_of(struct compact_plan *plan)
{
    const struct fs_compact_request *request = plan->request;
    struct index_inode attr;
    struct index_txn *txn;
    bool directory = false;

    if (request->ino == 0 || request->ino == INDEX_ROOT_INO)
        return request->all || request->has_method || plan->kind == COMPACT_REPACK
                   ? COMPACT_STORE
                   : COMPACT_HOT_LIST;
    if (index_begin(plan->fs->index, INDEX_READ, &txn) == 0) {
        directory = index_inode_get(txn, request->ino, &attr) == 0 && S_ISDIR(attr.mode);
        index_end(txn);
    }
    return directory ? COMPACT_TREE : COMPACT_FILE;
}

int compact_plan_begin(struct compact_plan *plan, struct fs *fs,
                       const struct fs_compact_request *request, enum compact_kind kind)
{
    *plan = (struct compact_plan){.fs = fs,
                                  .request = request,
                                  .kind = kind,
                                  .now = (int64_t)time(NULL),
                                  .age = request->older_than > 0 ? request->older_than
                                                                 : fs->options.cold_after,
                                  .due = INT64_MAX};
    plan->source = source_of(plan);
    /* A request looks at all entries, a timer's pass knows whether young ones are wanted. */
    plan->cold_now = kind != COMPACT_TIMER;
    if (plan->source == COMPACT_FILE)
        plan->ino = request->ino;
    return plan->source == COMPACT_TREE ? push(plan, request->ino) : 0;
}

void compact_plan_end(struct compact_plan *plan)
{
    free(plan->levels);
    plan->levels = NULL;
}
